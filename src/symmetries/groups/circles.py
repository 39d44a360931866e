"""Periodic parameters: eta and eta plus a full turn are the same transformation."""

from collections.abc import Sequence
from typing import Any

import torch

from symmetries.groups.base import Group


def circular_parameters(group: Group[Any], bounds: Sequence[float], which: str) -> tuple[bool, ...]:
    """Return, for each parameter, whether it is to be modelled on a circle.

    An angle is exactly periodic if eta + 2 pi and eta are the same element for all values of the
    other parameters. Hue is, and so is rotation alone or with zoom. Rotation together with shifts
    is not: the exponential of a shift plus a full turn is the identity, whatever the shift.

    Args:
        group: the group.
        bounds: one bound for each parameter; an angle bounded below pi stays on the line.
        which: "exact" for the exactly periodic angles, "all" angles, or "none".

    Example:
        >>> from math import pi
        >>> from symmetries.groups.affine import Affine2
        >>> circular_parameters(Affine2("rotation", "zoom"), (pi, 0.25), "exact")
        (True, False)
        >>> circular_parameters(Affine2("rotation", "translation"), (1, 1, pi), "exact")
        (False, False, False)
    """
    natural = torch.tensor(group.bounds, dtype=torch.float64)
    probe = 0.3 * natural * torch.linspace(0.5, 1, group.dim, dtype=torch.float64)
    flags = []
    for i, parameter in enumerate(group.parameters):
        round_trip = probe.clone()
        round_trip[i] += 2 * parameter.bound
        whole = parameter.angle and bounds[i] > parameter.bound - 1e-6
        exact = whole and _same(group.exp(probe), group.exp(round_trip), 2 * parameter.bound)
        flags.append(exact if which == "exact" else whole and which == "all")
    return tuple(flags)


def _same(a: Any, b: Any, period: float) -> bool:  # noqa: ANN401 - elements differ by group
    if isinstance(a, tuple):
        return all(_same(x, y, period) for x, y in zip(a, b, strict=True))
    gap = (a - b).abs()
    if a.ndim == 1:  # colour elements keep their hue unwrapped
        gap = torch.minimum(gap, (gap - period).abs())
    return bool((gap < 1e-6).all())
