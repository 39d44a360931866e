"""Widths of networks whose filters are learned: by the bound on images that these have not seen.

The bound of the last layer alone rewards filters for what they have fitted, and so prefers no
invariance as soon as they can do without. Here filters are trained on one part D1 of the training
set, anew for every candidate, and widths are compared by the bound on another part D2,

    log p(D2 | filters(D1), widths) >= E_q[log p(D2 | last layer)] - KL(q || p),

with q fitted to D2 in closed form. All candidates of a round are small networks, trained together.
"""

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.groups.affine import Affine2
from symmetries.learners.invariant_weights import elbo_loss, refitted_elbo
from symmetries.nn.feature_maps import InvariantFeatures
from symmetries.nn.invariant_model import InvariantModel, shallow_model
from symmetries.nn.natural_linear import NaturalLinear
from symmetries.training import TrainConfig, train

GROUP = Affine2("affine")
SHARES = (0.0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)  # of the widest
WIDEST = (0.6, 0.6, math.pi, 0.8, 0.8, 0.8)  # shifts in half-images, radians, log-factors
TOGETHER = ((0,), (1,), (0, 1), (2,), (3,), (4,), (3, 4), (5,))  # parameters that move as one
FAMILY = {"none": (), "rotation": (2,), "translation": (0, 1), "scale": (3, 4)}
MAIN, AROUND = (2, 3, 4, 5), (0, 1, 2)  # levels of one family, and of all other parameters
BLURS = (0.1,)  # of the filters, in half-images
CHUNK = 25_000  # images of all candidates at a time

Box = tuple[int, ...]  # a level of each parameter


@dataclass(frozen=True)
class Crossed:
    """How the widths are searched.

    Few images are seen, many times each: a candidate is to be trained to its end, since networks
    that are not prefer no transformations.

    Args:
        features: hidden units of the candidates.
        seen: images that filters are trained on.
        unseen: images after those, of the bound.
        steps: of each candidate.
        batch_size: examples per step.
        samples: S transformations, in training.
        lr: of filters and posterior.
        rounds: of candidates; the first are single families, alone and with some of all others.
        draws: filters for each candidate, whose mean bound counts.
        seed: of filters and batches.
    """

    features: int = 256
    seen: int = 10_000
    unseen: int = 10_000
    steps: int = 2_500
    batch_size: int = 128
    samples: int = 16
    lr: float = 3e-3
    rounds: int = 3
    draws: int = 1
    seed: int = 0


def widths(box: Box) -> tuple[float, ...]:
    """Half-widths of a box, in the group's own units."""
    return tuple(SHARES[level] * most for level, most in zip(box, WIDEST, strict=True))


def moved(box: Box, at: tuple[int, ...], step: int) -> Box:
    """A box with some of its parameters so many levels wider."""
    last = len(SHARES) - 1
    return tuple(min(max(v + step, 0), last) if i in at else v for i, v in enumerate(box))


def first() -> list[Box]:
    """None, and each family at several levels; alone, and with a little of all other parameters."""
    mains = [(0, ())] + [(level, at) for at in FAMILY.values() if at for level in MAIN]
    boxes = [
        tuple(level if i in at else little for i in range(GROUP.dim))
        for little in AROUND
        for level, at in mains
    ]
    return list(dict.fromkeys(boxes))


def offers(box: Box) -> list[Box]:
    """Candidates beside a box: one parameter, or a pair, a level narrower or wider."""
    return [moved(box, at, step) for at in TOGETHER for step in (-1, 1)]


def combined(box: Box, found: dict[Box, float]) -> Box:
    """All moves from a box that raise the bound, the best first, one for each parameter."""
    better = sorted((b for b in offers(box) if found[b] > found[box]), key=lambda b: -found[b])
    together = list(box)
    for other in better:
        changed = [i for i in range(len(box)) if other[i] != box[i]]
        if all(together[i] == box[i] for i in changed):
            for i in changed:
                together[i] = other[i]
    return tuple(together)


def bounds(
    half_widths: list[tuple[float, ...]],
    sets: list[int],
    parts: list[Tensor],
    labels: Tensor,
    how: Crossed,
    blur: float = 0.0,
    group: Affine2 = GROUP,
) -> Tensor:
    """The bounds (draws, R) per image, in nats, on images that the filters have not seen."""
    draws, runs = how.draws, how.draws * len(half_widths)
    shape, sets = tuple(parts[0].shape[1:]), draws * sets
    model = shallow_model(
        shape, 10, group, half_widths=draws * half_widths, learn=False,
        features=how.features, kind="relu", posterior="diagonal", scale=0.05, bias=False,
        seed=how.seed, blur=blur,
    )  # fmt: skip
    if draws > 1:
        draw_filters(model, [draws * how.seed + i // len(half_widths) for i in range(runs)])
    model.to(labels.device)
    seen, unseen = slice(how.seen), slice(how.seen, how.seen + how.unseen)
    config = TrainConfig(
        steps=how.steps, batch_size=how.batch_size, lr=how.lr, seed=how.seed,
        device=str(labels.device), progress=False,
    ).replace(log_every=how.steps)  # fmt: skip
    few = len(labels[seen])
    loss = elbo_loss(few, samples=how.samples, sampling="sobol", sets=sets)
    train(model, loss, (*(part[seen] for part in parts), labels[seen]), config)
    head = NaturalLinear(how.features, 10, bias=False, runs=runs, prior_variance=1.0)
    twin = InvariantModel(model.body, head.to(labels.device), list(model.boxes))
    options = {"samples": 32, "chunk": max(1, CHUNK // runs), "sets": sets, "fresh": True}
    others = [part[unseen] for part in parts]
    total = refitted_elbo(twin, others, labels[unseen], model.half_width.detach(), **options)
    return total.reshape(draws, -1) / len(labels[unseen])


@torch.no_grad()
def draw_filters(model: InvariantModel, seeds: list[int]) -> None:
    """Give the runs of a model filters of their own, each as a model with its seed would have."""
    layer = model.body.layer
    for seed in set(seeds):
        other = InvariantFeatures(layer.shape, layer.units, kind="relu", seed=seed).layer
        runs = [i for i, own in enumerate(seeds) if own == seed]
        layer.weight[runs], layer.bias[runs] = other.weight, other.bias


def search(parts: list[Tensor], labels: Tensor, how: Crossed) -> list[dict[Box, float]]:
    """For each set of images (N, C, H, W) the bounds of all boxes that were tried."""
    found: list[dict[Box, float]] = [{} for _ in parts]
    here: list[Box | None] = [None for _ in parts]
    plans = [first() for _ in parts]
    for turn in range(how.rounds):
        began = time.perf_counter()
        todo = [
            (number, box)
            for number, plan in enumerate(plans)
            for box in dict.fromkeys(plan)
            if box not in found[number]
        ]
        if not todo:
            break
        sets, boxes = [number for number, _ in todo], [box for _, box in todo]
        measured = bounds([widths(box) for box in boxes], sets, parts, labels, how).mean(0)
        for (number, box), bound in zip(todo, measured.tolist(), strict=True):
            found[number][box] = bound
        for number, known in enumerate(found):
            old, new = here[number], max(known, key=lambda b: known[b])
            here[number] = new
            plans[number] = offers(new) + ([combined(old, known)] if old else [])
        shown = [(box, round(known[box], 4)) for box, known in zip(here, found, strict=True)]
        seconds = time.perf_counter() - began
        print(f"round {turn}: {len(todo)} candidates, {seconds:.1f} s, {shown}", flush=True)
    return found


def blurred(
    parts: list[Tensor], labels: Tensor, how: Crossed, found: list[dict[Box, float]]
) -> dict[float, float]:
    """The mean bound of the best boxes over all sets, for some blurs of the filters."""
    boxes = [best(known, "affine") for known in found]
    sets, plain = list(range(len(parts))), [known[b] for known, b in zip(found, boxes, strict=True)]
    means = {0.0: sum(plain) / len(plain)}
    for blur in BLURS:
        some = [widths(box) for box in boxes]
        means[blur] = float(bounds(some, sets, parts, labels, how, blur).mean())
    print(f"bound for blurs of the filters: {means}", flush=True)
    return means


def best(found: dict[Box, float], row: str) -> Box:
    """The best box of a family among those that were tried; "affine" is any."""
    free = FAMILY.get(row, range(GROUP.dim))
    allowed = [b for b in found if all(level == 0 or i in free for i, level in enumerate(b))]
    return max(allowed, key=lambda b: found[b])
