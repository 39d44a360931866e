"""What labels forbid: sixes and nines, arrows, b d p q, and how far ``prescribe`` moves them.

``python -m benchmarks.prescribe.controls --folder DATA --out FILE`` draws pictures of classes that
a turn or a mirror makes into each other, and asks for an augmentation. It is wrong if pictures of
two classes can meet by it: if turns of both together reach from one to the other, or if either is
mirrored where they are mirror images.
"""

import argparse
import json
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from benchmarks.common import environment
from benchmarks.prescribe.together import side_by_side
from torch import Tensor

import symmetries
from symmetries.analysis.augmentation_laws import Law, draw, moved
from symmetries.data import ImageSet, load

# Classes, the turn in degrees by which they become each other, and pairs of mirror images.
TURNS: dict[str, dict[tuple[str, str], float]] = {
    "sixes and nines": {("6", "9"): 180.0},
    "arrows": {
        **dict.fromkeys((("0", "90"), ("90", "180"), ("180", "270"), ("0", "270")), 90.0),
        **dict.fromkeys((("0", "180"), ("90", "270")), 180.0),
    },
    "b d p q": {("b", "q"): 180.0, ("d", "p"): 180.0},
}
MIRRORS = {"sixes and nines": [], "arrows": [("0", "180")], "b d p q": [("b", "d"), ("p", "q")]}


def arrows() -> tuple[Tensor, tuple[str, ...]]:
    """Arrows to the right, up, to the left, down (4, 1, 20, 20)."""
    x = torch.zeros(20, 20)
    x[9:11, 3:15] = 1.0
    for k in range(4):
        x[5 + k, 11 + k : 13 + k] = x[14 - k, 11 + k : 13 + k] = 1.0
    return torch.stack([x.rot90(k) for k in range(4)])[:, None], ("0", "90", "180", "270")


def letters() -> tuple[Tensor, tuple[str, ...]]:
    """The letters b, d, p and q (4, 1, 20, 20)."""
    b = torch.zeros(20, 20)
    b[4:16, 6:8] = b[9:11, 6:14] = b[14:16, 6:14] = b[9:16, 12:14] = 1.0
    return torch.stack((b, b.flip(1), b.flip(0), b.flip(0).flip(1)))[:, None], ("b", "d", "p", "q")


def drawn(name: str, count: int, seed: int, folder: str | None) -> ImageSet:
    """Labelled pictures, the drawn ones turned by up to 10 degrees, shifted, zoomed and noisy."""
    generator = torch.Generator().manual_seed(seed)
    if name == "sixes and nines":
        digits = load("mnist", "train", None if folder is None else str(Path(folder) / "mnist"))
        rows = torch.nonzero((digits.labels == 6) | (digits.labels == 9))[:, 0]
        rows = rows[torch.randperm(len(rows), generator=generator)[:count]]
        labels = (digits.labels[rows] == 9).long()
        return ImageSet(digits.images[rows], labels, class_names=("6", "9"), name=name)
    shapes, names = arrows() if name == "arrows" else letters()
    labels = torch.arange(count) % len(shapes)
    law = Law(rotation=10, shift=0.05, zoom=1.1)
    x = moved(shapes[labels], draw([law] * len(shapes), labels, generator), 0.0)
    x = x * (0.5 + 0.5 * torch.rand(count, 1, 1, 1, generator=generator))
    x = (x + 0.15 * torch.randn(x.shape, generator=generator)).clamp(0, 1)
    return ImageSet(x, labels, class_names=names, name=name)


def main() -> None:
    """All controls, a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--labels", type=int, nargs="+", default=[300, 1250])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--together", type=int, default=1, help="whose networks train as one")
    parser.add_argument("--budget", type=float, default=36000.0, help="seconds")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    given.out.write_text(json.dumps({"name": "prescribe-controls", **environment(device)}) + "\n")
    tasks = [(s, n, name) for s in given.seeds for n in given.labels for name in TURNS]
    queue = iter(tasks)
    until, lock = time.time() + given.budget, threading.Lock()

    def work() -> None:
        torch.set_num_threads(1)  # torch keeps the number for each thread that calls it
        longest = 15.0
        while time.time() + longest < until:
            start = time.time()
            with lock:
                task = next(queue, None)
            if task is None:
                return
            row = judge(*task, given.folder, given.preset, device)
            longest = max(longest, time.time() - start)
            with lock, given.out.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
            print(row, round(time.time() - start, 1), flush=True)

    side_by_side(work, min(given.together, len(tasks)))


def judge(
    seed: int, count: int, name: str, folder: str | None, preset: str, device: str
) -> dict[str, Any]:
    """What is prescribed for one control, and which classes can meet by it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = symmetries.prescribe(
            drawn(name, count, seed, folder),
            preset=preset,
            seed=seed,
            device=device,
            progress=False,
        )
    return {"data": name, "labels": count, "seed": seed, **judged(name, found)}


def judged(name: str, found: Any) -> dict[str, Any]:  # noqa: ANN401 - a result
    """What is prescribed by class, and the pairs of classes that can meet by it."""
    amounts = {move.name: move.by_class for move in found.moves}
    turns, flips = amounts.get("rotation", {}), amounts.get("flip_x", {})
    meet = [p for p, t in TURNS[name].items() if sum(turns.get(c, 0.0) for c in p) >= t]
    meet += [p for p in MIRRORS[name] if any(flips.get(c, 0.0) for c in p)]
    return {"meet": meet, "prescribed": amounts, "gain": found.gain.mean}


if __name__ == "__main__":
    main()
