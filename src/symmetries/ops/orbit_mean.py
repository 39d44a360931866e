"""The mean over transformations of a function of responses."""

from typing import Literal

import torch
from torch import Tensor

from symmetries.ops._dispatch import usable

Function = Literal["cos", "relu"]


def orbit_mean(
    responses: Tensor, bias: Tensor | None, function: Function, scale: float = 1.0
) -> Tensor:
    r"""Return the scaled mean over transformations of a function of responses plus bias.

    .. math:: \frac{a}{S} \sum_{s=1}^{S} \varphi(r_s + b), \qquad \varphi = \cos
              \text{ or } \max(0, \cdot)

    The fused form reads the responses once in each pass and stores nothing else of their size.

    Args:
        responses: r, (R, S, B, units).
        bias: b, (R or 1, units); None is 0.
        function: "cos" or "relu".
        scale: the factor a.

    Returns:
        (R, B, units).

    Example:
        >>> responses = torch.tensor([-1.0, 3.0]).view(1, 2, 1, 1)
        >>> orbit_mean(responses, torch.ones(1, 1), "relu").item()
        2.0
    """
    if bias is not None and usable("orbit_mean", responses, bias) and responses.stride(-1) == 1:
        from symmetries.ops.triton.orbit_mean import FusedOrbitMean

        return FusedOrbitMean.apply(responses, bias, function, scale)  # type: ignore[no-untyped-call]
    moved = responses if bias is None else responses + bias[:, None, None]
    mean = torch.mean(moved.cos() if function == "cos" else moved.relu(), 1)
    return mean if scale == 1 else scale * mean
