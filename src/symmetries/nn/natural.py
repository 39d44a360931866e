r"""The posterior of a last layer by its precision, moved by natural-gradient steps.

Where outputs are linear in the weights, the natural gradient of the ELBO is a sum over examples in
closed form (Khan and Lin 2017). With r the rate, g and h the expected slope and (negative)
curvature of the log-likelihood in each output, and m the outputs' mean:

.. math:: \Lambda_c \leftarrow (1-r)\Lambda_c + r\left[I/\alpha + \sum_i h_{ic}\phi_i\phi_i'\right],
          \qquad
          \Lambda_c\mu_c \leftarrow (1-r)\Lambda_c\mu_c + r\sum_i (h_{ic}m_{ic} + g_{ic})\phi_i.

For a Gaussian likelihood one full step is the exact posterior. A few hundred such steps do what
tens of thousands of gradient steps on a Cholesky factor do.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from symmetries.checks import invalid
from symmetries.nn.variational import as_runs, gaussian_kl, with_ones

# Largest factor by which a step may change the prior variance: early posteriors say little.
PRIOR_STEP = 1.1


class NaturalLinear(nn.Module):
    """A Gaussian last layer with full covariance blocks, kept as precision and shift.

    It reads like a :class:`VariationalLinear` (mean and variance of outputs, KL), but is moved by
    :meth:`update` and not by an optimiser: nothing here has a gradient except the features.

    Args:
        inputs: number of features.
        outputs: number of outputs.
        bias: whether a constant feature is added.
        runs: number R of layers computed as one.
        prior_variance: alpha, at the start.
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
        if prior_variance <= 0:
            raise invalid("prior_variance", "a positive number", prior_variance, "try 1.0")
        self.inputs, self.outputs, self.runs, self.bias = inputs, outputs, runs, bias
        self.learn_prior = learn_prior
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
        """Mean and variance (R, B, outputs) of the outputs; without runs for features (B, D)."""
        phi = self._augmented(features)
        mean = phi @ self.mean.transpose(1, 2)
        whitened = phi[:, None] @ self.root.transpose(-1, -2)
        variance = whitened.square().sum(-1).transpose(1, 2)
        return (mean, variance) if features.ndim == 3 else (mean[0], variance[0])

    def kl(self) -> Tensor:
        """KL from the prior, (R,), in nats."""
        dim = self.outputs * self.mean.shape[-1]
        log_det = 2 * self.root.diagonal(dim1=-2, dim2=-1).log().sum((1, 2))
        return gaussian_kl(self._energy(), log_det, dim, self.prior_variance)

    @torch.no_grad()
    def update(self, features: Tensor, target: Tensor, curvature: Tensor, rate: float) -> None:
        """One natural-gradient step.

        Args:
            features: (R, B, D).
            target: h m + g for each example and output, (R, B, outputs), times N / B.
            curvature: h, (R, B, outputs), times N / B.
            rate: of the step, in (0, 1].
        """
        phi = self._augmented(features)
        runs, outputs, dim = self.mean.shape
        weighted = phi[:, None] * curvature.clamp_min(0).sqrt().transpose(1, 2)[..., None]
        weighted = weighted.flatten(0, 1)
        precision = self.precision.view(runs * outputs, dim, dim)
        precision.baddbmm_(weighted.transpose(1, 2), weighted, beta=1 - rate, alpha=rate)
        if self.learn_prior:
            best = self._energy() / (outputs * dim)
            change = (best / self.prior_variance).clamp(1 / PRIOR_STEP, PRIOR_STEP)
            self.prior_variance.mul_(change)
        ridge = (rate / self.prior_variance)[:, None, None]
        self.precision.diagonal(dim1=-2, dim2=-1).add_(ridge)
        self.shift.mul_(1 - rate).add_(target.transpose(1, 2) @ phi, alpha=rate)
        self.refresh()

    def refresh(self) -> None:
        """Bring the factor and the mean in line with the precision and the shift."""
        with _full_products():
            self.root.copy_(inverse_triangle(torch.linalg.cholesky(self.precision)))
            whitened = self.root @ self.shift[..., None]
            self.mean.copy_((self.root.transpose(-1, -2) @ whitened)[..., 0])

    def _energy(self) -> Tensor:
        return self.mean.square().sum((1, 2)) + self.root.square().sum((1, 2, 3))

    def _augmented(self, features: Tensor) -> Tensor:
        phi = as_runs(features, self.runs, self.inputs)
        return with_ones(phi) if self.bias else phi

    def extra_repr(self) -> str:
        """What print(layer) says."""
        return f"{self.inputs}, {self.outputs}, runs={self.runs}"


def inverse_triangle(factor: Tensor) -> Tensor:
    """Inverse of lower triangular matrices (..., D, D).

    On a GPU by halves, as products: the library's triangular solver is slow for many matrices.

    Example:
        >>> inverse_triangle(torch.tensor([[2.0, 0.0], [2.0, 1.0]])).tolist()
        [[0.5, 0.0], [-1.0, 1.0]]
    """
    dim = factor.shape[-1]
    if dim <= 64 or factor.device.type == "cpu":
        eye = torch.eye(dim, dtype=factor.dtype, device=factor.device).expand_as(factor)
        solved: Tensor = torch.linalg.solve_triangular(factor, eye, upper=False)
        return solved
    return _inverse_by_halves(factor)


def _inverse_by_halves(factor: Tensor) -> Tensor:
    half = factor.shape[-1] // 2
    top = inverse_triangle(factor[..., :half, :half].contiguous())
    bottom = inverse_triangle(factor[..., half:, half:].contiguous())
    out = torch.zeros_like(factor)
    out[..., :half, :half] = top
    out[..., half:, half:] = bottom
    out[..., half:, :half] = -bottom @ (factor[..., half:, :half] @ top)
    return out


@contextmanager
def _full_products() -> Iterator[None]:
    """Float32 products in float32: the inverse of an ill-conditioned factor needs its digits."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
