"""The handwritten digits of scikit-learn: real images that need no file and no network."""

import numpy as np

from symmetries._validation.checks import check_choice
from symmetries.data.arrays import from_array
from symmetries.data.base import ImageSet
from symmetries.data.draws import Draws

TEST_COUNT = 360


def digits(split: str = "train") -> ImageSet:
    """Load the 1,797 digits of 8 x 8 pixels that ship with scikit-learn, in a fixed split.

    Args:
        split: "train" (1,437 images) or "test" (360).

    Example:
        >>> digits("test").images.shape
        torch.Size([360, 1, 8, 8])
    """
    from sklearn.datasets import load_digits

    check_choice(split, ("train", "test"), "split")
    bunch = load_digits()
    order = Draws(0, "digits/split").permutation(len(bunch.images))
    chosen = order[:TEST_COUNT] if split == "test" else order[TEST_COUNT:]
    images = (bunch.images[chosen] / 16).astype(np.float32)
    return from_array(images, bunch.target[chosen], "digits", tuple("0123456789"))
