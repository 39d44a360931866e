"""Checks of the pictures that an orbit posterior learns from."""

from hashlib import blake2b

import torch
from torch import Tensor

from symmetries._validation.checks import check_chw, invalid
from symmetries.data.base import FAR, ImageSet, check_unit_range, images_to_learn

FEWEST = 64  # different pictures
SMALLEST = 8  # pixels
CHUNK = 1024


def check_picture_shape(shape: tuple[int, int, int]) -> None:
    """Raise unless pictures of the shape (C, H, W) are large enough to have a pose."""
    check_chw(shape)
    if min(shape[1:]) < SMALLEST:
        remedy = "these are no pictures whose pose can be told: give larger ones"
        raise invalid("shape", f"at least {SMALLEST} x {SMALLEST} pixels", shape, remedy)


def pictures_to_learn(images: Tensor | ImageSet, shape: tuple[int, ...]) -> Tensor:
    """The images, if the pose of some can be told: different pictures, not of one colour.

    Args:
        images: (N, C, H, W), or a set.
        shape: (C, H, W) that they must have.
    """
    data = images_to_learn(images, shape)
    check_unit_range(data, "images", FAR)
    flat = data.flatten(1)
    constant = int((flat.amax(1) == flat.amin(1)).sum())
    if constant > len(data) // 2:
        got = f"{constant} of {len(data)} of one colour"
        remedy = "every transformation leaves these alone: drop them"
        raise invalid("images", "pictures with some content", got, remedy)
    distinct = len(first_copies(data).unique())
    if distinct < FEWEST:
        got = f"{distinct} different ones of {len(data)}"
        remedy = "what occurs in so few cannot be told from what does not"
        raise invalid("images", f"at least {FEWEST} different pictures", got, remedy)
    return data


def first_copies(images: Tensor) -> Tensor:
    """For each picture (N,) the first one that is the same, as 8-bit pictures would be.

    Example:
        >>> first_copies(torch.eye(3)[[0, 1, 0, 2, 1]]).tolist()
        [0, 1, 0, 3, 1]
    """
    seen: dict[bytes, int] = {}
    found: list[int] = []
    for part in images.split(CHUNK):
        for pixels in (part * 255).round().to(torch.int16).cpu().numpy():
            digest = blake2b(pixels.tobytes(), digest_size=16).digest()
            found.append(seen.setdefault(digest, len(found)))
    return torch.tensor(found)
