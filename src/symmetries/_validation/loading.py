"""Data as users have it: all batches of a ``DataLoader`` as one, and arrays as tensors."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from symmetries._validation.checks import invalid


def gather_batches(loader: "DataLoader[Any]") -> tuple[Tensor, Tensor | None]:
    """Inputs (N, ...) and labels (N,) of a loader, in its order; None where it has no labels.

    Args:
        loader: its batches are inputs, or begin with inputs and labels.

    Example:
        >>> rows = list(zip(torch.rand(5, 2), range(5)))
        >>> x, y = gather_batches(DataLoader(rows, batch_size=2))
        >>> x.shape, y.tolist()
        (torch.Size([5, 2]), [0, 1, 2, 3, 4])
    """
    inputs, labels = [], []
    for batch in loader:
        pair = isinstance(batch, tuple | list)
        inputs.append(torch.as_tensor(batch[0] if pair else batch))
        if pair and len(batch) > 1:
            labels.append(torch.as_tensor(batch[1]))
    if not inputs:
        raise invalid("data", "at least one batch", "an empty loader", "check the data set")
    return torch.cat(inputs), torch.cat(labels) if labels else None


def label_tensor(values: NDArray[Any], name: str = "y") -> Tensor:
    """Return an array of labels as a tensor, whole numbers as int64.

    Example:
        >>> label_tensor(np.array([2, 0], np.uint8))
        tensor([2, 0])
    """
    kind = values.dtype.kind
    if kind in "iub":
        return torch.tensor(np.ascontiguousarray(values, np.int64))
    if kind in "fc":
        return torch.tensor(native(values))  # what is said of such tensors suits it
    got = "text" if kind in "US" else f"an array of {values.dtype.name}"
    raise invalid(name, "class numbers", got, "use np.unique(labels, return_inverse=True)[1]")


def native(values: NDArray[Any]) -> NDArray[Any]:
    """Convert an array to C order and this machine's byte order, which torch needs."""
    longest = {"g": np.dtype(np.float64), "G": np.dtype(np.complex128)}  # torch has no longer ones
    dtype = longest.get(values.dtype.char, values.dtype.newbyteorder("="))
    return np.ascontiguousarray(values, dtype)
