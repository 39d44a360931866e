"""Conversion of labels, given as integers or class names, to class numbers."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from symmetries._validation.checks import invalid, short
from symmetries.data.base import as_array

Names = tuple[str, ...]


def number_labels(labels: object, names: Names | None = None) -> tuple[Tensor | None, Names | None]:
    """Return class numbers (N,) and the names of the classes.

    Args:
        labels: (N,) or (N, 1) integers, or class names, or None. Class names are numbered in the
            order of ``names``, or in sorted order.
        names: one name per class, or None.

    Example:
        >>> number_labels(np.array(["dog", "cat", "dog"]))
        (tensor([1, 0, 1]), ('cat', 'dog'))
    """
    if labels is None:
        return None, names
    array = as_array(labels, "labels")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind == "U":
        return _places(array, names_in(array) if names is None else names)
    if not np.issubdtype(array.dtype, np.integer):
        remedy = "number the classes from 0, or name them: labels.astype(str); values are for "
        remedy += "InvariantRegressor"
        raise invalid("labels", "integers or text", array.dtype, remedy)
    return torch.from_numpy(array.astype(np.int64)), names


def names_in(*labels: NDArray[Any]) -> Names:
    """Return the distinct names in arrays of strings, sorted."""
    return tuple(sorted({name for part in labels for name in part.flatten().tolist()}))


def _places(labels: NDArray[Any], names: Names) -> tuple[Tensor, Names]:
    place = {name: number for number, name in enumerate(names)}
    unknown = sorted(set(labels.flatten().tolist()) - set(place))
    if unknown:
        expected = f"names among {short(tuple(names))}"
        remedy = "complete class_names, or leave it out"
        raise invalid("labels", expected, short(unknown[0]), remedy)
    return torch.tensor(np.vectorize(place.__getitem__, otypes=[np.int64])(labels)), names


def of_items(labels: Iterable[object]) -> NDArray[Any]:
    """Collect the labels of single items, integers or names, in one array.

    Example:
        >>> of_items([3, torch.tensor(1)]), of_items([0.5])
        Traceback (most recent call last):
        ValueError: labels: expected class numbers or names, got 0.5; return int(label)
    """
    plain = [_plain(label) for label in labels]
    if len({isinstance(label, str) for label in plain}) > 1:
        got = "numbers and names"
        raise invalid("labels", "class numbers or names", got, "return only one of the two")
    return np.array(plain)


def _plain(label: object) -> int | str:
    if isinstance(label, str):
        return str(label)
    expected = "class numbers or names"
    if isinstance(label, Mapping):
        keys = ", ".join(repr(key) for key in label)
        raise invalid("labels", expected, f"a dict of {keys}", "return the entry that is the class")
    array = as_array(label, "labels")
    if array.size != 1 and array.dtype.kind in "buif":
        got, remedy = f"an array of shape {array.shape}", "return the number: label.argmax()"
        raise invalid("labels", expected, got, remedy)
    if array.dtype.kind not in "bui":
        remedy = "return int(label)" if array.dtype.kind == "f" else "return an int or a str"
        raise invalid("labels", expected, short(label), remedy)
    return int(array.item())
