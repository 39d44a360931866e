"""Which transformations occur in data, and how much: what ``symmetries discover`` computes."""

from typing import Any

from symmetries.analysis.densities import PoseDensity, mean_density, pose_densities
from symmetries.analysis.inputs import (
    Readable,
    Reading,
    Say,
    read_images,
    resolve_background,
    without_constant,
)
from symmetries.analysis.pictures import spread_indices
from symmetries.analysis.provenance import Call, class_names, data_summary
from symmetries.analysis.settings import choose_device, choose_preset
from symmetries.analysis.symmetry_pictures import draw_symmetries
from symmetries.data import ImageSet
from symmetries.groups import Group
from symmetries.groups.names import as_group, group_name
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.results import (
    ClassSymmetries,
    Histogram,
    Quality,
    RunInfo,
    SymmetryResult,
    SymmetrySummary,
)
from symmetries.training import History

LOOKED_AT = 512  # images that widths are measured on


def discover(
    data: Readable,
    group: str | Group[Any] = "affine",
    *,
    preset: str | None = None,
    fill: float | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: bool = True,
    **training: Any,  # noqa: ANN401 - of SymmetryModel.fit
) -> SymmetryResult:
    """Find the symmetries of images, without labels: which transformations occur, how much.

    Args:
        data: a name ("digits"), a file or a folder; or a tensor or array (N, C, H, W), an
            :class:`~symmetries.data.ImageSet`, a ``DataLoader``, or a pair (images, labels).
        group: the transformations to look for, a group or its name.
        preset: "quick", "default" or "paper"; None is "quick" on a CPU, "default" on a GPU.
        fill: background value from 0 to 1; None looks for it at the borders.
        seed: of the initial weights, training and samples.
        device: "auto", "cpu", "cuda", ...
        progress: show bars.
        training: further options of :meth:`~symmetries.SymmetryModel.fit`, such as ``out`` and
            ``resume``.

    Returns:
        Widths, noise floors and verdicts; ``fitted`` is the :class:`~symmetries.SymmetryModel`,
        ``to_html`` and ``plot`` show the result.
    """
    call = Call("discover", data=data, group=group, preset=preset, fill=fill, seed=seed)
    place = choose_device(device)
    training |= {"device": device, "progress": progress}
    chosen = choose_preset(preset, place)
    found = train_symmetry_model(data, group, chosen, fill=fill, seed=seed, **training)
    return describe_symmetries(*found, call.info(seed, place))


def train_symmetry_model(
    data: Readable,
    group: str | Group[Any],
    preset: str,
    *,
    fill: float | None,
    seed: int,
    say: Say | None = None,
    reading: Reading | None = None,
    **training: Any,  # noqa: ANN401 - of SymmetryModel.fit
) -> tuple[ImageSet, SymmetryModel, dict[str, History]]:
    """The images, a symmetry model fitted to them, and the log of each stage of its training.

    Arguments are those of :func:`discover`; ``say`` is told about a background that was found, and
    ``reading`` says how data is read.
    """
    group = as_group(group)
    images = without_constant(read_images(data, **(reading or {})))
    _, channels, height, width = images.images.shape
    value = resolve_background(images, fill, say)
    model = SymmetryModel(group, (channels, height, width), preset, fill=value, seed=seed)
    return images, model, model.fit(images, **training).stages


def describe_symmetries(
    images: ImageSet, model: SymmetryModel, histories: dict[str, History], run: RunInfo
) -> SymmetryResult:
    """The numbers and the pictures of a fitted symmetry model.

    Args:
        images: that it was fitted to.
        model: fitted.
        histories: the log of each stage.
        run: how it was fitted.
    """
    some = images.subset(spread_indices(len(images), LOOKED_AT))
    summary = model.summary(some, most=LOOKED_AT, seed=model.seed)
    densities = pose_densities(model, summary, some.images.to(model.device), model.seed)
    transformations = tuple(
        part.model_copy(
            update={
                "histogram": Histogram(edges=found.shown, density=mean_density(found, part.unit))
            }
        )
        for part, found in zip(summary.transformations, densities, strict=True)
    )
    result = SymmetryResult(
        group=group_name(model.group),
        data=data_summary(images),
        transformations=transformations,
        classes=_classes(some, summary, densities),
        quality=Quality(
            images=summary.images,
            content_kept=summary.content_kept,
            losses={stage: history.last for stage, history in histories.items()},
        ),
        run=run,
    )
    return result.attach(draw_symmetries(images, model, summary), model)


def _classes(
    images: ImageSet, summary: SymmetrySummary, densities: list[PoseDensity]
) -> dict[str, ClassSymmetries]:
    """The widths of each class with its densities."""
    if images.labels is None:
        return {}
    names = class_names(images)
    pairs = list(zip(summary.transformations, densities, strict=True))
    found = {}
    for label in sorted(set(images.labels.tolist())):
        chosen = images.labels == label
        density = {part.name: mean_density(p, part.unit, chosen) for part, p in pairs}
        found[names[label]] = summary.classes[names[label]].model_copy(update={"density": density})
    return found
