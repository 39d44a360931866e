"""One-line fingerprints of data, which prevent a run from resuming with other data."""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from symmetries.training.batches import Data
from symmetries.training.source import as_tensors

MOST = 2**34  # bytes of a tensor that are looked at


def fingerprint(*data: Data, most: int = MOST) -> str | None:
    """Return shapes, dtypes and a hash of the values of data; None if they cannot be known.

    Nothing is known of a ``Dataset`` that produces its own items, because they may be random.

    Args:
        data: data of one run, or of each of several, in order. Runs that share their data have
            the fingerprint of one of them.
        most: largest number of bytes of a tensor that are hashed; larger tensors use evenly spaced
            rows.

    Example:
        >>> fingerprint((torch.zeros(5, 1, 8, 8), torch.zeros(5, dtype=torch.int64)))
        '(5, 1, 8, 8) float32, (5,) int64, hash cc0edb0bdc62781c'
        >>> fingerprint((torch.zeros(5, 2),)) == fingerprint((torch.ones(5, 2),))
        False
        >>> fingerprint((torch.zeros(5, 2),), (torch.ones(5, 2),)).partition(", hash")[0]
        '2 runs: (5, 2) float32'
    """
    runs: list[Sequence[Tensor]] = []  # keeps all tensors alive, so that ids stay unique
    for one in data:
        tensors = as_tensors(one)
        if tensors is None:
            return None
        runs.append(tensors)
    first = runs[0] if runs else ()
    if len({tuple(map(id, tensors)) for tensors in runs}) <= 1:
        return _of_one(first, most)
    distinct = {id(tensor): tensor for tensors in runs for tensor in tensors}
    known = {key: _digest((tensor,), most) for key, tensor in distinct.items()}
    digests = [tuple(known[id(tensor)] for tensor in tensors) for tensors in runs]
    if len(set(digests)) == 1:
        return _of_one(first, most)
    whole = hashlib.blake2b(repr(digests).encode(), digest_size=8).hexdigest()
    kinds = "; ".join(dict.fromkeys(", ".join(map(_kind, tensors)) for tensors in runs))
    return f"{len(runs)} runs: {kinds}, hash {whole}"


def _of_one(tensors: Sequence[Tensor], most: int) -> str:
    return f"{', '.join(map(_kind, tensors))}, hash {_digest(tensors, most)}"


def _digest(tensors: Sequence[Tensor], most: int) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        digest.update(_kind(tensor).encode())
        digest.update(_bytes(tensor, most))
    return digest.hexdigest()


def _kind(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _bytes(tensor: Tensor, most: int) -> memoryview:
    """Return the values of a tensor, or of evenly spaced rows of it, as bytes."""
    rows = max(1, most * len(tensor) // max(1, tensor.nbytes))
    if rows < len(tensor):
        places = torch.arange(rows, device=tensor.device) * len(tensor) // rows
        tensor = tensor.index_select(0, places)
    there = tensor.detach().resolve_conj().resolve_neg()  # materialise lazy views
    plain = there.cpu().contiguous().view(-1).view(torch.uint8)
    return plain.numpy().data
