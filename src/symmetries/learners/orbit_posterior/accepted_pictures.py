"""Checks of the pictures that an orbit posterior learns from."""

import torch
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.data.base import FAR, ImageSet, check_unit_range, images_to_learn

FEWEST = 64  # different pictures


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
    distinct = _count_distinct(flat)
    if distinct < FEWEST:
        got = f"{distinct} different ones of {len(data)}"
        remedy = "what occurs in so few cannot be told from what does not"
        raise invalid("images", f"at least {FEWEST} different pictures", got, remedy)
    return data


def _count_distinct(rows: Tensor) -> int:
    """How many rows differ as 8-bit pictures would, as far as there are enough of them."""
    seen: set[bytes] = set()
    for row in rows:
        seen.add((row * 255).round().to(torch.int16).cpu().numpy().tobytes())
        if len(seen) >= FEWEST:
            break
    return len(seen)
