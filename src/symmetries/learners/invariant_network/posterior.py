r"""The Laplace posterior of a network's weights, and the bound on the log evidence that it gives.

With a prior N(0, Delta^{-1}), Delta a precision for each layer, the log evidence at theta is

.. math:: \log p(D) \approx \sum_n \log p(y_n | f_n) - \tfrac12 \theta^T \Delta\,\theta
          - \tfrac12 \log\det(I + \hat R^T \hat R), \qquad
          \hat R_n = L_n^T J_n \Delta^{-1/2},

where J_n is the Jacobian of the outputs for example n and L_n L_n^T the curvature of its
log-likelihood: the generalised Gauss-Newton approximation. The log-determinant couples all
examples. But it is concave, so that its tangent at any other matrix I + R^T R lies above it:

.. math:: \log\det(I + \hat R^T \hat R) \le \log\det(I + R^T R) - \gamma
          + \operatorname{tr}\!\left(\hat R\,(I + R^T R)^{-1} \hat R^T\right), \qquad
          \gamma = \operatorname{tr}\!\left(R^T R\,(I + R^T R)^{-1}\right).

The right side is a sum over examples. Any R gives a lower bound on the evidence, and equality where
R^T R is that of all examples; here R has the rows of some of the examples, scaled to stand for all.
Then the slope of the bound with respect to the widths is that of the evidence, one mini-batch is an
unbiased estimate of it, and it needs no Kronecker approximation and no rule for kinds of layers.
(The bound is the evidence lower bound of the posterior N(theta, Delta^{-1/2} (I + R^T R)^{-1}
Delta^{-1/2}) with a linearised network.) Everything is done with matrices of the number of rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries._validation.checks import invalid

COLUMNS = 4096  # of the rows at a time, in double precision
JITTER = (0.0, 1e-9, 1e-6)  # of the mean diagonal, tried in turn


@dataclass(frozen=True)
class Posterior:
    r"""The covariance Delta^{-1/2} (I + R^T R)^{-1} Delta^{-1/2} of P weights, by its rows R.

    Args:
        rows: R (r, P), with r at most P or so.
        scale: Delta^{-1/2} (P,).
        factor: Cholesky factor (r, r) of I + R R^T, double precision.
    """

    rows: Tensor
    scale: Tensor
    factor: Tensor

    @property
    def log_det(self) -> Tensor:
        """Log det(I + R^T R), the same as that of I + R R^T."""
        return 2 * self.factor.diagonal().log().sum()

    def retained(self) -> Tensor:
        r"""Return the diagonal (P,) of R^T R (I + R^T R)^{-1}: how far data determine each weight.

        Its sum is gamma, the effective number of parameters (MacKay 1992).
        """
        blocks = self.rows.split(COLUMNS, 1)
        return torch.cat([self._solve(block).square().sum(0) for block in blocks])

    def trace(self, rows: Tensor) -> Tensor:
        r"""tr(R' (I + R^T R)^{-1} R'^T) for other rows R' (m, P)."""
        inner = _products(self.rows, rows)
        return rows.double().square().sum() - self._solve(inner).square().sum()

    def _solve(self, right: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self.factor, right.double(), upper=False)


def posterior(rows: Sequence[Tensor], scale: Tensor) -> Posterior:
    """Return the posterior of rows that come in parts.

    Args:
        rows: parts (r, P) of R. Where there are more rows than columns they are replaced by the
            triangular factor with the same R^T R.
        scale: Delta^{-1/2} (P,).

    Example:
        >>> whole = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
        >>> found = posterior(whole.split(7), torch.ones(4))
        >>> direct = torch.logdet(torch.eye(4) + whole.T @ whole)
        >>> found.rows.shape, bool((found.log_det - direct).abs() < 1e-4)
        (torch.Size([4, 4]), True)
    """
    parts: list[Tensor] = []
    for part in rows:
        parts.append(part)
        if sum(map(len, parts)) > 2 * part.shape[1]:
            parts = [_reduced(torch.cat(parts))]
    kept = _reduced(torch.cat(parts))
    return Posterior(kept, scale, cholesky(_products(kept, kept)))


def log_det(rows: Iterable[Tensor]) -> Tensor:
    """Return log det(I + R^T R) of rows that come in parts (r, P), by the smaller matrix."""
    parts: list[Tensor] = []
    gram: Tensor | None = None  # R^T R, once there are more rows than weights
    for part in rows:
        parts.append(part)
        if gram is not None or sum(map(len, parts)) > part.shape[1]:
            whole = torch.cat(parts).double()
            gram = whole.T @ whole if gram is None else gram.addmm_(whole.T, whole)
            parts = []
    if gram is None:
        kept = torch.cat(parts)
        gram = _products(kept, kept)
    return 2 * cholesky(gram).diagonal().log().sum()


def _reduced(rows: Tensor) -> Tensor:
    if len(rows) <= rows.shape[1] or not bool(rows.isfinite().all()):
        return rows
    triangle: Tensor = torch.linalg.qr(rows.double(), mode="r").R
    return triangle.to(rows)


def _products(left: Tensor, right: Tensor) -> Tensor:
    """Return left right^T, summed in double precision."""
    pairs = zip(left.split(COLUMNS, 1), right.split(COLUMNS, 1), strict=True)
    return torch.stack([a.double() @ b.double().T for a, b in pairs]).sum(0)


def cholesky(gram: Tensor) -> Tensor:
    """Return the Cholesky factor of I + gram, with a little more on the diagonal if it must be.

    Raises:
        ValueError: if the curvature is NaN or infinite.
    """
    whole, size = gram.clone(), gram.diagonal().mean() + 1
    whole.diagonal().add_(1.0)
    for jitter in JITTER:
        whole.diagonal().add_(jitter * size)
        factor, failed = torch.linalg.cholesky_ex(whole)
        if not bool(failed) and bool(factor.isfinite().all()):
            return factor
    remedy = "lower the learning rate, scale the images to about [0, 1], or raise prior_precision"
    raise invalid("curvature", "finite Jacobians of the network", "NaN or infinite ones", remedy)
