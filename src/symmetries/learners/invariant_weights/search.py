"""Line search for the widths with the best bound, the last layer refitted at each."""

import math
from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor

from symmetries._validation.checks import (
    check_choice,
    check_number,
    check_whole,
    invalid,
    wrong_type,
)
from symmetries.distributions.box import Sampling, UniformBox
from symmetries.learners.invariant_weights.objectives import check_labelled
from symmetries.learners.invariant_weights.width_profile import refitted_elbo
from symmetries.nn.invariant_model import InvariantModel
from symmetries.nn.natural_linear import NaturalLinear


@torch.no_grad()
def search_widths(
    model: InvariantModel,
    images: Sequence[Tensor],
    targets: Tensor,
    *,
    sets: Sequence[int] | None = None,
    points: int = 7,
    halvings: int = 3,
    order: Literal["given", "best"] = "given",
    most: Sequence[float] | None = None,
    samples: int = 32,
    sampling: Sampling = "sobol",
    draws: int = 8,
    steps: int = 10,
    chunk: int = 2000,
    seed: int = 0,
) -> Tensor:
    """Set learned widths to the best of a line search, one parameter after the other.

    Along a line the bound is compared with the last layer fitted anew (:func:`refitted_elbo`), at
    ``points`` from 0 to the parameter's bound, then on both sides of the best, at half the
    distance each time. Gradients creep where the bound is flat, or stop on a plateau; a search
    does not. With one parameter it ends within one last distance of the same width from every
    start; with several it goes along each from where the others are, and around each once more.

    Args:
        model: with a ``NaturalLinear`` head. Its widths are changed; where they are, its last
            layer is reset: fit it anew after the search.
        images: one or several tensors (n, C, H, W): a part of the training set will do.
        targets: (n,) or (n, outputs).
        sets: which tensor of images belongs to each run.
        points: first candidates along a line.
        halvings: rounds after that.
        order: of several parameters: as the group gives them, or, for each run, first the one
            along which the bound rises most. From widths of 0 the latter adds one invariance
            after the other; where all are wide at the start, each may hide what another does.
        most: the largest half-width of each parameter that is tried; None is the group's bounds.
        samples: S transformations.
        sampling: of the transformations, see :func:`refitted_elbo`. "random" has the price of a
            noisy average, as the paper's training does, and finds narrower boxes than "sobol".
        draws: samples of the outputs.
        steps: of the last layer at each candidate.
        chunk: examples at a time.
        seed: of all random numbers.

    Returns:
        The bounds (R,) at the widths that were found, in nats.
    """
    check_labelled(model, images, targets)
    if not isinstance(model.head, NaturalLinear):
        raise invalid("model.head", "a NaturalLinear", repr(model.head), "fit one with it")
    check_whole(points, "points", 2)
    check_whole(halvings, "halvings", 0)
    check_choice(order, ("given", "best"), "order")
    if most is not None:
        _check_most(most, model.group.names)
    learned = [cast(UniformBox, box).free.requires_grad for box in model.boxes]
    moves = torch.tensor(learned, device=targets.device)
    width = model.half_width.detach().clone()
    options: dict[str, Any] = {
        "sets": sets,
        "samples": samples,
        "sampling": sampling,
        "draws": draws,
        "steps": steps,
        "chunk": chunk,
        "seed": seed,
    }

    def bound(candidate: Tensor) -> Tensor:
        return refitted_elbo(model, images, targets, candidate, fresh=True, **options)

    best = bound(width)
    dim, runs = model.group.dim, len(width)
    bounds = [b if math.isfinite(b) else 1.0 for b in model.group.bounds]
    if most is not None:
        bounds = [min(a, b) for a, b in zip(bounds, most, strict=True)]
    limits = torch.tensor(bounds).to(width)

    def offers(columns: Tensor, turn: int) -> list[Tensor]:
        """Return candidate widths of one parameter: over its range, or beside the current one."""
        limit, here = limits[columns[:, 0]], width.gather(1, columns)[:, 0]
        spacing = limit / (points - 1) / 2**turn
        if turn == 0:
            return [spacing * k for k in range(points)]
        return [torch.minimum((here + sign * spacing).clamp_min(0), limit) for sign in (-1, 1)]

    def moved(columns: Tensor, offer: Tensor) -> Tensor:
        """Return the widths with one parameter of each run replaced."""
        here = width.gather(1, columns)
        return width.scatter(1, columns, torch.where(moves[:, None], offer[:, None], here))

    given = torch.arange(dim, device=targets.device).expand(runs, -1)
    if order == "best" and dim > 1:
        gains = []
        for i in range(dim):
            columns = given[:, i : i + 1]
            gains.append(torch.stack([bound(moved(columns, w)) for w in offers(columns, 0)]))
        given = torch.stack(gains).amax(1).T.argsort(1, descending=True)
    lines = [(i, turn) for i in range(dim) for turn in range(halvings + 1)]
    again = [(i, turn) for i, turn in lines if turn] if dim > 1 else []
    for i, turn in lines + again:
        columns = given[:, i : i + 1]
        for offer in offers(columns, turn):
            candidate = moved(columns, offer)
            found = bound(candidate)
            better = found > best
            width = torch.where(better[:, None], candidate, width)
            best = torch.where(better, found, best)
    for box, value, flag in zip(model.boxes, width, learned, strict=True):
        if flag:
            cast(UniformBox, box).set_half_width(value)
    model.head.reset()
    return best


def _check_most(most: object, names: Sequence[str]) -> None:
    """Raise unless there is one width of at least 0 for each parameter."""
    expected = f"one number for each of {', '.join(names)}"
    if not isinstance(most, list | tuple):
        raise wrong_type("most", expected, most, "see group.bounds")
    if len(most) != len(names):
        raise invalid("most", expected, f"{len(most)} numbers", "see group.bounds")
    for name, value in zip(names, most, strict=True):
        check_number(value, f"most of {name}", least=0)
