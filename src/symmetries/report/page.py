"""One self-contained HTML page: the answer first, then images, then how to run it again.

A page is plain data: sentences and sections, each with a list of blocks. The template
``templates/page.html`` lays out the blocks and escapes all text; only our own SVG is not escaped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


@dataclass(frozen=True)
class Answer:
    """One sentence that answers the question, with the name of its subject.

    ``tone`` is a class of the style sheet: "absent" is subdued, "full" is emphasised.
    """

    name: str
    text: str
    tone: str = ""


@dataclass(frozen=True)
class Picture:
    """An image as a data URI, with alternative text."""

    kind: ClassVar[str] = "picture"
    source: str
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Drawing:
    """An inline SVG of :mod:`symmetries.report.figures`, which follows the page's colours."""

    kind: ClassVar[str] = "drawing"
    svg: Markup
    alt: str
    caption: str = ""
    title: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; all columns but the first are aligned as numbers."""

    kind: ClassVar[str] = "table"
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Strip:
    """A row of small images under a title, each a data URI with a label underneath."""

    kind: ClassVar[str] = "strip"
    title: str
    pictures: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Gallery:
    """Rows of images under one header.

    Args:
        header: titles, each with the number of columns that it spans.
        rows: a label, and a data URI for each column.
        marked: whether the first two columns get a frame.
        title: title above the gallery.
    """

    kind: ClassVar[str] = "gallery"
    header: Sequence[tuple[str, int]]
    rows: Sequence[tuple[str, Sequence[str]]]
    marked: bool = False
    title: str = ""


@dataclass(frozen=True)
class OrbitViewer:
    """Examples that move along an orbit with a slider, under a curve with the same axis.

    Args:
        title: name of the transformation.
        text: one sentence about it.
        sheet: data URI of the frames, examples in rows, steps in columns.
        examples: a label for each row.
        steps: a label for each column ("-30 degrees").
        start: column shown first.
        curve: drawing over the same axis, its plot area spanning ``span`` of its width.
        span: left and right end of that area, as fractions of the width.
        tile: width and height of a frame in pixels.
        weights: likelihood of the frame for each example and step, from 0 to 1, as its opacity.
    """

    kind: ClassVar[str] = "orbit"
    title: str
    text: str
    sheet: str
    examples: Sequence[str]
    steps: Sequence[str]
    start: int
    curve: Drawing
    span: tuple[float, float]
    tile: tuple[int, int]
    weights: Sequence[Sequence[float]] = ()


@dataclass(frozen=True)
class Card:
    """A picture as a data URI over small drawings, each with a caption."""

    picture: str
    label: str
    drawings: Sequence[tuple[Markup, str]]


@dataclass(frozen=True)
class Cards:
    """Cards side by side under a title."""

    kind: ClassVar[str] = "cards"
    title: str
    cards: Sequence[Card]


@dataclass(frozen=True)
class Code:
    """Lines of code, to be copied."""

    kind: ClassVar[str] = "code"
    text: str


Block = Picture | Drawing | Table | Strip | Gallery | OrbitViewer | Cards | Code


@dataclass(frozen=True)
class Section:
    """A heading, a sentence or two, and blocks, side by side with ``columns`` if they fit."""

    title: str
    text: str = ""
    blocks: Sequence[Block] = ()
    columns: bool = False


@dataclass(frozen=True)
class Page:
    """All content of a report.

    Example:
        >>> html = render(Page("Digits", "What <b> is.", [Answer("rotation", "by 20 degrees")]))
        >>> "What &lt;b&gt; is." in html
        True
    """

    title: str
    lede: str
    answers: Sequence[Answer] = ()
    sections: Sequence[Section] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    rerun: str = ""
    note: str = ""
    warnings: Sequence[str] = ()


def render(page: Page) -> str:
    """Render the page as one HTML document that makes no requests."""
    environment = Environment(
        loader=PackageLoader("symmetries.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(page=page)
