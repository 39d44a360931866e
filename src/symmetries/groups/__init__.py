"""Groups: named parameters and their algebra, independent of any data."""

from typing import TYPE_CHECKING

from symmetries._utils.lazy import lazy_names

if TYPE_CHECKING:
    from symmetries.groups.affine import Affine2 as Affine2
    from symmetries.groups.base import Group as Group
    from symmetries.groups.base import Parameter as Parameter
    from symmetries.groups.colour import Colour as Colour
    from symmetries.groups.finite import Cyclic as Cyclic
    from symmetries.groups.finite import CyclicShift as CyclicShift
    from symmetries.groups.finite import Dihedral as Dihedral
    from symmetries.groups.finite import FiniteGroup as FiniteGroup
    from symmetries.groups.finite import Flip as Flip
    from symmetries.groups.lorentz import Lorentz as Lorentz
    from symmetries.groups.matrix import MatrixGroup as MatrixGroup
    from symmetries.groups.names import as_group as as_group
    from symmetries.groups.names import group_name as group_name
    from symmetries.groups.names import parse_group as parse_group
    from symmetries.groups.permutation import Permutation as Permutation
    from symmetries.groups.product import Product as Product
    from symmetries.groups.rigid import E3 as E3
    from symmetries.groups.rigid import SE3 as SE3
    from symmetries.groups.rotations import O3 as O3
    from symmetries.groups.rotations import SO3 as SO3
    from symmetries.groups.scale import Scale1 as Scale1
    from symmetries.groups.se2 import SE2 as SE2
    from symmetries.groups.signal import Signal as Signal

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
