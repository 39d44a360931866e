"""What was learned about one transformation by ``symmetries fit``, as text."""

from symmetries.report.orbit_report import quantity
from symmetries.results import Invariance

MINUS = "\N{MINUS SIGN}"


def reach_of(part: Invariance) -> str:
    """Return the range that corresponds to a half-width, as text.

    Example:
        >>> reach_of(Invariance(name="rotation", unit="degrees", half_width=32.1))
        '±32°'
    """
    if part.unit == "factor":
        return f"×{1 / part.half_width:.2f} to ×{part.half_width:.2f}"
    return "±" + quantity(part.half_width, part.unit).lstrip("+")


def negligible(part: Invariance) -> bool:
    """Return whether a half-width rounds to zero.

    Example:
        >>> negligible(Invariance(name="shear", unit="factor", half_width=1.001))
        True
    """
    nothing = quantity(1.0 if part.unit == "factor" else 0.0, part.unit)
    return quantity(part.half_width, part.unit) == nothing


def interval_text(part: Invariance) -> str:
    """Return the interval of a half-width in brackets; empty if there is none.

    Example:
        >>> interval_text(
        ...     Invariance(name="rotation", unit="degrees", half_width=32.1, interval=(27.2, 35.9))
        ... )
        ' (95 %: 27° to 36°)'
        >>> interval_text(
        ...     Invariance(name="zoom", unit="factor", half_width=1.5, interval=(1.4, 1.62))
        ... )
        ' (95 %: upper end ×1.40 to ×1.62)'
    """
    if part.interval is None:
        return ""
    low, high = (quantity(end, part.unit).lstrip("+") for end in part.interval)
    which = "upper end " if part.unit == "factor" else ""  # the text before shows both ends
    return f" (95 %: {which}{low} to {high})"


def answer_text(part: Invariance, nothing: str | None = None) -> str:
    """Return the answer for one parameter, as text.

    Args:
        part: what was learned.
        nothing: what to say of a half-width that rounds to zero; None is the half-width.

    Example:
        >>> found = {"name": "rotation", "unit": "degrees", "half_width": 40.0}
        >>> answer_text(Invariance(**found, interval=(10, 75), told=False))
        'cannot be told (95 %: 10° to 75°); ±40° is used'
    """
    if not part.told:
        return "cannot be told" + interval_text(part) + used_text(part)
    zero = nothing is not None and negligible(part)
    return (nothing if zero and nothing else reach_of(part)) + interval_text(part)


def used_text(part: Invariance) -> str:
    """Return which half-width is used although none can be told, and why.

    Example:
        >>> none = {"name": "rotation", "unit": "degrees", "half_width": 0.0, "told": False}
        >>> used_text(Invariance(**none, gain=(-0.031, 0.012), gain_right=-0.02))
        '; none is used (left out images: −0.031 ± 0.012 nats each, −2.0 % right)'
    """
    why = ""
    if part.gain is not None:
        gain, error = part.gain
        right = "" if part.gain_right is None else f", {100 * part.gain_right:+.1f} % right"
        why = f" (left out images: {gain:+.3f} ± {error:.3f} nats each{right})"
        why = why.replace("-", MINUS)
    return "; " + ("none" if negligible(part) else reach_of(part)) + " is used" + why
