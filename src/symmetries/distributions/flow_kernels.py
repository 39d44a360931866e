"""A flow's log-density by kernels: what they are given, and what the context gives them."""

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.distributions.coupling import HALF
from symmetries.distributions.rational_spline import MIN_SHARE, MIN_SLOPE, UNIT_SLOPE
from symmetries.nn.perceptron import head
from symmetries.ops.available import usable
from symmetries.ops.flow_shape import Shape
from symmetries.ops.rounded import RoundedLinear

if TYPE_CHECKING:
    from symmetries.distributions.flow import ConditionalFlow

MIN_SCALE = 1e-3
UNIT_SCALE = math.log(math.expm1(1 - MIN_SCALE))  # free parameter of scale 1
_MAX_HIDDEN = 1024  # a program of the kernels holds some rows of hidden units


def shape_of(flow: "ConditionalFlow", samples: int) -> Shape:
    """Sizes and constants of a flow with so many points under each context."""
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


def usable_shape(flow: "ConditionalFlow", eta: Tensor, context: Tensor) -> Shape | None:
    """The shape that kernels are to be called with, None where there are none."""
    coupled = not flow.around and flow.dim > 1
    takes = usable(eta, flow.bounds) and usable(context, dtypes=(torch.float32, torch.bfloat16))
    if not (coupled and flow.hidden <= _MAX_HIDDEN and takes):
        return None
    from symmetries.distributions.flow_check import kernel_shape

    return kernel_shape(shape_of(flow, len(eta) // len(context)), eta.device)


def kernel_density(flow: "ConditionalFlow", shape: Shape, eta: Tensor, context: Tensor) -> Tensor:
    """Log-density (N S,) of eta (N S, dim) under contexts (N, features)."""
    mask = None
    if shape.dropout:
        # Through torch's function, so that several processes drop what one would.
        size = (len(eta), shape.layers * flow.hidden)
        ones = torch.ones(size, dtype=torch.bfloat16, device=eta.device)
        mask = (F.dropout(ones, shape.dropout) != 0).to(torch.uint8)
    return density_of(flow, shape, mask, eta, *products(flow, context))


def density_of(
    flow: "ConditionalFlow",
    shape: Shape,
    mask: Tensor | None,
    eta: Tensor,
    projected: Tensor,
    base: Tensor,
) -> Tensor:
    """The same from what the context gives; where the mask is 0, units are dropped."""
    from symmetries.ops.flow import KernelFlow

    def plain(mask: Tensor | None, eta: Tensor, projected: Tensor, base: Tensor) -> Tensor:
        kept = None if mask is None else (mask != 0) / (1 - shape.dropout)
        parts = flow.parts_of(projected.to(eta.dtype), shape.samples)
        return flow.density(kept, eta, parts, base)

    rows = (part.contiguous() for part in (eta, projected, base))
    inputs = (*rows, flow.project.bias, *weights_of(flow))
    density: Tensor = KernelFlow.apply(shape, plain, mask, flow.bounds, *inputs)  # type: ignore[no-untyped-call]
    return density


def weights_of(flow: "ConditionalFlow") -> list[Tensor]:
    """Of all layers, in the order that the kernels want."""
    return [weight for layer in flow.couplings for weight in layer.weights()]


def products(flow: "ConditionalFlow", context: Tensor) -> tuple[Tensor, Tensor]:
    """What the context gives: hidden units of all layers, without their bias; and the base.

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
    return projected, head(x, last)  # type: ignore[arg-type]
