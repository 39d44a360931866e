"""Features or filters from a kernel network's first layer, as one autograd function.

The network is small, so its cost in training is the number of its operations, each a launch on a
GPU and a node of autograd. Here they run in place, with an explicit gradient.
"""

import math
from typing import Any

import torch
from torch import Tensor

from symmetries.nn.fourier import KernelFunction, unit_relu
from symmetries.nn.gconv_sampling import filter_bank

MEAN = 1 / math.sqrt(2 * math.pi)  # as in unit_relu
DEVIATION = math.sqrt(0.5 - MEAN**2)


def fused_bank(z: Tensor, mask: Tensor | None, network: KernelFunction, kernel_size: int) -> Tensor:
    """Return ``filter_bank(network.finish(z), ...)``, with taps outside the support set to zero.

    Args:
        z: (elements out, elements in, k k, hidden), the sum of the network's projections.
        mask: (k k,), ones inside the support; None for all.
        network: network whose later layers are used.
        kernel_size: k.
    """
    layers = [*network.weights, *list(network.biases)[1:]]
    bank: Tensor = _Bank.apply(z, mask, kernel_size, network.output, *layers)  # type: ignore[no-untyped-call]
    return bank


def fused_finish(z: Tensor, mask: Tensor | None, network: KernelFunction) -> Tensor:
    """Return ``network.finish(z)``, with taps outside the support set to zero.

    Args:
        z: (..., k k, hidden), the sum of the network's projections.
        mask: (k k,), ones inside the support; None for all.
        network: network whose later layers are used.
    """
    layers = [*network.weights, *list(network.biases)[1:]]
    phi: Tensor = _Finish.apply(z, mask, *layers)  # type: ignore[no-untyped-call]
    return phi


def can_fuse(z: Tensor) -> bool:
    """Return whether custom autograd functions can be used: eagerly, and not under torch.func."""
    if torch.compiler.is_compiling():
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(z)


def _unit(active: Tensor) -> Tensor:
    return active.sub(MEAN).div_(DEVIATION)


def _forward(
    z: Tensor, mask: Tensor | None, layers: tuple[Tensor, ...]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return each layer's relu outputs and its units (rows, hidden); the last are masked."""
    depth = len(layers) // 2
    active = [z.reshape(-1, z.shape[-1]).relu()]
    units = [_unit(active[0])]
    for weight, bias in zip(layers[:depth], layers[depth:], strict=True):
        active.append(torch.addmm(bias, units[-1], weight.T).relu_())
        units.append(_unit(active[-1]))
    if mask is not None:
        units[-1].view(z.shape).mul_(mask[:, None])
    return active, units


def _backward(
    back: Tensor,
    mask: Tensor | None,
    shape: torch.Size,
    layers: list[Tensor],
    kept: list[Tensor],
) -> tuple[Tensor, list[Tensor]]:
    """Return gradients of z and the layers from that of the last units, which is overwritten."""
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
    def forward(ctx: Any, z: Tensor, mask: Tensor | None, *layers: Tensor) -> Tensor:  # noqa: ANN401
        active, units = _forward(z, mask, layers)
        ctx.save_for_backward(z, mask, *layers, *active, *units[:-1])  # the last are the result
        ctx.depth = len(layers) // 2
        return units[-1].view(z.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        z, mask, *rest = ctx.saved_tensors
        layers, kept = rest[: 2 * ctx.depth], rest[2 * ctx.depth :]
        if torch.is_grad_enabled():  # a second derivative is needed
            phi = _plain(z, mask, layers)
            by_z, *by_layers = _gradients(phi, (z, *layers), gradient)
            return by_z, None, *by_layers
        rows = gradient.reshape(-1, z.shape[-1])
        rows = rows if mask is None else rows.clone()
        by_z, others = _backward(rows, mask, z.shape, layers, kept)
        return by_z, None, *others


class _Bank(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - of torch
        z: Tensor,
        mask: Tensor | None,
        kernel_size: int,
        output: Tensor,
        *layers: Tensor,
    ) -> Tensor:
        active, units = _forward(z, mask, layers)
        ctx.save_for_backward(z, mask, output, *layers, *active, *units)
        ctx.depth = len(layers) // 2
        return filter_bank(units[-1].view(z.shape), output, kernel_size)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        z, mask, output, *rest = ctx.saved_tensors
        layers, kept = rest[: 2 * ctx.depth], rest[2 * ctx.depth :]
        if torch.is_grad_enabled():  # a second derivative is needed
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
        by_z, others = _backward(back, mask, z.shape, layers, kept)
        return by_z, None, None, by_output, *others


def _plain(z: Tensor, mask: Tensor | None, layers: list[Tensor]) -> Tensor:
    """Return the features by torch operations, which have higher derivatives."""
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
