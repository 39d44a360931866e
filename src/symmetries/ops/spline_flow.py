r"""Log-density of a conditional flow of coupling splines, forward and backward in one kernel each.

The definition is ``flow.density`` of :class:`~symmetries.distributions.flow.ConditionalFlow`, in
torch's operations. The fused form takes flows of at least two coordinates that are not circular. At
the first use of a shape it is compared with float64 on the CPU, in value and in all gradients; if
the results differ, the torch form runs instead.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.ops._dispatch import is_followed, usable, verified
from symmetries.ops.linear_head import linear_head
from symmetries.ops.rational_quadratic import MIN_SHARE, MIN_SLOPE, UNIT_SLOPE
from symmetries.ops.rounded import RoundedLinear
from symmetries.ops.triton.flow_shape import Shape

Part = tuple[Tensor, Tensor]


def projected_parts(
    context: Tensor, project: nn.Linear, hidden: int, samples: int, order: Sequence[int]
) -> Iterator[Part]:
    """Yield the context's part of each layer's hidden units (N S, hidden), and their bias.

    One product serves all layers. Without a gradient, on a CPU, each layer has one of its own, all
    of them in the same memory: that stays in the cache, and new memory is expensive there.

    Args:
        context: (N, features).
        project: the linear layer of all hidden units (layers hidden, features).
        hidden: units of a layer.
        samples: S, points under each context.
        order: of the layers.
    """
    weight = project.weight
    if context.is_cpu and not is_followed(context, weight):
        return _in_place(context, project, hidden, samples, order)
    return split_parts(F.linear(context, weight), project.bias, hidden, samples, order)


def split_parts(
    product: Tensor, bias: Tensor, hidden: int, samples: int, order: Sequence[int]
) -> Iterator[Part]:
    """Yield the same parts from the product of all layers (N, layers hidden)."""
    parts, biases = product.split(hidden, -1), bias.split(hidden)
    return ((_repeated(parts[i], samples), biases[i]) for i in order)


def _in_place(
    context: Tensor, project: nn.Linear, hidden: int, samples: int, order: Sequence[int]
) -> Iterator[Part]:
    weights, biases = project.weight.detach().split(hidden), project.bias.split(hidden)
    part = context.new_empty(len(context), hidden)
    rows = part if samples == 1 else context.new_empty(len(context), samples, hidden)
    for i in order:
        torch.mm(context, weights[i].T, out=part)
        if samples > 1:
            rows.copy_(part[:, None])
        yield rows.flatten(0, -2), biases[i]


def _repeated(part: Tensor, samples: int) -> Tensor:
    """Return rows (N, ...) as often as there are points under each context (N S, ...)."""
    return part if samples == 1 else part[:, None].expand(-1, samples, -1).flatten(0, 1)


HALF = 3.0  # splines live on [-3, 3]
MIN_SCALE = 1e-3
UNIT_SCALE = math.log(math.expm1(1 - MIN_SCALE))  # free parameter of scale 1
_MAX_HIDDEN = 1024  # a program of the kernels holds some rows of hidden units
_LARGEST_ERROR = 0.05  # relative, in the norm: products may be TF32; a wrong kernel is far off
_CONTEXTS, _FEATURES, _SPREAD = 64, 8, 0.1  # of the example that is compared
_MOST_SAMPLES = 2  # under one context in the example: more are no other case
_NUDGE, _JUMP = 4e-3, 0.05  # a point whose gradient jumps within this distance is at a knot
_verified: dict[tuple[object, ...], bool] = {}

Flow = Any  # a ConditionalFlow; distributions stand above ops


def spline_flow_log_prob(flow: Flow, eta: Tensor, context: Tensor) -> Tensor:
    """Return the log-densities log p(eta | c) of a flow.

    Args:
        flow: a conditional flow.
        eta: (N S, dim).
        context: (N, features), float32 or bfloat16.

    Returns:
        (N S,).
    """
    samples = len(eta) // max(1, len(context))
    shape = _fused_shape(flow, eta, context, samples)
    if shape is None:
        context = context.to(eta.dtype)
        base = flow.base(context) if flow.straight else None
        layers = range(flow.layers)
        parts = projected_parts(context, flow.project, flow.hidden, samples, layers)
        found: Tensor = flow.density(None, eta, parts, base)
        return found
    mask = None
    if shape.dropout:
        # Through torch's function, so that several processes drop what one would.
        size = (len(eta), shape.layers * flow.hidden)
        ones = torch.ones(size, dtype=torch.bfloat16, device=eta.device)
        mask = (F.dropout(ones, shape.dropout) != 0).to(torch.uint8)
    return fused_density(flow, shape, mask, eta, *_products(flow, context))


def _fused_shape(flow: Flow, eta: Tensor, context: Tensor, samples: int) -> Shape | None:
    """Return the sizes for the fused form, None where it cannot run."""
    coupled = not flow.around and flow.dim > 1 and flow.hidden <= _MAX_HIDDEN
    both = (torch.float32, torch.bfloat16)
    if not (coupled and usable("flow", eta, flow.bounds) and usable("flow", context, dtypes=both)):
        return None
    shape = shape_of(flow, samples)
    return shape if is_verified(flow, shape, eta.device) else None


def shape_of(flow: Flow, samples: int) -> Shape:
    """Return the sizes and constants of a flow with so many points under each context."""
    first = flow.couplings[0]
    return Shape(
        dim=flow.dim,
        hidden=flow.hidden,
        layers=len(flow.couplings),
        samples=samples,
        bins=(first.rows[0] + 1) // 3,
        half=HALF,
        share=MIN_SHARE,
        min_slope=MIN_SLOPE,
        unit_slope=UNIT_SLOPE,
        min_scale=MIN_SCALE,
        unit_scale=UNIT_SCALE,
        epsilon=first.norm.eps,
        dropout=first.dropout.p if flow.training else 0.0,
    )


def fused_density(
    flow: Flow, shape: Shape, mask: Tensor | None, eta: Tensor, projected: Tensor, base: Tensor
) -> Tensor:
    """Return log-densities from what the context gives; units are dropped where the mask is 0."""
    from symmetries.ops.triton.spline_flow import KernelFlow

    def plain(mask: Tensor | None, eta: Tensor, projected: Tensor, base: Tensor) -> Tensor:
        kept = None if mask is None else (mask != 0) / (1 - shape.dropout)
        parts = flow.parts_of(projected.to(eta.dtype), shape.samples)
        found: Tensor = flow.density(kept, eta, parts, base)
        return found

    rows = (part.contiguous() for part in (eta, projected, base))
    inputs = (*rows, flow.project.bias, *_weights(flow))
    density: Tensor = KernelFlow.apply(shape, plain, mask, flow.bounds, *inputs)  # type: ignore[no-untyped-call]
    return density


def _weights(flow: Flow) -> list[Tensor]:
    """Return the weights of all layers, in the order of the kernels' arguments."""
    return [weight for layer in flow.couplings for weight in layer.weights()]


def _products(flow: Flow, context: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the context gives: hidden units of all layers, without their bias; and the base.

    In bfloat16 where torch's "float32_matmul_precision" is "medium".
    """
    *blocks, last = flow.base
    rounded = context.is_cuda and torch.get_float32_matmul_precision() == "medium"
    seen = context.to(torch.bfloat16 if rounded else torch.float32)
    weight = flow.project.weight
    projected: Tensor = (
        RoundedLinear.apply(seen, weight) if rounded else F.linear(seen, weight)  # type: ignore[no-untyped-call]
    )
    x = seen
    for block in blocks:
        x = block(x)
    return projected, linear_head(x, last)


def is_verified(flow: Flow, shape: Shape, device: torch.device) -> bool:
    """Return whether the kernels agree with float64 for flows of this shape on a device.

    The comparison runs at the first use of a shape.
    """
    shape = shape._replace(samples=min(shape.samples, _MOST_SAMPLES))
    precision = torch.get_float32_matmul_precision()
    rounded = device.type == "cuda" and precision == "medium"
    trial = partial(_largest_error, type(flow), shape, device, rounded=rounded)
    return verified(("flow", shape, precision), device, trial, _LARGEST_ERROR, _verified)


@torch.inference_mode(mode=False)
@torch.enable_grad()
def _largest_error(kind: Any, shape: Shape, device: torch.device, *, rounded: bool) -> float:
    """Return the largest relative error of a random flow's log-density and of its gradients.

    Args:
        kind: class of the flow.
        shape: its sizes.
        device: where the kernels run.
        rounded: whether what the context gives is in bfloat16.
    """
    source = torch.Generator().manual_seed(0)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=source, dtype=torch.float32, device="cpu")

    slow = _example(kind, shape)
    for parameter in slow.parameters():
        inputs = parameter.shape[-1] if parameter.ndim > 1 else 1
        parameter.data += _SPREAD * min(1.0, (16 / inputs) ** 0.5) * normal(*parameter.shape)
    fast = copy.deepcopy(slow).to(device)
    slow = slow.double()
    n, mask = _CONTEXTS * shape.samples, None
    if shape.dropout:
        drawn = torch.rand(n, shape.layers * shape.hidden, generator=source, device="cpu")
        mask = (drawn >= shape.dropout).to(torch.uint8)
    projected = normal(_CONTEXTS, shape.layers * shape.hidden)
    projected = projected.to(torch.bfloat16) if rounded else projected
    given = (0.6 * normal(n, shape.dim), projected, 0.1 * normal(_CONTEXTS, 2 * shape.dim))
    kept = None if mask is None else mask.double() / (1 - shape.dropout)
    grad = normal(n) * _away_from_knots(slow, shape, kept, given)

    ours = [t.to(device).requires_grad_() for t in given]
    out = fused_density(fast, shape, None if mask is None else mask.to(device), *ours)
    wanted = [*ours, fast.project.bias, *_weights(fast)]
    found = [out, *torch.autograd.grad(out, wanted, grad.to(device))]

    exact = [t.double().requires_grad_() for t in given]
    value = slow.density(kept, exact[0], slow.parts_of(exact[1], shape.samples), exact[2])
    wanted = [*exact, slow.project.bias, *_weights(slow)]
    truth = [value, *torch.autograd.grad(value, wanted, grad.double())]
    errors = [(a.cpu() - b).norm() / b.norm() for a, b in zip(found, truth, strict=True)]
    largest = float(torch.stack(errors).detach().max())
    return largest if largest == largest else float("inf")


def _away_from_knots(
    flow: Flow, shape: Shape, mask: Tensor | None, given: tuple[Tensor, ...]
) -> Tensor:
    """Return which points (N S,) have the same gradient under flows close by.

    The gradient of a spline's log-slope jumps at its knots. Rounding takes points next to a knot
    to its other side, which is no error of the kernels. TF32 cuts digits off, so that all products
    become smaller together; others round each number by itself. Flows close by differ in both ways.
    """
    source = torch.Generator().manual_seed(1)
    eta, projected, base = (t.double() for t in given)

    def gradient(change: float, *, together: bool) -> Tensor:
        def moved(x: Tensor) -> Tensor:
            noise = torch.randn(x.shape, generator=source, dtype=x.dtype)
            return x * (1 + change * (torch.ones_like(x) if together else noise))

        near = copy.deepcopy(flow)
        for parameter in near.parameters():
            parameter.data = moved(parameter.data)
        points = moved(eta).requires_grad_()
        value = near.density(mask, points, near.parts_of(projected, shape.samples), base)
        return torch.autograd.grad(value.sum(), points)[0]

    here = gradient(0.0, together=True)
    others = [gradient(c, together=t) for t in (True, False) for c in (_NUDGE, -_NUDGE)]
    jumps = torch.stack([(other - here).norm(dim=1) for other in others]).amax(0)
    near: Tensor = jumps < _JUMP * here.norm(dim=1)
    return near


def _example(kind: Any, shape: Shape) -> Flow:
    """Return a new flow of that shape; the global random numbers stay as they are."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(0)
        return kind(
            (1.0,) * shape.dim,
            _FEATURES,
            layers=shape.layers,
            bins=shape.bins,
            hidden=shape.hidden,
            base=(),
            dropout=shape.dropout,
        )
