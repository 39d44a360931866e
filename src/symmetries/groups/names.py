"""Names of groups in commands and files: "rotation,translation", "colour", "c4"."""

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

from symmetries._validation.checks import invalid, short, wrong_type
from symmetries.groups.affine import SIX, Affine2
from symmetries.groups.base import Group
from symmetries.groups.colour import HSV, Colour
from symmetries.groups.finite import Cyclic, CyclicShift, Dihedral, Flip
from symmetries.groups.lorentz import Lorentz
from symmetries.groups.matrix import PREFIX, MatrixGroup, matrix_group_text, parse_matrix_group
from symmetries.groups.permutation import Permutation
from symmetries.groups.product import Product
from symmetries.groups.rigid import E3, SE3
from symmetries.groups.rotations import O3, SO3
from symmetries.groups.scale import Scale1
from symmetries.groups.se2 import SE2
from symmetries.groups.signal import ALL, Signal

Other = TypeVar("Other")

AFFINE_NAMES = (*SIX, "zoom", "translation", "scale", "affine", "similarity")
COLOUR_NAMES = (*HSV, "colour")
SIGNAL_NAMES = (*ALL, "signal")

# With a number: c4 and r4 are the four rotations, d4 adds flips, t3 and t3y shift by thirds.
_NUMBERED: dict[str, Callable[[int, str], Group[Any]]] = {
    "c": lambda n, _: Cyclic(n),
    "r": lambda n, _: Cyclic(n),
    "d": lambda n, _: Dihedral(n),
    "t": lambda n, axis: CyclicShift(axis or "x", n),
    "s": lambda n, _: Permutation(n),
}
_PLAIN: dict[str, Callable[[], Group[Any]]] = {
    "se2": SE2,
    "so3": SO3,
    "o3": O3,
    "se3": SE3,
    "e3": E3,
    "lorentz": Lorentz,
    "scale1": Scale1,
    "flip_x": lambda: Flip("x"),
    "flip_y": lambda: Flip("y"),
}
_FAMILIES: dict[str, tuple[tuple[str, ...], Callable[..., Group[Any]]]] = {
    "affine": (AFFINE_NAMES, Affine2),
    "colour": (COLOUR_NAMES, lambda *names: Colour(*() if "colour" in names else names)),
    "signal": (SIGNAL_NAMES, lambda *names: Signal(*() if "signal" in names else names)),
}


def parse_group(text: str) -> Group[Any]:
    """Return the group named by a comma-separated list of names; case does not matter.

    - parameters and sets of :class:`Affine2` ("rotation,translation", "affine", "similarity"),
      all in one ``Affine2``;
    - parameters of :class:`Colour` ("hue", "saturation", "value"), or "colour" for the three;
    - parameters of :class:`Signal` ("shift", "time_scale", ...), or "signal" for all;
    - "c4" or "r4" (any number): rotations; "d4": rotations and flips; "t3" or "t3x", "t3y": cyclic
      shifts; "flip_x", "flip_y"; "se2";
    - of space: "so3", "o3", "se3", "e3"; of four-momenta: "lorentz"; of points: "scale1"; of items:
      "s5" (any number), their permutations;
    - "matrix:" and the text of a learned group, alone, as :func:`group_name` writes it.

    Several groups give their :class:`Product`, with colour last: an action applies the last factor
    first, and colours are best changed before pixels are resampled.

    Args:
        text: the names, separated by commas.

    Example:
        >>> parse_group("rotation, translation")
        Affine2('shift_x', 'shift_y', 'rotation')
        >>> parse_group("hue,similarity")
        Product(Affine2('shift_x', 'shift_y', 'rotation', 'zoom'), Colour('hue'))
        >>> parse_group("t3")
        CyclicShift(axis='x', fold=3)
    """
    if not isinstance(text, str):
        raise wrong_type("group", "a name", text, f"known: {_known()}")
    if text.startswith(PREFIX):
        return parse_matrix_group(text)
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    if not names:
        raise invalid("group", "at least one name", repr(text), f"known: {_known()}")
    factors: dict[str, Group[Any]] = {}
    for name in names:
        family = next((f for f, (members, _) in _FAMILIES.items() if name in members), None)
        if family is None:
            factors[name] = _single(name, text)
        elif family not in factors:
            members, make = _FAMILIES[family]
            factors[family] = make(*(n for n in names if n in members))
    groups = sorted(factors.values(), key=lambda group: isinstance(group, Colour))
    return groups[0] if len(groups) == 1 else Product(*groups)


def as_group(group: "str | Group[Any]") -> Group[Any]:
    """Return the group, or parse it if it is given by name.

    Example:
        >>> as_group("c4") == as_group(Cyclic(4))
        True
    """
    if isinstance(group, Group):
        return group
    if isinstance(group, str):
        return parse_group(group)
    raise wrong_type("group", "a Group or its name", group, "try Cyclic(4), or 'c4'")


def named_group(group: "str | Other") -> "Group[Any] | Other":
    """Return the group of a name; other arguments are returned unchanged, for the caller to check.

    Example:
        >>> named_group("c4"), named_group(Flip("x"))
        (Cyclic(n=4), Flip(axis='x'))
    """
    return parse_group(group) if isinstance(group, str) else group


def group_name(group: Group[Any]) -> str:
    """Return the name from which :func:`parse_group` builds the group.

    Example:
        >>> group_name(parse_group("affine,colour"))
        'shift_x,shift_y,rotation,scale_x,scale_y,shear,hue,saturation,value'
    """
    match group:
        case Product() if not any(isinstance(f, MatrixGroup) for f in group.factors):
            return ",".join(group_name(factor) for factor in group.factors)
        case Affine2() | Colour() | Signal() | Flip():
            return ",".join(group.names)
        case Cyclic(n):
            return f"c{n}"
        case Dihedral(n):
            return f"d{n}"
        case CyclicShift(axis, fold):
            return f"t{fold}{axis}"
        case Permutation(n):
            return f"s{n}"
        case SE2() | SO3() | O3() | SE3() | E3() | Lorentz() | Scale1():
            return type(group).__name__.lower()
        case MatrixGroup():
            return matrix_group_text(group)
    raise invalid("group", "a group that has a name", repr(group), f"known: {_known()}")


def _single(name: str, text: str) -> Group[Any]:
    if name in _PLAIN:
        return _PLAIN[name]()
    found = re.fullmatch(r"([crds])(\d{1,9})()|(t)(\d{1,9})([xy]?)", name)
    if found is None:
        got = short(name) if name == text else f"{short(name)} in {short(text)}"
        meant = _meant(name)
        if meant:
            raise invalid("group", "the name of a group", got, f"did you mean {meant}?")
        raise invalid("group", f"names among {_known()}", got, "see the page of all groups")
    letter, number, axis = (part for part in found.groups() if part is not None)
    return _NUMBERED[letter](int(number), axis)


# What other libraries and people call these.
_ALIASES = {
    **dict.fromkeys(("hflip", "horizontal_flip", "flip", "mirror", "fliplr"), "flip_x"),
    **dict.fromkeys(("vflip", "vertical_flip", "flipud"), "flip_y"),
    **dict.fromkeys(("color", "colors", "colours", "colorjitter", "jitter"), "colour"),
    **dict.fromkeys(("brightness", "lightness"), "value"),
    **dict.fromkeys(("rot", "rotate", "rotations", "so2", "turns"), "rotation"),
    **dict.fromkeys(("translate", "shifts", "translations"), "translation"),
    **dict.fromkeys(("resize", "size"), "zoom"),
    **dict.fromkeys(("rot90", "quarter_turns"), "c4"),
    **dict.fromkeys(("rigid", "euclidean"), "se2 (or se3 in space)"),
    **dict.fromkeys(("permutation", "permutations"), "s5, for 5 items"),
    **dict.fromkeys(("boost", "boosts", "so13"), "lorentz"),
}


def _meant(name: str) -> str | None:
    """Return the known name that is most similar to an unknown one, if there is one."""
    known = (*AFFINE_NAMES, *COLOUR_NAMES, *SIGNAL_NAMES, *_PLAIN, *_ALIASES)
    near = next(iter(get_close_matches(name, known, 1, 0.7)), name)
    return _ALIASES.get(name) or _ALIASES.get(near, near if near in known else None)


def _known() -> str:
    numbered = "c4, r4, d4, t3, t3y, s5 (any number)"
    return ", ".join((*AFFINE_NAMES, *COLOUR_NAMES, *SIGNAL_NAMES, *_PLAIN, numbered))
