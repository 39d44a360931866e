"""Means and variances of outputs whose weights have a full covariance, and the gradient of these.

The Cholesky factors are by far the largest part of such a layer. Here each pass reads them once,
and their gradient may stay a product of small factors that an optimiser uses tile by tile.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from symmetries.ops._dispatch import usable


def full_moments(
    phi: Tensor, mean: Tensor, log_diagonal: Tensor, lower: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return mean and variance of linear outputs, and the squared norm of the factors.

    .. math:: m_c = \mu_c'\phi, \qquad v_c = |\phi' L_c|^2, \qquad e = \sum_{c,\,i > j} L_{cij}^2

    The gradient exists once. If ``lower`` has a list ``lower.products``, its gradient is appended
    there as a :class:`FactorGradient` where the fused form runs, instead of being written.

    Args:
        phi: features, (R, B, D).
        mean: mu, (R, outputs, D).
        log_diagonal: logarithm of the diagonal of L, (R, outputs, D).
        lower: L below its diagonal, (R, outputs, D, D); zero on and above it.

    Returns:
        Means and variances (R, B, outputs), and sums (R,).

    Example:
        >>> phi, zeros = torch.ones(1, 1, 3), torch.zeros(1, 2, 3)
        >>> mean, variance, _ = full_moments(phi, zeros, zeros, torch.zeros(1, 2, 3, 3))
        >>> mean.tolist(), variance.tolist()
        ([[[0.0, 0.0]]], [[[3.0, 3.0]]])
    """
    return _FullMoments.apply(phi, mean, log_diagonal, lower)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class FactorGradient:
    """The gradient (phi' y_c + 2 f L_c) below the diagonal, stored as its unevaluated factors.

    Args:
        phi: features, as columns (R, D, B).
        slope: y, the gradient to r = phi L, as columns (R, outputs, D, B).
        factor: f, the gradient to the squared norms of the factors, (R,).
        ready: CUDA event after which nothing reads L any more; None on a CPU.
    """

    phi: Tensor
    slope: Tensor
    factor: Tensor
    ready: torch.cuda.Event | None = None

    def written(self, lower: Tensor) -> Tensor:
        """Return the gradient itself (R, outputs, D, D), zero on and above the diagonal."""
        if usable("full_moments", lower, self.phi):
            from symmetries.ops.triton.factor_gradient import write_gradient

            return write_gradient(self.phi, self.slope, self.factor, lower)
        product = self.phi[:, None] @ self.slope.mT
        return (product + 2 * self.factor[:, None, None, None] * lower).tril(-1)


class _FullMoments(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, phi: Tensor, mean: Tensor, log_diagonal: Tensor, lower: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.products = getattr(lower, "products", None)  # an optimiser's, see TriangularAdam
        phi, mean, log_diagonal, lower = (t.contiguous() for t in (phi, mean, log_diagonal, lower))
        if usable("full_moments", phi, mean, log_diagonal, lower):
            from symmetries.ops.triton.full_moments import moments

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
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        phi, mean, log_diagonal, lower, rotated = ctx.saved_tensors
        if usable("full_moments", phi, mean, log_diagonal, lower):
            from symmetries.ops.triton.full_moments import to_features

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
