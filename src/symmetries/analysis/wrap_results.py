"""What a wrapped model brings, measured on held-out pictures that did not choose its rule."""

import math
import statistics
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries._utils.text import printable
from symmetries.analysis.canonicalised import CanonicalisedModel
from symmetries.analysis.pictures import example_indices, example_labels, for_display, to_bytes
from symmetries.analysis.provenance import Info, class_names, data_summary
from symmetries.analysis.stored_models import Loaded
from symmetries.analysis.wrap_rules import Scores, compared, moved_pictures
from symmetries.auditing.timing import wait_for
from symmetries.data import ImageSet
from symmetries.groups.names import group_name
from symmetries.results import (
    Candidate,
    ClassEffect,
    Compared,
    ExportedFile,
    Latency,
    ParameterRange,
    Preprocessing,
    WrapResult,
)
from symmetries.results.pictures import WrapPictures

EXAMPLES = 6
SECONDS = 0.5  # of each latency
FEW = 30  # pictures of a class below which it is not judged alone
LARGE = 0.1  # of a class that may not be restored without a word


@dataclass(frozen=True)
class Wrapped:
    """A wrapped model, and everything that was measured of it on held-out pictures.

    Args:
        module: the wrapped model, with the rule that was chosen.
        loaded: the bare model.
        reference: all pictures of the reference.
        held: held-out pictures, with labels of the model's classes where there are some.
        labelled: whether they decided by their labels.
        planted: (N, D) coordinates of the moves that were made of them.
        widths: how far these went, by name.
        untouched: scores of the held-out pictures as they are.
        moved: scores of the moved ones.
        chosen: the rule.
        candidates: all rules.
        limit: points that pictures as they are may lose.
        preprocessing: that is part of the module.
        warnings: of all that was done.
    """

    module: CanonicalisedModel
    loaded: Loaded
    reference: ImageSet
    held: ImageSet
    labelled: bool
    planted: Tensor
    widths: dict[str, float]
    untouched: Scores
    moved: Scores
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    limit: float
    preprocessing: Preprocessing
    warnings: list[str]


def check_pictures_of(found: Wrapped) -> Tensor:
    """Pictures on which exported files are compared: two of three moved, the third as it is."""
    few = slice(0, 24)
    x, s = found.held.images[few].cpu(), found.planted[few].clone()
    s[::3] = 0
    place = found.module.reader.rows.device
    with torch.no_grad():
        return moved_pictures(found.module, x.to(place), s.to(place)).cpu()


def describe_wrapped(
    found: Wrapped, name: str, files: tuple[ExportedFile, ...], info: Info
) -> WrapResult:
    """Return the result on the held-out pictures that did not decide."""
    measured = torch.arange(len(found.held)) % 2 == 1
    untouched, moved = (part.rows(measured) for part in (found.untouched, found.moved))
    both = compared(untouched, found.chosen), compared(moved, found.chosen)
    classes = class_effects(found, measured, untouched, moved)
    side = max(found.reference.images.shape[-2:])
    rows = []
    for c in found.module.chart.coordinates:
        if c.kind != "finite":
            ends = [c.display(sign * found.widths[c.name], side) for sign in (-1, 1)]
            rows.append(
                ParameterRange(name=c.name, low=ends[0][0], high=ends[1][0], unit=ends[0][1])
            )
    result = WrapResult(
        warnings=tuple(dict.fromkeys((*cautions(found, *both, classes), *found.warnings))),
        model=printable(name),
        output=found.loaded.kind,
        score="accuracy" if found.labelled else "agreement with the bare model",
        group=group_name(found.module.chart.group),
        range=tuple(rows),
        limit=found.limit,
        rule=found.chosen.rule,
        threshold=found.chosen.threshold,
        views=found.module.reader.views,
        candidates=found.candidates,
        chosen_on=int((~measured).sum()),
        measured_on=int(measured.sum()),
        untouched=both[0],
        moved=both[1],
        classes=classes,
        pose_error=pose_error(found, measured),
        latency=tuple(latency(found, count) for count in (1, 64)),
        files=files,
        preprocessing=found.preprocessing if str(found.preprocessing) else None,
        notes=found.loaded.notes,
        reference=data_summary(found.reference),
        run=info(),
    )
    return result.attach(draw(found), found.module)


def class_effects(
    found: Wrapped, measured: Tensor, untouched: Scores, moved: Scores
) -> tuple[ClassEffect, ...]:
    """Return scores by class, of the pictures that did not decide; none without labels."""
    if found.held.labels is None or not found.labelled:
        return ()
    labels, names = found.held.labels[measured], class_names(found.held)
    rule = (found.chosen.rule, found.chosen.threshold)
    rows = []
    for label in labels.unique().tolist():
        mine = labels == label
        pairs = [
            (float(s.bare[mine].mean()), float(s.by(*rule)[mine].mean()))
            for s in (untouched, moved)
        ]
        rows.append(
            ClassEffect(
                name=names[label], examples=int(mine.sum()), untouched=pairs[0], moved=pairs[1]
            )
        )
    return tuple(rows)


def cautions(
    found: Wrapped,
    untouched: Compared,
    moved: Compared,
    classes: tuple[ClassEffect, ...],
) -> list[str]:
    """Return what a reader must know before using the wrapped model."""
    texts = []
    if found.labelled and found.held.labels is not None:
        guess = float(torch.bincount(found.held.labels).max()) / len(found.held)
        if untouched.bare.mean <= guess:
            texts.append(
                f"the bare model is right on {100 * untouched.bare.mean:.0f} % of held-out "
                f"pictures as they are, guessing on {100 * guess:.0f} %: are labels, order of "
                "classes and normalisation those that it was trained with?"
            )
    if found.chosen.threshold is None:
        texts.append(
            "no rule that moves pictures was better on held-out data: the wrapped model is the "
            "bare one"
        )
    if untouched.gain.mean < -found.limit:
        texts.append(
            f"pictures as they are lose {-untouched.gain.mean:.1f} points on the held-out pictures "
            f"that did not decide (limit {found.limit:g})"
        )
    if moved.gain.high < 0:
        texts.append(f"moved pictures lose {-moved.gain.mean:.1f} points")
    lost = []
    for row in classes:
        variance = max(row.moved[1] * (1 - row.moved[1]), 0.25 / row.examples)
        error = math.sqrt(variance / row.examples)
        if row.examples < FEW:
            continue
        if row.moved[0] - row.moved[1] > 3 * error:
            texts.append(
                f"{row.name}: moved pictures are answered worse than by the bare model "
                f"({100 * row.moved[1]:.0f} of {100 * row.moved[0]:.0f} %)"
            )
        elif row.untouched[1] - row.moved[1] > LARGE + 3 * error:
            lost.append(f"{row.name}: {100 * row.moved[1]:.0f} of {100 * row.untouched[1]:.0f} %")
    if lost:
        texts.append(
            f"moved pictures of some classes are right much less often than as they are "
            f"({'; '.join(lost)}): their pose carries meaning, or cannot be told"
        )
    if not found.labelled:
        texts.append("without labels the bare model's own answers decided: its errors are kept")
    return texts


def pose_error(found: Wrapped, measured: Tensor) -> float | None:
    """Median angle in degrees between moves that were made and read; None without angles."""
    chart = found.module.chart
    if "rotation" not in chart.names:
        return None
    made, read = found.planted[measured].double(), found.moved.u[measured]
    turns = []
    for u in (made, read):
        matrix = chart.matrix(u)
        turns.append(
            torch.atan2(matrix[:, 1, 0] - matrix[:, 0, 1], matrix[:, 0, 0] + matrix[:, 1, 1])
        )
    away = torch.remainder(turns[1] - turns[0] + math.pi, 2 * math.pi) - math.pi
    return math.degrees(float(away.abs().median()))


def latency(found: Wrapped, count: int) -> Latency:
    """Return the median milliseconds of a call of each model."""
    x = found.held.images[:count].to(found.module.reader.rows.device)
    x = x if len(x) == count else x.repeat(-(-count // len(x)), 1, 1, 1)[:count]
    times = []
    for model in (found.module.model, found.module):
        taken: list[float] = []
        with torch.no_grad():
            model(x)
            began = time.perf_counter()
            while len(taken) < 3 or (time.perf_counter() - began < SECONDS and len(taken) < 50):
                start = time.perf_counter()
                model(x)
                wait_for(x)
                taken.append(1000 * (time.perf_counter() - start))
        times.append(statistics.median(taken))
    return Latency(pictures=count, bare=times[0], wrapped=times[1])


@torch.no_grad()
def draw(found: Wrapped) -> WrapPictures:
    """Return pictures of the reference, moved, and as the model sees them."""
    rows = example_indices(found.held, EXAMPLES)
    place = found.module.reader.rows.device
    x, s = found.held.images[rows].to(place), found.planted[rows].to(place)
    y = moved_pictures(found.module, x, s)
    u, _, ratio = found.module.reader(y)
    moves = ratio > (math.inf if found.chosen.threshold is None else found.chosen.threshold)
    seen = found.module.canonical(y, u[:, :1], moves)[0][:, 0]
    frames = torch.stack([for_display(part.cpu()) for part in (x, y, seen)], 1)
    return WrapPictures(example_labels(found.held, rows), to_bytes(frames))
