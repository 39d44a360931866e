"""The later layers of a kernel network, up to its features or to filters, as one step of autograd.

The network is small, and what it costs in training is the number of its operations, not their
size: each is a launch on a GPU and a node of autograd. Here they run in place, and the gradient is
written by hand.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from symmetries.ops._dispatch import enabled, record
from symmetries.ops.kernel_network import filter_bank, unit_relu

MEAN = 1 / math.sqrt(2 * math.pi)  # as in unit_relu
DEVIATION = math.sqrt(0.5 - MEAN**2)


def network_features(z: Tensor, mask: Tensor | None, layers: Sequence[Tensor]) -> Tensor:
    """Return the features phi of a network, with taps outside the support set to zero.

    phi is unit(z), followed by phi <- unit(phi W^T + b) for each later layer, where unit is a relu
    of mean 0 and variance 1.

    Args:
        z: (..., k k, hidden), the sum of the network's projections.
        mask: (k k,), ones inside the support; None for all.
        layers: the weights W (hidden, hidden) of all later layers, then their biases b (hidden,).

    Example:
        >>> z, weight, bias = torch.zeros(9, 4), torch.eye(4), torch.zeros(4)
        >>> network_features(z, None, [weight, bias]).shape
        torch.Size([9, 4])
    """
    if not _can_fuse(z):
        return _plain(z, mask, layers)
    phi: Tensor = _Finish.apply(z, mask, *layers)  # type: ignore[no-untyped-call]
    return phi


def network_filters(
    z: Tensor,
    mask: Tensor | None,
    layers: Sequence[Tensor],
    output: Tensor,
    scale: Tensor | None = None,
) -> Tensor:
    """Return ``filter_bank(network_features(z, mask, layers), output, k)``.

    Args:
        z: (elements out, elements in, k k, hidden), the sum of the network's projections.
        mask: (k k,), ones inside the support; None for all.
        layers: as for :func:`network_features`.
        output: V, (fields out, fields in, hidden).
        scale: (elements out,), a factor of each element's features; None for ones.

    Example:
        >>> z, layers = torch.randn(2, 2, 9, 4), [torch.eye(4), torch.zeros(4)]
        >>> network_filters(z, None, layers, torch.randn(3, 1, 4)).shape
        torch.Size([6, 2, 3, 3])
    """
    k = math.isqrt(z.shape[2])
    if scale is None and _can_fuse(z):
        bank: Tensor = _Bank.apply(z, mask, k, output, *layers)  # type: ignore[no-untyped-call]
        return bank
    phi = _plain(z, mask, layers)
    return filter_bank(phi if scale is None else phi * scale[:, None, None, None], output, k)


def _can_fuse(z: Tensor) -> bool:
    """Return whether autograd's own functions may be used: seen eagerly, and not by torch.func."""
    if torch.compiler.is_compiling():
        return False
    plain = not torch._C._functorch.is_functorch_wrapped_tensor(z)
    return record("network_features", plain and enabled("network_features"))


def _unit(active: Tensor) -> Tensor:
    return active.sub(MEAN).div_(DEVIATION)


def _ahead(
    z: Tensor, mask: Tensor | None, layers: tuple[Tensor, ...]
) -> tuple[list[Tensor], list[Tensor]]:
    """What each layer's relu gives, and its units (rows, hidden); the last are masked."""
    depth = len(layers) // 2
    active = [z.reshape(-1, z.shape[-1]).relu()]
    units = [_unit(active[0])]
    for weight, bias in zip(layers[:depth], layers[depth:], strict=True):
        active.append(torch.addmm(bias, units[-1], weight.T).relu_())
        units.append(_unit(active[-1]))
    if mask is not None:
        units[-1].view(z.shape).mul_(mask[:, None])
    return active, units


def _back(
    back: Tensor,
    mask: Tensor | None,
    shape: torch.Size,
    layers: list[Tensor],
    kept: list[Tensor],
) -> tuple[Tensor, list[Tensor]]:
    """From the gradient by the last units (rows, hidden), written to, those by z and the layers."""
    depth = len(layers) // 2
    active, units = kept[: depth + 1], kept[depth + 1 :]
    if mask is not None:
        back.view(shape).mul_(mask[:, None])
    by_weights: list[Tensor] = []
    by_biases: list[Tensor] = []
    for i in range(depth, -1, -1):
        back = torch.ops.aten.threshold_backward(back, active[i], 0).div_(DEVIATION)
        if i:
            by_weights.insert(0, back.T @ units[i - 1])
            by_biases.insert(0, back.sum(0))
            back = back @ layers[i - 1]
    return back.view(shape), [*by_weights, *by_biases]


class _Finish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, mask: Tensor | None, *layers: Tensor) -> Tensor:
        active, units = _ahead(z, mask, layers)
        ctx.save_for_backward(z, mask, *layers, *active, *units[:-1])  # the last are the result
        ctx.depth = len(layers) // 2
        return units[-1].view(z.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        z, mask, *rest = ctx.saved_tensors
        layers, kept = rest[: 2 * ctx.depth], rest[2 * ctx.depth :]
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            phi = _plain(z, mask, layers)
            by_z, *by_layers = _gradients(phi, (z, *layers), gradient)
            return by_z, None, *by_layers
        rows = gradient.reshape(-1, z.shape[-1])
        rows = rows if mask is None else rows.clone()
        by_z, others = _back(rows, mask, z.shape, layers, kept)
        return by_z, None, *others


class _Bank(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        mask: Tensor | None,
        kernel_size: int,
        output: Tensor,
        *layers: Tensor,
    ) -> Tensor:
        active, units = _ahead(z, mask, layers)
        ctx.save_for_backward(z, mask, output, *layers, *active, *units)
        ctx.depth = len(layers) // 2
        return filter_bank(units[-1].view(z.shape), output, kernel_size)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        z, mask, output, *rest = ctx.saved_tensors
        layers, kept = rest[: 2 * ctx.depth], rest[2 * ctx.depth :]
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            bank = filter_bank(_plain(z, mask, layers), output, math.isqrt(z.shape[2]))
            by_z, *by_others = _gradients(bank, (z, output, *layers), gradient)
            return by_z, None, None, *by_others
        elements_out, elements_in, taps, hidden = z.shape
        fields_out, fields_in, _ = output.shape
        values = gradient.permute(2, 3, 0, 1)  # rows, columns, out i, in j
        values = values.reshape(taps, fields_out, elements_out, fields_in, elements_in)
        values = values.permute(2, 4, 0, 1, 3).reshape(-1, fields_out * fields_in)
        by_output = (values.T @ kept[-1]).view_as(output)
        back = values @ output.view(-1, hidden)
        by_z, others = _back(back, mask, z.shape, layers, kept)
        return by_z, None, None, by_output, *others


def _plain(z: Tensor, mask: Tensor | None, layers: Sequence[Tensor]) -> Tensor:
    """The features by torch's own operations, which have gradients themselves."""
    depth = len(layers) // 2
    phi = unit_relu(z)
    for weight, bias in zip(layers[:depth], layers[depth:], strict=True):
        phi = unit_relu(phi @ weight.T + bias)
    return phi if mask is None else phi * mask[:, None]


def _gradients(
    made: Tensor, inputs: tuple[Tensor, ...], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    wanted = [part for part in inputs if part.requires_grad]
    found = iter(torch.autograd.grad(made, wanted, gradient, create_graph=True))
    return tuple(next(found) if part.requires_grad else None for part in inputs)
