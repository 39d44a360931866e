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
    relative_angle,
)
from symmetries.groups.matrix import MatrixGroup
from symmetries.groups.names import as_group, group_name, parse_group
from symmetries.groups.product import Product
from symmetries.groups.se2 import SE2
from symmetries.groups.signal import Signal

__all__ = [
    "SE2",
    "Affine2",
    "Colour",
    "Cyclic",
    "CyclicShift",
    "Dihedral",
    "FiniteGroup",
    "Flip",
    "Group",
    "MatrixGroup",
    "Parameter",
    "Product",
    "Signal",
    "as_group",
    "group_name",
    "parse_group",
    "relative_angle",
]
