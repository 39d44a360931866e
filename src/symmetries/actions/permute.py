"""Action of finite groups by permuting pixels, where the pixel grid permits it."""

import torch
from torch import Tensor

from symmetries._utils.caching import constant
from symmetries._validation.checks import invalid
from symmetries.groups.finite import Cyclic, CyclicShift, Dihedral, FiniteGroup, Flip


def permutes_pixels(group: FiniteGroup, height: int, width: int) -> bool:
    """Return whether every element permutes the pixels of an image of this size.

    Example:
        >>> permutes_pixels(Cyclic(4), 28, 28), permutes_pixels(Cyclic(4), 28, 32)
        (True, False)
    """
    if isinstance(group, CyclicShift):
        side = width if group.axis == "x" else height
        if side % group.fold:
            expected = f"a side divisible by {group.fold}"
            raise invalid("images", expected, f"{side} pixels along {group.axis}", "resize or pad")
        return True
    if isinstance(group, Flip):
        return True
    if isinstance(group, Cyclic | Dihedral):
        return group.n <= 2 or (group.n == 4 and height == width)
    return False


def permute(group: FiniteGroup, element: Tensor, images: Tensor) -> Tensor:
    """Return the images moved by permuting their pixels.

    Args:
        group: a group for which :func:`permutes_pixels` holds.
        element: indices; () or (N,), or (N, S) or (1, S) for S versions of each image.
        images: (N, C, H, W).

    Returns:
        (N, C, H, W), or (N, S, C, H, W) for two-dimensional ``element``.
    """
    n, c, height, width = images.shape
    sources = _sources(group, height, width, images.device)[element]
    flat = images.flatten(2)
    if element.ndim == 0:
        return flat[..., sources].reshape(images.shape)
    if element.ndim == 1:
        return flat.gather(2, sources[:, None].expand(n, c, -1)).reshape(images.shape)
    versions = element.shape[1]
    index = sources[:, :, None].expand(n, versions, c, -1)
    moved = flat[:, None].expand(n, versions, c, -1).gather(3, index)
    return moved.reshape(n, versions, c, height, width)


@constant
def _sources(group: FiniteGroup, height: int, width: int, device: torch.device) -> Tensor:
    """Return (order, H W): for each element and output pixel, the index of its source pixel."""
    rows, columns = torch.arange(height)[:, None], torch.arange(width)[None, :]
    elements = group.elements()
    if isinstance(group, CyclicShift):
        steps = elements[:, None, None]
        # Rows are numbered downwards: moving up by s rows reads from s rows further down.
        if group.axis == "x":
            columns = (columns - steps * (width // group.fold)) % width
        else:
            rows = (rows + steps * (height // group.fold)) % height
        table = (rows * width + columns).expand(len(elements), height, width)
    else:
        # Twice the coordinates of pixel centres are integers, with x right and y up.
        matrix = group.matrix(group.inverse(elements)).round().long()  # type: ignore[attr-defined]
        x = (2 * columns + 1 - width).expand(height, width)
        y = (height - 1 - 2 * rows).expand(height, width)
        source = matrix[:, :2, :2] @ torch.stack((x, y)).reshape(2, -1)
        column, row = (source[:, 0] + width - 1) // 2, (height - 1 - source[:, 1]) // 2
        table = row * width + column
    return table.reshape(len(elements), -1).to(device)
