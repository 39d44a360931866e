"""How invariant a model of images is, with pictures: what ``symmetries audit`` computes."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from symmetries._utils.config import register_presets
from symmetries._validation.checks import invalid
from symmetries.actions import Action, ImageAction
from symmetries.analysis.audit_drift import drift_points
from symmetries.analysis.audit_pictures import CURVE_EXAMPLES, draw_audit, few_for_curves
from symmetries.analysis.audit_time import expected_time
from symmetries.analysis.audited_data import audited_images, choose_images, with_labels
from symmetries.analysis.classifiers import Classifier
from symmetries.analysis.inputs import Readable, resolve_background
from symmetries.analysis.preprocessing import make_preprocessing
from symmetries.analysis.progress import Over, in_parts, progress_bar, say_to_stderr
from symmetries.analysis.provenance import summary_in_background
from symmetries.analysis.settings import Session
from symmetries.analysis.stored_models import Loaded, load_classifier, unfit
from symmetries.auditing import audit_model
from symmetries.auditing.answers import CLASSIFIERS
from symmetries.auditing.models import PROBE, Model, model_device
from symmetries.auditing.run import Output
from symmetries.data import ImageSet
from symmetries.data.pictures import Fit
from symmetries.groups import Group
from symmetries.groups.names import as_group
from symmetries.groups.ranges import Range, parse_range
from symmetries.results import AuditResult, DataSummary, DriftPoint, Preprocessing

PART = 50  # examples at a time, and in each file of an interrupted run
GPU_PART = 250  # small batches leave a GPU idle
# Images that are looked at closely, and steps of the integrated gradients.
PRESETS = register_presets("audit", {"quick": (200, 20), "default": (500, 50), "paper": (None, 50)})
FAST = 30  # images for resampling alone, if only outputs are measured
OUTPUTS_ONLY = "outputs only: saliency, sensitivity and layers were not requested"


@dataclass(frozen=True)
class Subject:
    """A model, the images that it is measured on, and how they are moved.

    Args:
        model: the model, a function of images in [0, 1].
        images: with the model's own numbers of the classes, if they are labelled.
        action: how they are moved.
        device: of the model.
        summary: of the images, which another thread makes.
        half_width: how far, by parameter in its own unit; None is the group's bounds.
        preprocessing: what is done to images before the model sees them.
        notes: what is to be said about the choice of images.
        fast: whether only outputs are measured.
    """

    model: Loaded
    images: ImageSet
    action: ImageAction
    device: torch.device
    summary: "Future[DataSummary]"
    half_width: tuple[float, ...] | None = None
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    notes: tuple[str, ...] = ()
    fast: bool = False


def audit(
    model: str | Path | Model | Classifier,
    data: Readable,
    group: str | Group[Any] | ImageAction = "c4",
    *,
    range: Range | None = None,
    output: Output = None,
    inputs: str | Mapping[str, Any] | None = None,
    fast: bool = False,
    drift_to: Readable | None = None,
    preset: str | None = None,
    examples: int | None = None,
    normalize: str | None = None,
    channels: str | None = None,
    size: tuple[int, int] | None = None,
    fit: Fit = "stretch",
    fill: float | None = None,
    trust: bool = False,
    seed: int = 0,
    device: str = "auto",
    precision: str = "32-true",
    progress: bool = True,
    **measures: Any,  # noqa: ANN401 - of audit_model
) -> AuditResult:
    """Measure how invariant a model of images is: its outputs, where it looks, its layers.

    :func:`symmetries.auditing.audit_model` takes data of any kind and draws nothing.

    Args:
        model: a callable from images (N, C, H, W) to logits or probabilities, a classifier of
            :mod:`symmetries.estimators`, or the path of a saved one: the model/ of
            ``symmetries fit``, a .pt2 or .onnx file, "module:callable".
        data: images in [0, 1], with labels if there are any (only accuracy needs them): a name
            ("digits"), a file or a folder; or an :class:`~symmetries.data.ImageSet`, a
            ``DataLoader``, or a pair (images, labels). All are used, of named data the test split
            if there is one; if the model was fitted here on the data, those that it has not seen.
        group: a group or its name, or an ``ImageAction``.
        range: how far a continuous group goes, "rotation=10,shift=2px", in degrees, pixels and
            factors; its bounds by default. The result records it.
        output: what the model gives: "logits", "probabilities", "embedding", "map", "boxes",
            "points", "scalar", "vector", "energy", "sequence" or "ctc", "NAME" or "NAME:KIND"
            for one of several outputs, or how it moves; None to find out. See
            :func:`symmetries.auditing.audit_model`.
        inputs: of an ONNX file with several: the others by name, "scale=1,sr=16000" or a mapping.
        fast: measure outputs only.
        drift_to: other images of the same classes; also measure while blending into them.
        preset: how closely to look at saliency, sensitivity and layers: "quick" (200 images, 20
            steps of integration), "default" (500, 50) or "paper" (all, 50); None is "quick" on a
            CPU, "default" on a GPU.
        examples: number of images, spread over the data; all by default.
        normalize: "imagenet", or means and standard deviations such as "0.5/0.25", of what the
            model sees; images are moved before that.
        channels: "bgr" if the model wants blue first; "rgb" or "bgr" give grey images three
            channels.
        size: (height, width) to resize images to.
        fit: how: "stretch", "crop" or "pad".
        fill: background value from 0 to 1; None is the model's own, or found at the borders.
        trust: load TorchScript, which runs code in the file.
        seed: of everything drawn.
        device: "auto" (where a module is), "cpu", "cuda", ...
        precision: that the model computes in: "32-true", "64-true", "bf16-true", "bf16-mixed".
        progress: show a bar, and how long it will take if that is long.
        measures: further arguments of :func:`symmetries.auditing.audit_model`.

    Returns:
        All measures with their uncertainty; ``to_html`` and ``plot`` show the result.
    """
    given = {"model": model, "data": data, "group": group, "range": range, "preset": preset}
    training = {"precision": precision}
    place = _place(model, device)
    run = Session.of_call("audit", {**given, "seed": seed}, seed, place, preset, progress, training)
    images, notes = audited_images(model, data, size=size, fit=fit)
    subject = prepare_audit(
        model,
        images,
        group,
        run,
        range=range,
        output=output,
        inputs=inputs,
        preprocessing=make_preprocessing(normalize, channels, size, fit),
        examples=examples,
        fill=fill,
        trust=trust,
        notes=notes,
        fast=fast,
    )
    if progress:
        text = expected_time(subject, *PRESETS[run.preset])
        if text:
            say_to_stderr(text)
    part = part_size(run.place)
    total = -(-len(subject.images) // part)
    with progress_bar("audit", total=total, quiet=not progress) as advance:
        over = in_parts(part, advance)
        result = measure_invariance(subject, run, over, **measures)
    other = None if drift_to is None else audited_images(model, drift_to, size=size, fit=fit)[0]
    name = str(model) if isinstance(model, str | Path) else type(model).__name__
    return describe_audit(result, subject, run, name, other)


def part_size(device: torch.device) -> int:
    """Return how many examples are measured at a time on a device."""
    return GPU_PART if device.type == "cuda" else PART


def prepare_audit(
    model: str | Path | Model | Classifier,
    images: ImageSet,
    group: str | Group[Any] | ImageAction,
    run: Session,
    *,
    range: Range | None = None,
    output: Output = None,
    inputs: str | Mapping[str, Any] | None = None,
    preprocessing: Preprocessing | None = None,
    examples: int | None,
    fill: float | None,
    trust: bool,
    notes: tuple[str, ...] = (),
    fast: bool = False,
) -> Subject:
    """Load the model and choose the images; raise early if they do not fit each other.

    Arguments are those of :func:`audit`, but ``images`` are read, ``examples`` None is all of them,
    ``notes`` are about their choice, and ``say`` is called with a message if a background is found.
    """
    done = preprocessing or Preprocessing()
    images, more = choose_images(images, examples)
    some = images.images[:PROBE].to(run.place)
    loaded = load_classifier(
        model,
        trust,
        run.place,
        run.precision,
        images=some,
        preprocessing=done,
        labels=images.labels,
        output=output,
        inputs=inputs,
    )
    notes += more + loaded.notes
    images, more = with_labels(images, loaded)
    notes += more
    notes += (
        () if loaded.without_gradients is None else (f"no gradients: {loaded.without_gradients}",)
    )
    if isinstance(group, Action):
        action = group
    else:
        value = resolve_background(images, loaded.fill if fill is None else fill, run.say)
        action = ImageAction(as_group(group), fill=value)
    side = max(images.images.shape[-2:])
    widths = None if range is None else parse_range(action.group, range, side)
    notes += (OUTPUTS_ONLY,) if fast else ()
    summary = summary_in_background(images)
    return Subject(loaded, images, action, run.place, summary, widths, done, notes, fast)


def measure_invariance(
    subject: Subject,
    run: Session,
    over: Over,
    **measures: Any,  # noqa: ANN401
) -> AuditResult:
    """Measure everything that the model supports.

    Args:
        subject: what is measured.
        run: its preset decides the steps of the integrated gradients, and how many images are
            looked at closely.
        over: how to go through the examples.
        measures: further arguments of :func:`symmetries.auditing.audit_model`.
    """
    model, action = subject.model, subject.action
    closely, steps = PRESETS[run.preset]
    options: dict[str, Any] = {
        "steps": steps,
        "closely": FAST if subject.fast else closely,
        "baseline": action.fill,
        "half_width": subject.half_width,
        "layers": None if model.layers and not subject.fast else (),
        "gradients": model.without_gradients is None and not subject.fast,
        "local": not subject.fast,
        "progress": False,
        "output": model.law or model.kind,
    }
    if model.kind in CLASSIFIERS:
        options["output"] = "logits"  # probabilities are logarithms by now
    x, y = subject.images.images, subject.images.labels
    if model_device(model.call, x).type != subject.device.type:  # a function without parameters
        x = x.to(subject.device)
    data = x if y is None else (x, y.to(x.device))
    try:
        found = audit_model(
            model.call, data, action, seed=run.seed, over=over, **(options | measures)
        )
    except AssertionError as error:  # an exported program that takes only so many images
        raise unfit(error, x) from error
    notes = (*subject.notes, *found.notes)
    if not subject.fast and found.closely is not None and found.closely < found.examples:
        seen = f"{found.closely:,} of {found.examples:,} images"
        what = "saliency, sensitivity and " if model.kind in CLASSIFIERS else ""
        notes += (f"{what}resampling alone: measured on {seen}",)
    done = subject.preprocessing
    update = {"notes": notes, "preprocessing": done if str(done) else None, "output": model.kind}
    return found.model_copy(update=update)


def describe_audit(
    result: AuditResult, subject: Subject, run: Session, name: str, other: ImageSet | None = None
) -> AuditResult:
    """Return the result with its data, the measures on the way to other data, and pictures.

    Args:
        result: of :func:`measure_invariance`.
        subject: what was measured.
        run: how it was measured; its preset decides how many images are blended.
        name: of the model.
        other: images to blend into.
    """
    if other is not None and subject.model.kind not in CLASSIFIERS:
        remedy = "leave out drift_to (--drift-to): it blends images of the same classes"
        raise invalid("drift_to", "a classifier", f"a model of {subject.model.kind}", remedy)
    rows: tuple[DriftPoint, ...] = ()
    if other is not None:
        rows = drift_points(subject, other, run.preset, PRESETS[run.preset][1], run.seed)
    update = {"drift": rows, "model": name, "data": subject.summary.result(), "run": run.info()}
    if subject.model.kind not in CLASSIFIERS:
        return result.model_copy(update=update)
    passes = result.examples * (1 + result.elements)
    curves = few_for_curves(subject.action.group, passes) if subject.fast else CURVE_EXAMPLES
    left_out = OUTPUTS_ONLY if subject.fast else subject.model.without_gradients
    pictures = draw_audit(
        subject.model.call,
        subject.images,
        subject.action,
        subject.device,
        run.seed,
        left_out,
        subject.half_width,
        curves,
    )
    return result.model_copy(update=update).attach(pictures)


def _place(model: object, device: str) -> str | torch.device:
    """Return the device as given; "auto" is the device of a module in memory."""
    if device == "auto" and isinstance(model, nn.Module):
        first = next(model.parameters(), None)
        return torch.device("cpu") if first is None else first.device
    return device
