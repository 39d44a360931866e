"""Choice of the images of an audit: all of them, except those the model was trained on."""

from dataclasses import replace
from pathlib import Path
from typing import Unpack

import torch

from symmetries._validation.checks import invalid
from symmetries.analysis.inputs import Readable, Reading, has_test_split, read_images, read_splits
from symmetries.analysis.pictures import spread_indices
from symmetries.analysis.provenance import data_hash
from symmetries.analysis.stored_models import Loaded, label_numbers
from symmetries.data import ImageSet, as_image_set
from symmetries.estimators import InvariantClassifier, RelaxedClassifier
from symmetries.results import FitResult

HELD_OUT = "the model was fitted here: measured on the fifth of the data that fit holds out"


def audited_images(
    model: object, data: Readable, **reading: Unpack[Reading]
) -> tuple[ImageSet, tuple[str, ...]]:
    """Return the images to audit a model on, and notes about the choice.

    The test split where the data has one; the fifth that ``fit`` holds out where the model was
    fitted here on this data; else all images. Data in memory is taken as it is.

    Args:
        model: as :func:`symmetries.audit` takes it.
        data: by name or path, or in memory.
        reading: arguments of :func:`~symmetries.analysis.inputs.read_images`.
    """
    if not isinstance(data, str | Path):
        size = reading.get("size")
        try:
            images = as_image_set(data, in_place=True)
        except ValueError as error:
            if "values in [0, 1]" not in str(error):
                raise
            remedy = "give images as they were before normalisation, and normalize= (imagenet, or "
            remedy += "mean/std); symmetries.audit_model takes inputs of any values"
            raise ValueError(f"{str(error).partition(';')[0]}; {remedy}") from error
        return (images if size is None else read_images(images, **reading)), ()
    if has_test_split(str(data)):
        return read_images(data, "test", **reading), ("measured on the test split",)
    images = read_images(data, **reading)
    known = _fitted_here(model)
    if not known:
        return images, ()
    train, test = read_splits(data, **reading)
    if isinstance(known, FitResult) and not _same_data(known, train):
        return images, ()
    return test, (f"{HELD_OUT}: {len(test):,} of {len(images):,} images",)


def choose_images(images: ImageSet, examples: int | None) -> tuple[ImageSet, tuple[str, ...]]:
    """Return at most ``examples`` evenly spaced images, and a note if there are fewer."""
    if len(images) < 2:
        raise invalid("data", "at least 2 images", len(images), "give more images")
    if examples is None or examples == len(images):
        return images, ()
    if examples > len(images):
        return images, (f"{examples:,} images were requested, there are {len(images):,}",)
    note = f"measured on {examples:,} of {len(images):,} images, spread evenly over them"
    return images.subset(spread_indices(len(images), examples)), (note,)


def with_labels(images: ImageSet, model: Loaded) -> tuple[ImageSet, tuple[str, ...]]:
    """Return the images of classes that a model knows, labelled by the numbers of its logits."""
    labels = label_numbers(model, images.class_names) if images.labels is not None else None
    if images.labels is None or labels is None or model.labels is None:
        return images, ()
    match = images.labels[:, None] == torch.tensor(labels)
    kept = match.any(1)
    if int(kept.sum()) < 2:
        remedy = "audit it on data with the classes that it was fitted to"
        raise invalid("data", "images of classes that the model knows", "fewer than 2", remedy)
    notes: tuple[str, ...] = ()
    if not bool(kept.all()):
        count = int((~kept).sum())
        notes = (f"{count} images of classes that the model does not know are left out",)
    chosen = images.subset(kept)
    names = chosen.class_names or tuple(str(label) for label in range(chosen.classes))
    renamed = replace(
        chosen,
        labels=match[kept].long().argmax(1),
        class_names=tuple(
            names[number] if 0 <= number < len(names) else str(label)
            for number, label in zip(labels, model.labels, strict=True)
        ),
    )
    return renamed, notes


def _fitted_here(model: object) -> FitResult | bool:
    """Return the result of the fit that made a model; True if it was fitted by an unknown run."""
    if isinstance(model, InvariantClassifier | RelaxedClassifier):
        return True
    if not isinstance(model, str | Path) or not Path(model).expanduser().is_dir():
        return False
    folder = Path(model).expanduser()
    for place in (folder / "metrics.json", folder.parent / "metrics.json"):
        try:
            return FitResult.load(place)
        except (OSError, ValueError):  # moved, or of another version
            continue
    return True


def _same_data(fitted: FitResult, train: ImageSet) -> bool:
    if fitted.data.sha256 == data_hash(train):
        return True
    return (fitted.data.name, fitted.data.count) == (train.name, len(train))
