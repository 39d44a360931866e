"""Output means and variances for a full covariance, with one pass over its factors."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from symmetries.ops.available import usable


class FullMoments(torch.autograd.Function):
    """Autograd function of mu' phi, phi' L L' phi, and the sum of squares of L below its diagonal.

    The factors are by far the largest part of the layer. Each pass reads them once, and the two
    parts of their gradient are added where it is written.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's
        phi: Tensor,
        mean: Tensor,
        log_diagonal: Tensor,
        lower: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return means and variances (R, B, outputs) and sums (R,).

        Args:
            ctx: context for the gradient.
            phi: features (R, B, D).
            mean: mu, (R, outputs, D).
            log_diagonal: logarithm of the diagonal of L, (R, outputs, D).
            lower: (R, outputs, D, D), zero on and above the diagonal.
        """
        ctx.products = getattr(lower, "products", None)  # set by the optimiser, see TriangularAdam
        phi, mean, log_diagonal, lower = (t.contiguous() for t in (phi, mean, log_diagonal, lower))
        if usable(phi, mean, log_diagonal, lower):
            from symmetries.ops.variances import moments

            means, variance, energy, rotated = moments(phi, mean, log_diagonal, lower)
        else:
            means = phi @ mean.mT
            rotated = torch.matmul(phi[:, None], lower)
            rotated.addcmul_(phi[:, None], log_diagonal.exp()[:, :, None])
            variance = rotated.square().sum(-1).transpose(1, 2)
            energy = torch.linalg.vector_norm(lower, dim=(1, 2, 3)).square()
        ctx.save_for_backward(phi, mean, log_diagonal, lower, rotated)
        return means, variance, energy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # noqa: ANN401
        """Return gradients of the features, the means, the diagonals and the factors."""
        phi, mean, log_diagonal, lower, rotated = ctx.saved_tensors
        if usable(phi, mean, log_diagonal, lower):
            from symmetries.ops.factors import FactorGradient
            from symmetries.ops.variances import to_features

            first, second, factor = (g.contiguous() for g in grads)
            *small, columns, slope = to_features(
                phi, rotated, mean, log_diagonal, lower, (first, second)
            )
            ready = torch.cuda.current_stream().record_event() if phi.is_cuda else None
            product = FactorGradient(columns, slope, factor, ready)
            if not ctx.needs_input_grad[3]:
                return small[0], small[1], small[2], None
            if ctx.products is None:
                return small[0], small[1], small[2], product.written(lower)
            ctx.products.append(product)
            return small[0], small[1], small[2], None
        slope = rotated * (2 * grads[1]).transpose(1, 2)[..., None]
        scale = log_diagonal.exp()
        to_diagonal = (slope * phi[:, None]).sum(2) * scale
        to_phi = torch.matmul(slope, lower.transpose(-1, -2))
        to_phi = to_phi.addcmul_(slope, scale[:, :, None]).sum(1).baddbmm_(grads[0], mean)
        to_lower = torch.matmul(phi.transpose(1, 2)[:, None], slope)
        to_lower.addcmul_(lower, 2 * grads[2][:, None, None, None])
        return to_phi, grads[0].mT @ phi, to_diagonal, to_lower.tril_(-1)
