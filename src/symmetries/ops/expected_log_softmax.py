"""The expected log-probability of classes under Gaussian outputs."""

import torch
from torch import Tensor

from symmetries.ops._dispatch import usable

MOST_CLASSES = 64  # that the fused form holds in registers


def expected_log_softmax(mean: Tensor, variance: Tensor, noise: Tensor, targets: Tensor) -> Tensor:
    r"""Return the mean over draws of the log-probabilities of classes.

    .. math:: \frac1L \sum_{l=1}^{L} \left[z_{ly} - \log \sum_c e^{z_{lc}}\right], \qquad
              z_l = m + \sqrt{v}\,\epsilon_l

    Args:
        mean: m, (R, B, C).
        variance: v, (R, B, C).
        noise: standard normal numbers epsilon, (L, B, C), which all runs share.
        targets: class numbers y, (B,).

    Returns:
        (R, B), with gradients to mean and variance.

    Example:
        >>> certain = torch.zeros(1, 2, 4)
        >>> targets = torch.tensor([0, 3])
        >>> expected_log_softmax(certain, certain, torch.randn(5, 2, 4), targets).exp()
        tensor([[0.2500, 0.2500]])
    """
    if usable("expected_log_softmax", mean, variance) and mean.shape[-1] <= MOST_CLASSES:
        from symmetries.ops.triton.expected_log_softmax import FusedLogSoftmax

        return FusedLogSoftmax.apply(mean, variance, noise, targets)  # type: ignore[no-untyped-call]
    # The root has no slope at 0, which a point estimate or an empty picture reaches.
    outputs = mean + (variance + torch.finfo(mean.dtype).tiny).sqrt() * noise[:, None]
    log_p = outputs.log_softmax(-1)
    index = targets[None, None, :, None].expand(*log_p.shape[:-1], 1)
    return log_p.gather(-1, index)[..., 0].mean(0)
