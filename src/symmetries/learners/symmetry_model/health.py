"""Warnings about data or training that make a symmetry model fail, with the remedy."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries._utils.sampling import some_of
from symmetries.actions.images import ImageAction

if TYPE_CHECKING:
    from symmetries.learners.symmetry_model.model import SymmetryModel

LOOKED_AT = 256
LEAST_KEPT = 0.6
LEAST_IN_FRAME = 0.7
LEAST_SOFT = 0.05
OVERFIT_GAP = 1.5  # nats; 600 digits of 8 x 8 give 2.9 and twice the width, 1,400 give 1.0


@torch.no_grad()
def check_frame(act: ImageAction, images: Tensor, bounds: Sequence[float], seed: int) -> None:
    """Warn if random transformations within the bounds push much of the picture out of its frame.

    Judged by what is left of |x - background| after a transformation and its inverse.
    """
    if not _moves_pixels(act):
        return
    x = some_of(images, LOOKED_AT)
    generator = torch.Generator().manual_seed(seed)
    unit = 2 * torch.rand(len(x), len(bounds), generator=generator) - 1
    eta = (unit * torch.tensor(bounds)).to(x.device)
    back = act(act.group.exp(-eta), act(act.group.exp(eta), x))
    kept = float((back - act.fill).abs().sum() / (x - act.fill).abs().sum().clamp_min(1e-12))
    if kept < LEAST_IN_FRAME:
        listed = ", ".join(f"{n} {b:.3g}" for n, b in zip(act.group.names, bounds, strict=True))
        warnings.warn(
            f"bounds: random transformations push {100 * (1 - kept):.0f} % of the picture out of "
            f"its frame ({listed}); make shifts and scales smaller, or pad the images, "
            "or set fill to the background's value",
            RuntimeWarning,
            stacklevel=7,  # who called fit
        )


def _moves_pixels(act: ImageAction) -> bool:
    """Return whether pictures are resampled; colours and most finite groups do not resample."""
    return not all(part.finite or part.changes_values for part in act.group.factors)


def warn_if_jagged(act: ImageAction, images: Tensor) -> None:
    """Warn if edges are steps between pixels and the transformations resample images."""
    if _moves_pixels(act) and softness(some_of(images, LOOKED_AT)) < LEAST_SOFT:
        warnings.warn(
            "images: edges are sharp steps between pixels, and how they are resampled reveals how "
            "far a shape was turned, so that widths may be much too small; draw the images larger "
            "and shrink them, or blur them by a pixel",
            RuntimeWarning,
            stacklevel=7,  # who called fit
        )


@torch.no_grad()
def softness(images: Tensor) -> float:
    """Return the number of intermediate pixels per edge pixel: how soft the edges are.

    0 for drawings in two values, about 1 where edges are antialiased; infinite without edges.

    Args:
        images: (N, C, H, W).

    Example:
        >>> step = (torch.arange(8) > 3).float().expand(1, 1, 8, 8)
        >>> softness(step), softness(step.roll(1, 3) / 2 + step / 2) > 0.5
        (0.0, True)
    """
    low, high = images.aminmax()
    x = (images - low) / (high - low).clamp_min(1e-12)
    between = float(((x > 0.05) & (x < 0.95)).sum())
    steps = [(x.diff(dim=axis).abs() > 0.5).sum() for axis in (2, 3)]
    edges = float(sum(steps))
    return between / edges if edges else float("inf")


@torch.no_grad()
def content_kept(model: "SymmetryModel", x: Tensor) -> float:
    """1 - |x - T_e T_e^-1 x|^2 / |x - background|^2: 1 if nothing is lost, 0 if all is."""
    element = model.element(x)
    there = model.act(model.group.inverse(element), x)
    back = model.act(element, there)
    lost = (x - back).square().sum()
    return float(1 - lost / (x - model.act.fill).square().sum().clamp_min(1e-12))


def warn_if_collapsed(model: "SymmetryModel", images: Tensor) -> None:
    """Warn if prototypes have lost the picture, the degenerate optimum of the first stage."""
    kept = content_kept(model, some_of(images, LOOKED_AT).to(model.device))
    if kept < LEAST_KEPT:
        warnings.warn(
            f"the prototypes keep only {100 * max(kept, 0.0):.0f} % of the images' contents: the "
            "first stage has collapsed; raise invertibility to 1, use loss='one-sided' or "
            "squash='tanh', or make the bounds smaller",
            RuntimeWarning,
            stacklevel=6,  # who called fit
        )


def warn_if_none_held_out(count: int) -> None:
    """Warn that with so few images nothing can be held out to detect overfitting."""
    warnings.warn(
        f"too few images ({count}) to hold one out: nothing says whether p(eta | prototype) has "
        "overfitted, so that the widths may be much too small; give more images",
        RuntimeWarning,
        stacklevel=7,  # who called fit
    )


def warn_if_overfit(learned: float, held_out: float, count: int) -> None:
    """Warn if p(eta | x_hat) fits the images it learned from much better than held-out ones.

    Every image is seen at one place of its orbit only: how far it may move is learned from others
    with prototypes like its own. With too few of them p overfits single images; the weights
    that explain held-out images best have learned little by then, and are too wide.

    Args:
        learned: loss of the images learned from, at the end of training.
        held_out: the best loss of held-out images.
        count: of images.
    """
    if held_out - learned > OVERFIT_GAP:
        warnings.warn(
            f"too few images ({count}): p(eta | prototype) overfits (it explains them "
            f"better than held-out ones by {held_out - learned:.1f} nats), so that the widths may "
            "be much too large; give more images, or look for fewer transformations",
            RuntimeWarning,
            stacklevel=7,  # who called fit
        )
