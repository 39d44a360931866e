"""Estimate the background value of images, which fills the frame where a moved image leaves it."""

import warnings

import torch
from torch import Tensor

from symmetries._utils.sampling import some_of
from symmetries._validation.checks import check_images, check_some
from symmetries.data.convert import Images, as_images

LIKE_THE_BACKGROUND = 0.02  # tolerance, as a fraction of the range of the values
ENOUGH = 0.5
NOISE = 0.1  # largest standard deviation of a noisy background, as a fraction of the range
NORMAL = 1.4826  # standard deviations in a median absolute deviation
LOOKED_AT = 512


def background(images: Images, unit: float | None = None) -> float:
    """Estimate the background value: the median of the border if most of it agrees, else 0.

    It may be noisy, by a standard deviation of up to a tenth of the range.

    A coloured background gives its mean over the channels, with a warning.

    Args:
        images: (N, C, H, W), at least one image, of any form; tensors of floats or integers.
        unit: range of the values: 1 for values in [0, 1]. The default is 255 for uint8 and 1
            otherwise.

    Returns:
        A value in the units of the images: 255 for uint8 images on white.

    Example:
        >>> background(torch.ones(3, 1, 8, 8)), background(torch.zeros(3, 1, 8, 8))
        (1.0, 0.0)
        >>> background(torch.full((3, 1, 8, 8), 255, dtype=torch.uint8))
        255.0
    """
    images = as_images(images)
    unit = (255.0 if images.dtype == torch.uint8 else 1.0) if unit is None else unit
    if images.ndim == 4 and not (images.is_floating_point() or images.is_complex()):
        images = some_of(images, LOOKED_AT).float()  # differences of uint8 would wrap around
    check_images(images)
    check_some(images, "images")
    some = some_of(images, LOOKED_AT).transpose(0, 1)
    border = torch.cat((some[..., (0, -1), :].flatten(1), some[..., (0, -1)].flatten(1)), 1)
    like = LIKE_THE_BACKGROUND * unit
    middles = border.median(1, keepdim=True).values  # (C, 1)
    if _all_agree(border, middles, like) and float(middles.max() - middles.min()) > like:
        mean = float(middles.mean())
        shown = ", ".join(f"{value:.3g}" for value in middles[:, 0].tolist())
        warnings.warn(
            f"the background has a colour ({shown} in the channels); one value, {mean:.3g}, "
            "fills all channels when images are moved; make it grey or black, or give fill",
            RuntimeWarning,
            stacklevel=2,
        )
        return mean
    middle = border.median()
    agrees = _all_agree(border.view(1, -1), middle, like) or _is_noisy_value(border, middle, unit)
    return float(middle) if agrees else 0.0


def _all_agree(border: Tensor, middles: Tensor, like: float) -> bool:
    """Return whether most values of each row are close to its median."""
    return bool((((border - middles).abs() < like).float().mean(1) > ENOUGH).all())


def _is_noisy_value(border: Tensor, middle: Tensor, unit: float) -> bool:
    """Return whether values scatter about their median like noise, without a second cluster."""
    away = (border - middle).abs()
    noise = NORMAL * float(away.median())
    return noise < NOISE * unit and bool((away < 3 * noise).float().mean() > 0.95)
