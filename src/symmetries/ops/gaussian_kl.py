"""The KL divergence of a Gaussian from an isotropic one, in closed form."""

import torch
from torch import Tensor

from symmetries.ops._dispatch import usable


def gaussian_kl(energy: Tensor, log_det: Tensor, dim: int, prior_variance: Tensor | None) -> Tensor:
    r"""Return KL(N(mu, S) || N(0, alpha I)).

    .. math:: \tfrac12\left[D\log\alpha - \log\det S - D + (\operatorname{tr} S + \mu'\mu)/\alpha
              \right]

    Args:
        energy: tr S + mu' mu.
        log_det: log det S.
        dim: D.
        prior_variance: alpha; None takes the alpha with the smallest KL, energy / D.

    Example:
        >>> gaussian_kl(torch.tensor(3.0), torch.tensor(0.0), 3, torch.tensor(1.0)).item()
        0.0
    """
    alpha = energy / dim if prior_variance is None else prior_variance
    return 0.5 * (dim * torch.log(alpha) - log_det - dim + energy / alpha)


def cholesky_kl(
    mean: Tensor, log_diagonal: Tensor, off_diagonal: Tensor, prior_variance: Tensor | None
) -> Tensor:
    """Return :func:`gaussian_kl` for S = L L' with L lower triangular, one kernel in each pass.

    Then tr S is the sum of the squares of L, and log det S twice the sum of its log-diagonal.

    Args:
        mean: mu of all outputs, (R, outputs, D).
        log_diagonal: logarithm of the diagonals of L, (R, outputs, D).
        off_diagonal: sum of the squares of L below its diagonals, (R,).
        prior_variance: alpha, (R,); None takes the alpha with the smallest KL.

    Returns:
        (R,), summed over outputs.

    Example:
        >>> zeros = torch.zeros(2, 3, 4)
        >>> cholesky_kl(zeros, zeros, torch.zeros(2), torch.ones(2)).tolist()
        [0.0, 0.0]
    """
    if usable("gaussian_kl", mean, log_diagonal, off_diagonal):
        from symmetries.ops.triton.gaussian_kl import FusedKL

        prior = off_diagonal if prior_variance is None else prior_variance  # not read if learned
        learned = prior_variance is None
        return FusedKL.apply(mean, log_diagonal, off_diagonal, prior, learned)  # type: ignore[no-untyped-call]
    energy = mean.square().sum((1, 2)) + (2 * log_diagonal).exp().sum((1, 2)) + off_diagonal
    log_det = 2 * log_diagonal.sum((1, 2))
    return gaussian_kl(energy, log_det, mean[0].numel(), prior_variance)
