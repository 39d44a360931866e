"""Verdicts on widths, in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from symmetries.report.orbit_report import title
from symmetries.results import SymmetryResult, Transformation


@dataclass(frozen=True)
class Phrases:
    """Phrases for a transformation that occurs, occurs everywhere, or does not occur."""

    some: str
    all: str
    none: str


# {} is the extent: "about ±32°", "a factor of about 1.2".
WORDS = {
    "rotation": Phrases("rotated by {}", "rotated by any angle", "not rotated"),
    "shift_x": Phrases("shifted sideways by {}", "", "not shifted sideways"),
    "shift_y": Phrases("shifted up and down by {}", "", "not shifted up or down"),
    "scale_x": Phrases("width varies by {}", "", "not stretched in width"),
    "scale_y": Phrases("height varies by {}", "", "not stretched in height"),
    "zoom": Phrases("size varies by {}", "", "not resized"),
    "shear": Phrases("sheared by {}", "", "not sheared"),
    "hue": Phrases("hue varies by {}", "in any hue", "hue does not vary"),
    "saturation": Phrases("saturation varies by {}", "", "saturation does not vary"),
    "value": Phrases("brightness varies by {}", "", "brightness does not vary"),
}
# Finite groups of two elements: partial, full, absent.
FLIPS = {
    "flip_x": (
        "mirrored left to right, but less often than not",
        "mirrored left to right as often as not",
        "not mirrored left to right",
    ),
    "flip_y": (
        "mirrored upside down, but less often than not",
        "mirrored upside down as often as not",
        "not mirrored upside down",
    ),
}
# If both are absent, one phrase covers both.
PAIRS = {("shift_x", "shift_y"): "not shifted", ("scale_x", "scale_y"): "not stretched"}


def extent(width: float, unit: str) -> str:
    """Describe a 90 % width in words: plus or minus half of it, or the ratio of its ends.

    Example:
        >>> extent(64.0, "degrees"), extent(3.0, "pixels"), extent(1.214, "factor")
        ('about ±32°', 'about ±1.5 px', 'a factor of about 1.21')
    """
    if unit == "factor":
        return f"a factor of about {width:.3g}"
    half = width / 2
    if unit == "degrees":
        return f"about ±{half:.0f}°"
    if unit == "pixels":
        return f"about ±{half:.1f} px"
    return f"about ±{half:.3g} {unit}"


def width_text(width: float, unit: str) -> str:
    """Format a 90 % width with its unit, for a table.

    Example:
        >>> width_text(64.21, "degrees"), width_text(1.214, "factor"), width_text(2.0, "elements")
        ('64°', '×1.21', '2.0 elements')
    """
    if unit == "factor":
        return f"×{width:.3g}"
    if unit == "degrees":
        return f"{width:.0f}°"
    return f"{width:.1f} {'px' if unit == 'pixels' else unit}"


def interval_text(part: Transformation) -> str:
    """Format the interval of a width, for a table.

    Example:
        >>> from symmetries.results import Histogram
        >>> part = Transformation(name="rotation", unit="degrees", width90=64, noise_floor=3,
        ...     interval=(60.2, 70), verdict="partial", histogram=Histogram(edges=(), density=()))
        >>> interval_text(part)
        '60° to 70°'
    """
    if part.interval is None:
        return "-"
    return ends_text(part.interval, part.unit)


def ends_text(ends: tuple[float, float], unit: str) -> str:
    """Format two widths as an interval.

    Example:
        >>> ends_text((1.2, 1.4), "factor"), ends_text((3.0, 4.0), "pixels")
        ('×1.2 to ×1.4', '3.0 to 4.0 px')
    """
    low, high = (width_text(end, unit) for end in ends)
    word = low.rpartition(" ")[2]
    return f"{low.removesuffix(f' {word}') if high.endswith(f' {word}') else low} to {high}"


def share_text(part: Transformation) -> str:
    """Format the share of the pictures whose pose can be told, for a table."""
    if part.share_told is None:
        return "-"
    share = 100 * part.share_told
    return f"{share:.0f} %" if share >= 1 or share == 0 else "< 1 %"


# Widths that count as zero (for factors as a logarithm), and the multiple of them from which
# noise leaves the question open.
NOTHING = {"degrees": 5.0, "pixels": 0.5, "factor": math.log(1.03)}
OPEN = 4.0
ONE_POSE = 14.0  # degrees: width of what may be one pose, with errors of the network


def is_open(part: Transformation) -> bool:
    """Return whether "absent" only means that the noise is too large to tell.

    Example:
        >>> from symmetries.results import Histogram
        >>> part = Transformation(name="rotation", unit="degrees", width90=14, noise_floor=150,
        ...     verdict="absent", histogram=Histogram(edges=(), density=()))
        >>> is_open(part), sentence(part)
        (True, 'cannot tell: the noise is about ±75°')
    """
    if part.interval is not None:  # of an orbit posterior, which has a verdict for that
        return False
    if part.verdict != "absent" or part.unit not in NOTHING:
        return False
    noise = math.log(part.noise_floor) if part.unit == "factor" else part.noise_floor
    return noise > OPEN * NOTHING[part.unit]


def sentence(part: Transformation) -> str:
    """Describe one transformation in words.

    Example:
        >>> from symmetries.results import Histogram
        >>> part = Transformation(name="rotation", unit="degrees", width90=64, noise_floor=3,
        ...     verdict="partial", histogram=Histogram(edges=(), density=()))
        >>> sentence(part)
        'rotated by about ±32°'
    """
    if part.verdict == "cannot be told":
        return f"cannot be told: {part.reason}" if part.reason else "cannot be told"
    if part.unit == "elements":
        return _finite_sentence(part)
    name = title(part.name)
    plain = Phrases(f"{name} by {{}}", f"any {name}", f"no {name}")
    words = WORDS.get(part.name, plain)
    if part.verdict == "full":
        return words.all or words.some.format(extent(part.width90, part.unit))
    if part.verdict == "partial" and part.poses > 1:
        return words.some.format(steps_text(part))
    if part.verdict == "partial":
        return words.some.format(extent(part.width90, part.unit))
    if is_open(part):
        return f"cannot tell: the noise is {extent(part.noise_floor, part.unit)}"
    return words.none


def steps_text(part: Transformation) -> str:
    """Describe poses that are a whole fraction of a turn apart, and how far they vary themselves.

    Example:
        >>> from symmetries.results import Histogram
        >>> part = Transformation(name="rotation", unit="degrees", width90=20, noise_floor=3,
        ...     poses=4, verdict="partial", histogram=Histogram(edges=(), density=()))
        >>> sentence(part)
        'rotated by multiples of 90°'
    """
    text = f"multiples of {360 / part.poses:.3g}°"
    around = part.width90 / part.poses
    if around <= ONE_POSE:
        return text
    return f"{text}, and {extent(around, part.unit)} around these"


def remarks(result: SymmetryResult) -> list[str]:
    """What is said beside the widths: the subgroup that the poses make, and the self-test."""
    found, texts = result.subgroup, []
    if found is not None:
        texts.append(
            f"The poses make the group {found.name}: they are {found.distance:.1f}° from being "
            f"spread evenly over it, and {found.alternative_distance:.1f}° from the nearest other "
            f"group, {found.alternative}."
        )
    if result.check is not None:
        texts.append(result.check.sentence)
    return texts


def _finite_sentence(part: Transformation) -> str:
    order = len(part.histogram.density)
    if part.name in FLIPS:
        some, every, none = FLIPS[part.name]
        return {"full": every, "partial": some, "absent": none}[part.verdict]
    if part.verdict == "full":
        return f"all {order} elements occur"
    if part.verdict == "absent":
        return "one element only: not transformed"
    return f"about {part.width90:.1f} of the {order} elements occur"


def headline(parts: Sequence[Transformation]) -> str:
    """Describe all transformations in one sentence, those that occur first.

    Example:
        >>> headline([])
        ''
    """
    absent = {part.name for part in parts if part.verdict == "absent" and not is_open(part)}
    phrases = [sentence(part) for part in parts if part.verdict in ("partial", "full")]
    said: set[str] = set()
    for pair, phrase in PAIRS.items():
        if absent.issuperset(pair):
            phrases.append(phrase)
            said.update(pair)
    for part in parts:
        if part.name in absent - said:
            words = WORDS.get(part.name)
            phrases.append(words.none if words else sentence(part))
    untold = [title(part.name) for part in parts if part.verdict == "cannot be told"]
    if untold:
        phrases.append(f"cannot be told: {', '.join(untold)}")
    unclear = [title(part.name) for part in parts if is_open(part)]
    if unclear:
        phrases.append(f"too noisy to tell: {', '.join(unclear)}")
    text = "; ".join(phrases)
    return text[:1].upper() + text[1:] + "." if text else ""


def advice(parts: Sequence[Transformation]) -> str:
    """Return what to do if some questions are open; empty if none is."""
    if not any(is_open(part) for part in parts):
        return ""
    return (
        "Where the noise is large, search for fewer transformations at a time (--group), or train "
        "longer (--preset default)."
    )
