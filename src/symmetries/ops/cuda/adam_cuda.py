"""Adam for all tensors of a model, with the clipping of their gradients: two kernels a group.

Torch's fused optimisers give each multiprocessor 64 Ki numbers at a time, so a model of a few
millions leaves most of a GPU idle; and its clipping is ten more kernels and two more passes over
the gradients. The kernels are in ``adam.cu``; addresses reach them by value.
"""

import ctypes
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from symmetries.ops.cuda.compiler import cuda_kernel

TENSORS = 80  # places in a table: the arguments of a kernel may be 4 KB
_PIECE = 2048  # numbers of a block
_THREADS = 256


_POINTERS = ("weight", "grad", "mean", "square", "steps")


class _Table(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p * TENSORS) for name in _POINTERS),
        ("size", ctypes.c_int * TENSORS),
        ("first", ctypes.c_int * (TENSORS + 1)),
    ]


class _Constants(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_double) for name in ("log1", "log2")),
        *((name, ctypes.c_float) for name in ("largest", "decay", "epsilon")),
        *((name, ctypes.c_float) for name in ("rest1", "beta2", "rest2")),
    ]


def _table(*tensors: Sequence[Tensor]) -> tuple[_Table, int]:
    """Addresses of what belongs to each weight, and the number of blocks that they need."""
    table, blocks = _Table(), 0
    for i, each in enumerate(zip(*tensors, strict=True)):
        for name, tensor in zip(_POINTERS, each, strict=True):
            getattr(table, name)[i] = tensor.data_ptr()
        table.size[i], table.first[i] = each[0].numel(), blocks
        blocks += -(-each[0].numel() // _PIECE)
    table.first[len(tensors[0])] = blocks
    return table, blocks


def _chunks(*tensors: Sequence[Tensor]) -> list[tuple[Sequence[Tensor], ...]]:
    """At most as many tensors at a time as fit in a table."""
    starts = range(0, len(tensors[0]), TENSORS)
    return [tuple(each[i : i + TENSORS] for each in tensors) for i in starts]


def sum_squares(grads: Sequence[Tensor]) -> Tensor:
    """Sums (pieces,) of the squares of gradients."""
    parts, device = [], grads[0].device.index or 0
    for (some,) in _chunks(grads):
        table, blocks = _table(some, some, some, some, some)
        sums = torch.empty(blocks, device=some[0].device)
        constants = (("TENSORS", TENSORS), ("CLIP", 0), ("DECOUPLED", 0))
        kernel = cuda_kernel("adam.cu", "adam_squares", constants, 0, device)
        kernel((blocks, 1), _THREADS, table, sums, len(some))
        parts.append(sums)
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def move(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    means: Sequence[Tensor],
    squares: Sequence[Tensor],
    steps: Sequence[Tensor],
    *,
    sums: Tensor | None,
    lr: Tensor,
    largest: float,
    decay: float,
    epsilon: float,
    betas: tuple[float, float],
    decoupled: bool,
) -> None:
    """One step of Adam.

    Args:
        weights: float32, contiguous, like all of them; changed.
        grads: gradients.
        means: their running means; changed.
        squares: running means of their squares; changed.
        steps: how many each had, with this one; tensors without axes.
        sums: see :func:`sum_squares`; gradients are scaled down to the norm ``largest``. None
            leaves them as they are.
        lr: the rate, a tensor without axes.
        largest: norm of all gradients together.
        decay: of the weights.
        epsilon: beside the root.
        betas: shares of the old averages.
        decoupled: decay apart from the gradient (AdamW).
    """
    device = weights[0].device.index or 0
    logs = (math.log(beta) if beta else -math.inf for beta in betas)
    constants = _Constants(*logs, largest, decay, epsilon, 1 - betas[0], betas[1], 1 - betas[1])
    flags = (("TENSORS", TENSORS), ("CLIP", int(sums is not None)), ("DECOUPLED", int(decoupled)))
    kernel = cuda_kernel("adam.cu", "adam_move", flags, 0, device)
    known = lr if sums is None else sums
    for some in _chunks(weights, grads, means, squares, steps):
        table, blocks = _table(*some)
        pieces = 0 if sums is None else len(sums)
        arguments = (table, known, lr, len(some[0]), pieces, constants)
        kernel((blocks, 1), _THREADS, *arguments)
    torch.autograd.graph.increment_version((*weights, *means, *squares))
