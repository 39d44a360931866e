"""Preprocessing of images: normalisation, the order of colours, and the precision of a model.

Groups move pictures in [0, 1]; a model that was trained on normalised ones gets these. So the
background stays what it is in the picture, and a changed hue is a hue.
"""

import re
from collections.abc import Callable
from typing import Literal, cast

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_choice, invalid, short
from symmetries.auditing.answers import adapt
from symmetries.auditing.models import Model
from symmetries.data.pictures import FITS
from symmetries.results import Preprocessing

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CHANNELS = ("rgb", "bgr")
_NUMBERS = r"[\d.eE+-]+(?:\s*,\s*[\d.eE+-]+)*"


def parse_normalisation(text: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return means and standard deviations from "imagenet" or "0.5,0.5,0.5/0.25,0.25,0.25".

    Example:
        >>> parse_normalisation("0.5/0.25")
        ((0.5,), (0.25,))
    """
    if text.strip().lower() == "imagenet":
        return IMAGENET
    remedy = "write imagenet, or means/standard deviations: 0.5,0.5,0.5/0.25,0.25,0.25"
    problem = invalid("normalize", "imagenet or mean/std", short(text), remedy)
    if re.fullmatch(rf"\s*{_NUMBERS}\s*/\s*{_NUMBERS}\s*", text) is None:
        raise problem
    try:
        mean, std = (tuple(float(value) for value in part.split(",")) for part in text.split("/"))
    except ValueError:
        raise problem from None
    if len(mean) != len(std) or min(std) <= 0:
        raise problem
    return mean, std


def make_preprocessing(
    normalize: str | None = None,
    channels: str | None = None,
    size: tuple[int, int] | None = None,
    fit: str = "stretch",
) -> Preprocessing:
    """Return the preprocessing that command-line options describe."""
    mean, std = (None, None) if normalize is None else parse_normalisation(normalize)
    if channels is not None:
        check_choice(channels, CHANNELS, "channels")
    check_choice(fit, FITS, "fit")
    if size is None and fit != "stretch":
        remedy = "give the size that the model takes: --resize 224 (size=)"
        raise invalid("fit", "a size to fit images into", f"{fit!r} without one", remedy)
    order = cast("Literal['rgb', 'bgr']", channels or "rgb")
    how = cast("Literal['stretch', 'crop', 'pad']", fit)
    return Preprocessing(size=size, fit=how, channels=order, mean=mean, std=std)


def preprocessed(model: Model, done: Preprocessing) -> Model:
    """Return the model as a function of pictures in [0, 1], red first.

    Grey pictures are given three equal channels if the model takes three.

    Example:
        >>> done = make_preprocessing("0.5,0.5,0.5/0.5,0.5,0.5", "bgr")
        >>> preprocessed(lambda x: x, done)(torch.ones(1, 1, 2, 2))[0, :, 0, 0].tolist()
        [1.0, 1.0, 1.0]
    """
    if done.mean is None and done.channels == "rgb":
        return model
    return adapt(model, before=_Before(done))


class _Before(nn.Module):
    """Order of colours and normalisation."""

    mean: Tensor
    std: Tensor

    def __init__(self, done: Preprocessing) -> None:
        super().__init__()
        self.reverse = done.channels == "bgr"
        mean = done.mean or (0.0,)
        self.count = max(len(mean), 3 if self.reverse else 1)
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(done.std or (1.0,))[:, None, None], False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) as the model was trained on."""
        if x.shape[1] == 1 and self.count > 1:
            x = x.expand(-1, self.count, -1, -1)
        if self.count > 1 and x.shape[1] != self.count:
            got = f"images with {x.shape[1]} channels"
            remedy = f"give {x.shape[1]} means and standard deviations, and leave out the order"
            raise invalid("normalize", f"images with {self.count} channels", got, remedy)
        x = x.flip(1) if self.reverse else x
        mean, std = (part.to(x) for part in (self.mean, self.std))
        return (x - mean) / std


class InPrecision(nn.Module):
    """A model that computes in another precision; inputs and outputs stay in theirs.

    Args:
        model: from images to logits.
        precision: "64-true", "bf16-true" or "bf16-mixed".
    """

    def __init__(self, model: Callable[[Tensor], Tensor], precision: str) -> None:
        super().__init__()
        self.dtype = torch.float64 if precision == "64-true" else torch.bfloat16
        self.mixed = precision.endswith("mixed")
        if isinstance(model, nn.Module) and not self.mixed:
            model = model.to(self.dtype)
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (N, K)."""
        if self.mixed:
            with torch.autocast(x.device.type, self.dtype):
                return self.model(x).to(x)
        return self.model(x.to(self.dtype)).to(x)
