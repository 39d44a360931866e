"""Action of the colour group on RGB images, and conversions between RGB and HSV."""

import math

import torch
from torch import Tensor

from symmetries._validation.checks import check_images, invalid
from symmetries._validation.placement import check_together
from symmetries.actions.base import Action
from symmetries.groups.colour import Colour
from symmetries.groups.names import named_group
from symmetries.groups.special import wrap_angle

_SEXTANT = math.pi / 3


class ColourAction(Action):
    """Action of the colour group on images: h' = h + a, s' = clip(s exp(b)), v' = clip(v exp(c)).

    Here (h, s, v) are the hue, saturation and value of a pixel and (a, b, c) is the element
    (Allingham et al. 2024, equation 25, with the hue in radians). A positive hue turns red to
    yellow to green. Gradients pass through the clipping to [0, 1] unchanged (a straight-through
    estimate). The law of an action holds wherever nothing is clipped.

    Args:
        group: ``Colour`` with all parameters (the default) or some of them.

    Example:
        >>> act = ColourAction()
        >>> red = torch.tensor([1.0, 0.0, 0.0]).reshape(1, 3, 1, 1)
        >>> third = act.group.exp(torch.tensor([2 * math.pi / 3, 0.0, 0.0]))
        >>> act(third, red).flatten().round(decimals=5).tolist()  # green
        [0.0, 1.0, 0.0]
    """

    def __init__(self, group: str | Colour | None = None) -> None:
        self.group = Colour() if group is None else named_group(group)

    def __call__(self, element: Tensor, data: Tensor) -> Tensor:
        """Return the images with their colours changed.

        Args:
            element: (3,), shared by all images, or (N, 3).
            data: (N, 3, H, W) in [0, 1].
        """
        check_together(images=data, element=element)
        _check_colour_images(data)
        if element.shape not in ((3,), (len(data), 3)):
            shape = f"shape {tuple(element.shape)}"
            remedy = "give one element, or one for each image"
            raise invalid("element", f"shape (3,) or ({len(data)}, 3)", shape, remedy)
        turn, stretch, gain = element.to(data.dtype)[..., None, None].unbind(-3)
        hue, saturation, value = rgb_to_hsv(data).unbind(1)
        saturation = clip_straight_through(saturation * torch.exp(stretch))
        value = clip_straight_through(value * torch.exp(gain))
        return hsv_to_rgb(torch.stack((hue + turn, saturation, value), 1))


def rgb_to_hsv(images: Tensor) -> Tensor:
    """Convert RGB in [0, 1] to hue in [-pi, pi), saturation and value.

    The hue of grey and the saturation of black are undefined; both are set to 0, with gradient 0
    instead of an infinite one.

    Args:
        images: (N, 3, H, W).

    Returns:
        (N, 3, H, W).

    Example:
        >>> blue = torch.tensor([0.0, 0.0, 0.5]).reshape(1, 3, 1, 1)
        >>> (3 / math.pi * rgb_to_hsv(blue)[0, 0]).round().item()  # a third of a turn back
        -2.0
    """
    _check_colour_images(images)
    red, green, blue = images.unbind(1)
    value = images.amax(1)
    chroma = value - images.amin(1)
    limits = torch.finfo(images.dtype)
    least = max(limits.eps**2, limits.tiny)  # 1 / chroma^2 would overflow below this value
    coloured, lit = chroma > least, value > least
    divisor = torch.where(coloured, chroma, 1.0)
    sextant = torch.where(
        value == red,
        (green - blue) / divisor,
        torch.where(value == green, (blue - red) / divisor + 2, (red - green) / divisor + 4),
    )
    hue = torch.where(coloured, wrap_angle(sextant * _SEXTANT), 0.0)
    saturation = torch.where(lit, chroma / torch.where(lit, value, 1.0), 0.0)
    return torch.stack((hue, saturation, value), 1)


def hsv_to_rgb(images: Tensor) -> Tensor:
    """Convert hue (any angle), saturation and value to RGB.

    Each channel is v (1 - s w), where w is 0 within a sextant (60 degrees) of the channel's own
    hue, 1 on the opposite side, and linear in between.

    Args:
        images: (N, 3, H, W).

    Returns:
        (N, 3, H, W).

    Example:
        >>> green = torch.tensor([2 * math.pi / 3, 1.0, 1.0]).reshape(1, 3, 1, 1)
        >>> hsv_to_rgb(green).flatten().round().tolist()
        [0.0, 1.0, 0.0]
    """
    _check_colour_images(images)
    hue, saturation, value = images.unbind(1)
    chroma = value * saturation
    channels = []
    for peak in (0, 2, 4):
        distance = wrap_angle(hue - peak * _SEXTANT).abs() / _SEXTANT
        channels.append(value - chroma * torch.clamp(distance - 1, 0, 1))
    return torch.stack(channels, 1)


def clip_straight_through(x: Tensor) -> Tensor:
    """Clip to [0, 1] with derivative 1 everywhere.

    Example:
        >>> x = torch.tensor([-1.0, 0.5, 3.0], requires_grad=True)
        >>> y = clip_straight_through(x)
        >>> y.sum().backward()
        >>> y.tolist(), x.grad.tolist()
        ([0.0, 0.5, 1.0], [1.0, 1.0, 1.0])
    """
    return x.clamp(0, 1).detach() + (x - x.detach())


def _check_colour_images(images: Tensor) -> None:
    check_images(images)
    if images.shape[1] != 3:
        remedy = "grey images have no colour; images.expand(-1, 3, -1, -1) makes three channels"
        raise invalid("images", "shape (N, 3, H, W)", f"shape {tuple(images.shape)}", remedy)
