"""Images as users have them: tensors, arrays, image sets, data loaders, pairs with labels."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from symmetries._validation.checks import invalid, wrong_type
from symmetries._validation.loading import gather_batches, label_tensor
from symmetries.data.arrays import from_array
from symmetries.data.base import ImageSet, as_array
from symmetries.data.datasets import from_dataset

Images = (
    Tensor | NDArray[Any] | ImageSet | DataLoader[Any] | Dataset[Any] | tuple[Any, Any] | list[Any]
)
FORMS = "a tensor or array (N, C, H, W), an ImageSet, a DataLoader, or a pair (images, labels)"


def as_image_set(data: Images, name: str = "images", *, in_place: bool = False) -> ImageSet:
    """Return images of any form as an :class:`ImageSet`, with labels where the form has them.

    Args:
        data: an :class:`ImageSet`; a tensor or array of bytes, or of floats in [0, 1], as
            :func:`from_array` takes it; a pair (images, labels) of those; a ``DataLoader`` whose
            batches are images or pairs; a torch ``Dataset``.
        name: what to call the set.
        in_place: leave a float32 tensor (N, C, H, W) as it is, on its device; else it is copied.

    Example:
        >>> batches = DataLoader(list(zip(torch.rand(6, 1, 8, 8), range(6))), batch_size=4)
        >>> len(as_image_set(batches)), as_image_set((np.zeros((2, 9, 9)), [0, 1])).classes
        (6, 2)
    """
    if isinstance(data, ImageSet):
        return data
    if isinstance(data, DataLoader):
        data = gather_batches(data)
    elif isinstance(data, Dataset):
        return from_dataset(data, name)
    if isinstance(data, tuple | list) and len(data) == 2 and np.ndim(data[0]) > 2:
        images, labels = data
        truth = None if labels is None else as_array(labels, "labels")
        return from_array(images, truth, name, in_place=in_place)
    if not isinstance(data, Tensor | np.ndarray):
        raise wrong_type("data", FORMS, data, "try symmetries.data.from_array")
    return from_array(data, None, name, in_place=in_place)


def as_images(data: Images, name: str = "images") -> Tensor:
    """Return the images (N, C, H, W) of any form as a tensor, values as they are.

    Args:
        data: as in :func:`as_image_set`, but of any values; arrays of floats become float32.
        name: of the argument, for errors.

    Example:
        >>> as_images(np.zeros((2, 1, 8, 8))).dtype
        torch.float32
    """
    return _parts(data, name)[0]  # labels may be anything


def images_and_labels(data: Images, name: str = "images") -> tuple[Tensor, Tensor | None]:
    """Return images (N, C, H, W) and labels of any form as tensors; None where there are no labels.

    Args:
        data: as in :func:`as_images`; labels may also be values (N, K).
        name: of the argument, for errors.

    Example:
        >>> images_and_labels((np.zeros((2, 1, 8, 8)), [1, 0]))[1]
        tensor([1, 0])
    """
    images, labels = _parts(data, name)
    if labels is not None and not isinstance(labels, Tensor):
        labels = label_tensor(as_array(labels, "labels"), "labels")
        labels = labels.float() if labels.is_floating_point() else labels
    return images, labels


def _parts(data: Images, name: str) -> tuple[Tensor, Any]:
    """Return images as a tensor, and labels as they are given."""
    if isinstance(data, ImageSet):
        return data.images, data.labels
    if isinstance(data, DataLoader):
        data = gather_batches(data)
    elif isinstance(data, Dataset):
        found = from_dataset(data)
        return found.images, found.labels
    labels: Any = None
    if isinstance(data, tuple | list) and len(data) == 2 and np.ndim(data[0]) > 2:
        data, labels = data
    if isinstance(data, Tensor):
        return data, labels
    if not isinstance(data, np.ndarray):
        raise wrong_type(name, FORMS, data, "try torch.as_tensor")
    if data.dtype.kind != "f":
        remedy = f"use {name}.astype('float32') / 255 if they are bytes"
        raise invalid(name, "floats", data.dtype, remedy)
    return torch.as_tensor(np.ascontiguousarray(data, np.float32)), labels
