"""Bounds of a group's parameters, given by name, as a sequence, or by default."""

from collections.abc import Mapping, Sequence
from typing import Any

from symmetries._validation.checks import invalid, short, wrong_type
from symmetries.groups.base import Group


def resolve_bounds(
    group: Group[Any],
    bounds: Mapping[str, float] | Sequence[float] | None,
    usual: Mapping[str, float] | None = None,
) -> tuple[float, ...]:
    """Return a bound for each parameter of the group.

    Args:
        group: the group.
        bounds: a mapping by name (other parameters keep their default), one number for each
            parameter, or None for the defaults.
        usual: defaults by name; the group's own bound where a name is missing.

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> resolve_bounds(Affine2("translation"), {"shift_x": 0.5}, usual={"shift_y": 0.25})
        (0.5, 0.25)
    """
    start = {p.name: (usual or {}).get(p.name, p.bound) for p in group.parameters}
    if isinstance(bounds, Mapping):
        unknown = sorted(set(bounds) - set(start))
        if unknown:
            expected = f"names among {', '.join(start)}"
            raise invalid("bounds", expected, ", ".join(unknown), "check the spelling")
        values = [bounds.get(name, start[name]) for name in start]
    elif bounds is None:
        values = [*start.values()]
    elif isinstance(bounds, Sequence) and not isinstance(bounds, str):
        values = [*bounds]
    else:
        raise wrong_type(
            "bounds", "a mapping by name, or one number each", bounds, "omit it for the defaults"
        )
    if len(values) != group.dim:
        expected = f"{group.dim} numbers for {', '.join(group.names)}"
        raise invalid("bounds", expected, f"{len(values)} numbers", "give one for each parameter")
    for parameter, value in zip(group.parameters, values, strict=True):
        most = parameter.bound if parameter.angle else float("inf")
        if not isinstance(value, int | float) or not 0 < value <= most or value == float("inf"):
            end = f"{most:.4g}]" if parameter.angle else "inf)"
            expected = f"a number in (0, {end} for {parameter.name}"
            raise invalid("bounds", expected, short(value), "see group.units")
    return tuple(map(float, values))
