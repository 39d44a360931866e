r"""Gaussian posterior of a last layer, updated by natural-gradient steps on its precision.

If outputs are linear in the weights, the natural gradient of the ELBO is a sum over examples in
closed form (Khan and Lin 2017). With rate r, the expected slope g and (negative) curvature h of
the log-likelihood in each output, and the outputs' mean m:

.. math:: \Lambda_c \leftarrow (1-r)\Lambda_c + r\left[I/\alpha + \sum_i h_{ic}\phi_i\phi_i'\right],
          \qquad
          \Lambda_c\mu_c \leftarrow (1-r)\Lambda_c\mu_c + r\sum_i (h_{ic}m_{ic} + g_{ic})\phi_i.

For a Gaussian likelihood one full step gives the exact posterior. A few hundred such steps replace
tens of thousands of gradient steps on a Cholesky factor.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_counts, check_positive
from symmetries._validation.placement import check_like
from symmetries.nn.variational import as_runs, with_ones
from symmetries.ops.gaussian_kl import gaussian_kl

# Largest factor by which a step may change the prior variance, because early posteriors are vague.
PRIOR_STEP = 1.1
# The same limit for a step on all examples.
FULL_PRIOR_STEP = 2.0


class NaturalLinear(nn.Module):
    """Gaussian last layer with full covariance blocks, stored as precision and shift.

    It has the interface of a :class:`VariationalLinear` (mean and variance of outputs, KL), but it
    is changed by :meth:`update` instead of an optimiser: only the features receive gradients.

    Args:
        inputs: number of features.
        outputs: number of outputs.
        bias: whether a constant feature is added.
        runs: number R of layers computed as one.
        prior_variance: initial alpha.
        learn_prior: whether each run learns its alpha, in closed form.

    Example:
        >>> layer = NaturalLinear(4, 3)
        >>> mean, variance = layer(torch.rand(5, 4))
        >>> mean.shape, layer.kl().tolist()
        (torch.Size([5, 3]), [0.0])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        runs: int = 1,
        prior_variance: float = 1.0,
        learn_prior: bool = True,
    ) -> None:
        super().__init__()
        check_counts(inputs=inputs, outputs=outputs, runs=runs)
        check_positive(prior_variance, "prior_variance")
        self.inputs, self.outputs, self.runs, self.bias = inputs, outputs, runs, bias
        self.learn_prior = learn_prior
        self.first_prior_variance = float(prior_variance)
        dim = inputs + bias
        eye = torch.eye(dim).expand(runs, outputs, dim, dim)
        self.register_buffer("precision", eye / prior_variance)
        self.register_buffer("root", eye * prior_variance**0.5)  # inverse of the precision's factor
        self.register_buffer("shift", torch.zeros(runs, outputs, dim))
        self.register_buffer("mean", torch.zeros(runs, outputs, dim))
        self.register_buffer("prior_variance", torch.full((runs,), float(prior_variance)))
        self.precision: Tensor
        self.root: Tensor
        self.shift: Tensor
        self.mean: Tensor
        self.prior_variance: Tensor

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return output mean and variance (R, B, outputs); (B, outputs) for features (B, D)."""
        phi = self._augmented(features)
        mean = phi @ self.mean.transpose(1, 2)
        whitened = phi[:, None] @ self.root.transpose(-1, -2)
        variance = whitened.square().sum(-1).transpose(1, 2)
        return (mean, variance) if features.ndim == 3 else (mean[0], variance[0])

    def moments_and_kl(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean and variance (R, B, outputs) of the outputs, and the KL (R,)."""
        return *self(as_runs(features, self.runs, self.inputs)), self.kl()

    def kl(self) -> Tensor:
        """Return the KL from the prior, (R,), in nats."""
        dim = self.outputs * self.mean.shape[-1]
        log_det = 2 * self.root.diagonal(dim1=-2, dim2=-1).log().sum((1, 2))
        return gaussian_kl(self._energy(), log_det, dim, self.prior_variance)

    @torch.no_grad()
    def update(self, features: Tensor, target: Tensor, curvature: Tensor, rate: float) -> None:
        """Perform one natural-gradient step from one batch.

        Args:
            features: (R, B, D).
            target: h m + g for each example and output, (R, B, outputs), times N / B.
            curvature: h, (R, B, outputs), times N / B.
            rate: step size in (0, 1].
        """
        self.step(self.sums(features, target, curvature), rate)

    @torch.no_grad()
    def sums(
        self,
        features: Tensor,
        target: Tensor,
        curvature: Tensor,
        into: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the sums over examples of a step: of h phi phi', and of (h m + g) phi.

        Args:
            features: (R, B, D).
            target: h m + g, (R, B, outputs).
            curvature: h, (R, B, outputs).
            into: sums over other examples, which are added to in place.
        """
        phi = self._augmented(features)
        runs, outputs, dim = self.mean.shape
        if into is None:
            into = torch.zeros_like(self.precision), torch.zeros_like(self.shift)
        weighted = phi[:, None] * curvature.clamp_min(0).sqrt().transpose(1, 2)[..., None]
        weighted = weighted.flatten(0, 1)
        into[0].view(runs * outputs, dim, dim).baddbmm_(weighted.transpose(1, 2), weighted)
        into[1].add_(target.transpose(1, 2) @ phi)
        return into

    @torch.no_grad()
    def step(
        self,
        sums: tuple[Tensor, Tensor],
        rate: float,
        scale: float = 1.0,
        prior_step: float = PRIOR_STEP,
    ) -> None:
        """Perform one natural-gradient step from sums over examples, times ``scale`` = N / B.

        A learned prior variance changes at most by the factor ``prior_step``.
        """
        if self.learn_prior:
            change = self._prior_change().clamp(1 / prior_step, prior_step)
            self.prior_variance.mul_(change)
        self.precision.mul_(1 - rate).add_(sums[0], alpha=rate * scale)
        ridge = (rate / self.prior_variance)[:, None, None]
        self.precision.diagonal(dim1=-2, dim2=-1).add_(ridge)
        self.shift.mul_(1 - rate).add_(sums[1], alpha=rate * scale)
        self.refresh()

    @torch.no_grad()
    def reset(self) -> None:
        """Reset to the initial prior."""
        self.prior_variance.fill_(self.first_prior_variance)
        alpha = self.prior_variance[:, None, None]
        eye = torch.eye(self.mean.shape[-1], dtype=self.root.dtype, device=self.root.device)
        self.precision.copy_((eye / alpha)[:, None])
        self.root.copy_((eye * alpha.sqrt())[:, None])
        self.shift.zero_()
        self.mean.zero_()

    def refresh(self) -> None:
        """Recompute the factor and the mean from the precision and the shift."""
        with _full_products():
            self.root.copy_(inverse_factor(self.precision))
            whitened = self.root @ self.shift[..., None]
            self.mean.copy_((self.root.transpose(-1, -2) @ whitened)[..., 0])

    def _energy(self) -> Tensor:
        return self.mean.square().sum((1, 2)) + self.root.square().sum((1, 2, 3))

    def _prior_change(self) -> Tensor:
        r"""Return the factor (R,) towards the prior variance with the best bound.

        With \gamma = D - tr(S) / \alpha, the number of weights determined by the data, the optimum
        is a fixed point of \alpha = |\mu|^2 / \gamma (MacKay 1992) and of
        \alpha = (|\mu|^2 + tr S) / D. The latter converges much more slowly if \gamma is small, and
        is used for posteriors that have not yet followed the last change.
        """
        count = self.outputs * self.mean.shape[-1]
        norm = self.mean.square().sum((1, 2)) / self.prior_variance
        trace = self.root.square().sum((1, 2, 3)) / self.prior_variance
        determined = count - trace
        fast = norm / determined.clamp_min(0.01 * count)
        return torch.where(determined > 0.01 * count, fast, (norm + trace) / count)

    def _augmented(self, features: Tensor) -> Tensor:
        phi = as_runs(features, self.runs, self.inputs)
        check_like(features, self.mean, "features")
        return with_ones(phi) if self.bias else phi

    def extra_repr(self) -> str:
        """Return the sizes shown by print(layer)."""
        return f"{self.inputs}, {self.outputs}, runs={self.runs}"


def inverse_factor(precision: Tensor) -> Tensor:
    """Return the inverse of the Cholesky factor L of matrices L L' (..., D, D).

    On a GPU it recurses on halves by matrix products, because the library's factorisation is slow
    for many matrices. A matrix that is not positive definite gives NaN, without synchronising.

    Example:
        >>> inverse_factor(torch.tensor([[4.0, 4.0], [4.0, 5.0]])).tolist()
        [[0.5, 0.0], [-1.0, 1.0]]
    """
    dim = precision.shape[-1]
    if dim <= 64 or precision.device.type == "cpu":
        factor, failed = torch.linalg.cholesky_ex(precision)
        factor = torch.where(failed[..., None, None] == 0, factor, torch.nan)
        eye = torch.eye(dim, dtype=factor.dtype, device=factor.device).expand_as(factor)
        return torch.linalg.solve_triangular(factor, eye, upper=False)
    return _factor_by_halves(precision)


def _factor_by_halves(precision: Tensor) -> Tensor:
    half = precision.shape[-1] // 2
    top = inverse_factor(precision[..., :half, :half].contiguous())
    side = precision[..., half:, :half] @ top.transpose(-1, -2)
    bottom = inverse_factor(precision[..., half:, half:] - side @ side.transpose(-1, -2))
    out = torch.zeros_like(precision)
    out[..., :half, :half] = top
    out[..., half:, half:] = bottom
    out[..., half:, :half] = -bottom @ (side @ top)
    return out


@contextmanager
def _full_products() -> Iterator[None]:
    """Compute float32 products in full precision, which ill-conditioned factors need."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
