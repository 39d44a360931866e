"""Direct products of groups."""

from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import invalid, wrong_type
from symmetries.groups.base import Device, Dtype, Group, Parameter
from symmetries.groups.special import check_eta

ProductElement = tuple[Any, ...]


def check_learnable(group: Group[Any]) -> None:
    """Raise an error if the distribution over the group cannot be learned.

    In a product of two groups that move pixels the effect of the first depends on the second, so
    the product's laws do not hold for images; and a finite factor has no gradient.
    """
    if group.factors[0] is group:
        return
    if any(factor.finite for factor in group.factors):
        remedy = "give one finite group (such as 'd4'), or continuous factors only"
        raise invalid("group", "no finite factor in a product", repr(group), remedy)
    if sum(not factor.changes_values for factor in group.factors) > 1:
        remedy = "name all parameters in one group: Affine2('rotation', 'shift_x')"
        raise invalid("group", "one factor that moves pixels, and colours", repr(group), remedy)


class Product(Group[ProductElement]):
    """The direct product G_1 x ... x G_k: (a_1, ..., a_k)(b_1, ..., b_k) = (a_1 b_1, ..., a_k b_k).

    The parameters eta are the concatenated parameters of the factors, and an element is the tuple
    of their elements.

    Args:
        factors: groups whose parameters have different names.

    Example:
        >>> from symmetries.groups.colour import Colour
        >>> from symmetries.groups.se2 import SE2
        >>> group = Product(SE2(), Colour())
        >>> group.names
        ('shift_x', 'shift_y', 'rotation', 'hue', 'saturation', 'value')
        >>> motion, colour = group.exp(torch.zeros(5, 6))
        >>> motion.shape, colour.shape
        (torch.Size([5, 3, 3]), torch.Size([5, 3]))
    """

    def __init__(self, *factors: Group[Any]) -> None:
        if not factors:
            raise invalid("factors", "at least one group", "none", "give the groups to multiply")
        for factor in factors:
            if not isinstance(factor, Group):
                raise wrong_type("factors", "groups", factor, "see parse_group")
        names = [name for factor in factors for name in factor.names]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            remedy = "a product needs different parameters in each factor"
            raise invalid("factors", "each name once", f"{', '.join(twice)} twice", remedy)
        self._factors = factors

    @property
    def factors(self) -> tuple[Group[Any], ...]:
        """The groups, in the order of their parameters."""
        return self._factors

    def __repr__(self) -> str:
        return f"Product({', '.join(repr(factor) for factor in self.factors)})"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of all factors, in order."""
        return tuple(p for factor in self.factors for p in factor.parameters)

    @property
    def closed(self) -> bool:
        """Whether every factor is closed."""
        return all(factor.closed for factor in self.factors)

    @property
    def changes_values(self) -> bool:
        """Whether elements of some factor change values, such as colours."""
        return any(factor.changes_values for factor in self.factors)

    @property
    def negation_inverts(self) -> bool:
        """Whether exp(-eta) is the inverse of exp(eta) in every factor."""
        return all(factor.negation_inverts for factor in self.factors)

    def parts(self, element: ProductElement) -> ProductElement:
        """Return the elements of the factors, of which the element is a tuple."""
        return element

    def whole(self, parts: ProductElement) -> ProductElement:
        """Return the tuple of the factors' elements."""
        return parts

    def named_log(self, element: ProductElement) -> Tensor:
        """Return the factors' own parameters, concatenated."""
        pairs = zip(self.factors, element, strict=True)
        return torch.cat([factor.named_log(part) for factor, part in pairs], -1)

    def distance_to_identity(self, element: ProductElement) -> Tensor:
        """Return the sum of the factors' distances."""
        pairs = zip(self.factors, element, strict=True)
        return torch.stack([f.distance_to_identity(part) for f, part in pairs]).sum(0)

    def split(self, eta: Tensor) -> tuple[Tensor, ...]:
        """Split eta (..., dim) into the parameters of each factor."""
        check_eta(eta, self.dim)
        return torch.split(eta, [factor.dim for factor in self.factors], -1)

    def exp(self, eta: Tensor) -> ProductElement:
        """Return the tuple of the factors' elements."""
        parts = zip(self.factors, self.split(eta), strict=True)
        return tuple(factor.exp(part) for factor, part in parts)

    def log(self, element: ProductElement) -> Tensor:
        """Return the concatenated parameters of the factors."""
        return torch.cat([f.log(e) for f, e in zip(self.factors, element, strict=True)], -1)

    def compose(self, *elements: ProductElement) -> ProductElement:
        """Compose the elements factor by factor."""
        columns = zip(*elements, strict=True)
        return tuple(f.compose(*column) for f, column in zip(self.factors, columns, strict=True))

    def inverse(self, element: ProductElement) -> ProductElement:
        """Invert the element factor by factor."""
        return tuple(f.inverse(e) for f, e in zip(self.factors, element, strict=True))

    def identity(self, *batch: int, dtype: Dtype = None, device: Device = None) -> ProductElement:
        """Return the tuple of the factors' identities."""
        return tuple(f.identity(*batch, dtype=dtype, device=device) for f in self.factors)
