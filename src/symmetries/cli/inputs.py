"""Data as commands take it: by name or path, resized, without what cannot be read."""

import re
import warnings
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from symmetries._validation.checks import as_path, invalid, short
from symmetries.cli.options import Reading
from symmetries.cli.runs import Run
from symmetries.data import NAMES, ImageSet, background, load, picture_folder
from symmetries.data.arrays import npz_members
from symmetries.data.files import check_memory


@dataclass(frozen=True)
class Source:
    """Where images come from.

    Args:
        data: a name, a file or a folder.
        reading: how: where files of named sets lie, resized, without pictures that are bad.
    """

    data: str
    reading: Reading = Reading()  # noqa: RUF009 - frozen

    def load(self, split: str = "train") -> ImageSet:
        """The images of one split."""
        resize = self.reading.resize
        size = None if resize is None else parse_size(resize)
        path = as_path(self.data, "data").expanduser()
        if self.data not in NAMES and path.is_dir():
            return picture_folder(path, split, size, skip_bad=self.reading.skip_bad)
        images = load(self.data, split, self.reading.folder)
        return images if size is None else resized(images, size)

    def splits(self) -> tuple[ImageSet, ImageSet]:
        """Training and test images; a fifth is held out where the data has no test split.

        The same fifth in all runs: no audit scores images that a fit with another seed has seen.
        """
        train = self.load()
        if self._has_test():
            return train, self.load("test")
        if len(train) < 2:
            raise invalid("data", "at least 2 images", len(train), "some are held out for testing")
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
        held_out = max(1, len(train) // 5)
        return train.subset(order[held_out:]), train.subset(order[:held_out])

    def _has_test(self) -> bool:
        path = as_path(self.data, "data").expanduser()
        if path.is_dir() and self.data not in NAMES:
            return (path / "test").is_dir()
        if path.suffix == ".npz" and path.is_file():
            return bool({"x_test", "test_images"} & set(npz_members(path)))
        return path.suffix != ".npy"


def parse_size(text: str) -> tuple[int, int]:
    """Height and width from "32" or "48x32", which is width x height as pictures are named.

    Example:
        >>> parse_size("48x32"), parse_size("16")
        ((32, 48), (16, 16))
    """
    found = re.fullmatch(r"(\d{1,9})(?:[x×](\d{1,9}))?", text.strip().lower())
    if found is None or any(part is not None and int(part) == 0 for part in found.groups()):
        raise invalid("--resize", "a size such as 32 or 48x32", short(text), "width x height")
    width = int(found[1])
    return int(found[2] or width), width


def resized(images: ImageSet, size: tuple[int, int]) -> ImageSet:
    """Images of another size, with what would alias filtered out."""
    check_memory("--resize", 4 * len(images) * images.images.shape[1] * size[0] * size[1])
    smaller = size[0] < images.images.shape[-2] or size[1] < images.images.shape[-1]
    pictures = interpolate(images.images, size, mode="bilinear", antialias=smaller).clamp(0, 1)
    return replace(images, images=pictures)


def around(images: ImageSet, fill: float | None, run: Run) -> float:
    """The value of the background: as given, or found at the borders and said, if not black."""
    if fill is not None:
        return fill
    found = background(images.images)
    if found:
        run.say(f"background {found:.3g}, found at the borders (--fill sets another)")
    return found


def check_content(images: ImageSet) -> None:
    """Raise if all images are of one colour; some may be, as a class of its own, for example."""
    if not bool(_varied(images).any()):
        raise invalid("data", "images with some content", "constant ones only", "check the data")


def without_constant(images: ImageSet) -> ImageSet:
    """Images without those of one colour, which say nothing about symmetries; warns about them."""
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
