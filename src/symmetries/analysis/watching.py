"""Detect and name changes in a stream of pictures: what ``symmetries watch`` computes."""

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from symmetries._validation.checks import check_images, invalid, wrong_type
from symmetries.analysis.arriving import AT_ONCE, Shape, ordered, shape_of
from symmetries.analysis.classifiers import Classifier
from symmetries.analysis.inputs import (
    COPIES,
    Readable,
    check_content,
    check_pictures,
    read_images,
    share_of_copies,
)
from symmetries.analysis.pictures import for_display, to_bytes
from symmetries.analysis.preprocessing import make_preprocessing
from symmetries.analysis.provenance import Call, Info, data_summary
from symmetries.analysis.stored_models import Loaded, load_classifier, right_answers
from symmetries.auditing.answers import CLASSIFIERS
from symmetries.auditing.models import PROBE, Model
from symmetries.data import ImageSet
from symmetries.monitoring import Watcher
from symmetries.results import ChangedParameter, DataSummary, ExpectedLoss, WatchResult
from symmetries.results.pictures import WatchPictures

ROUGH = {"degrees": 2.5, "pixels": 0.5}  # half an interval: a longer one is pointed out


def watch(
    reference: Readable,
    stream: Readable | Iterable[Tensor],
    *,
    alpha: float = 0.01,
    size: tuple[int, int] | None = None,
    fill: float | None = None,
    seed: int = 0,
    model: str | Path | Model | Classifier | None = None,
    normalize: str | None = None,
    channels: str | None = None,
    trust: bool = False,
) -> WatchResult:
    """Say whether a stream of pictures has changed against a reference, how, and since when.

    The alarm is a test that is valid whenever one looks
    (:class:`symmetries.monitoring.ExchangeabilityTest`): the probability that there is ever a false
    one is at most ``alpha``. The name and the size of a change are estimates.

    Args:
        reference: pictures as they should be: a name, a file or a folder, or data in memory.
        stream: pictures that come after each other: the same, or an iterator of tensors
            (C, H, W) or (n, C, H, W).
        alpha: largest probability of any false alarm.
        size: (height, width) to resize to.
        fill: background value from 0 to 1; None finds it at the borders.
        seed: of everything drawn.
        model: a classifier, as :func:`symmetries.audit` takes it, whose expected loss of accuracy
            is reported: from its scores on the reference under every change. Labels of the
            reference count as right; if there are none, the model's own answers.
        normalize: of the model's inputs, "imagenet" or "0.5/0.25".
        channels: "bgr" if the model wants blue first.
        trust: load a model's file that can run code.

    Example:
        >>> from symmetries import load
        >>> digits = load("digits").images
        >>> found = watch(digits[:300], iter(0.75 * digits[300:500]))
        >>> found.alarm, found.name
        (True, 'value')
    """
    call = Call("watch", reference=reference, stream=stream, alpha=alpha, seed=seed)
    images = read_reference(reference, size=size)
    parts = batches(stream, size, shape_of(images))
    watched: tuple[Any, ...] = ()
    if model is not None:
        loaded, labels = load_watched(model, images, trust, normalize, channels)
        watched = (loaded.call, labels)
    watcher = Watcher.fit(images.images, alpha, seed, fill, *watched)
    for part in parts:
        watcher.update(part)
    info = call.info(seed, torch.device("cpu"))
    return describe(watcher, data_summary(images), lambda: info)


def read_reference(
    reference: Readable,
    **reading: Any,  # noqa: ANN401 - of read_images
) -> ImageSet:
    """The pictures of a reference, checked; a warning where many are copies of others."""
    images = read_images(reference, **reading)
    check_pictures(images)
    check_content(images)
    copies = share_of_copies(images)
    if copies > COPIES:
        text = f"{100 * copies:.0f} % of the reference are copies of other pictures in it: the "
        text += "network has been trained on pictures that the stream is compared with, and other "
        text += "pictures may look changed; remove copies"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return images


def load_watched(
    model: str | Path | Model | Classifier,
    images: ImageSet,
    trust: bool,
    normalize: str | None,
    channels: str | None,
) -> tuple[Loaded, Tensor | None]:
    """A classifier, and the number of the logit that is right for each picture of the reference."""
    loaded = load_classifier(
        model,
        trust,
        "cpu",
        images=images.images[:PROBE],
        labels=images.labels,
        preprocessing=make_preprocessing(normalize, channels),
    )
    if loaded.kind not in CLASSIFIERS:
        raise invalid("model", "a classifier", f"a model of {loaded.kind}", "leave it out")
    return loaded, None if images.labels is None else right_answers(
        loaded, images.labels, images.class_names
    )


def batches(
    stream: Readable | Iterable[Tensor], size: tuple[int, int] | None, shape: Shape
) -> Iterator[Tensor]:
    """The pictures (n, C, H, W) of a stream, a few at a time; stored ones are read at once."""
    if isinstance(stream, Iterator):
        return _drawn(stream)
    return iter(ordered(read_images(stream, size=size), shape).split(AT_ONCE))  # type: ignore[arg-type]


def _drawn(stream: Iterator[Tensor]) -> Iterator[Tensor]:
    for part in stream:
        if not isinstance(part, Tensor):
            raise wrong_type("stream", "tensors (C, H, W) or (n, C, H, W)", part, "convert it")
        pictures = part[None] if part.ndim == 3 else part
        check_images(pictures)
        yield pictures


def describe(watcher: Watcher, reference: DataSummary, info: Info) -> WatchResult:
    """Build the result from the current state of a watcher."""
    found = watcher.finding()
    change = found.change
    parameters = {} if change is None else change.parameters
    loss = None
    if found.loss is not None:
        score: Literal["accuracy", "agreement"] = "accuracy" if reference.classes else "agreement"
        loss = ExpectedLoss(score=score, **asdict(found.loss))
    result = WatchResult(
        reference=reference,
        pictures=found.number,
        alarm=found.alarm,
        alpha=watcher.test.alpha,
        evidence=found.evidence,
        limit=watcher.test.limit / math.log(10),
        since=found.since,
        name=None if change is None else change.name,
        parameters=tuple(
            ChangedParameter(name=name, amount=value, low=low, high=high, unit=unit)
            for name, (value, low, high, unit) in parameters.items()
        ),
        explained=None if change is None else change.explained,
        loss=loss,
        trace=tuple(watcher.trace),
        run=info(),
    )
    frames = [to_bytes(for_display(part)) for part in (watcher.shown, watcher.arrived)]
    return result.attach(WatchPictures(*frames))


def sentence(result: WatchResult) -> str:
    """What was found, in a sentence."""
    seen = f"{result.pictures:,} pictures"
    if not result.pictures:
        return "no pictures have come yet"
    if not result.alarm:
        return f"no change in {seen} (evidence 10^{result.evidence:.1f} of 10^{result.limit:.1f})"
    sizes = ", ".join(f"{p.name} {_size(p)} {p.unit}" for p in result.parameters)
    what = f"{result.name}: {sizes}" if sizes else str(result.name)
    rough = "".join(_roughly(part) for part in result.parameters)
    return f"changed after {result.since:,} of {seen}: {what}{rough}{_cost(result)}"


def _cost(result: WatchResult) -> str:
    """What a change is expected to cost, in words; nothing where that is not known."""
    if result.loss is None:
        return ""
    loss = result.loss
    ends = f"at least {loss.low:.1f}"
    if loss.high is not None:
        ends = f"{loss.points:.1f} [{loss.low:.1f}, {loss.high:.1f}]"
    return f"; expected loss of {loss.score} {ends} points"


def _size(part: ChangedParameter) -> str:
    """An amount with its interval, or the limit that is known of it."""
    if part.low is not None and part.high is not None:
        return f"{part.amount:.3g} [{part.low:.3g}, {part.high:.3g}]"
    if part.low is None and part.high is None:
        return "of unknown size, in"
    return f"at least {part.low:.3g}" if part.high is None else f"at most {part.high:.3g}"


def _roughly(part: ChangedParameter) -> str:
    """How well an amount is known, where that is less than most reports need."""
    if part.low is None or part.high is None:
        return ""
    half = max(part.high - part.amount, part.amount - part.low)
    if half <= ROUGH.get(part.unit, math.inf):
        return ""
    return f"; {part.name} is known to +-{half:.2g} {part.unit} only"


def prometheus(result: WatchResult) -> str:
    """The result as a text file for Prometheus' node exporter."""
    lines = [
        f"symmetries_watch_pictures {result.pictures}",
        f"symmetries_watch_alarm {int(result.alarm)}",
        f"symmetries_watch_evidence_log10 {result.evidence:.6g}",
    ]
    for part in result.parameters:
        if part.low is None or part.high is None:
            continue  # a limit is no amount
        labels = f'{{change="{result.name}",parameter="{part.name}",unit="{part.unit}"}}'
        lines.append(f"symmetries_watch_amount{labels} {part.amount:.6g}")
    if result.loss is not None and result.loss.high is not None:
        lines.append(f"symmetries_watch_expected_loss_points {result.loss.points:.6g}")
    return "\n".join(lines) + "\n"
