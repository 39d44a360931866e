"""The value around what is in pictures, which fills up what a moved picture leaves empty."""

import warnings

import torch
from torch import Tensor

from symmetries._validation.checks import check_images, check_some, check_tensors

LIKE_THE_BACKGROUND = 0.02  # of the range of the values
ENOUGH = 0.5
LOOKED_AT = 512


def background(images: Tensor, unit: float | None = None) -> float:
    """The value around the pictures: the median of the border if most of it is like that, else 0.

    Of a background with a colour it is the mean over the channels, with a warning.

    Args:
        images: (N, C, H, W), at least one; floats or whole numbers.
        unit: the range of the values: 1 for those in [0, 1]. By default 255 for bytes (uint8), and
            1 for all others.

    Returns:
        A value in the units of the images: 255 for bytes on white.

    Example:
        >>> background(torch.ones(3, 1, 8, 8)), background(torch.zeros(3, 1, 8, 8))
        (1.0, 0.0)
        >>> background(torch.full((3, 1, 8, 8), 255, dtype=torch.uint8))
        255.0
    """
    check_tensors(images=images)
    unit = (255.0 if images.dtype == torch.uint8 else 1.0) if unit is None else unit
    if images.ndim == 4 and not (images.is_floating_point() or images.is_complex()):
        images = images[:LOOKED_AT].float()  # differences of bytes would wrap around
    check_images(images)
    check_some(images, "images")
    some = images[:LOOKED_AT].transpose(0, 1)
    border = torch.cat((some[..., (0, -1), :].flatten(1), some[..., (0, -1)].flatten(1)), 1)
    like = LIKE_THE_BACKGROUND * unit
    middles = border.median(1, keepdim=True).values  # (C, 1)
    if _all_agree(border, middles, like) and float(middles.max() - middles.min()) > like:
        mean = float(middles.mean())
        shown = ", ".join(f"{value:.3g}" for value in middles[:, 0].tolist())
        warnings.warn(
            f"the background has a colour ({shown} in the channels), and one value, {mean:.3g}, "
            "stands for all channels where images are moved; make it grey or black, or give fill",
            RuntimeWarning,
            stacklevel=2,
        )
        return mean
    middle = border.median()
    return float(middle) if _all_agree(border.view(1, -1), middle, like) else 0.0


def _all_agree(border: Tensor, middles: Tensor, like: float) -> bool:
    """Whether in each row most values are like its middle."""
    return bool((((border - middles).abs() < like).float().mean(1) > ENOUGH).all())
