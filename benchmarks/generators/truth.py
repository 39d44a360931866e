"""The true defect of affine fields for a known function, computed from the definition.

It shares no code with the search, and is what certificates are judged by.
"""

from collections.abc import Callable

import torch
from torch import Tensor

POINTS = 20_000


def true_defect(
    function: Callable[[Tensor], Tensor], matrices: Tensor, law: str = "invariant", seed: int = 1
) -> float:
    """Largest defect in the span of affine fields, on new standard normal points.

    Speeds are in standard deviations of the distribution, not of the sample that was searched.

    Args:
        function: from points (n, d) to outputs (n, m), in float64.
        matrices: homogeneous matrices (k, d + 1, d + 1) of the fields.
        law: "invariant" or "dynamics".
        seed: of the points.
    """
    inputs = matrices.shape[-1] - 1
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(POINTS, inputs, dtype=torch.float64, generator=generator).requires_grad_()
    value = function(x)
    slopes = torch.stack(
        [torch.autograd.grad(column.sum(), x, retain_graph=True)[0] for column in value.T], 1
    )
    x, value = x.detach(), value.detach()
    linear, shift = matrices[:, :inputs, :inputs], matrices[:, :inputs, inputs]
    fields = torch.einsum("kij,nj->nki", linear, x) + shift
    if law == "invariant":  # points have unit covariance already
        slopes = slopes / value.std(0)[:, None]
        along = torch.einsum("nmi,nki->nkm", slopes, fields)
        weight = slopes.square().sum((1, 2)) / inputs
        below = torch.einsum("n,nki,nli->kl", weight, fields, fields)
    else:
        carried = torch.einsum("kij,nj->nki", linear, value)
        along = torch.einsum("nmi,nki->nkm", slopes, fields) - carried
        weight = (slopes.square().sum((1, 2)) + value.square().sum(1)) / inputs
        below = torch.einsum("n,nki,nli->kl", weight, fields, fields)
        below = below + torch.einsum("nki,nli->kl", carried, carried)
    above = torch.einsum("nkm,nlm->kl", along, along)
    size, axes = torch.linalg.eigh(below)
    whitening = axes / size.clamp_min(1e-14 * float(size[-1])).sqrt()
    values = torch.linalg.eigvalsh(whitening.T @ above @ whitening)
    return float(values[-1].clamp_min(0).sqrt())
