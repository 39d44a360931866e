"""``symmetries orbit``: images along the orbits of a group, as a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from symmetries.cli import options
from symmetries.cli.progress import progress_bar
from symmetries.cli.shown import escape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from symmetries.cli.inputs import Source
    from symmetries.cli.runs import Run
    from symmetries.data import ImageSet
    from symmetries.groups import Group
    from symmetries.results import OrbitResult

EXAMPLES = 6


@options.unbundled
def orbit(
    data: options.Data,
    *,
    group: options.GroupName = "affine",
    fill: options.Fill = None,
    output: options.Output,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    reading: options.Reading,
) -> None:
    """Draw the orbits of images under a group, and how much each transformation changes them.

    Writes orbit.json (the numbers) and report.html (a page to look at).

    [dim]Example:[/] symmetries orbit digits --group rotation,translation --out out/digits
    """
    from symmetries.cli.inputs import Source
    from symmetries.cli.runs import begin

    machine = options.Machine(device=device, seed=seed)
    words = [data, *options.given(group=group, fill=fill), *reading.words()]
    run = begin("orbit", words, output.folder("orbit", data), machine, output)
    with run.folder() as partial:
        result = write(Source(data, reading), group, fill, run, partial)
    run.show(result, _table(result), ("orbit.json", "report.html"))


def write(
    source: "Source", group: str, fill: float | None, run: "Run", into: Path
) -> "OrbitResult":
    """Load, measure, draw, and write everything ``into`` a folder."""
    from symmetries.analysis.orbits import study_orbits
    from symmetries.cli.inputs import around, without_constant
    from symmetries.cli.runs import summary
    from symmetries.groups import group_name, parse_group
    from symmetries.report import orbit_page, render
    from symmetries.results import OrbitResult

    parsed = parse_group(group)
    images = without_constant(source.load())
    chosen, value = example_indices(images, EXAMPLES), around(images, fill, run)
    with progress_bar("orbits", total=parsed.dim + 1, quiet=run.quiet) as advance:
        study = study_orbits(
            images.images.to(run.place),
            parsed,
            examples=for_display(images.images[chosen].to(run.place)),
            fill=value,
            seed=run.seed,
            on_parameter=advance,
        )
        result = OrbitResult(
            group=tuple(group_name(parsed).split(",")),
            data=summary(images),
            neighbour_distance=study.neighbour_distance,
            transformations=study.curves,
            run=run.info(),
        )
        frames = {name: to_bytes(frame) for name, frame in study.frames.items()}
        html = render(orbit_page(result, frames, example_labels(images, chosen)))
        result.save(into / "orbit.json")
        (into / "report.html").write_text(html, encoding="utf-8")
        advance("page")
    return result


def example_indices(images: "ImageSet", count: int) -> list[int]:
    """The first images of ``count`` classes, several of each where there are fewer classes."""
    if images.labels is None:
        return list(range(min(count, len(images))))
    labels = images.labels.tolist()
    # From the end of the classes: for digits the last ones are less symmetric than 0 and 1.
    classes = sorted(set(labels))[-count:]
    each = max(1, count // len(classes))
    return [
        index
        for label in classes
        for index in [i for i, other in enumerate(labels) if other == label][:each]
    ]


def for_display(images: "Tensor", side: int = 48) -> "Tensor":
    """Images (N, C, H, W) with ``side`` pixels on the longer side, in the first 3 channels or 1.

    An orbit is drawn at this resolution, so that small images look smooth and large ones do not
    make a heavy page. The numbers are computed on the images as they are.
    """
    from torch.nn.functional import interpolate

    factor = side / max(images.shape[-2:])
    size = [max(1, round(factor * length)) for length in images.shape[-2:]]
    images = images[:, :3] if images.shape[1] >= 3 else images[:, :1]
    return interpolate(images, size, mode="bicubic", antialias=factor < 1).clamp(0, 1)


def element_labels(group: "Group[Any]") -> list[str]:
    """Names of the elements of a finite group: angles for rotations, else numbers.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> element_labels(Cyclic(4))
        ['0°', '90°', '180°', '270°']
    """
    from symmetries.groups import Cyclic, FiniteGroup

    if isinstance(group, Cyclic):
        return [f"{360 * i / group.order:g}°" for i in range(group.order)]
    return [str(i) for i in range(group.order)] if isinstance(group, FiniteGroup) else []


def to_bytes(frames: "Tensor") -> "NDArray[np.uint8]":
    """Pictures (..., C, H, W) in [0, 1] as bytes (..., H, W, C)."""
    pixels: NDArray[np.uint8] = (
        (frames.clamp(0, 1) * 255).round().byte().movedim(-3, -1).cpu().numpy()
    )
    return pixels


def example_labels(images: "ImageSet", indices: list[int]) -> list[str]:
    """A name for each example: its class, or its position in the set."""
    from symmetries._utils.text import printable

    if images.labels is None:
        return [f"image {index}" for index in indices]
    labels = [int(images.labels[index]) for index in indices]
    if images.class_names is None:
        return [f"class {label}" for label in labels]
    return [printable(images.class_names[label]) for label in labels]


def _table(result: "OrbitResult") -> Table:
    from symmetries.report.orbits import reach_text

    table = Table("transformation", box=None, pad_edge=False, header_style="dim")
    table.add_column("changes less than a neighbour differs", justify="right")
    for curve in result.transformations:
        table.add_row(escape(curve.name), reach_text(curve))
    return table
