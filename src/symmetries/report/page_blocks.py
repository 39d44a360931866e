"""Blocks of a page that several pages have: drawings, rows of pictures and orbit viewers."""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure
from numpy.typing import NDArray

from symmetries.report import figures
from symmetries.report.page import Drawing, OrbitViewer
from symmetries.results import DataSummary, RunInfo


def drawing(
    figure: Callable[[], Figure], salt: str, alt: str, title: str = "", caption: str = ""
) -> Drawing:
    """Draw a figure in the style of the page.

    Args:
        figure: called where the style is set.
        salt: a name that no other figure of the page has.
        alt: what the figure shows, in words.
        title: above the figure.
        caption: below it.
    """
    with figures.style(salt=salt):
        return Drawing(figures.to_svg(figure()), alt, caption, title)


def picture_rows(
    labels: Sequence[str], frames: Sequence[NDArray[Any]]
) -> list[tuple[str, list[str]]]:
    """Return the rows of a gallery.

    Args:
        labels: one for each row.
        frames: of each row its pictures, bytes (columns, H, W, C).
    """
    return [
        (label, [figures.picture_uri(frame) for frame in row])
        for label, row in zip(labels, frames, strict=True)
    ]


def orbit_viewer(
    title: str,
    text: str,
    frames: NDArray[Any],
    examples: Sequence[str],
    steps: Sequence[str],
    curve: Drawing,
    *,
    start: int | None = None,
    span: tuple[float, float] = figures.SPAN,
    weights: Sequence[Sequence[float]] = (),
) -> OrbitViewer:
    """Return examples that a slider moves along their orbit.

    Args:
        title: of the viewer.
        text: below the title.
        frames: bytes (examples, steps, H, W, C).
        examples: a label for each.
        steps: a label for each.
        curve: drawn under the slider.
        start: the step that is shown first; by default the one in the middle.
        span: the part of the curve's width along which the slider runs.
        weights: how opaque each example is at each step.
    """
    _, _, height, width, _ = frames.shape
    return OrbitViewer(
        title=title,
        text=text,
        sheet=figures.data_uri(figures.encode_png(figures.contact_sheet(frames))),
        examples=examples,
        steps=steps,
        start=len(steps) // 2 if start is None else start,
        curve=curve,
        span=span,
        tile=(width, height),
        weights=weights,
    )


def run_settings(data: DataSummary, run: RunInfo, group: str) -> dict[str, str]:
    """Return the settings that every run on images has, as a page lists them."""
    return {
        "data": f"{data.name}, {data.count:,} images, {data.channels} × {data.height} "
        f"× {data.width}",
        "group": group.replace(",", ", "),
        **run_facts(run),
    }


def run_facts(run: RunInfo) -> dict[str, str]:
    """Return what is known of any run: seed, device, time and versions."""
    return {
        "seed": str(run.seed),
        "device": run.device,
        "time": f"{run.time:.1f} s, {run.created}",
        "versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
    }
