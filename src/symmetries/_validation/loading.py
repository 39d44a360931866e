"""All batches of a torch ``DataLoader`` as one batch."""

from typing import Any

import torch
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
