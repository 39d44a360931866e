"""Common base of estimators of images: reading of arrays, and their background."""

import math
from collections.abc import Sequence
from numbers import Integral

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from torch import Tensor

from symmetries._utils.sampling import some_of
from symmetries._validation.checks import as_device, check_number, invalid, short
from symmetries.data.background import LOOKED_AT, background
from symmetries.estimators.arrays import read_rows
from symmetries.estimators.saving import Saved

LEAST_COLOUR_SIDE = 8  # below, a row of numbers is hardly a picture in colour


def image_size(shape: tuple[int, ...], image_shape: tuple[int, ...] | None) -> tuple[int, int, int]:
    """(C, H, W) of the images in an array of this shape (N, ...).

    Example:
        >>> image_size((10, 64), None), image_size((10, 63), None), image_size((10, 5, 7), None)
        ((1, 8, 8), (1, 1, 63), (1, 5, 7))
    """
    for name, sizes in (("X", shape), ("image_shape", () if image_shape is None else image_shape)):
        if not isinstance(sizes, Sequence) or not all(isinstance(n, Integral) for n in sizes):
            raise invalid(name, "a shape: whole numbers", short(sizes), "give array.shape")
    if image_shape is not None and len(image_shape) not in (2, 3):
        raise invalid("image_shape", "(H, W) or (C, H, W)", short(image_shape), "try (8, 8)")
    if len(shape) not in (2, 3, 4):
        got = f"shape {shape}"
        raise invalid("X", "2 to 4 axes", got, "Reshape your data: (N, C, H, W) is general")
    if len(shape) == 4 and shape[3] in (1, 3, 4) and shape[1] > 4:
        remedy = "put them first: X.transpose(0, 3, 1, 2)"
        raise invalid("X", "(N, C, H, W)", f"shape {shape}, channels last", remedy)
    if len(shape) > 2:
        size = (1, *shape[1:]) if len(shape) == 3 else shape[1:]
    elif image_shape is not None:
        size = (1, *image_shape) if len(image_shape) == 2 else tuple(image_shape)
    else:
        side = math.isqrt(shape[1])
        _refuse_colours(shape)
        size = (1, side, side) if side * side == shape[1] else (1, 1, shape[1])
    if len(size) != 3 or math.prod(size) != math.prod(shape[1:]):
        remedy = "give image_shape=(H, W) or (C, H, W)"
        raise invalid("X", f"images of shape {size}", f"shape {shape}", remedy)
    return (size[0], size[1], size[2])


def _refuse_colours(shape: tuple[int, ...]) -> None:
    """Refuse rows (N, 3 s s), which are no square grey images but square ones in colour."""
    side = math.isqrt(shape[1] // 3)
    if side >= LEAST_COLOUR_SIDE and 3 * side * side == shape[1]:
        got = f"shape {shape}: 3 x {side} x {side} pixels"
        remedy = f"give image_shape=(3, {side}, {side}), or X.reshape(-1, 3, {side}, {side})"
        raise invalid("X", "square grey images where they are flattened", got, remedy)


class ImageEstimator(Saved, BaseEstimator):  # type: ignore[misc]
    """An estimator of images; it has arguments ``image_shape``, ``fill`` and ``device``."""

    image_shape: tuple[int, ...] | None
    fill: float | None
    device: str
    image_size_: tuple[int, int, int]
    scale_: float
    fill_: float

    def _images(self, X: ArrayLike, reset: bool) -> Tensor:
        """X (N, ...) as images (N, C, H, W) in double precision; ``reset`` is for ``fit``."""
        device = as_device(self.device)
        given: object = self.fill
        if given is not None:
            check_number(given.item() if isinstance(given, np.number) else given, "fill")
        flat = np.ndim(X) <= 2 if hasattr(X, "ndim") else True
        if not flat:
            image_size(np.shape(X), None)
        options = {} if flat else {"ensure_2d": False, "allow_nd": True}
        array = read_rows(self, X, reset, **options)
        size = image_size(array.shape, self.image_shape)
        if not reset and size != self.image_size_:
            expected = f"images of shape {self.image_size_}, as in fit"
            raise invalid("X", expected, f"shape {array.shape}", "give images of that size")
        if reset:
            self.image_size_ = size
            self.scale_ = float(np.abs(array).max()) or 1.0
            self.fill_ = self._found(array, size) if self.fill is None else float(self.fill)
        # A common factor, no offset: black stays 0.
        images = torch.from_numpy(array.reshape(len(array), *size) / self.scale_)
        return images.to(device)

    def _found(self, array: NDArray[np.float64], size: tuple[int, ...]) -> float:
        """Return the background of images in the units of X."""
        some = array[some_of(torch.arange(len(array)), LOOKED_AT).numpy()]
        return background(torch.tensor(some).reshape(-1, *size), self.scale_)

    def _on_black(self, X: ArrayLike, reset: bool) -> Tensor:
        """Return the images minus their background, so that the background is 0."""
        images = self._images(X, reset)
        return images - self.fill_ / self.scale_ if self.fill_ else images
