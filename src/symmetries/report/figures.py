"""Figures drawn by matplotlib without pyplot, as inline SVG in the page's colours, or as PNG."""

import base64
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

# Colours of the page by role. In an SVG each becomes a CSS variable, so that a figure follows the
# page's dark mode; a PNG, or a viewer without the page, shows these values.
INK, MUTED, RULE = "#1d1d1f", "#6e6e73", "#d2d2d7"
ACCENT, WASH = "#0b6e99", "#cfe3ec"
_VARIABLES = {INK: "ink", MUTED: "muted", RULE: "rule", ACCENT: "accent", WASH: "wash"}

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text, in the page's font
    "text.parse_math": False,  # names are data: a dollar sign is not mathematics
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": RULE,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.color": RULE,
    "ytick.labelcolor": MUTED,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
}


@contextmanager
def style(salt: str = "symmetries") -> Iterator[None]:
    """Use the report's style inside the block; ``salt`` makes the ids of an SVG unique."""
    with rc_context({**_STYLE, "svg.hashsalt": salt}):
        yield


def to_svg(figure: Figure) -> Markup:
    """Convert to an SVG element that scales with its container and uses the page's colours."""
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # Text stays text: the browser has the glyphs that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata={"Creator": None, "Date": None, "Format": None, "Type": None},
        )
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    # Keep the view box; remove the fixed size and the white backgrounds of invisible patches.
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    for colour, name in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{name}, {colour})")
    return Markup(svg)  # matplotlib has escaped the text


def data_uri(png: bytes) -> str:
    """Encode a PNG file as a data URI."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Encode pixels (H, W) or (H, W, 3) as a PNG file.

    Example:
        >>> encode_png(np.zeros((4, 6), np.uint8))[1:4]
        b'PNG'
    """
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="png")
    return buffer.getvalue()


def picture_uri(frame: NDArray[np.uint8]) -> str:
    """Encode an image (H, W, C) as a data URI."""
    return data_uri(encode_png(contact_sheet(frame[None, None])))


def contact_sheet(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Tile frames (rows, columns, H, W, C) into one image (rows H, columns W[, 3]).

    Example:
        >>> contact_sheet(np.zeros((2, 5, 8, 8, 1), np.uint8)).shape
        (16, 40)
    """
    rows, columns, height, width, channels = frames.shape
    if channels not in (1, 3):
        raise ValueError(
            f"frames: expected 1 or 3 channels, got {channels}; choose channels to show"
        )
    sheet = frames.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, channels)
    return sheet[..., 0] if channels == 1 else sheet


SPAN = (0.11, 0.97)  # the plot area of `curve`, as fractions of its width
DASHED = (0, (3, 2))


def panel(height: float, area: tuple[float, float, float, float]) -> tuple[Figure, Axes]:
    """Make a figure of the page's width with one plot area, (left, bottom, width, height)."""
    figure = Figure(figsize=(4.4, height))
    axes = figure.add_axes(area)
    axes.tick_params(length=3, labelsize=8)
    return figure, axes


def curve(
    x: Sequence[float],
    y: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    *,
    level: float,
    level_label: str,
    y_label: str,
    ticks: Sequence[tuple[float, str]],
) -> Figure:
    """Draw a line with a band around it and a horizontal level for comparison.

    The plot area spans ``SPAN`` of the width with no margin, so that a slider of the page can
    run along the same axis.
    """
    figure, axes = panel(1.75, (SPAN[0], 0.16, SPAN[1] - SPAN[0], 0.8))
    axes.fill_between(x, low, high, color=WASH, linewidth=0)
    axes.plot(x, y, color=ACCENT)
    axes.axhline(level, color=MUTED, linewidth=0.9, linestyle=DASHED)
    axes.annotate(
        level_label, (x[0], level), xytext=(4, 2), textcoords="offset points", size=7.5, color=MUTED
    )
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(0, 1.06 * max(*high, level))
    axes.set_xticks([position for position, _ in ticks], [label for _, label in ticks])
    axes.locator_params(axis="y", nbins=3)
    axes.set_ylabel(y_label)
    first, *_, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    return figure


def shortened(text: str, most: int = 14) -> str:
    """Shorten a name so that it fits beside a plot.

    Example:
        >>> shortened("a name that is too long")
        'a name that i…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def answers(
    probability: Sequence[float], accuracy: Sequence[float], *, ticks: Sequence[tuple[float, str]]
) -> Figure:
    """Draw the probability of the correct class and the accuracy along an orbit.

    The plot area spans ``SPAN`` of the width, as in :func:`curve`.
    """
    figure, axes = panel(1.75, (SPAN[0], 0.16, SPAN[1] - SPAN[0], 0.8))
    x = range(len(probability))
    axes.fill_between(x, 0, probability, color=WASH, linewidth=0)
    axes.plot(x, probability, color=ACCENT)
    axes.plot(x, accuracy, color=MUTED, linewidth=0.9, linestyle=DASHED)
    axes.set_xlim(0, max(len(probability) - 1, 1))
    axes.set_ylim(0, 1.02)
    axes.set_xticks([position for position, _ in ticks], [label for _, label in ticks])
    axes.set_yticks([0, 0.5, 1])
    return figure
