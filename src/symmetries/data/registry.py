"""Data sets by name, by path, or from a torch data set."""

import difflib
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from symmetries._validation.checks import as_path, invalid, wrong_type
from symmetries.data.arrays import array_file
from symmetries.data.base import ImageSet
from symmetries.data.cifar_files import cifar
from symmetries.data.datasets import digits, from_dataset
from symmetries.data.derived import coloured, rotated, scaled, translated, upside_down_sixes
from symmetries.data.drifting import transforming
from symmetries.data.idx import fashion_mnist, mnist
from symmetries.data.pictures import picture_folder
from symmetries.data.sprite_sets import dsprites, sprites

Folder = str | Path | None
Loader = Callable[[str, Folder], ImageSet]
Variant = Callable[[ImageSet, str], ImageSet]

_BASES: dict[str, tuple[Loader, str]] = {
    "digits": (
        lambda split, folder: digits(split),
        "handwritten digits of scikit-learn, 8 x 8 grey; no file needed",
    ),
    "sprites": (
        lambda split, folder: sprites(split),
        "rendered dSprites, 32 x 32 grey, uniformly sampled; no file needed",
    ),
    "sprites-resampled": (
        lambda split, folder: sprites(split, size=64, supersample=1, resample=True),
        "rendered dSprites, 64 x 64, with Allingham et al.'s densities of factors; no file needed",
    ),
    "mnist": (mnist, "MNIST, handwritten digits, 28 x 28 grey"),
    "fashion-mnist": (fashion_mnist, "Fashion-MNIST, articles of clothing, 28 x 28 grey"),
    "cifar10": (partial(cifar, "cifar10"), "CIFAR-10, photographs of 10 classes, 32 x 32 colour"),
    "cifar100": (
        partial(cifar, "cifar100"),
        "CIFAR-100, photographs of 100 classes, 32 x 32 colour",
    ),
    "dsprites": (dsprites, "the published dSprites, 64 x 64 grey, uniformly sampled"),
    "dsprites-resampled": (
        partial(dsprites, resample=True),
        "the published dSprites with Allingham et al.'s densities of factors",
    ),
}

_VARIANTS: dict[str, tuple[Variant, str]] = {
    "rotated": (
        lambda data, split: rotated(data, 180, split),
        "every image rotated by its own angle in [-180, 180] degrees (Ouderaa & Wilk 2022)",
    ),
    "partially-rotated": (
        lambda data, split: rotated(data, 90, split),
        "every image rotated by its own angle in [-90, 90] degrees (Ouderaa & Wilk 2022)",
    ),
    "translated": (
        lambda data, split: translated(data, None, split),
        "every image shifted by up to 8 pixels along x and y (Ouderaa & Wilk 2022)",
    ),
    "scaled": (
        lambda data, split: scaled(data, 2.0, split),
        "every image scaled by its own factor from 1/2 to 2 (Ouderaa & Wilk 2022)",
    ),
    "colour": (coloured, "every image with its own hue and saturation (Allingham et al. 2024)"),
}


def _added_rotation(degrees: float) -> tuple[Variant, str]:
    meaning = f"every image rotated by its own angle of up to {degrees:g} degrees"
    return (lambda data, split: rotated(data, degrees, split)), meaning


_ANGLE = re.compile(r"rotated-(\d+(?:\.\d+)?)")

_SPECIAL: dict[str, tuple[Loader, str]] = {
    "mnist6-180": (
        lambda split, folder: upside_down_sixes(mnist(split, folder), split),
        "the sixes of MNIST, half of them rotated by 180 degrees (Ouderaa et al. 2022)",
    ),
    "mnist6-180-pairs": (
        lambda split, folder: upside_down_sixes(mnist(split, folder), split, pairs=True),
        "the sixes of MNIST, each with its rotated copy (Ouderaa et al.'s baseline)",
    ),
}
for _base, _title in (("mnist", "MNIST"), ("fashion-mnist", "FMNIST")):
    for _group, _moves in (("r4", "quarter turns"), ("t3", "cyclic shifts by thirds")):
        _SPECIAL[f"transforming-{_base}-{_group}"] = (
            partial(transforming, _base, _group),
            f"Transforming-{_title}: 9 classes, 36 x 36, {_moves} (Moskalev et al. 2023)",
        )

NAMES: dict[str, str] = {name: entry[1] for name, entry in _BASES.items()}
for _base in ("mnist", "cifar10"):
    for _suffix in ("rotated", "partially-rotated", "translated", "scaled"):
        NAMES[f"{_base}-{_suffix}"] = _VARIANTS[_suffix][1]
NAMES["mnist-rotated-15"] = _added_rotation(15)[1]
NAMES["mnist-colour"] = _VARIANTS["colour"][1]
NAMES.update({name: entry[1] for name, entry in _SPECIAL.items()})


def names() -> tuple[str, ...]:
    """Return the names that :func:`load` knows; derived sets exist for every plain set.

    Example:
        >>> "digits" in names() and "mnist-rotated" in names()
        True
    """
    return tuple(NAMES)


def describe(name: str) -> str:
    """Return a one-line description of a named set.

    Example:
        >>> describe("digits-rotated")
        'digits: every image rotated by its own angle in [-180, 180] degrees (Ouderaa & Wilk 2022)'
    """
    if not isinstance(name, str):
        raise wrong_type("name", "the name of a data set", name, f"known: {', '.join(NAMES)}")
    if name in _BASES or name in _SPECIAL:
        return NAMES[name]
    derived = _derived(name)
    if derived is None:
        raise _unknown(name, "the name of a data set")
    base, (_, meaning) = derived
    return f"{base}: {meaning}"


def load(
    name_or_path: "str | Path | Dataset[Any]", split: str = "train", folder: Folder = None
) -> ImageSet:
    """Load images by name, from a file or a folder of pictures, or from a torch data set.

    Names take precedence over paths: write "./digits" for a folder called digits. A plain name with
    a suffix is a derived set: "mnist-rotated", "cifar10-translated", "digits-rotated-45".

    Args:
        name_or_path: one of :func:`names`; a .npy or .npz file; a folder of pictures; or a torch
            data set.
        split: "train" or "test" (and "validation" if the set has one).
        folder: folder of the data files of named sets; the default is $SYMMETRIES_DATA.

    Example:
        >>> load("digits-rotated", "test").images.shape
        torch.Size([360, 1, 8, 8])
    """
    if isinstance(name_or_path, Dataset):
        return from_dataset(name_or_path)
    if isinstance(name_or_path, Path):
        return _load_path(name_or_path, split)
    if not isinstance(name_or_path, str):
        remedy = "use symmetries.data.from_array for arrays and tensors"
        raise wrong_type("data", "a name, a path or a torch data set", name_or_path, remedy)
    plain = _SPECIAL.get(name_or_path) or _BASES.get(name_or_path)
    if plain is not None:
        return plain[0](split, folder)
    derived = _derived(name_or_path)
    if derived is None:
        return _load_path(as_path(name_or_path, "data"), split)
    base, (change, _) = derived
    return replace(change(_BASES[base][0](split, folder), split), name=name_or_path)


def _load_path(path: Path, split: str) -> ImageSet:
    path = path.expanduser()
    if path.is_dir():
        return picture_folder(path, split)
    if not path.is_file():
        raise _unknown(str(path), "a name or an existing path")
    if path.suffix not in (".npy", ".npz"):
        expected = "a .npy or .npz file or a folder of pictures"
        raise invalid("data", expected, f"the file {path}", "convert the file")
    return array_file(path, split)


def _unknown(name: str, expected: str) -> ValueError:
    near = difflib.get_close_matches(name, NAMES, 3)
    remedy = f"did you mean {' or '.join(near)}?" if near else "see: symmetries data list"
    return invalid("data", expected, repr(name), remedy)


def _derived(name: str) -> tuple[str, tuple[Variant, str]] | None:
    """Return the plain set of a derived name, its transformation, and its description."""
    for base in sorted(_BASES, key=len, reverse=True):
        if name.startswith(f"{base}-"):
            suffix = name.removeprefix(f"{base}-")
            angle = _ANGLE.fullmatch(suffix)
            if angle is not None:
                return base, _added_rotation(float(angle[1]))
            if suffix in _VARIANTS:
                return base, _VARIANTS[suffix]
    return None
