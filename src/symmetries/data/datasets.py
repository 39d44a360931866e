"""Image sets from torch data sets, and the digits that scikit-learn brings along."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import Dataset, IterableDataset

from symmetries._validation.checks import check_choice, invalid, wrong_type
from symmetries.data.arrays import from_array
from symmetries.data.base import ImageSet
from symmetries.data.derived import Draws
from symmetries.data.labels import of_items
from symmetries.data.pictures import over_white


def from_dataset(dataset: "Dataset[Any]", name: str = "dataset") -> ImageSet:
    """Read all items of a torch data set, each an image or a pair (image, label).

    Args:
        dataset: data set whose images are tensors or arrays (C, H, W), (H, W, C) or (H, W), or PIL
            images, all of one size; labels, if any, are integers or names.
        name: name of the set in results and messages.
    """
    items: Iterable[Any]
    if isinstance(dataset, IterableDataset):
        items = dataset
    elif isinstance(dataset, Mapping) or not hasattr(dataset, "__getitem__"):
        raise wrong_type("dataset", "a torch Dataset", dataset, "give a data set with __getitem__")
    else:
        items = (dataset[i] for i in range(len(dataset)))  # type: ignore[arg-type]
    images: list[NDArray[Any]] = []
    labels: list[object] = []
    for item in items:
        if isinstance(item, Mapping):
            keys = ", ".join(repr(key) for key in item)
            remedy = "give a data set that returns (item[...], item[...])"
            raise invalid("dataset", "images or pairs (image, label)", f"dicts of {keys}", remedy)
        pair = isinstance(item, tuple | list)
        image = item[0] if pair else item
        images.append(np.asarray(_full(image)))
        if pair and len(item) > 1:
            labels.append(item[1])
        if images[-1].shape != images[0].shape:
            got = f"shapes {images[0].shape} and {images[-1].shape}"
            raise invalid("dataset", "images of one shape", got, "resize them in its transform")
    if not images:
        raise invalid("dataset", "at least one item", "an empty set", "check the data set")
    if labels and len(labels) != len(images):
        got = f"{len(labels)} labels for {len(images)} images"
        remedy = "return pairs for all items"
        raise invalid("dataset", "a label for all items or for none", got, remedy)
    return from_array(np.stack(images), of_items(labels) if labels else None, name)


def _full(image: Any) -> Any:  # noqa: ANN401 - whatever a data set holds
    """Convert palette images, whose values are indices, to colours; return others unchanged."""
    if isinstance(image, Image.Image) and image.mode == "P":
        return over_white(image).convert("RGB")
    return image


TEST_COUNT = 360


def digits(split: str = "train") -> ImageSet:
    """Load the 1,797 digits of 8 x 8 pixels that ship with scikit-learn, in a fixed split.

    Args:
        split: "train" (1,437 images) or "test" (360).

    Example:
        >>> digits("test").images.shape
        torch.Size([360, 1, 8, 8])
    """
    from sklearn.datasets import load_digits

    check_choice(split, ("train", "test"), "split")
    bunch = load_digits()
    order = Draws(0, "digits/split").permutation(len(bunch.images))
    chosen = order[:TEST_COUNT] if split == "test" else order[TEST_COUNT:]
    images = (bunch.images[chosen] / 16).astype(np.float32)
    return from_array(images, bunch.target[chosen], "digits", tuple("0123456789"))
