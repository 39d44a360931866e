"""Image sets from folders of image files, with or without a folder per class."""

import math
import warnings
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from symmetries._utils.text import printable
from symmetries._validation.checks import as_path, check_choice, check_pair, invalid
from symmetries.data.arrays import from_array
from symmetries.data.base import ImageSet
from symmetries.data.checked_files import check_memory

Fit = Literal["stretch", "crop", "pad"]
FITS = ("stretch", "crop", "pad")
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}
# The formats of Pillow that neither run other programs nor load further files.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
FREE_PIXELS = 2**24  # an image up to this size may be compressed by any factor
PIXELS_PER_BYTE = 4096  # compression that no image with content reaches
NAMED = 5  # number of files that a warning names
_GREY = {"1", "L", "LA"}
_COLOUR = {"RGB", "RGBA", "P", "CMYK", "YCbCr"}


def _pictures_in(folder: Path) -> list[Path]:
    files = (path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    return sorted(path for path in files if path.is_file() and not path.name.startswith("."))


def _folders_in(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _check_size(picture: Image.Image, path: Path) -> None:
    """Raise an error if a small file claims to be a huge image, before decoding it."""
    pixels, stored = math.prod(picture.size), path.stat().st_size
    if pixels > FREE_PIXELS and pixels > PIXELS_PER_BYTE * stored:
        raise ValueError(f"{stored} bytes that claim {picture.size[0]} x {picture.size[1]} pixels")


def over_white(picture: Image.Image) -> Image.Image:
    """Return a picture on white if it has transparency, as viewers show it; else unchanged.

    Example:
        >>> over_white(Image.new("LA", (4, 4), (0, 0))).getpixel((0, 0))
        255
    """
    if picture.mode not in _GREY | _COLOUR:
        return picture
    if "A" not in picture.mode and "transparency" not in picture.info:
        return picture
    full = picture.convert("RGBA")
    shown = Image.alpha_composite(Image.new("RGBA", full.size, "white"), full)
    return shown.convert("L" if picture.mode in _GREY else "RGB")


def fitted_size(given: tuple[int, int], size: tuple[int, int], fit: Fit) -> tuple[int, int]:
    """Size (height, width) of the whole picture before it is cropped or padded to ``size``.

    Example:
        >>> [fitted_size((100, 200), (50, 50), how) for how in ("stretch", "crop", "pad")]
        [(50, 50), (50, 100), (25, 50)]
    """
    check_choice(fit, FITS, "fit")
    if fit == "stretch":
        return size
    ratios = [new / old for new, old in zip(size, given, strict=True)]
    factor = max(ratios) if fit == "crop" else min(ratios)
    whole = [max(1, round(factor * side)) for side in given]
    ends = zip(whole, size, strict=True)
    kept = [max(a, b) if fit == "crop" else min(a, b) for a, b in ends]
    return kept[0], kept[1]


def _fitted(picture: Image.Image, size: tuple[int, int], fit: Fit) -> Image.Image:
    """A picture of this (height, width): stretched, cropped around its centre, or on black."""
    height, width = fitted_size((picture.height, picture.width), size, fit)
    whole = picture.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - size[1]) // 2, (height - size[0]) // 2
    if (height, width) == tuple(size):
        return whole
    return whole.crop((left, top, left + size[1], top + size[0]))  # black outside


def frame_count(picture: Image.Image) -> int:
    """Number of frames or pages of an opened picture that are pictures in their own right.

    A photograph in the format MPO (a .jpg file of most telephones) is one: what follows the first
    frame are previews and maps of brightness or depth.
    """
    return 1 if picture.format == "MPO" else int(getattr(picture, "n_frames", 1))


def read_picture(path: Path, size: tuple[int, int] | None, fit: Fit = "stretch") -> Image.Image:
    """Read a picture, on white if it is transparent, resized to (height, width) if given.

    Of a file with several frames or pages (GIF, APNG, TIFF, WebP) the first is read, and a warning
    names the file.
    """
    picture, frames = _read(path, size, fit)
    if frames > 1:
        _warn_of_frames([path.name])
    return picture


def _warn_of_frames(names: list[str]) -> None:
    text = f"of several frames or pages the first is used: {_named(names)}"
    warnings.warn(f"{text}; save those that you mean as files", RuntimeWarning, stacklevel=4)


def _named(names: list[str]) -> str:
    """Return the first names of a list that may be long."""
    return ", ".join(names[:NAMED]) + (f", ... ({len(names)} files)" if len(names) > NAMED else "")


def _read(path: Path, size: tuple[int, int] | None, fit: Fit) -> tuple[Image.Image, int]:
    """Return a picture as :func:`read_picture` gives it, and the number of its frames."""
    try:
        with Image.open(path, formats=FORMATS) as opened:
            _check_size(opened, path)
            frames = frame_count(opened)
            opened.load()
            ImageOps.exif_transpose(opened, in_place=True)  # orientation of the camera
            picture = over_white(opened)
    except Exception as error:  # decoders raise errors of any type for malformed bytes
        remedy = "remove it, save it again, or leave it out: skip_bad=True, or --skip-bad"
        raise invalid(str(path), "a readable picture", f"{error}", remedy) from error
    if picture.mode not in _GREY | _COLOUR:
        remedy = "save it with 8 bits per channel"
        raise invalid(str(path), "a picture of 8-bit grey or colour", picture.mode, remedy)
    if size is None:
        return picture, frames
    full = picture.convert("RGB" if picture.mode in _COLOUR else "L")
    return _fitted(full, size, fit), frames


def _check_budget(files: list[Path], size: tuple[int, int] | None) -> None:
    """Refuse pictures that will not fit into memory together, by their headers alone."""
    pixels, largest, colour = 0, 0, False
    for file in files:
        try:
            with warnings.catch_warnings(), Image.open(file, formats=FORMATS) as opened:
                warnings.simplefilter("ignore")
                here = math.prod(opened.size)
                colour = colour or opened.mode not in _GREY
        except Exception:  # it is named when it is read
            continue
        largest = max(largest, here)
        pixels += here if size is None else math.prod(size)
    # Bytes and float32 of all, and one picture as the decoder holds it.
    check_memory(files[0].parent, pixels * (3 if colour else 1) * 5 + 4 * largest)


def _read_all(
    files: list[Path], size: tuple[int, int] | None, fit: Fit, skip_bad: bool
) -> tuple[list[Path], list[NDArray[np.uint8]]]:
    """Return the pictures as bytes, (H, W) or (H, W, 3), and the files they came from."""
    pictures: list[NDArray[np.uint8]] = []
    good, bad, several = [], [], []
    _check_budget(files, size)
    for file in files:
        try:
            picture, frames = _read(file, size, fit)
            several += [file.name] if frames > 1 else []
            mode = "L" if picture.mode in _GREY else "RGB"
            pictures.append(np.asarray(picture.convert(mode)))
            good.append(file)
        except ValueError:
            if not skip_bad:
                raise
            bad.append(file.name)
    if bad and not good:
        raise invalid("pictures", "at least one that can be read", "none", "save them again")
    if bad:
        text = f"left out {len(bad)} unreadable: {_named(bad)}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    if several:
        _warn_of_frames(several)
    return good, pictures


def _stacked(pictures: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Pictures (N, H, W) if all are grey, else (N, H, W, 3); the list is empty afterwards."""
    grey = all(picture.ndim == 2 for picture in pictures)
    shape = (len(pictures), *pictures[0].shape[:2], *(() if grey else (3,)))
    images: NDArray[np.uint8] = np.empty(shape, np.uint8)
    for number in reversed(range(len(pictures))):
        picture = pictures.pop()
        images[number] = picture if picture.ndim == len(shape) - 1 else picture[..., None]
    return images


def picture_files(root: Path, split: str) -> tuple[list[Path], list[Path]]:
    """Return the picture files of a split, and the class folders if there are any."""
    check_choice(split, ("train", "test"), "split")
    if not root.is_dir():
        raise invalid("folder", "a folder of pictures", f"{str(root)!r}", "give an existing one")
    folder = root / split
    if not folder.is_dir():
        if split != "train":
            remedy = f'make a folder {split!r} in it, or use split="train" and take a subset'
            raise invalid(str(root), f"a folder {split!r}", "none", remedy)
        folder = root
    loose, classes = _pictures_in(folder), [p for p in _folders_in(folder) if _pictures_in(p)]
    if loose and classes:
        got = f"{len(loose)} pictures beside class folders such as {classes[0].name!r}"
        raise invalid(str(folder), "pictures or class folders", got, "move the loose pictures")
    files = loose or [file for c in classes for file in _pictures_in(c)]
    if not files:
        kinds = ", ".join(sorted(SUFFIXES))
        raise invalid(str(folder), f"pictures ({kinds})", "none", "check the folder")
    return files, classes


def picture_folder(
    path: str | Path,
    split: str = "train",
    size: tuple[int, int] | None = None,
    *,
    fit: Fit = "stretch",
    skip_bad: bool = False,
) -> ImageSet:
    """Load the pictures in a folder: grey if all are grey, else colour; on white if transparent.

    Subfolders "train" and "test" are the splits; a folder without them is all "train". Subfolders
    of a split are its classes, sorted by name.

    Args:
        path: the folder.
        split: "train" or "test".
        size: (height, width) to resize all pictures to; without it they must be of equal size.
        fit: how pictures of another shape get that size: "stretch" them, "crop" what is too long,
            or "pad" what is too short with black.
        skip_bad: if True, skip pictures that cannot be read, with a warning that names them.
    """
    root = as_path(path)
    if size is not None:
        check_pair(size, "size")
    files, classes = picture_files(root, split)
    files, pictures = _read_all(files, size, fit, skip_bad)
    for file, picture in zip(files, pictures, strict=True):
        if picture.shape[:2] != pictures[0].shape[:2]:
            sizes = [one.shape[1::-1] for one in (picture, pictures[0])]
            got = f"{sizes[0]} in {file.name} and {sizes[1]} in {files[0].name}"
            remedy = "resize them: size=(height, width), or --resize for a command"
            raise invalid(str(root), "pictures of one size (width, height)", got, remedy)
    images = _stacked(pictures)
    layout = "NHW" if images.ndim == 3 else "NHWC"
    name = printable(root.name)
    if not classes:
        return from_array(images, None, name, layout=layout)
    labels = np.array([classes.index(file.parent) for file in files])
    return from_array(images, labels, name, tuple(printable(c.name) for c in classes), layout)
