"""Log-density of a flow of coupling splines: one kernel forward and one backward for all layers.

Hidden units, parameters and coordinates of all layers are kept; the backward pass gives the
gradients of the splines' parameters and, for each of its programs, sums over points of the
gradients to the vectors. What is left is one product for the weights and two sums over programs.

Coordinates are rows of u (dim, n). Layer l bends those of its own parity and keeps the others.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from symmetries.ops._dispatch import differentiable_gradients
from symmetries.ops.triton.flow_passes import _flow_backward, _flow_forward, _flow_weights
from symmetries.ops.triton.flow_shape import Shape
from symmetries.ops.triton.sums import column_sums

_ROWS, _WARPS = 32, 8  # points of a program
_TILE = 16_384  # numbers of a matrix that a program multiplies at a time
_ALIGN = 16
_WIDE = 256
_PARTS = 16  # of the points, in the product that sums over them
_DEPTH = 32
_LOG_2_PI = 1.8378770664093453


def _precision() -> str:
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def packed(weights: Sequence[Tensor]) -> Tensor:
    """Weights of all layers one after the other, but the biases of the parameters at the end."""
    matrices = [weight.reshape(-1) for i, weight in enumerate(weights) if i % 5 < 4]
    return torch.cat(matrices + [weight.reshape(-1) for weight in weights[4::5]])


def _align(shape: Shape) -> int:
    return 1 if shape.hidden % _ALIGN else _ALIGN


def _rows(shape: Shape) -> int:
    """Points of a program."""
    return _ROWS if shape.hidden <= _WIDE else 16


def _sizes(shape: Shape, forward: bool) -> tuple[Any, ...]:
    """Constants that both kernels end with."""
    most = (shape.dim + 1) // 2
    out = max(16, triton.next_power_of_2(shape.rows * most))
    block = max(16, triton.next_power_of_2(shape.hidden))
    most_numbers = _TILE // (out if forward else block)
    chunk = max(16, min(block if forward else out, most_numbers))
    lanes, axes = triton.next_power_of_2(shape.bins), triton.next_power_of_2(most)
    first = (shape.dim, shape.layers, shape.hidden, _align(shape), shape.dropout > 0)
    return (*first, out, axes, lanes, _rows(shape), block, chunk, _precision())


class KernelFlow(torch.autograd.Function):
    """log p of points u (N S, dim); ``plain`` is torch's form of the same function.

    Hidden units are ``projected`` (N, layers hidden; float32 or bfloat16) and ``bias`` added up;
    ``weights`` are, for each layer, the matrix of the kept coordinates (hidden, kept), gain and
    shift of the norm, and weight and bias of the parameters.
    """

    @staticmethod
    def forward(
        ctx: Any,
        shape: Shape,
        plain: Callable[..., Tensor],
        mask: Tensor | None,
        bounds: Tensor,
        eta: Tensor,
        projected: Tensor,
        base: Tensor,
        bias: Tensor,
        *weights: Tensor,
    ) -> Tensor:
        """The log-densities (N S,) of contiguous rows (copies made here would have no gradient)."""
        n = len(eta)
        side = packed(weights)
        u = eta.new_empty(shape.layers + 1, shape.dim, n)
        units = eta.new_empty(shape.layers, n, shape.hidden)
        statistics = eta.new_empty(shape.layers, 2, n)
        parameters = eta.new_empty(shape.layers, n, shape.size)
        out = eta.new_empty(n)
        known = projected if mask is None else mask
        given = (eta, bounds, projected, bias, side, known, base)
        made = (u, units, statistics, parameters, out)
        _flow_forward[(triton.cdiv(n, _rows(shape)),)](
            *given, *made, n, shape.layers * shape.hidden, shape.epsilon,
            1.0 - shape.dropout, *shape.splines(), shape.min_scale, shape.unit_scale,
            _LOG_2_PI, shape.samples, *_sizes(shape, forward=True), num_warps=_WARPS,
            num_stages=1,
        )  # fmt: skip
        ctx.save_for_backward(
            mask, bounds, eta, projected, base, bias, side, u, units, statistics, parameters,
            *weights,
        )  # fmt: skip
        ctx.shape, ctx.plain = shape, plain
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to the points, to what the context gives, and to the weights."""
        shape: Shape = ctx.shape
        mask, bounds, eta, projected, base, bias, side, *made = ctx.saved_tensors
        u, units, statistics, parameters, *rest = made
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            out = ctx.plain(mask, eta, projected, base)
            second = differentiable_gradients(out, [eta, projected, base, bias, *rest], grad)
            return None, None, None, None, *second
        n, dim, hidden, layers = len(eta), shape.dim, shape.hidden, shape.layers
        grad = grad.contiguous()
        grad_u = torch.empty_like(u)
        grad_parameters = torch.empty_like(parameters, dtype=units.dtype)
        grad_base = eta.new_empty(n, 2 * dim)
        grad_projected = projected.new_empty(n, layers * hidden)
        programs = triton.cdiv(n, _rows(shape))
        wide = (shape.bent(0) + 3) * hidden
        vectors = eta.new_empty(programs, layers, wide)
        known = projected if mask is None else mask
        given = (projected, bias, side, known, base, u, statistics, parameters, grad)
        found = (grad_projected, grad_base, grad_u, grad_parameters, vectors)
        _flow_backward[(programs,)](
            *given, *found, n, layers * hidden, 1.0 - shape.dropout, *shape.splines(),
            shape.min_scale, shape.unit_scale, shape.samples, *_sizes(shape, forward=False),
            num_warps=_WARPS, num_stages=1,
        )  # fmt: skip
        if shape.samples > 1:
            grad_projected = grad_projected.unflatten(0, (-1, shape.samples)).sum(1)
            grad_base = grad_base.unflatten(0, (-1, shape.samples)).sum(1)
        grad_eta = None
        if ctx.needs_input_grad[4]:
            grad_eta = (grad_u[0] * (shape.half / bounds)[:, None]).T

        sums = column_sums(vectors.flatten(1)).view(layers, -1)
        matrices = _matrices(shape, grad_parameters, units)
        to_bias = sums[:, 2 * hidden : 3 * hidden].reshape(-1)
        to_weights = _split(shape, sums, matrices, rest)
        found = (grad_eta, grad_projected, grad_base, to_bias, *to_weights)
        return None, None, None, None, *found


def _matrices(shape: Shape, grad_parameters: Tensor, units: Tensor) -> Tensor:
    """Gradients (layers, parameters (hidden + 1)) to weights and biases of the parameters."""
    n, size = grad_parameters.shape[1:]
    steps = triton.cdiv(n, _PARTS * _DEPTH)
    columns = min(64, max(16, triton.next_power_of_2(shape.hidden)))
    partial = units.new_empty(_PARTS, shape.layers, size * (shape.hidden + 1))
    out = max(16, triton.next_power_of_2(size))
    _flow_weights[(shape.layers, triton.cdiv(shape.hidden, columns), _PARTS)](
        grad_parameters, units, partial, n, steps, shape.dim, shape.bins, shape.layers,
        shape.hidden, out, _DEPTH, columns, _precision(), num_warps=4,
    )  # fmt: skip
    return column_sums(partial.flatten(1)).view(shape.layers, -1)


def _split(
    shape: Shape, sums: Tensor, matrices: Tensor, weights: Sequence[Tensor]
) -> list[Tensor | None]:
    """Gradients to the weights, each a contiguous part of the sums."""
    found: list[Tensor | None] = []
    hidden, size = shape.hidden, shape.size
    for layer in range(shape.layers):
        count, kept = shape.rows * shape.bent(layer), shape.dim - shape.bent(layer)
        read = sums[layer, 3 * hidden : (3 + kept) * hidden].view(hidden, kept)
        weight = matrices[layer, : count * hidden].view(count, hidden)
        shift = matrices[layer, size * hidden :][:count]
        gain, move = sums[layer, :hidden], sums[layer, hidden : 2 * hidden]
        found += [read, gain, move, weight, shift.view(weights[5 * layer + 4].shape)]
    return found
