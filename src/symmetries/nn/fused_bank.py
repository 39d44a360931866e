"""From a kernel network's first layer to the filters of a convolution, as one step of autograd.

The network is small, and what it costs in training is the number of its operations, not their
size: each is a launch on a GPU and a node of autograd. Here they run in place, and the gradient is
written by hand.
"""

import math
from typing import Any

import torch
from torch import Tensor

from symmetries.nn.fourier import KernelNetwork, unit_relu
from symmetries.nn.gconv_kernels import filter_bank

MEAN = 1 / math.sqrt(2 * math.pi)  # as in unit_relu
DEVIATION = math.sqrt(0.5 - MEAN**2)


def fused_bank(z: Tensor, mask: Tensor | None, network: KernelNetwork, kernel_size: int) -> Tensor:
    """``filter_bank(network.finish(z), ...)``, with taps outside the support set to zero.

    Args:
        z: (elements out, elements in, k k, hidden), the sum of the network's projections.
        mask: (k k,), ones inside the support; None for all.
        network: whose later layers are used.
        kernel_size: k.
    """
    layers = [*network.weights, *list(network.biases)[1:]]
    bank: Tensor = _Bank.apply(z, mask, kernel_size, network.output, *layers)  # type: ignore[no-untyped-call]
    return bank


def can_fuse(z: Tensor) -> bool:
    """Whether autograd's own functions may be used: seen eagerly, and not by torch.func."""
    if torch.compiler.is_compiling():
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(z)


def _unit(active: Tensor) -> Tensor:
    return active.sub(MEAN).div_(DEVIATION)


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
        depth = len(layers) // 2
        active = [z.reshape(-1, z.shape[-1]).relu()]
        units = [_unit(active[0])]
        for weight, bias in zip(layers[:depth], layers[depth:], strict=True):
            active.append(torch.addmm(bias, units[-1], weight.T).relu_())
            units.append(_unit(active[-1]))
        phi = units[-1].view(z.shape)
        if mask is not None:
            phi = phi.mul_(mask[:, None])
        ctx.save_for_backward(z, mask, output, *layers, *active, *units)
        ctx.depth = depth
        return filter_bank(phi, output, kernel_size)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        depth = ctx.depth
        z, mask, output, *rest = ctx.saved_tensors
        layers, kept = rest[: 2 * depth], rest[2 * depth :]
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            return _again(z, mask, output, layers, gradient)
        active, units = kept[: depth + 1], kept[depth + 1 :]
        elements_out, elements_in, taps, hidden = z.shape
        fields_out, fields_in, _ = output.shape
        values = gradient.permute(2, 3, 0, 1)  # rows, columns, out i, in j
        values = values.reshape(taps, fields_out, elements_out, fields_in, elements_in)
        values = values.permute(2, 4, 0, 1, 3).reshape(-1, fields_out * fields_in)
        by_output = (values.T @ units[-1]).view_as(output)
        back = values @ output.view(-1, hidden)
        if mask is not None:
            back.view(z.shape).mul_(mask[:, None])
        by_weights: list[Tensor] = []
        by_biases: list[Tensor] = []
        for i in range(depth, -1, -1):
            back = torch.ops.aten.threshold_backward(back, active[i], 0).div_(DEVIATION)
            if i:
                by_weights.insert(0, back.T @ units[i - 1])
                by_biases.insert(0, back.sum(0))
                back = back @ layers[i - 1]
        return back.view(z.shape), None, None, by_output, *by_weights, *by_biases


def _again(
    z: Tensor, mask: Tensor | None, output: Tensor, layers: list[Tensor], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients by torch's own operations, which have gradients themselves."""
    depth = len(layers) // 2
    phi = unit_relu(z)
    for weight, bias in zip(layers[:depth], layers[depth:], strict=True):
        phi = unit_relu(phi @ weight.T + bias)
    phi = phi if mask is None else phi * mask[:, None]
    bank = filter_bank(phi, output, math.isqrt(z.shape[2]))
    inputs = (z, output, *layers)
    wanted = [part for part in inputs if part.requires_grad]
    found = iter(torch.autograd.grad(bank, wanted, gradient, create_graph=True))
    by_z, *others = (next(found) if part.requires_grad else None for part in inputs)
    return by_z, None, None, *others
