"""Group of changes of hue, saturation and value, whose parameters add."""

import math

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats
from symmetries.groups.base import Device, Dtype, Group, Parameter
from symmetries.groups.special import choose, spread, wrap_angle

_PARAMETERS = (
    Parameter("hue", "rad", math.pi, angle=True),
    Parameter("saturation", "log-factor", 1.0),
    Parameter("value", "log-factor", 1.0),
)
HSV = tuple(p.name for p in _PARAMETERS)


class Colour(Group[Tensor]):
    """Changes of colour: hue is rotated by an angle, saturation and value are multiplied.

    On hue, saturation and value (h, s, v), the element (a, b, c) acts as
    h' = h + a, s' = s exp(b), v' = v exp(c) (Allingham et al. 2024, equation 25, with the hue in
    radians). Parameters add, so the group is commutative. Elements have shape (..., 3) and are
    not wrapped, so that gradients are continuous; ``log`` returns a hue in [-pi, pi).

    Args:
        names: any of "hue", "saturation", "value"; all three by default.

    Example:
        >>> group = Colour("hue")
        >>> half_turn = group.exp(torch.tensor([math.pi]))
        >>> half_turn.round().tolist()
        [3.0, 0.0, 0.0]
        >>> group.log(group.compose(half_turn, half_turn)).tolist()
        [0.0]
    """

    def __init__(self, *names: str) -> None:
        self._parameters = choose(_PARAMETERS, names)

    def __repr__(self) -> str:
        return f"Colour({', '.join(repr(name) for name in self.names)})"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the group, in the order hue, saturation, value."""
        return self._parameters

    closed = True  # every subset of the three is a group

    changes_values = True

    negation_inverts = True  # parameters add

    def exp(self, eta: Tensor) -> Tensor:
        """Return elements (..., 3) of parameters eta (..., dim), zero for absent parameters."""
        return torch.stack(spread(eta, self.names, HSV), -1)

    def log(self, element: Tensor) -> Tensor:
        """Return the parameters (..., dim), with the hue in [-pi, pi)."""
        check_floats(element, "element", "...", 3)
        hue, saturation, value = element.unbind(-1)
        columns = {"hue": wrap_angle(hue), "saturation": saturation, "value": value}
        return torch.stack([columns[name] for name in self.names], -1)

    def compose(self, *elements: Tensor) -> Tensor:
        """Return the sum of the elements."""
        for element in elements:
            check_floats(element, "element", "...", 3)
        product = elements[0]
        for element in elements[1:]:
            product = product + element
        return product

    def inverse(self, element: Tensor) -> Tensor:
        """Return the negative of the element."""
        check_floats(element, "element", "...", 3)
        return -element

    def distance_to_identity(self, element: Tensor) -> Tensor:
        """(1 - cos) / 2 for the hue, the squares of the logarithms of the factors; summed."""
        hue, saturation, value = element.unbind(-1)
        terms = ((1 - torch.cos(hue)) / 2, saturation.square(), value.square())
        return torch.stack(terms).sum(0)

    def identity(self, *batch: int, dtype: Dtype = None, device: Device = None) -> Tensor:
        """Return zeros of shape ``(*batch, 3)``."""
        return torch.zeros(*batch, 3, dtype=dtype, device=device)
