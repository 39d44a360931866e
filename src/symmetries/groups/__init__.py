"""Groups: named parameters and their algebra, independent of any data."""

from symmetries.groups.affine import Affine2
from symmetries.groups.base import Group, Parameter
from symmetries.groups.colour import Colour
from symmetries.groups.finite import (
    Cyclic,
    CyclicShift,
    Dihedral,
    FiniteGroup,
    Flip,
)
from symmetries.groups.lorentz import Lorentz
from symmetries.groups.matrix import MatrixGroup
from symmetries.groups.names import as_group, group_name, parse_group
from symmetries.groups.permutation import Permutation
from symmetries.groups.product import Product
from symmetries.groups.rigid import E3, SE3
from symmetries.groups.rotations import O3, SO3
from symmetries.groups.scale import Scale1
from symmetries.groups.se2 import SE2
from symmetries.groups.signal import Signal

__all__ = [
    "E3",
    "O3",
    "SE2",
    "SE3",
    "SO3",
    "Affine2",
    "Colour",
    "Cyclic",
    "CyclicShift",
    "Dihedral",
    "FiniteGroup",
    "Flip",
    "Group",
    "Lorentz",
    "MatrixGroup",
    "Parameter",
    "Permutation",
    "Product",
    "Scale1",
    "Signal",
    "as_group",
    "group_name",
    "parse_group",
]
