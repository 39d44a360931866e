"""Report of ``symmetries fit``: the accuracy of a classifier, and how invariant it is."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from symmetries.report import densities
from symmetries.report.fit_words import MINUS, answer_text, negligible, reach_of
from symmetries.report.lines import histories, history
from symmetries.report.orbit_report import quantity, spread, title
from symmetries.report.page import (
    Answer,
    Block,
    Drawing,
    Gallery,
    OrbitViewer,
    Page,
    Section,
    Table,
)
from symmetries.report.page_blocks import drawing, orbit_viewer, picture_rows, run_settings
from symmetries.report.prototype_report import capital
from symmetries.results import EvidenceCurve, FitResult, Invariance, LayerRelaxation
from symmetries.results.pictures import Bank, FitPictures

METHODS = {
    "invariant": "The classifier averages over transformations; the range of each transformation "
    "was learned from the training set alone.",
    "plain": "A classifier without any invariance built in: the baseline.",
    "relaxed": "A convolutional network whose layers are as equivariant to rotations as the data "
    "supports.",
    "augmented": "A classifier without invariance, trained on transformed copies of its images.",
}
SHOWN = 30.0  # nats below the best evidence, in drawings
EDGE = 0.35  # opacity of an image outside the learned width


def fit_page(result: FitResult) -> Page:
    """Return the page for a classifier; a result that was read from a file has no pictures."""
    pictures: FitPictures | None = result.pictures
    low, high = (100 * end for end in result.accuracy_interval)
    kind = "Evidence lower bound" if result.network is None else "Log evidence (Laplace)"
    bound = "" if result.elbo is None else f" {kind}: {result.elbo:.3f} nats each."
    answers = [
        Answer(
            f"invariant to {title(p.name)}",
            answer_text(p, "no"),
            "absent" if negligible(p) or not p.told else "",
        )
        for p in result.invariance
    ]
    if result.method != "invariant":
        answers = []
    answers += [
        Answer(f"{row.layer}, {title(row.coordinate)}", relaxed_text(row))
        for row in result.relaxation
    ]
    answers.insert(0, Answer("accuracy", f"{100 * result.accuracy:.1f} %", "full"))
    if result.plain_accuracy is not None:
        text = f"{100 * result.plain_accuracy:.1f} %"
        answers.insert(1, Answer("the same network without transformations", text))
    sections = []
    if result.method == "invariant":
        if pictures is not None:
            sections.append(
                Section(
                    "Across the learned widths",
                    "Drag a slider. The classifier averages over the shaded range; outside of it "
                    "the pictures fade.",
                    blocks=[_viewer(part, pictures) for part in result.invariance],
                    columns=True,
                )
            )
        if result.evidence:
            sections.append(
                Section(
                    "How they were learned",
                    "The log evidence of networks trained at held half-widths, in nats below the "
                    f"best, {SHOWN:.0f} at most. Where it is flat a half-width cannot be told, and "
                    "is used only if it explains training images that were left out better than "
                    "no transformation does, with no fewer of them right. Where the short interval "
                    "of an angle reaches the whole circle, that is used.",
                    blocks=[_evidence(curve) for curve in result.evidence],
                    columns=True,
                )
            )
        else:
            sections.append(
                Section(
                    "How they were learned",
                    "Half-widths while training: they grow as long as the evidence for them does.",
                    blocks=[_training(part, result) for part in result.invariance],
                    columns=True,
                )
            )
    if result.relaxation:
        sections = [_relaxations(result), *_relaxing(result)]
    sections += _bank_sections(result, () if pictures is None else pictures.banks)
    return Page(
        title=f"Classifying {result.data.name}",
        lede=headline(result),
        warnings=[capital(text) for text in result.warnings],
        note=f"{METHODS[result.method]} On {result.examples:,} test images, not used in training; "
        f"with 95 % confidence the accuracy is between {low:.1f} and {high:.1f} %."
        + bound.replace("-", MINUS),
        answers=answers,
        sections=sections,
        settings=run_settings(result.data, result.run, result.group)
        | {"method": result.method}
        | ({} if result.network is None else {"network": result.network}),
        rerun=result.run.command,
    )


def relaxed_text(row: LayerRelaxation) -> str:
    """Return how far a layer relaxed its equivariance, as text.

    Example:
        >>> row = LayerRelaxation(layer="features.0", coordinate="rotation", value=0.065, error=0.2)
        >>> relaxed_text(row)
        "20 % from equivariant (ω' 0.065)"
    """
    if row.error is None:
        return f"ω' {row.value:.3f}"
    return f"{100 * row.error:.0f} % from equivariant (ω' {row.value:.3f})"


def headline(result: FitResult) -> str:
    """Return the answer in one sentence."""
    right = f"Correct on {100 * result.accuracy:.1f} % of the test images"
    errors = [100 * row.error for row in result.relaxation if row.error is not None]
    if errors:
        span = f"{min(errors):.0f} to {max(errors):.0f} %"
        return f"{right}; its layers are {span} away from strict equivariance."
    if result.method != "invariant":
        return right + "."
    unknown = " or ".join(title(part.name) for part in result.invariance if not part.told)
    if unknown:
        return f"{right}; how invariant it should be to {unknown} cannot be told from the labels."
    wide = [part for part in result.invariance if not negligible(part)]
    narrow = " or ".join(title(part.name) for part in result.invariance if negligible(part))
    if not wide:
        return f"{right}; no invariance to {narrow} was learned."
    widths = ", ".join(f"{title(part.name)} {reach_of(part)}" for part in wide)
    return f"{right}; averages over {widths}" + (f", not over {narrow}." if narrow else ".")


def _inside(part: Invariance, values: Sequence[float]) -> NDArray[np.bool_]:
    array = np.log(values) if part.unit == "factor" else np.asarray(values)
    limit = np.log(part.half_width) if part.unit == "factor" else part.half_width
    inside: NDArray[np.bool_] = np.abs(array) <= abs(limit) + 1e-9
    inside[np.abs(array).argmin()] = True  # always include the identity
    return inside


def _ends(part: Invariance, values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the learned range on an axis from the first value (0) to the last (1)."""
    low = 1 / part.half_width if part.unit == "factor" else -part.half_width
    places = np.linspace(0, 1, len(values))
    begin, end = np.interp((low, part.half_width), values, places)
    return float(begin), float(end)


def _relaxations(result: FitResult) -> Section:
    rows = [
        (
            row.layer,
            title(row.coordinate),
            f"{row.value:.3f}",
            "" if row.error is None else f"{row.error:.2g}",
        )
        for row in result.relaxation
    ]
    return Section(
        "Layer by layer",
        "How far each layer relaxed its equivariance: a relaxation ω' of 0 is strictly "
        "equivariant, larger values give every orientation its own filter. Beside it the "
        "equivariance error, relative to the size of the layer's output, measured on images.",
        blocks=[Table(("layer", "coordinate", "ω'", "error"), rows)],
    )


def _relaxing(result: FitResult) -> list[Section]:
    """Build the section on relaxations and the loss over training, if they were recorded."""
    seen = result.training
    if not seen.step or not seen.relaxation:
        return []
    alone = len({row.coordinate for row in result.relaxation}) == 1
    lines = {name.split(" ")[0] if alone else name: x for name, x in seen.relaxation.items()}
    blocks: list[Block] = [
        drawing(
            lambda: histories(seen.step, lines, y_label="ω'"),
            "relaxing",
            "Relaxation of each layer over training.",
            "relaxation ω'",
        )
    ]
    if seen.loss:
        losses = partial(history, seen.step, seen.loss, y_label="nats")
        blocks.append(drawing(losses, "loss", "Loss over training.", "loss"))
    return [
        Section(
            "How it was learned",
            "The relaxation of each layer over training: it grows where the task depends on the "
            "orientation of an image, and a penalty draws it to 0 elsewhere.",
            blocks=blocks,
            columns=True,
        )
    ]


def _bank_sections(result: FitResult, banks: Sequence[Bank]) -> list[Section]:
    """Build sections with filters in rows and their poses in columns."""
    if not banks:
        return []
    moved = (
        "Each row is one filter of the first layer, moved to poses across the learned width. The "
        "filters are random; the classifier uses the mean of the responses of all poses."
    )
    turned = (
        "Each row is one filter, each column an element of the group. Where a layer is equivariant "
        "a row shows one filter rotated; where it relaxed equivariance the columns differ."
    )
    blocks: list[Block] = []
    for bank in banks:
        header = tuple((pose_text(*pose), 1) for pose in bank.poses)
        rows = picture_rows([f"filter {i + 1}" for i in range(len(bank.frames))], bank.frames)
        blocks.append(Gallery(header, rows, title=title(bank.name)))
    return [Section("Filters", turned if result.relaxation else moved, blocks=blocks)]


def pose_text(value: float, unit: str) -> str:
    """Format a pose as a heading.

    Example:
        >>> pose_text(90.0, "degrees"), pose_text(2.0, "elements")
        ('+90°', 'element 2')
    """
    return f"element {value:.0f}" if unit == "elements" else quantity(value, unit)


def _viewer(part: Invariance, pictures: FitPictures) -> OrbitViewer:
    frames, values = pictures.frames[part.name], pictures.values[part.name]
    steps = [quantity(value, part.unit) for value in values]
    inside = _inside(part, values)
    ticks = [(i / (len(steps) - 1), steps[i]) for i in spread(len(steps), 5)]
    curve = drawing(
        lambda: densities.box(*_ends(part, values), ticks=ticks),
        f"box {part.name}",
        f"Range of {title(part.name)} that the classifier averages over.",
    )
    weights = [[1.0 if flag else EDGE**2 for flag in inside]] * len(frames)
    text, labels = f"Learned: {reach_of(part)}.", pictures.labels
    return orbit_viewer(title(part.name), text, frames, labels, steps, curve, weights=weights)


def _evidence(curve: EvidenceCurve) -> Drawing:
    best = max(curve.log_evidence)
    below = [min(best - value, SHOWN) for value in curve.log_evidence]
    label = "factor, upper end" if curve.unit == "factor" else f"± {curve.unit}"
    figure = partial(history, curve.half_width, below, y_label="nats below", x_label=label)
    name = title(curve.name)
    return drawing(figure, f"evidence {curve.name}", f"Log evidence along {name}.", name)


def _training(part: Invariance, result: FitResult) -> Drawing:
    steps, values = result.training.step, result.training.half_width[part.name]
    label = "factor, upper end" if part.unit == "factor" else f"± {part.unit}"
    figure, name = partial(history, steps, values, y_label=label), title(part.name)
    return drawing(figure, f"training {part.name}", f"Half-width of {name} over training.", name)
