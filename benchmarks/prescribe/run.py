"""Augmentation as prescribed against none, a grid chosen by validation, and TrivialAugmentWide.

``python -m benchmarks.prescribe.run --folder DATA --out FILE`` draws labelled pictures of training
sets, asks ``symmetries.prescribe`` for an augmentation and its gain, trains a residual network
without and with it, with the best policy of a fixed grid (chosen on a fifth of the pictures, then
trained on all) and with TrivialAugmentWide, and measures all on the test set. Pictures of planted
variants are turned, labelled and test pictures alike.

What is prescribed is a line of FILE as soon as it is known, and so is each row; what FILE or one of
``--done`` has is not computed again. Nothing begins that is not expected to end within ``--budget``
seconds, and processes are left to end by themselves: one that is killed while it uses a shared GPU
takes others with it. ``benchmarks.prescribe.joined`` makes the stored table.
"""

import argparse
import json
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmarks.common import environment
from benchmarks.prescribe.cell import DARK, Cell, Setting, ask, measure, pictures, planted
from benchmarks.prescribe.joined import cell_of, joined, read
from benchmarks.prescribe.together import side_by_side

from symmetries.training.side_by_side import sleep_while_waiting

DATA = ("mnist", "fashion-mnist", "cifar10")
SLOWER = 1.25  # than the slowest so far: what the next one may take


def main() -> None:
    """Rows in parallel."""
    given = arguments()
    until = time.time() + given.budget
    names = ("folder", "device", "preset", "network", "steps", "test", "development", "source")
    how = Setting(**{name: getattr(given, name) for name in names})
    cells = [
        Cell(name, spread, labels, seed)
        for seed in given.seeds
        for spread in given.spread
        for labels in given.labels
        for name in given.data
    ]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    before = [path for path in (given.out, *given.done) if path.exists()]
    known = {cell_of(row) for row in joined(before)["rows"]}
    asked = {cell_of(row): row for path in before for row in read(path)[2]}
    left = [(cell, asked.get(cell)) for cell in cells if cell not in known]
    print(f"{len(left)} of {len(cells)} cells are to be computed", flush=True)
    sleep_while_waiting()
    torch.set_num_threads(1)
    for name in given.data:  # read, and kernels compiled, before there are threads
        fill = 0.0 if name in DARK else None
        planted(pictures(name, how)[0].images[:8].to(how.device), 10.0, fill, 0)
    shared = Shared([given.needed, given.needed])
    side_by_side(partial(work, left, how, given.out, until, shared), min(given.cells, len(left)))


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="that holds a folder for each data set; digits need none")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--done", type=Path, nargs="+", default=[], help="rows to leave out")
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--labels", type=int, nargs="+", default=[300, 1250, 5000])
    parser.add_argument("--spread", type=float, nargs="+", default=[0.0, 180.0, 45.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--budget", type=float, default=360000.0, help="seconds")
    parser.add_argument(
        "--needed", type=float, default=25.0, help="seconds that each half of a row takes at first"
    )
    parser.add_argument("--cells", type=int, default=1, help="cells whose networks train as one")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--network", default="resnet")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--test", type=int, help="number of test pictures")
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--source", type=int, help="draw from so many training pictures")
    return parser.parse_args()


Row = dict[str, Any]


@dataclass
class Shared:
    """What all workers know.

    Args:
        slowest: seconds of the slowest of each half of a row.
        taken: cells that were begun.
        written: lines.
        lock: for all of them.
    """

    slowest: list[float]
    taken: int = 0
    written: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def work(
    cells: list[tuple[Cell, Row | None]], how: Setting, out: Path, until: float, shared: Shared
) -> None:
    """Compute cells that no other process has taken, as long as there is time.

    Args:
        cells: with what was prescribed, if that is known.
        how: the sizes of everything.
        out: file of lines.
        until: when to end.
        shared: numbers that all workers share.
    """
    torch.set_num_threads(1)  # torch keeps the number for each thread that calls it

    def done_in_time(half: int, compute: Callable[[], Row]) -> Row | None:
        """A line that is written; None where it failed or would have been too late."""
        if time.time() + shared.slowest[half] > until:
            return None
        start = time.time()
        row = unless_it_fails(cell, compute)
        head = {"name": "prescribe", **environment(how.device), "development": how.development}
        with shared.lock, out.open("a") as stream:
            shared.slowest[half] = max(shared.slowest[half], SLOWER * (time.time() - start))
            lines = [row] if shared.written else [head, row]
            stream.writelines(json.dumps(line) + "\n" for line in lines)
            shared.written += 1
        shown = ("predicted", "accuracy", "prescribed", "failed", "prescribe_seconds", "seconds")
        print(cell, {key: row[key] for key in shown if key in row}, flush=True)
        return None if "failed" in row else row

    while True:
        with shared.lock:
            number = shared.taken
            shared.taken += 1
        if number >= len(cells) or time.time() + shared.slowest[0] > until:
            return
        cell, asked = cells[number]
        if asked is None:
            asked = done_in_time(0, partial(ask, cell, how))
        if asked is not None:
            done_in_time(1, partial(measure, cell, how, asked))


def unless_it_fails(cell: Cell, compute: Callable[[], Row]) -> Row:
    """A line, or why there is none: others go on, unless this process can use the GPU no more."""
    try:
        return compute()
    except Exception as error:  # a row must not end the others
        traceback.print_exc()
        if "CUDA error" in str(error):
            raise
        return {**asdict(cell), "failed": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
