"""What data look like in one line, so that a run does not go on with others."""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from symmetries.training.batches import Data
from symmetries.training.source import as_tensors

MOST = 2**26  # bytes of a tensor that are looked at


def fingerprint(*data: Data, most: int = MOST) -> str | None:
    """Shapes, kinds and a hash of the values of data; None where they cannot be known.

    A ``Dataset`` that makes its items itself may draw them: nothing is known of those.

    Args:
        data: of one run, or of each of several.
        most: bytes of a tensor that are looked at; of a larger one, rows spread evenly.

    Example:
        >>> fingerprint((torch.zeros(5, 1, 8, 8), torch.zeros(5, dtype=torch.int64)))
        '(5, 1, 8, 8) float32, (5,) int64, hash cc0edb0bdc62781c'
        >>> fingerprint((torch.zeros(5, 2),)) == fingerprint((torch.ones(5, 2),))
        False
    """
    parts: dict[tuple[int, ...], Sequence[Tensor]] = {}
    for one in data:
        tensors = as_tensors(one)
        if tensors is None:
            return None
        parts[tuple(id(tensor) for tensor in tensors)] = tensors  # runs may share them
    flat = [tensor for tensors in parts.values() for tensor in tensors]
    digest = hashlib.blake2b(digest_size=8)
    kinds = []
    for tensor in flat:
        kinds.append(f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}")
        digest.update(kinds[-1].encode())
        digest.update(_bytes(tensor, most))
    return f"{', '.join(kinds)}, hash {digest.hexdigest()}"


def _bytes(tensor: Tensor, most: int) -> memoryview:
    """The values of a tensor, or of rows that are spread over it, as they lie in memory."""
    rows = max(1, most * len(tensor) // max(1, tensor.nbytes))
    if rows < len(tensor):
        places = torch.arange(rows, device=tensor.device) * len(tensor) // rows
        tensor = tensor.index_select(0, places)
    plain = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return plain.numpy().data
