"""How invariant a classifier is, with pictures: what ``symmetries audit`` computes."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.checks import invalid
from symmetries.actions import Action, ImageAction
from symmetries.analysis.audit_pictures import draw_audit
from symmetries.analysis.classifiers import Classifier
from symmetries.analysis.inputs import (
    Readable,
    check_labelled,
    read_splits,
    resolve_background,
)
from symmetries.analysis.parts import Over, in_parts
from symmetries.analysis.pictures import spread_indices
from symmetries.analysis.progress import progress_bar
from symmetries.analysis.provenance import Call, data_summary
from symmetries.analysis.settings import choose_device, choose_preset
from symmetries.analysis.stored_models import (
    Loaded,
    check_batches,
    load_classifier,
    unfit,
)
from symmetries.auditing import audit_model, drift_curve, saliency_map
from symmetries.auditing.models import Model, untouched
from symmetries.data import ImageSet, as_image_set, drift
from symmetries.groups import Group
from symmetries.groups.names import as_group
from symmetries.results import AuditResult, DriftPoint, RunInfo

PART = 50  # examples at a time, and in each file of an interrupted run
DRIFT_EXAMPLES = {"quick": 30, "default": 100, "paper": 500}
BETAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# Test images, and steps of the integrated gradients.
PRESETS = {"quick": (200, 20), "default": (500, 50), "paper": (None, 50)}


@dataclass(frozen=True)
class Subject:
    """A classifier, the images that it is measured on, and how they are moved.

    Args:
        model: the classifier.
        images: labelled, with the classifier's own numbers of the classes.
        action: how they are moved.
        device: of the model.
    """

    model: Loaded
    images: ImageSet
    action: ImageAction
    device: torch.device


def audit(
    model: str | Path | Model | Classifier,
    data: Readable,
    group: str | Group[Any] | ImageAction = "c4",
    *,
    drift_to: Readable | None = None,
    preset: str | None = None,
    examples: int | None = None,
    fill: float | None = None,
    trust: bool = False,
    seed: int = 0,
    device: str = "auto",
    precision: str = "32-true",
    progress: bool = True,
    **measures: Any,  # noqa: ANN401 - of audit_model
) -> AuditResult:
    """Measure how invariant a classifier of images is: its outputs, where it looks, its layers.

    :func:`symmetries.auditing.audit_model` takes data of any kind and draws nothing.

    Args:
        model: a callable from images (N, C, H, W) to logits, a classifier of
            :mod:`symmetries.estimators`, or the path of a saved one: the model/ of
            ``symmetries fit``, a .pt2 or .onnx file, "module:callable".
        data: labelled images in [0, 1]: a name ("digits"), a file or a folder, whose test split
            is used; or an :class:`~symmetries.data.ImageSet`, a ``DataLoader``, or a pair
            (images, labels).
        group: a group or its name, or an ``ImageAction``.
        drift_to: other images of the same classes; also measure while blending into them.
        preset: "quick" (200 images, 20 steps of integration), "default" (500, 50) or "paper"
            (all, 50); None is "quick" on a CPU, "default" on a GPU.
        examples: number of images, in place of the preset's.
        fill: background value from 0 to 1; None is the model's own, or found at the borders.
        trust: load TorchScript, which runs code in the file.
        seed: of everything drawn.
        device: "auto" (where a module is), "cpu", "cuda", ...
        precision: that the model computes in: "32-true", "64-true", "bf16-true", "bf16-mixed".
        progress: show a bar.
        measures: further arguments of :func:`symmetries.auditing.audit_model`.

    Returns:
        All measures with their uncertainty; ``to_html`` and ``plot`` show the result.
    """
    call = Call("audit", model=model, data=data, group=group, preset=preset, seed=seed)
    place = _place(model, device)
    chosen = choose_preset(preset, place)
    subject = prepare_audit(
        model,
        audited_images(data),
        group,
        examples=examples or PRESETS[chosen][0],
        fill=fill,
        trust=trust,
        device=place,
        precision=precision,
    )
    total = -(-len(subject.images) // PART)
    with progress_bar("audit", total=total, quiet=not progress) as advance:
        over = in_parts(PART, advance)
        result = measure_invariance(subject, chosen, seed=seed, over=over, **measures)
    other = None if drift_to is None else audited_images(drift_to)
    name = str(model) if isinstance(model, str | Path) else type(model).__name__
    return describe_audit(result, subject, chosen, call.info(seed, place), name, other)


def audited_images(data: Readable) -> ImageSet:
    """The test split of named data; data in memory is taken as it is."""
    return read_splits(data)[1] if isinstance(data, str | Path) else as_image_set(data)


def prepare_audit(
    model: str | Path | Model | Classifier,
    images: ImageSet,
    group: str | Group[Any] | ImageAction,
    *,
    examples: int | None,
    fill: float | None,
    trust: bool,
    device: torch.device,
    precision: str,
    say: Callable[[str], None] | None = None,
) -> Subject:
    """Load the model and choose the images; raise early if they do not fit each other.

    Arguments are those of :func:`audit`, but ``images`` are read, ``examples`` None is all of them,
    and ``say`` is told about a background that was found.
    """
    check_labelled(images)
    images = images.subset(spread_indices(len(images), examples or len(images)))
    some = images.images[:16].to(device)
    loaded = load_classifier(model, trust, device, precision, some)
    if loaded.labels is not None:
        images = with_labels(images, loaded.labels)
    with untouched(loaded.call):
        check_batches(loaded.call, some)
    if isinstance(group, Action):
        return Subject(loaded, images, group, device)
    value = resolve_background(images, loaded.fill if fill is None else fill, say)
    return Subject(loaded, images, ImageAction(as_group(group), fill=value), device)


def with_labels(images: ImageSet, labels: tuple[int, ...]) -> ImageSet:
    """The images whose label is among these, with its position there as their label."""
    known = torch.tensor(labels)
    match = check_labelled(images)[:, None] == known
    kept = match.any(1)
    if int(kept.sum()) < 2:
        remedy = "audit it on data with the classes that it was fitted to"
        raise invalid("data", "images of classes that the model knows", "fewer than 2", remedy)
    if not bool(kept.all()):
        text = f"{int((~kept).sum())} images of classes that the model does not know are left out"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    chosen = images.subset(kept)
    names = chosen.class_names or tuple(str(label) for label in range(chosen.classes))
    return replace(
        chosen,
        labels=match[kept].long().argmax(1),
        class_names=tuple(names[label] for label in labels if label < len(names)),
    )


def measure_invariance(
    subject: Subject,
    preset: str,
    *,
    seed: int,
    over: Over,
    **measures: Any,  # noqa: ANN401
) -> AuditResult:
    """Every measure that the model allows.

    Args:
        subject: what is measured.
        preset: decides the steps of the integrated gradients.
        seed: of everything drawn.
        over: how to go through the examples.
        measures: further arguments of :func:`symmetries.auditing.audit_model`.
    """
    model, action = subject.model, subject.action
    options: dict[str, Any] = {
        "steps": PRESETS[preset][1],
        "baseline": action.fill,
        "layers": None if model.layers else (),
        "gradients": model.without_gradients is None,
        "progress": False,
    }
    inputs, labels = _tensors(subject.images, subject.device)
    try:
        return audit_model(
            model.call, (inputs, labels), action, seed=seed, over=over, **(options | measures)
        )
    except AssertionError as error:  # an exported program that takes only so many images
        raise unfit(error, inputs) from error


def describe_audit(
    result: AuditResult,
    subject: Subject,
    preset: str,
    run: RunInfo,
    name: str,
    other: ImageSet | None = None,
) -> AuditResult:
    """The result with what it was measured on, the way to other data, and pictures.

    Args:
        result: of :func:`measure_invariance`.
        subject: what was measured.
        preset: decides how many images are blended.
        run: how it was measured.
        name: of the model.
        other: images to blend into.
    """
    rows = () if other is None else drift_points(subject, other, preset, run.seed)
    update = {"drift": rows, "model": name, "data": data_summary(subject.images), "run": run}
    pictures = draw_audit(
        subject.model.call,
        subject.images,
        subject.action,
        subject.device,
        run.seed,
        subject.model.without_gradients,
    )
    return result.model_copy(update=update).attach(pictures)


def drift_points(
    subject: Subject, other: ImageSet, preset: str, seed: int
) -> tuple[DriftPoint, ...]:
    """The measures as the images are blended into others of the same classes."""
    few = subject.images.subset(spread_indices(len(subject.images), DRIFT_EXAMPLES[preset]))
    first, labels = _tensors(few, subject.device)
    last, _ = _tensors(drift(few, other, 1.0), subject.device)
    fill = subject.action.fill
    return drift_curve(
        subject.model.call,
        first,
        last,
        labels,
        subject.action,
        betas=BETAS,
        saliency=partial(saliency_map, steps=PRESETS[preset][1], baseline=fill),
        gradients=subject.model.without_gradients is None,
        seed=seed,
    )


def _tensors(images: ImageSet, device: torch.device) -> tuple[Tensor, Tensor]:
    return images.images.to(device), check_labelled(images).to(device)


def _place(model: object, device: str) -> torch.device:
    """The device by its name; for "auto" the one where a module in memory is."""
    if device == "auto" and isinstance(model, nn.Module):
        first = next(model.parameters(), None)
        return torch.device("cpu") if first is None else first.device
    return choose_device(device)
