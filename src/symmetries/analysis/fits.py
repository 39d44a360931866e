"""A classifier that learns how invariant its task is: what ``symmetries fit`` computes."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from symmetries.analysis.classifiers import (
    Classifier,
    check_method,
    default_group,
    train_classifier,
)
from symmetries.analysis.fit_pictures import draw_invariant, draw_relaxed
from symmetries.analysis.inputs import (
    Readable,
    check_content,
    check_labelled,
    read_images,
    read_splits,
    resolve_background,
)
from symmetries.analysis.provenance import data_summary
from symmetries.analysis.settings import Session
from symmetries.auditing.estimate import wilson_interval
from symmetries.data import ImageSet
from symmetries.estimators import InvariantClassifier, RelaxedClassifier
from symmetries.groups import Group
from symmetries.results import EvidenceCurve, FitResult, LayerRelaxation, RunInfo, WidthCurve


def fit(
    data: Readable,
    group: str | Group[Any] | None = None,
    *,
    method: str = "invariant",
    test: Readable | None = None,
    half_width: float | None = None,
    network: str | nn.Module | None = None,
    preset: str | None = None,
    fill: float | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: bool = True,
    **training: Any,  # noqa: ANN401 - of the classifier's fit
) -> FitResult:
    """Train a classifier that learns from the training set alone how invariant it should be.

    Args:
        data: labelled images: a name ("digits"), a file or a folder; or an
            :class:`~symmetries.data.ImageSet`, a ``DataLoader``, or a pair (images, labels).
        group: of the transformations, or its name; None is "rotation", or "c4" for "relaxed".
        method: "invariant" learns how far each transformation may go; "plain" has none;
            "augmented" is trained on moved images; "relaxed" is a convolutional network whose
            layers learn how equivariant to be.
        test: images to measure on; None is the test split of the data, or a fifth of it.
        half_width: for "augmented", a share of each range, 0 to 1; None is 1.
        network: a network from images to logits that is averaged over transformations, or its name:
            "cnn", "resnet", or a model of torchvision or timm. None is a shallow network with
            random features.
        preset: "quick", "default" or "paper"; None is "quick" on a CPU, "default" on a GPU.
        fill: background value from 0 to 1; None looks for it at the borders.
        seed: random seed.
        device: "auto", "cpu", "cuda", ...
        progress: show bars.
        training: ``out``, ``resume``, ``precision``, ``devices`` and ``nodes``.

    Returns:
        Test accuracy, evidence and half-widths; ``fitted`` is the classifier, ``to_html`` and
        ``plot`` show the result. The warnings are issued as Python's, too.
    """
    check_method(method, half_width, network)
    chosen = group or default_group(method)
    said = network_name(network)
    named = {"half_width": half_width, "network": said, "seed": seed}
    given = {"data": data, "group": chosen, "method": method, **named}
    run = Session.of_call("fit", given, seed, device, preset, progress, training)
    found = read_and_train(data, method, chosen, run, fill, half_width, network, test)
    result = describe_classifier(*found, method, run.place, run.info())
    for text in result.warnings:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return result


def read_and_train(
    data: Readable,
    method: str,
    group: str | Group[Any],
    run: Session,
    fill: float | None = None,
    half_width: float | None = None,
    network: str | nn.Module | None = None,
    test: Readable | None = None,
) -> tuple[ImageSet, ImageSet, Classifier, Classifier | None]:
    """Return training images, test images, a fitted classifier, and a plain one beside a network.

    Arguments are those of :func:`fit`; ``say`` is called with a message if a background was found,
    and ``reading`` says how data is read.
    """
    if test is None:
        seen, held_out = read_splits(data, **run.reading)
    else:
        seen = read_images(data, **run.reading)
        held_out = read_images(test, "test", **run.reading)
    check_labelled(seen)
    check_labelled(held_out)
    check_content(seen)
    value = resolve_background(seen, fill, run.say)
    fitted = train_classifier(seen, method, group, run, value, half_width, network)
    plain = None
    if network is not None and method != "plain":
        out = run.training.get("out")
        beside = replace(run, training={**run.training, "out": out and Path(out) / "plain"})
        plain = train_classifier(seen, "plain", group, beside, value, None, network)
    return seen, held_out, fitted, plain


def describe_classifier(
    seen: ImageSet,
    test: ImageSet,
    classifier: Classifier,
    plain: Classifier | None,
    method: str,
    place: torch.device,
    run: RunInfo,
) -> FitResult:
    """Return the numbers and the pictures of a fitted classifier.

    Args:
        seen: the images that it was trained on.
        test: labelled images to measure on.
        classifier: fitted.
        plain: the same network without transformations, to be measured beside it.
        method: how it was trained.
        place: the device for the pictures.
        run: how it was trained.
    """
    labels = np.asarray(test.labels)
    p = classifier.predict_proba(test.images.numpy())
    right = float((classifier.classes_[p.argmax(1)] == labels).mean())
    place_of = np.searchsorted(classifier.classes_, labels).clip(max=p.shape[1] - 1)
    known = classifier.classes_[place_of] == labels
    likely = np.where(known, p[np.arange(len(p)), place_of], 0.0)
    invariant = classifier if isinstance(classifier, InvariantClassifier) else None
    beside = None if plain is None else float(plain.score(test.images.numpy(), labels))
    interval = wilson_interval(right, len(test))
    result = FitResult(
        warnings=no_better_than_guessing(interval[0], labels),
        method=method,  # type: ignore[arg-type]  # checked before
        group=str(classifier.group),
        data=data_summary(seen),
        examples=len(test),
        accuracy=right,
        accuracy_interval=interval,
        elbo=invariant and invariant.elbo_,
        log_likelihood=float(np.log(likely.clip(min=1e-12)).mean()),
        invariance=tuple(invariant.invariance_) if invariant else (),
        relaxation=() if invariant else relaxations(classifier),
        training=width_curve(invariant) if invariant else relaxation_curve(classifier),
        network=invariant and network_name(invariant.network),
        plain_accuracy=beside,
        evidence=evidence_curves(invariant) if invariant else (),
        run=run,
    )
    if invariant:
        return result.attach(draw_invariant(invariant, test, place), classifier)
    return result.attach(draw_relaxed(classifier.model_, classifier.image_size_[1:]), classifier)


def no_better_than_guessing(low: float, labels: NDArray[Any]) -> tuple[str, ...]:
    """Return a warning if the same answer for all images may be right as often as the classifier.

    Args:
        low: lower end of the interval of the classifier's accuracy.
        labels: (N,) of the images that it was measured on.

    Example:
        >>> no_better_than_guessing(0.8, np.array([0, 1, 1]))
        ()
    """
    most = float(np.unique_counts(labels).counts.max()) / len(labels)
    if low > most:
        return ()
    guess = f"{100 * most:.1f} %"
    return (
        f"the accuracy is not clearly better than that of one answer for all images, {guess}: "
        "widths that are learned from such labels mean little",
    )


def network_name(network: object) -> str | None:
    """Return the name of a network, or its class; None if there is none."""
    return network if network is None or isinstance(network, str) else type(network).__name__


def evidence_curves(classifier: InvariantClassifier) -> tuple[EvidenceCurve, ...]:
    """The evidence along each half-width, of a classifier with a network that searched them."""
    if classifier.network is None:
        return ()
    side, found = max(classifier.image_size_[1:]), []
    parameters = {part.name: part for part in classifier.model_.group.parameters}
    for profile in classifier.model_.profiles:
        shown = [parameters[profile.name].display(width, side) for width in profile.widths]
        widths = tuple(value for value, _ in shown)
        known = {"name": profile.name, "unit": shown[0][1], "half_width": widths}
        found.append(EvidenceCurve(**known, log_evidence=tuple(profile.values)))
    return tuple(found)


def relaxations(classifier: RelaxedClassifier) -> tuple[LayerRelaxation, ...]:
    """Return how far each layer gave up its equivariance."""
    names = LayerRelaxation.model_fields
    return tuple(
        LayerRelaxation(**{name: row[name] for name in names}) for row in classifier.relaxation_
    )


def relaxation_curve(classifier: RelaxedClassifier) -> WidthCurve:
    """Return relaxations and the loss during training."""
    seen: dict[str, Any] = classifier.history_
    names = [f"{row['layer']} {row['coordinate']}" for row in classifier.relaxation_]
    return WidthCurve(
        step=tuple(seen["step"]),
        half_width={},
        relaxation={name: tuple(seen[name]) for name in names if name in seen},
        loss=tuple(seen["loss"]),
    )


def width_curve(classifier: InvariantClassifier) -> WidthCurve:
    """Return half-widths during training."""
    side = max(classifier.image_size_[1:])
    looks = classifier.history_
    parameters = classifier.model_.group.parameters
    return WidthCurve(
        step=tuple(round(look[0]) for look in looks),
        half_width={
            parameter.name: tuple(parameter.display(look[1 + i], side)[0] for look in looks)
            for i, parameter in enumerate(parameters)
        },
    )
