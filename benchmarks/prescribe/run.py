"""Augmentation as prescribed against none, a grid chosen by validation, and TrivialAugmentWide.

``python -m benchmarks.prescribe.run --folder DATA --out FILE`` draws labelled pictures of training
sets, asks ``symmetries.prescribe`` for an augmentation and its gain, trains a residual network
without and with it, with the best policy of a fixed grid (chosen on a fifth of the pictures, then
trained on all) and with TrivialAugmentWide, and measures all on the test set. Pictures of planted
variants are turned, labelled and test pictures alike. Each row is a line of FILE, written when it
is done; no row begins that cannot end within ``--budget`` seconds. ``--development`` measures on
other pictures of the training set.
"""

import argparse
import json
import multiprocessing
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from benchmarks.common import environment
from benchmarks.prescribe.trivial import trivial_augment
from torch import Tensor

import symmetries
from symmetries.analysis.augmentation_laws import Law, draw, moved
from symmetries.analysis.quick_networks import Size, Trial, order, scores_of, train
from symmetries.data import ImageSet, load
from symmetries.training.step import mix

GRID = (
    Law(shift=0.1),
    Law(rotation=15, shift=0.05, zoom=1.1),
    Law(rotation=30, shift=0.1, zoom=1.2),
    Law(rotation=15, shift=0.1, flip_x=0.5),
)
DATA = ("mnist", "fashion-mnist", "cifar10")
CHUNK = 1000  # pictures that TrivialAugmentWide moves at once


def planted(x: Tensor, spread: float, fill: float | None, seed: int) -> Tensor:
    """Pictures (N, C, H, W) each turned by up to so many degrees."""
    if not spread:
        return x
    generator = torch.Generator().manual_seed(seed)
    rows = draw([Law(rotation=spread)], torch.zeros(len(x), dtype=torch.int64), generator)
    return torch.cat(
        [moved(a, b, fill) for a, b in zip(x.split(2000), rows.split(2000), strict=True)]
    )


def with_trivial(x: Tensor, y: Tensor, classes: int, size: Size, seed: int) -> Trial:
    """A training on pictures that TrivialAugmentWide has moved, in the order of the others."""
    generator = torch.Generator().manual_seed(mix(seed, 81) % 2**31)
    rows = order(len(x), size, generator)
    flat = rows.flatten()
    made = torch.cat(
        [trivial_augment(x[part.to(x.device)], generator) for part in flat.split(CHUNK)]
    )
    every = torch.arange(len(flat)).view_as(rows)
    return Trial(made, y[flat], [Law()] * classes, 0.0, size, seed, every)


def one_row(task: tuple[str, float, int, int, argparse.Namespace]) -> dict[str, Any]:
    """All policies on one draw of labelled pictures."""
    name, spread, labels, seed, given = task
    if given.until - time.time() < given.needed:
        return {}
    torch.set_num_threads(1)
    start = time.time()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder = None if given.folder is None else str(Path(given.folder) / name)
    source, test = load(name, "train", folder), load(name, "test", folder)
    shuffled = torch.randperm(len(source), generator=torch.Generator().manual_seed(seed))
    if given.development:
        test = source.subset(shuffled[-10000:])
    test = test.subset(range(given.test)) if given.test else test
    fill = None if name == "cifar10" else 0.0
    few = source.subset(shuffled[:labels])
    x = planted(few.images, spread, fill, mix(seed, 1) % 2**31).to(device)
    far = planted(test.images, spread, fill, 2**20).to(device)
    y = few.labels
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = symmetries.prescribe(
            ImageSet(x.cpu(), y, class_names=few.class_names, name=name),
            preset=given.preset,
            fill=fill,
            seed=seed,
            device=device.type,
            progress=False,
        )
    took = time.time() - start
    names = found.data.classes or tuple(map(str, range(10)))
    laws = [Law(**{move.name: move.by_class[own] for move in found.moves}) for own in names]
    size = Size(given.steps, 128, 1, given.network)
    here = (torch.arange(len(x)) % 5 == 0).to(device)
    part = here.cpu()

    def same(law: Law) -> list[Law]:
        return [law] * len(names)

    trials = [Trial(x, y, own, fill, size, seed) for own in (same(Law()), laws)]
    trials.append(with_trivial(x, y, len(names), size, seed))
    trials += [Trial(x[~here], y[~part], same(law), fill, size, seed) for law in GRID]
    none, ours, theirs, *chosen = train(trials)
    held = [float(scores_of(net, x[here], y[part])[0].mean()) for net in chosen]
    best = GRID[held.index(max(held))]
    (grid,) = train([Trial(x, y, same(best), fill, size, seed)])
    peers = {"none": none, "prescribed": ours, "grid": grid, "TrivialAugmentWide": theirs}
    reached = {
        key: round(100 * float(scores_of(net, far, test.labels)[0].mean()), 2)
        for key, net in peers.items()
    }
    return {
        "data": name,
        "spread": spread,
        "labels": labels,
        "seed": seed,
        "predicted": {"gain": found.gain.mean, "low": found.gain.low, "high": found.gain.high},
        "realised": round(reached["prescribed"] - reached["none"], 2),
        "accuracy": reached,
        "grid_chose": best.moves(),
        "prescribed": {move.name: move.amount for move in found.moves},
        "limited": {m.name: m.by_class for m in found.moves if len(set(m.by_class.values())) > 1},
        "tried": [[one.amounts, round(one.gain.mean, 2)] for one in found.tried],
        "conflicts": [
            [one.name, one.first, one.second, one.amount, one.limit] for one in found.conflicts
        ],
        "prescribe_seconds": round(took, 1),
        "seconds": round(time.time() - start, 1),
    }


def main() -> None:
    """Rows in parallel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="that holds a folder for each data set; digits need none")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--labels", type=int, nargs="+", default=[300, 1250, 5000])
    parser.add_argument("--spread", type=float, nargs="+", default=[0.0, 180.0, 45.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--budget", type=float, default=360000.0, help="seconds")
    parser.add_argument("--needed", type=float, default=25.0, help="seconds that a row may take")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--network", default="resnet")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--test", type=int, help="number of test pictures")
    parser.add_argument("--development", action="store_true")
    given = parser.parse_args()
    given.until = time.time() + given.budget
    tasks = [
        (name, spread, labels, seed, given)
        for spread in given.spread
        for seed in given.seeds
        for labels in given.labels
        for name in given.data
    ]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    head = {"name": "prescribe", **environment(device), "development": given.development}
    given.out.write_text(json.dumps(head) + "\n")
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        for row in pool.imap_unordered(one_row, tasks, chunksize=1):
            if row:
                with given.out.open("a") as stream:
                    stream.write(json.dumps(row) + "\n")
                shown = ("data", "spread", "labels", "seed", "predicted", "accuracy", "prescribed")
                print({key: row[key] for key in shown}, row["seconds"], flush=True)


if __name__ == "__main__":
    main()
