"""Images as commands and their functions take them: by name or path, or as data in memory."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TypedDict, Unpack

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from symmetries._validation.checks import as_path, invalid
from symmetries.data import NAMES, ImageSet, as_image_set, background, load, picture_folder
from symmetries.data.arrays import npz_members
from symmetries.data.checked_files import check_memory
from symmetries.data.convert import Images
from symmetries.data.pictures import Fit, fitted_size

Readable = str | Path | Images
Say = Callable[[str], None]
SMALLEST = 8  # pixels of a side
COPIES = 0.02  # share of pictures that may be copies of others
LOOKED_AT = 1000  # pictures at most, spread over all, for what stays at the border
GREY_LEVEL = 1 / 255


class Reading(TypedDict, total=False):
    """How named data is read; arguments of :func:`read_images`."""

    folder: str | Path | None
    size: tuple[int, int] | None
    fit: Fit
    skip_bad: bool


def read_images(
    data: Readable,
    split: str = "train",
    *,
    folder: str | Path | None = None,
    size: tuple[int, int] | None = None,
    fit: Fit = "stretch",
    skip_bad: bool = False,
) -> ImageSet:
    """Read the images of one split.

    Args:
        data: a name of :func:`symmetries.data.load`, a file or a folder; or data in memory, which
            has one split.
        split: "train" or "test".
        folder: where files of named sets are.
        size: (H, W) to resize to.
        fit: how pictures of another shape get there: "stretch" them, "crop" what is too long, or
            "pad" what is too short with black.
        skip_bad: leave out pictures that cannot be read.
    """
    if not isinstance(data, str | Path):
        images = as_image_set(data)
        return images if size is None else resized(images, size, fit)
    name, path = str(data), as_path(data, "data").expanduser()
    if name not in NAMES and path.is_dir():
        return picture_folder(path, split, size, fit=fit, skip_bad=skip_bad)
    images = load(name, split, folder)
    return images if size is None else resized(images, size, fit)


def read_splits(data: Readable, **reading: Unpack[Reading]) -> tuple[ImageSet, ImageSet]:
    """Read training and test images; a fifth is held out if the data have no test split.

    The same fifth in all runs, so that no audit scores images that a fit with another seed has
    seen. Arguments as in :func:`read_images`.
    """
    train = read_images(data, **reading)
    if isinstance(data, str | Path) and has_test_split(str(data)):
        return train, read_images(data, "test", **reading)
    if len(train) < 2:
        raise invalid("data", "at least 2 images", len(train), "give more: some are held out")
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    held_out = max(1, len(train) // 5)
    return train.subset(order[held_out:]), train.subset(order[:held_out])


def has_test_split(data: str) -> bool:
    """Whether data of this name or path has a test split of its own."""
    path = as_path(data, "data").expanduser()
    if path.is_dir() and data not in NAMES:
        return (path / "test").is_dir()
    if path.suffix == ".npz" and path.is_file():
        return bool({"x_test", "test_images"} & set(npz_members(path)))
    return path.suffix != ".npy"


def resized(images: ImageSet, size: tuple[int, int], fit: Fit = "stretch") -> ImageSet:
    """Resize images, with an antialiasing filter where they become smaller.

    Args:
        images: the images.
        size: (height, width).
        fit: "stretch" them, "crop" what is too long, or "pad" what is too short with black.
    """
    check_memory("size", 4 * len(images) * images.images.shape[1] * size[0] * size[1])
    given = tuple(images.images.shape[-2:])
    inner = fitted_size((given[0], given[1]), size, fit)
    smaller = inner[0] < given[0] or inner[1] < given[1]
    pictures = interpolate(images.images, inner, mode="bilinear", antialias=smaller).clamp(0, 1)
    top, left = ((inner[axis] - size[axis]) // 2 for axis in (0, 1))
    if fit == "crop":
        pictures = pictures[..., top : top + size[0], left : left + size[1]]
    elif fit == "pad":
        bottom, right = size[0] - inner[0] + top, size[1] - inner[1] + left
        pictures = pad(pictures, (-left, right, -top, bottom))
    return replace(images, images=pictures.contiguous())


def resolve_background(
    images: ImageSet, fill: float | None, say: Say | None = None, *, per_channel: bool = False
) -> float:
    """Return the value of the background: the given one, or that of the borders.

    Args:
        images: that are moved.
        fill: as given; None to look for it.
        say: called with a message if a background was found that is not black.
        per_channel: whether each channel keeps its own: then one with a colour needs no warning.
    """
    if fill is not None:
        return fill
    with warnings.catch_warnings():
        if per_channel:
            warnings.filterwarnings("ignore", message="the background has a colour")
        found = background(images.images)
    if found and say is not None:
        say(f"background {found:.3g}, found at the borders (--fill sets another)")
    return found


def check_labelled(images: ImageSet) -> Tensor:
    """Return the labels of the images, or an error if there are none."""
    if images.labels is None:
        remedy = "add labels (an array, or a folder per class), or use symmetries discover"
        raise invalid(images.name, "labelled images", "no labels", remedy)
    return images.labels


def check_content(images: ImageSet) -> None:
    """Raise an error if all images are of a single colour; some of them may be."""
    if not bool(_varied(images).any()):
        raise invalid("data", "images with some content", "constant ones only", "check the data")


def share_of_copies(images: ImageSet) -> float:
    """Return the share of the images that are exact copies of others, from 0 to 1.

    Example:
        >>> share_of_copies(ImageSet(torch.ones(4, 1, 8, 8)))
        0.75
    """
    seen = {sha256(image.cpu().numpy().tobytes()).digest() for image in images.images}
    return 1 - len(seen) / len(images)


def check_pictures(images: ImageSet) -> None:
    """Raise an error if these are not pictures, such as an array of points or of short signals."""
    height, width = images.images.shape[-2:]
    if min(height, width) < SMALLEST:
        got = f"{len(images):,} arrays of {height} x {width} numbers"
        remedy = "points, signals and tables are no pictures; enlarge pictures that are so small"
        raise invalid("data", f"pictures of at least {SMALLEST} x {SMALLEST} pixels", got, remedy)


def check_what_stays(images: ImageSet, colours: bool = False) -> None:
    """Warn if something at the border is the same in all pictures, which reveals their poses.

    The mean picture is compared with itself after half a turn, as a round window or a plain
    background, which tell nothing of turns, are the same. Of what varies at the border, more than
    half is then the same in all pictures.

    Args:
        images: of any values.
        colours: whether colours are looked for: the mean picture is compared with a grey one.
    """
    some = images.images[:: -(-len(images) // LOOKED_AT)]
    width = max(1, min(some.shape[-2:]) // 8)
    border = torch.ones(some.shape[-2:], dtype=torch.bool)
    border[width:-width, width:-width] = False
    variance, mean = torch.var_mean(some[..., border], 0)
    uneven = mean - mean.mean(0) if colours else (mean - mean.flip(-1)) / 2
    if float(uneven.square().mean()) < max(GREY_LEVEL**2, float(variance.mean())):
        return
    text = "the border (light, a stamp or a background) is nearly the same in all pictures and "
    text += "reveals their poses, so that objects that move in front of it are not counted; crop "
    text += "the objects, or divide by the mean picture"
    if colours:
        text = "the border has nearly the same colours in all pictures and reveals their hues, so "
        text += "that objects whose hue changes are not counted; make the background grey or black"
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def without_constant(images: ImageSet) -> ImageSet:
    """Return the images that are not of a single colour; warn if some were left out."""
    check_content(images)
    varied = _varied(images)
    if bool(varied.all()):
        return images
    dropped = int((~varied).sum())
    warnings.warn(f"{dropped} images of one colour were left out", RuntimeWarning, stacklevel=2)
    return images.subset(varied)


def _varied(images: ImageSet) -> Tensor:
    """(N,): whether an image has more than one value."""
    flat = images.images.flatten(1)
    return flat.amax(1) > flat.amin(1)
