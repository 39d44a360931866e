r"""Monotone rational-quadratic splines on an interval or on a circle.

In a bin of width w and height h with slopes d_0, d_1 at its ends, s = h / w and t = (x - x_0) / w,

.. math:: y = y_0 + h \frac{s t^2 + d_0 t (1 - t)}{s + (d_0 + d_1 - 2 s) t (1 - t)}

(Gregory and Delbourgo 1982; Durkan et al. 2019). Parameters are along the *first* axis, so that
all arithmetic runs over contiguous rows. If a gradient is needed, the bin is selected by a mask
instead of a gather, so the backward pass needs no scatter.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.ops._dispatch import is_followed, usable
from symmetries.ops._vmap_rules import fold, foldable

MIN_SHARE = 1e-3  # smallest width and height of a bin, as a fraction of the interval
MIN_SLOPE = 1e-3
UNIT_SLOPE = math.log(math.expm1(1 - MIN_SLOPE))  # offset that makes a free parameter 0 slope 1


def spline_rows(bins: int, circular: bool) -> int:
    """Return the number of free parameters of one spline.

    These are widths and heights of the bins, and slopes at the inner knots; a circular spline also
    has the slope at the seam and a rotation.
    """
    return 3 * bins + 1 if circular else 3 * bins - 1


def rational_quadratic(
    x: Tensor, parameters: Tensor, half: float, *, inverse: bool = False
) -> tuple[Tensor, Tensor]:
    """Apply a spline from [-half, half] to itself (the identity outside), or its inverse.

    If all parameters are zero the map is the identity.

    Args:
        x: (...).
        parameters: (3 bins - 1, ...): free widths, heights and slopes at the inner knots.
        half: half the length of the interval.
        inverse: if True, apply the inverse.

    Returns:
        The result (...), and the logarithm of the derivative of the applied map (...).

    Example:
        >>> x = torch.linspace(-4, 4, 9)
        >>> parameters = torch.randn(17, 9)
        >>> y, log_slope = rational_quadratic(x, parameters, 3.0)
        >>> back, _ = rational_quadratic(y, parameters, 3.0, inverse=True)
        >>> torch.allclose(back, x, atol=1e-4), y[0].item(), log_slope[0].item()
        (True, -4.0, 0.0)
    """
    bins = _bins(parameters, rest=-1)
    if usable("spline", x, parameters):
        return _kernel_spline(x, parameters, half, inverse, bins, circular=False)
    if foldable("spline", x, parameters):
        return fold(
            lambda x, p: rational_quadratic(x, p, half, inverse=inverse), x, parameters, axes=(0, 1)
        )
    return _straight(x, parameters, half, inverse)


def _straight(x: Tensor, parameters: Tensor, half: float, inverse: bool) -> tuple[Tensor, Tensor]:
    """Apply the spline of an interval in torch operations."""
    bins = _bins(parameters, rest=-1)
    lengths, slopes = parameters.split((2 * bins, bins - 1))
    one = parameters.new_ones(()).expand_as(lengths[:1])
    knots = torch.cat((one, _slopes(slopes), one))
    within = x.clamp(-half, half)
    y, log_slope = _spline(within, lengths, knots, half, inverse)
    inside = within == x
    return torch.where(inside, y, x), log_slope * inside


def circular_spline(
    x: Tensor, parameters: Tensor, half: float, *, inverse: bool = False
) -> tuple[Tensor, Tensor]:
    """Apply a spline from the circle [-half, half) to itself and a rotation, or their inverse.

    The slopes at the two ends are equal, so the map is smooth at the seam (Rezende et al. 2020).

    Args:
        x: (...), any real numbers; wrapped first.
        parameters: (3 bins + 1, ...): free widths, heights, slopes at all knots, and the rotation.
        half: half the circumference.
        inverse: if True, apply the inverse.

    Returns:
        The result in [-half, half), and the logarithm of the derivative of the applied map.
    """
    bins = _bins(parameters, rest=1)
    if foldable("spline", x, parameters):
        return fold(
            lambda x, p: circular_spline(x, p, half, inverse=inverse), x, parameters, axes=(0, 1)
        )
    shape, turn = parameters.split((3 * bins, 1))
    x = wrap(x - turn[0] if inverse else x, half)
    if usable("spline", x, shape):
        y, log_slope = _kernel_spline(x, shape, half, inverse, bins, circular=True)
    else:
        y, log_slope = _closed(x, shape, half, inverse)
    return wrap(y if inverse else y + turn[0], half), log_slope


def _closed(x: Tensor, parameters: Tensor, half: float, inverse: bool) -> tuple[Tensor, Tensor]:
    """Apply the spline of a circle without its rotation, in torch operations."""
    bins = _bins(parameters, rest=0)
    lengths, slopes = parameters.split((2 * bins, bins))
    slopes = _slopes(slopes)
    knots = torch.cat((slopes, slopes[:1]))
    return _spline(x, lengths, knots, half, inverse)


def _kernel_spline(
    x: Tensor, parameters: Tensor, half: float, inverse: bool, bins: int, circular: bool
) -> tuple[Tensor, Tensor]:
    from symmetries.ops.triton.spline import KernelSpline

    def plain(x: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        return (_closed if circular else _straight)(x, parameters, half, inverse)

    constants = (half, MIN_SHARE, MIN_SLOPE, UNIT_SLOPE, bins, circular)
    x, parameters = x.contiguous(), parameters.contiguous()
    return KernelSpline.apply(x, parameters, constants, inverse, plain)  # type: ignore[no-untyped-call]


def wrap(x: Tensor, half: float) -> Tensor:
    """Return the number in [-half, half) that differs from x by a multiple of 2 half."""
    return torch.remainder(x + half, 2 * half) - half


def _bins(parameters: Tensor, rest: int) -> int:
    bins, left = divmod(len(parameters) - rest, 3)
    if left or bins < 1:
        expected = f"3 bins {rest:+d} parameters along the first axis"
        raise invalid("parameters", expected, f"shape {tuple(parameters.shape)}", "see spline_rows")
    return bins


def _slopes(free: Tensor) -> Tensor:
    return MIN_SLOPE + F.softplus(free + UNIT_SLOPE)


def _bin_by_mask(
    x: Tensor, lengths: Tensor, slopes: Tensor, half: float, axis: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the bin that contains x: its start and lengths (2, ...) along both axes, its slopes.

    Args:
        x: (...), values along one axis: 0 for the input, 1 for the output.
        lengths: (2, bins, ...) lengths of the bins along both axes.
        slopes: (bins + 1, ...) slopes at the knots.
        half: half the length of the interval.
        axis: axis of x.
    """
    starts = lengths.cumsum(1) - lengths - half
    beyond = (x >= starts[axis, 1:]).to(x.dtype)
    # One-hot over the bins: bins whose start is at most x, minus bins whose end is at most x.
    passed = F.pad(beyond, (0, 0) * x.ndim + (1, 1))
    passed[0] = 1
    mask = passed[:-1] - passed[1:]
    slope = (slopes[:-1] * mask).sum(0), (slopes[1:] * mask).sum(0)
    return (starts * mask).sum(1), (lengths * mask).sum(1), *slope


def _bin_by_index(
    x: Tensor, lengths: Tensor, slopes: Tensor, half: float, axis: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the bin that contains x, without a gradient; faster on a CPU."""
    starts = torch.empty_like(lengths)
    starts[:, 0] = -half
    ends, along = starts.unbind(1), lengths.unbind(1)
    for i in range(len(ends) - 1):
        torch.add(ends[i], along[i], out=ends[i + 1])
    index = (x >= starts[axis, 1:]).sum(0, keepdim=True)
    both = index.expand(2, *index.shape)
    slope = slopes.gather(0, index)[0], slopes.gather(0, index + 1)[0]
    return starts.gather(1, both)[:, 0], lengths.gather(1, both)[:, 0], *slope


def _spline(
    x: Tensor, lengths: Tensor, slopes: Tensor, half: float, inverse: bool
) -> tuple[Tensor, Tensor]:
    """Return the map and its log-slope, from free widths and heights and slopes at all knots."""
    bins = len(slopes) - 1
    shares = torch.softmax(lengths.unflatten(0, (2, bins)), 1)
    factor, least = 2 * half * (1 - MIN_SHARE * bins), 2 * half * MIN_SHARE
    if x.device.type != "cpu" or is_followed(x, lengths, slopes):
        found = _bin_by_mask(x, factor * shares + least, slopes, half, int(inverse))
    else:
        found = _bin_by_index(x, shares.mul_(factor).add_(least), slopes, half, int(inverse))
    (x0, y0), (w, h), d0, d1 = found
    s = h / w
    bend = torch.add(d0 + d1, s, alpha=-2)
    if inverse:
        rise = x - y0
        bent = rise * bend
        a, b, c = torch.addcmul(bent, h, s - d0), h * d0 - bent, -s * rise
        root = (b * b - 4 * a * c).clamp_min(0).sqrt()
        t = (2 * c / (-b - root)).clamp(0, 1)
    else:
        t = (x - x0) / w
    rest = 1 - t
    bottom = torch.addcmul(s, bend, t * rest)
    upper = torch.addcmul(d0 * rest, s, t)  # s t + d_0 (1 - t)
    y = torch.addcmul(x0, t, w) if inverse else torch.addcmul(y0, h, t * upper / bottom)
    slope = torch.addcmul(rest * upper, t, torch.addcmul(s * rest, d1, t))
    share = s / bottom
    log_slope = torch.log(slope * share * share)
    return y, -log_slope if inverse else log_slope
