"""Conversion of the options for DATA to arguments of the functions that read it."""

import re

from symmetries._validation.checks import invalid, short
from symmetries.analysis.inputs import Reading
from symmetries.cli import options


def reading_arguments(reading: options.Reading) -> Reading:
    """Return the options of a command as arguments of ``read_images``."""
    size = None if reading.resize is None else parse_size(reading.resize)
    return {"folder": reading.folder, "size": size, "skip_bad": reading.skip_bad}


def parse_size(text: str) -> tuple[int, int]:
    """Return height and width of "32" or "48x32"; the text has the width first.

    Example:
        >>> parse_size("48x32"), parse_size("16")
        ((32, 48), (16, 16))
    """
    found = re.fullmatch(r"(\d{1,9})(?:[x×](\d{1,9}))?", text.strip().lower())
    if found is None or any(part is not None and int(part) == 0 for part in found.groups()):
        raise invalid("--resize", "a size such as 32 or 48x32", short(text), "width x height")
    width = int(found[1])
    return int(found[2] or width), width
