"""One width, from several starts: the search of Table 1 where the filters are learned, too.

The same line search (``search_widths``: 7 points and the start, then beside the best at half the
distance, three times), but at every candidate filters are trained anew, on images D1, and the bound
is that on other images D2 (``crossed.bounds``), a mean over several draws of filters. As that bound
is noisy, the search ends at the top of a parabola through what it has tried around its best. Where
filters are fixed, as random Fourier features are, nothing is trained and this is the search of
Table 1, with a parabola at its end.

``fixed_widths`` measures the same bound at fixed widths, with other filters and other batches than
the search's: whether the search ends where the bound is best is then a question.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, replace

import numpy as np
import torch
from building import cached, labels_of
from crossed import Crossed, bounds
from jobs import ROTATED
from torch import Tensor
from trainings import TURNS

from symmetries.groups.affine import Affine2

FIXED = (5, 15, 30, 45, 60, 75, 90, 105, 120, 135, 150, 165, 175)
WIDEST, POINTS, HALVINGS = 180.0, 7, 3  # degrees, and the search's
AROUND = 45.0  # degrees on either side of the best that the parabola is fitted to
APART = 1000  # seeds of fixed widths are others than those of searches

Pair = tuple[int, float]  # the number of a set, and a half-width in degrees
Found = list[dict[float, list[float]]]  # for each set the bounds of widths, one for each draw


def measure(pairs: list[Pair], parts: list[Tensor], labels: Tensor, how: Crossed) -> Tensor:
    """The bounds (draws, pairs) at some widths, per image."""
    group, widths = Affine2("rotation"), [(math.radians(width),) for _, width in pairs]
    return bounds(widths, [number for number, _ in pairs], parts, labels, how, group=group)


def line_search(
    starts: list[Pair], parts: list[Tensor], labels: Tensor, how: Crossed
) -> tuple[list[float], Found]:
    """The best half-width from each start, in degrees, and all that was tried.

    Starts of one set share filters and bounds, as those of Table 1 share features.
    """
    known: Found = [{} for _ in parts]
    here, own = [width for _, width in starts], [[width] for _, width in starts]
    for turn in range(HALVINGS + 1):
        began, spacing = time.perf_counter(), WIDEST / (POINTS - 1) / 2**turn
        for width, tried in zip(here, own, strict=True):
            beside = [max(width - spacing, 0.0), min(width + spacing, WIDEST)]
            tried += beside if turn else [spacing * k for k in range(POINTS)]
        todo = dict.fromkeys(
            (number, width)
            for (number, _), tried in zip(starts, own, strict=True)
            for width in tried
            if width not in known[number]
        )
        if todo:
            found = measure(list(todo), parts, labels, how).T.tolist()
            for (number, width), each in zip(todo, found, strict=True):
                known[number][width] = each
        means = [{w: sum(v) / len(v) for w, v in of.items()} for of in known]
        mine = [
            {w: means[number][w] for w in tried}
            for (number, _), tried in zip(starts, own, strict=True)
        ]
        here = [max(of, key=lambda w, of=of: of[w]) for of in mine]
        seconds = time.perf_counter() - began
        print(f"turn {turn}: {len(todo)} widths, {seconds:.1f} s, {here}", flush=True)
    return [top(of) for of in mine], known


def top(bounds: dict[float, float]) -> float:
    """Where a parabola through the bounds around the best is highest, within those widths.

    The best itself where the parabola has no top.
    """
    best = max(bounds, key=lambda w: bounds[w])
    near = {w: v for w, v in bounds.items() if abs(w - best) <= AROUND}
    curve, slope, _ = np.polyfit([w - best for w in near], list(near.values()), 2)
    if curve >= 0:
        return best
    return float(min(max(best - slope / (2 * curve), min(near)), max(near)))


def fixed_widths(
    folder: str | None, device: torch.device, seed: int, steps: int | None = None
) -> Iterator[dict[str, object]]:
    """The bound on unseen images at fixed widths, on three sets."""
    trains = [cached(name, "train", folder) for name in ROTATED]
    how = replace(TURNS, seed=seed + APART)
    if steps:  # a trial
        how = replace(how, steps=steps, features=16, seen=100, unseen=100, samples=2)
    began, parts = time.perf_counter(), [part.images.to(device) for part in trains]
    pairs = [(number, float(a)) for number in range(len(ROTATED)) for a in FIXED]
    found = measure(pairs, parts, labels_of(trains).to(device), how).T.tolist()
    runs = [
        {"row": f"fixed {width:g}", "set": ROTATED[number], "elbo": sum(v) / len(v), "each": v}
        for (number, width), v in zip(pairs, found, strict=True)
    ]
    numbers = {"training": asdict(how), "seconds": time.perf_counter() - began}
    yield {"tag": "fixed", "seed": seed, **numbers, "runs": runs}
