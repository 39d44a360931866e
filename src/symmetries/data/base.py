"""The image set that every loader returns: images, labels and class names."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from symmetries._validation.checks import (
    as_path,
    check_finite,
    check_floats,
    check_held,
    check_image_shape,
    check_images,
    check_tensors,
    invalid,
    wrong_type,
)
from symmetries._validation.placement import check_together

if TYPE_CHECKING:
    from symmetries.data.convert import Images

FOLDER_VARIABLE = "SYMMETRIES_DATA"
NEARLY = 1e-3  # distance from [0, 1] that rounding and resampling leave
FAR = 10.0  # distance from [0, 1] that noise and standardised images do not reach
LARGE = 2.0  # above the values of noisy images in [0, 1]
MOST_CLASSES = 100_000  # larger labels are identifiers, not classes


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with pixel values in [0, 1], and their labels and names.

    Values are checked here, once, where data enters the library.

    Args:
        images: (N, C, H, W) float32, finite, in [0, 1].
        labels: (N,) int64, not negative, or None.
        name: name of the set in results and messages.
        class_names: one name per class, or None.

    Example:
        >>> import torch
        >>> pictures = ImageSet(torch.rand(5, 1, 8, 8), torch.arange(5), "noise")
        >>> len(pictures.subset([0, 3]))
        2
    """

    images: Tensor
    labels: Tensor | None = None
    name: str = "images"
    class_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_images(self.images, "images")
        if len(self.images) == 0:
            raise invalid("images", "at least one image", "an empty set", "check the loader")
        if self.images.dtype != torch.float32:
            raise invalid("images", "dtype float32", self.images.dtype, "use images.float()")
        check_unit_range(self.images, "images")
        if self.class_names is not None and not isinstance(self.class_names, tuple | list):
            remedy = "give a tuple, or None"
            raise wrong_type("class_names", "a tuple of names", self.class_names, remedy)
        if self.labels is not None:
            _check_labels(self.labels, len(self.images), self.class_names)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def classes(self) -> int:
        """Number of classes: of the class names if given, else the largest label + 1."""
        if self.class_names is not None:
            return len(self.class_names)
        return 0 if self.labels is None else int(self.labels.max()) + 1

    def subset(self, indices: Tensor | Sequence[int]) -> "ImageSet":
        """Return the images at ``indices`` (integers, or a boolean mask over the set), in order."""
        chosen = torch.as_tensor(indices)
        if chosen.dtype == torch.bool:
            if chosen.shape != (len(self),):
                got = f"a mask of shape {tuple(chosen.shape)}"
                remedy = "give one value per image"
                raise invalid("indices", f"a mask of shape ({len(self)},)", got, remedy)
            chosen = chosen.nonzero()[:, 0]
        if chosen.ndim != 1 or chosen.is_floating_point():
            got = f"{chosen.dtype} of shape {tuple(chosen.shape)}"
            raise invalid("indices", "one list of integers", got, "give positions in the set")
        if len(chosen) == 0:
            raise invalid("indices", "at least one", "none", "select at least one image")
        low, high = int(chosen.min()), int(chosen.max())
        if low < -len(self) or high >= len(self):
            expected = f"positions below {len(self)}"
            raise invalid("indices", expected, f"{low} to {high}", "choose positions in the set")
        labels = None if self.labels is None else self.labels[chosen]
        return ImageSet(self.images[chosen], labels, self.name, self.class_names)


def check_unit_range(images: Tensor, name: str, slack: float = 0.0) -> None:
    """Raise an error unless values are finite and within ``slack`` of the interval [0, 1]."""
    check_held(images, name)
    low, high = (float(end) for end in torch.aminmax(images))  # NaN if any value is NaN
    if low >= -slack and high <= 1 + slack:
        return
    check_finite(images, name)
    remedy = "divide by 255, or by the largest value that they can have"
    if low < -slack:
        remedy = (
            f"undo the normalisation, or ({name} - {name}.min()) / ({name}.max() - {name}.min())"
        )
    if -1 <= low < 0 and high <= 1:
        remedy = f"map them there, for example ({name} + 1) / 2"
    raise invalid(name, "values in [0, 1]", f"values in [{low:g}, {high:g}]", remedy)


def image_set(data: "Images") -> ImageSet:
    """Return images of any form as a set, as in :func:`symmetries.data.as_image_set`."""
    from symmetries.data.convert import as_image_set

    return as_image_set(data)


def _check_labels(labels: Tensor, count: int, class_names: tuple[str, ...] | None) -> None:
    check_tensors(labels=labels)
    if labels.dtype != torch.int64:
        raise invalid("labels", "dtype int64", labels.dtype, "use labels.long()")
    if labels.shape != (count,):
        got = f"shape {tuple(labels.shape)}"
        raise invalid("labels", f"shape ({count},)", got, "give one label per image")
    check_held(labels, "labels")
    low, high = int(labels.min()), int(labels.max())
    if low < 0:
        raise invalid("labels", "class numbers from 0", f"a label {low}", "count classes from 0")
    if high >= MOST_CLASSES:
        remedy = "number the classes: np.unique(labels, return_inverse=True)[1]"
        raise invalid("labels", f"class numbers below {MOST_CLASSES:,}", f"a label {high}", remedy)
    if class_names is not None and high >= len(class_names):
        expected = f"labels below {len(class_names)}, the number of class names"
        raise invalid("labels", expected, f"a label {high}", "give a name for every class")


def as_array(values: object, name: str) -> NDArray[Any]:
    """Return the NumPy array of a tensor, an array, or nested lists of equal lengths.

    Example:
        >>> as_array([[1, 2], [3]], "images")
        Traceback (most recent call last):
        ValueError: images: expected an array, got a list with parts of unequal shapes; give all \
parts the same shape
    """
    if isinstance(values, Tensor):
        check_held(values, name)
        return values.detach().cpu().numpy()
    try:
        return np.asarray(values)
    except ValueError as error:
        got = f"a {type(values).__name__} with parts of unequal shapes"
        raise invalid(name, "an array", got, "give all parts the same shape") from error


def standardise(images: Tensor, reference: Tensor) -> Tensor:
    """Return (images - m) / s, with mean m and standard deviation s over all reference pixels.

    Args:
        images: (N, C, H, W).
        reference: the training images, (M, C, H, W).

    Example:
        >>> import torch
        >>> train = torch.rand(20, 1, 8, 8)
        >>> abs(standardise(train, train).mean().item()) < 1e-5
        True
    """
    check_floats(reference, "reference", "...")
    check_floats(images, "images", "...")
    check_together(reference=reference, images=images)
    check_held(reference, "reference")
    deviation, mean = torch.std_mean(reference)
    if float(deviation) == 0:
        raise invalid("reference", "more than one pixel value", "a constant", "give other images")
    return (images - mean) / deviation


def data_folder(folder: str | Path | None = None) -> Path:
    """Return the data folder: the argument, else $SYMMETRIES_DATA, else the user's cache."""
    if folder is not None:
        chosen = as_path(folder, "folder").expanduser()
        if not chosen.is_dir():
            got = f"{str(folder)!r}, which is not a folder"
            raise invalid("folder", "a folder of data files", got, "give the folder, not a file")
        return chosen
    variable = os.environ.get(FOLDER_VARIABLE)
    if variable:
        chosen = Path(variable).expanduser()
        if not chosen.is_dir():
            got = f"{variable!r}, which is not a folder"
            raise invalid(FOLDER_VARIABLE, "a folder of data files", got, "correct the variable")
        return chosen
    return cache_folder()


def cache_folder() -> Path:
    """Return the folder of downloads, used if no folder is given."""
    import pooch

    return Path(pooch.os_cache("symmetries"))


def missing(name: str, places: Sequence[Path], remedy: str) -> FileNotFoundError:
    """Build the error for a missing data file, to be raised by the caller."""
    looked = ", ".join(str(place) for place in places)
    return FileNotFoundError(str(invalid(name, "its data files", f"none in {looked}", remedy)))


def images_to_learn(images: "Images", shape: Sequence[int], name: str = "images") -> Tensor:
    """Return images (N, C, H, W) of any form, checked: of shape (C, H, W), at least one, finite.

    Args:
        images: a tensor, an array, a set or a ``DataLoader``, as in
            :func:`symmetries.data.as_images`.
        shape: (C, H, W).
        name: of the argument, for errors.
    """
    from symmetries.data.convert import as_images

    data = as_images(images, name)
    check_image_shape(data, shape, name)
    if len(data) == 0:
        raise invalid(name, "at least one image", "none", "check the loader")
    check_finite(data, name)
    return data


def warn_if_large(images: Tensor) -> Tensor:
    """Return the images; warn if they look like bytes, for models that take any numbers."""
    low, high = (float(end) for end in torch.aminmax(images))
    if low >= 0 and high > LARGE:
        text = f"images: values in [{low:g}, {high:g}], but models expect values near [0, 1]"
        warnings.warn(f"{text}; divide by 255 if these are bytes", RuntimeWarning, stacklevel=3)
    return images
