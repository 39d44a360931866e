"""One cell of the benchmark: all ways to augment one draw of labelled pictures, on a test set."""

import time
import warnings
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from benchmarks.prescribe.trivial import TRIVIAL
from torch import Tensor

from symmetries import prescribe
from symmetries.analysis import quick_networks
from symmetries.analysis.augmentation_laws import Law, draw, moved
from symmetries.analysis.network_trials import Size, Trial
from symmetries.analysis.quick_networks import scores_of
from symmetries.data import ImageSet, load
from symmetries.training.step import mix

GRID = (
    Law(shift=0.1),
    Law(rotation=15, shift=0.05, zoom=1.1),
    Law(rotation=30, shift=0.1, zoom=1.2),
    Law(rotation=15, shift=0.1, flip_x=0.5),
)
DARK = ("mnist", "fashion-mnist", "digits")  # sets whose background is 0


@dataclass(frozen=True)
class Cell:
    """What is drawn: a data set, its planted turns in degrees, how many labels, and the seed."""

    data: str
    spread: float
    labels: int
    seed: int


@dataclass(frozen=True)
class Setting:
    """How cells are computed.

    Args:
        folder: that holds a folder for each data set; None is where they usually are.
        device: to train on.
        preset: of ``prescribe``.
        network: that is trained without and with each augmentation.
        steps: of these trainings.
        test: number of test pictures; None is all.
        development: measure on other pictures of the training set.
        source: number of training pictures, the first ones, that labelled ones are drawn from; None
            is all.
    """

    folder: str | None = None
    device: str = "cpu"
    preset: str = "default"
    network: str = "resnet"
    steps: int = 1500
    test: int | None = None
    development: bool = False
    source: int | None = None


def planted(x: Tensor, spread: float, fill: float | None, seed: int) -> Tensor:
    """Pictures (N, C, H, W) each turned by up to so many degrees."""
    if not spread:
        return x
    generator = torch.Generator().manual_seed(seed)
    rows = draw([Law(rotation=spread)], torch.zeros(len(x), dtype=torch.int64), generator)
    return torch.cat(
        [moved(a, b, fill) for a, b in zip(x.split(2000), rows.split(2000), strict=True)]
    )


@lru_cache(maxsize=4)
def pictures(name: str, how: Setting) -> tuple[ImageSet, ImageSet]:
    """Pictures that labelled ones are drawn from, and those to test on."""
    own = None if how.folder is None else str(Path(how.folder) / name)
    source = load(name, "train", own)
    return source.subset(range(how.source or len(source))), load(name, "test", own)


def drawn_pictures(cell: Cell, how: Setting) -> tuple[ImageSet, ImageSet, float | None]:
    """Labelled pictures, test pictures, and the value around them; on the device."""
    source, test = pictures(cell.data, how)
    shuffled = torch.randperm(len(source), generator=torch.Generator().manual_seed(cell.seed))
    if how.development:
        test = source.subset(shuffled[-10000:])
    test = test.subset(range(how.test)) if how.test else test
    fill = 0.0 if cell.data in DARK else None
    few = source.subset(shuffled[: cell.labels])
    x = planted(few.images, cell.spread, fill, mix(cell.seed, 1) % 2**31).to(how.device)
    far = planted(test.images.to(how.device), cell.spread, fill, 2**20)
    return replace(few, images=x), replace(test, images=far), fill


def ask(cell: Cell, how: Setting) -> dict[str, Any]:
    """What is prescribed for one draw of labelled pictures, and the gain that is predicted."""
    start = time.time()
    few, _, fill = drawn_pictures(cell, how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = prescribe(
            ImageSet(few.images.cpu(), few.labels, class_names=few.class_names, name=cell.data),
            preset=how.preset,
            fill=fill,
            seed=cell.seed,
            device=how.device,
            progress=False,
        )
    names = found.data.classes or tuple(map(str, range(10)))
    return {
        **asdict(cell),
        "predicted": {"gain": found.gain.mean, "low": found.gain.low, "high": found.gain.high},
        "prescribed": {move.name: move.amount for move in found.moves},
        "by_class": {move.name: [move.by_class[own] for own in names] for move in found.moves},
        "tried": [[one.amounts, round(one.gain.mean, 2)] for one in found.tried],
        "conflicts": [
            [one.name, one.first, one.second, one.amount, one.limit] for one in found.conflicts
        ],
        "classes": len(names),
        "prescribe_seconds": round(time.time() - start, 1),
    }


def measure(cell: Cell, how: Setting, asked: dict[str, Any]) -> dict[str, Any]:
    """Accuracies of networks trained with what was prescribed, and with its peers."""
    start = time.time()
    few, test, fill = drawn_pictures(cell, how)
    x, y, classes = few.images, few.labels, asked["classes"]
    amounts = asked["by_class"]
    laws = [Law(**{name: far[own] for name, far in amounts.items()}) for own in range(classes)]
    size = Size(how.steps, 128, 1, how.network)
    part = torch.arange(len(x)) % 5 == 0
    here = part.to(x.device)

    def same(law: Law) -> list[Law]:
        return [law] * classes

    trials = [Trial(x, y, own, fill, size, cell.seed) for own in (same(Law()), laws)]
    trials.append(Trial(x, y, same(Law()), fill, size, cell.seed, TRIVIAL))
    trials += [Trial(x[~here], y[~part], same(law), fill, size, cell.seed) for law in GRID]
    none, ours, theirs, *chosen = quick_networks.train(trials)
    held = [float(scores_of(net, x[here], y[part])[0].mean()) for net in chosen]
    best = GRID[held.index(max(held))]
    (grid,) = quick_networks.train([Trial(x, y, same(best), fill, size, cell.seed)])
    peers = {"none": none, "prescribed": ours, "grid": grid, "TrivialAugmentWide": theirs}
    reached = {
        key: round(100 * float(scores_of(net, test.images, test.labels)[0].mean()), 2)
        for key, net in peers.items()
    }
    return {
        **asked,
        "realised": round(reached["prescribed"] - reached["none"], 2),
        "accuracy": reached,
        "grid_chose": best.moves(),
        "seconds": round(asked["prescribe_seconds"] + time.time() - start, 1),
    }
