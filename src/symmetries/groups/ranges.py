"""How far parameters go, by name and as people write it: "rotation=10,shift=2px,zoom=1.2"."""

import math
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from symmetries._validation.checks import invalid, short, wrong_type
from symmetries.groups.base import Group, Parameter

Range = str | Mapping[str, float | str]

_NUMBER = re.compile(
    r"\s*(?:±|\+-)?\s*(\d+(?:\.\d*)?|\.\d+)\s*(°|deg|degrees|rad|px|pixels|%|x|)\s*"
)
_HOW = {
    "rad": "degrees from 0 to 180, such as 10, or 0.2rad",
    "half-image": "pixels, such as 2px, or a share of the longer side, such as 5%, at most 100%",
    "log-factor": "a factor of at least 1, such as 1.2",
}


def parse_range(group: Group[Any], given: Range, side: int | None = None) -> tuple[float, ...]:
    """Return the half-width of each parameter, in its own unit, from what people write.

    Numbers are in the units of tables and reports: degrees, pixels, factors. A name stands for all
    parameters that begin with it: "shift" for shift_x and shift_y. What is not named keeps the
    group's bound.

    Args:
        group: the group.
        given: "rotation=10,shift=2px", or a mapping such as {"rotation": 10, "shift": "5%"}.
        side: the longer side of the images in pixels; None for data without pixels.

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> group = Affine2("translation", "rotation")
        >>> parse_range(group, "rotation=90,shift=2px", side=28)
        (0.14285714285714285, 0.14285714285714285, 1.5707963267948966)
    """
    widths = {p.name: p.bound for p in group.parameters}
    if group.finite or any(factor.finite for factor in group.factors):
        remedy = "leave it out: all elements of a finite group are used"
        raise invalid("range", "a continuous group", repr(group), remedy)
    for name, value in _pairs(given).items():
        chosen = [p for p in group.parameters if p.name == name]
        chosen = chosen or [p for p in group.parameters if p.name.startswith(f"{name}_")]
        if not chosen:
            expected = f"names among {', '.join(widths)}"
            near = get_close_matches(name, widths, 1)
            remedy = f"did you mean {near[0]}?" if near else "name the parameters of the group"
            raise invalid("range", expected, short(name), remedy)
        for parameter in chosen:
            widths[parameter.name] = _half_width(parameter, value, side)
    if not any(widths.values()):
        raise invalid("range", "a parameter that moves", "0 for all", "leave out the range for all")
    return tuple(widths.values())


def shown_range(
    group: Group[Any], half_widths: Sequence[float], side: int | None = None
) -> tuple[tuple[str, float, float, str], ...]:
    """Return name, lowest value, highest value and unit of each parameter, for display.

    Args:
        group: the group.
        half_widths: one for each parameter, in its own unit.
        side: the longer side of the images in pixels; None for data without pixels.

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> shown_range(Affine2("rotation"), [math.pi / 2])
        (('rotation', -90.0, 90.0, 'degrees'),)
    """
    rows = []
    for parameter, width in zip(group.parameters, half_widths, strict=True):
        if parameter.unit == "half-image" and side is None:
            rows.append((parameter.name, -float(width), float(width), "units of the data"))
            continue
        (low, unit), (high, _) = (parameter.display(end, side or 0) for end in (-width, width))
        rows.append((parameter.name, low, high, unit))
    return tuple(rows)


def _pairs(given: Range) -> dict[str, float | str]:
    if isinstance(given, Mapping):
        return {str(name): value for name, value in given.items()}
    if not isinstance(given, str):
        remedy = "write rotation=10,shift=2px, or give a mapping"
        raise wrong_type("range", "text or a mapping by name", given, remedy)
    pairs: dict[str, float | str] = {}
    for part in given.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            remedy = "write name=value, separated by commas"
            raise invalid("range", "such as rotation=10,shift=2px", short(given), remedy)
        pairs[name.strip().lower()] = value
    return pairs


def _half_width(parameter: Parameter, value: float | str, side: int | None) -> float:
    found = _NUMBER.fullmatch(f"{value}")
    expected = f"for {parameter.name} {_HOW.get(parameter.unit, 'a number >= 0')}"
    problem = invalid("range", expected, short(value), "write name=value, for example rotation=10")
    if found is None:
        raise problem
    number, unit = float(found[1]), found[2]
    allowed = {
        "rad": ("", "°", "deg", "degrees", "rad"),
        "half-image": ("", "px", "pixels", "%"),
        "log-factor": ("", "x"),
    }
    if unit not in allowed.get(parameter.unit, ("",)):
        raise problem
    if parameter.unit == "rad":
        width = number if unit == "rad" else math.radians(number)
        if width > parameter.bound * (1 + 1e-9):
            raise problem
        return min(width, parameter.bound)
    if parameter.unit == "log-factor":
        if number < 1:
            raise problem
        return math.log(number)
    if parameter.unit == "half-image":
        return _shift(number, unit, side, problem)
    return number


def _shift(number: float, unit: str, side: int | None, problem: ValueError) -> float:
    """Return a shift in half-images, or in the units of the data if there are no pixels."""
    if side is None and unit:
        raise problem
    if side is None:
        return number
    width = number / 50 if unit == "%" else 2 * number / side
    if width > 2:  # nothing of a picture is left
        raise problem
    return width


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
        remedy = "omit it for the defaults"
        raise wrong_type("bounds", "a mapping by name, or one number each", bounds, remedy)
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
