r"""Group of affine changes of the time and the values of a 1-D signal.

.. math:: (g x)(t) = \gamma\, x\big((t - b) / f\big) + o
"""

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats
from symmetries.groups.base import Device, Dtype, Group, Parameter
from symmetries.groups.special import check_eta, choose, phi1, spread

_PARAMETERS = (
    Parameter("shift", "half-image", 1.0),
    Parameter("time_scale", "log-factor", 1.0),
    Parameter("amplitude", "log-factor", 1.0),
    Parameter("offset", "level", 1.0),
    Parameter("sign", "step", 1.0, angle=True),
)
ALL = tuple(p.name for p in _PARAMETERS)


class Signal(Group[Tensor]):
    """Shifts and scalings of a signal's time, and changes of its amplitude, offset and sign.

    The group is the product of two affine groups of the line: t -> f t + b acts on time and
    x -> gamma x + o on values. An element is (..., 4): (f, b, gamma, o), with f > 0. The parameters
    are those of one exponential: f = exp(time_scale), b = shift * phi_1(time_scale), and likewise
    gamma = (-1)^sign exp(amplitude), o = offset * phi_1(amplitude); the sign changes first.
    A positive shift moves the signal to later times, in units of half its length; a positive
    time_scale stretches it.

    Args:
        names: any of "shift", "time_scale", "amplitude", "offset", "sign"; all by default.

    Example:
        >>> group = Signal("shift", "sign")
        >>> group.exp(torch.tensor([0.5, 1.0])).tolist()
        [1.0, 0.5, -1.0, 0.0]
    """

    def __init__(self, *names: str) -> None:
        self._parameters = choose(_PARAMETERS, names)

    def __repr__(self) -> str:
        return f"Signal({', '.join(repr(name) for name in self.names)})"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the group, in canonical order."""
        return self._parameters

    closed = True  # every subset of the five parameters generates a group

    @property
    def changes_values(self) -> bool:
        """Whether amplitude, offset or sign is among the parameters."""
        return bool({"amplitude", "offset", "sign"} & set(self.names))

    @property
    def negation_inverts(self) -> bool:
        """Whether exp(-eta) inverts exp(eta): not if both the sign and the offset may change."""
        return not {"offset", "sign"} <= set(self.names)

    def exp(self, eta: Tensor) -> Tensor:
        """Return elements (..., 4) of eta (..., dim). The sign is rounded and has no gradient."""
        check_eta(eta, self.dim)
        check_floats(eta, "eta", "...")
        shift, time_scale, amplitude, offset, sign = spread(eta, self.names, ALL)
        gamma = (1 - 2 * (sign.round() % 2)) * torch.exp(amplitude)
        element = (torch.exp(time_scale), shift * phi1(time_scale), gamma, offset * phi1(amplitude))
        return torch.stack(element, -1)

    def log(self, element: Tensor) -> Tensor:
        """Return the parameters (..., dim), the inverse of ``exp`` everywhere."""
        check_floats(element, "element", "...", 4)
        f, b, gamma, o = element.unbind(-1)
        time_scale, amplitude = torch.log(f), torch.log(gamma.abs())
        columns = {
            "shift": b / phi1(time_scale),
            "time_scale": time_scale,
            "amplitude": amplitude,
            "offset": o / phi1(amplitude),
            "sign": (gamma < 0).to(gamma),
        }
        return torch.stack([columns[name] for name in self.names], -1)

    def compose(self, *elements: Tensor) -> Tensor:
        """Return the product of the elements; the rightmost element acts first."""
        product = elements[0]
        for element in elements[1:]:
            f, b, gamma, o = product.unbind(-1)
            f2, b2, gamma2, o2 = element.unbind(-1)
            product = torch.stack((f * f2, f * b2 + b, gamma * gamma2, gamma * o2 + o), -1)
        return product

    def inverse(self, element: Tensor) -> Tensor:
        """Return the inverse: the maps t -> (t - b) / f and x -> (x - o) / gamma."""
        check_floats(element, "element", "...", 4)
        f, b, gamma, o = element.unbind(-1)
        return torch.stack((1 / f, -b / f, 1 / gamma, -o / gamma), -1)

    def identity(self, *batch: int, dtype: Dtype = None, device: Device = None) -> Tensor:
        """Return identity elements ``(*batch, 4)``, equal to (1, 0, 1, 0)."""
        zeros = torch.zeros(*batch, 2, dtype=dtype, device=device)
        return torch.stack((zeros + 1, zeros), -1).flatten(-2)
