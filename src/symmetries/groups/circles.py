"""Angles that close up: eta and eta plus a whole turn are the same transformation."""

from collections.abc import Sequence
from typing import Any

import torch

from symmetries.groups.base import Group


def circular_parameters(group: Group[Any], bounds: Sequence[float], which: str) -> tuple[bool, ...]:
    """The parameters to model on a circle.

    An angle closes up exactly where eta + 2 pi and eta are the same element whatever the other
    parameters are: hue does, and rotation alone or with zoom; beside shifts it does not, as a shift
    along the way of a full turn ends where it began.

    Args:
        group: the transformations.
        bounds: how far they go; an angle that does not go all the way round stays on the line.
        which: "exact", "all" angles, or "none".

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
    if a.ndim == 1:  # colours keep the hue unwrapped
        gap = torch.minimum(gap, (gap - period).abs())
    return bool((gap < 1e-6).all())
