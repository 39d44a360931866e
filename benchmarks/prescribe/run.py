"""Augmentation as prescribed against none, a grid chosen by validation, and TrivialAugmentWide.

``python -m benchmarks.prescribe.run mnist --folder DATA --labels 300 --seeds 0 1 2`` draws so many
labelled pictures of the training set, asks ``symmetries.prescribe`` for an augmentation and its
gain, trains a residual network without and with it, with the best policy of a fixed grid (chosen on
a fifth of the pictures, then trained on all) and with torchvision's TrivialAugmentWide (eight
pictures share a draw), and measures all on the test set. Results are written after every seed; no
seed begins that cannot end within ``--budget`` seconds.
"""

import argparse
import json
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.common import environment
from torch import Tensor

import symmetries
from symmetries.analysis.augmentation_laws import Law, draw, moved
from symmetries.data import ImageSet, load
from symmetries.nn.named_networks import named_network

GRID = (
    Law(shift=0.1),
    Law(rotation=15, shift=0.05, zoom=1.1),
    Law(rotation=30, shift=0.1, zoom=1.2),
    Law(rotation=15, shift=0.1, flip_x=0.5),
)
SHARED = 8  # pictures that share a draw of TrivialAugmentWide
Policy = Callable[[Tensor, Tensor, torch.Generator], Tensor]


def by_laws(laws: list[Law], fill: float | None) -> Policy:
    """Moves by the law of each class."""
    return lambda x, y, generator: moved(x, draw(laws, y, generator), fill)


def trivial() -> Policy | None:
    """TrivialAugmentWide, where torchvision is installed."""
    try:
        from torchvision.transforms import v2
    except ImportError:
        return None
    transform = v2.TrivialAugmentWide()

    def policy(x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        pixels = (255 * x).round().clamp(0, 255).byte()
        pixels = pixels.expand(-1, 3, -1, -1) if x.shape[1] == 1 else pixels
        parts = torch.cat([transform(part) for part in pixels.split(SHARED)])
        return parts[:, : x.shape[1]].to(x.dtype) / 255

    return policy


def trained(
    x: Tensor, y: Tensor, policy: Policy, seed: int, steps: int, network: str
) -> torch.nn.Module:
    """A network trained on pictures (N, C, H, W)."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    net = named_network(network, tuple(x.shape[1:]), 10, seed).to(x.device).train()
    optimiser = torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 4e-3, total_steps=steps, pct_start=0.2
    )
    for _ in range(steps):
        rows = torch.randint(len(x), (128,), generator=generator)
        part, own = x[rows.to(x.device)], y[rows]
        part = policy(part, own, generator)
        loss = F.cross_entropy(net(part), own.to(x.device))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return net.eval()


@torch.no_grad()
def accuracy(net: torch.nn.Module, x: Tensor, y: Tensor) -> float:
    """Per cent right."""
    right = sum(
        int((net(a).argmax(1).cpu() == b).sum())
        for a, b in zip(x.split(1000), y.split(1000), strict=True)
    )
    return round(100 * right / len(x), 2)


def one_seed(
    train: ImageSet, test: ImageSet, seed: int, given: argparse.Namespace
) -> dict[str, Any]:
    """All policies on one draw of labelled pictures."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
    few = train.subset(order[: given.labels])
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = symmetries.prescribe(
            few,
            preset=given.preset,
            fill=None if given.data == "cifar10" else 0.0,
            seed=seed,
            device=device.type,
            progress=False,
        )
    seconds = time.perf_counter() - start
    x, y = few.images.to(device), few.labels
    tests = (test.images.to(device), test.labels)
    laws = [
        Law(**{move.name: move.by_class[name] for move in found.moves})
        for name in (found.data.classes or map(str, range(10)))
    ]
    how = (seed, given.steps, given.network)
    # The same pictures in the same order with and without: draws are made, but nothing moves.
    none = by_laws([Law()] * 10, found.fill)
    reached: dict[str, float] = {"none": accuracy(trained(x, y, none, *how), *tests)}
    reached["prescribed"] = accuracy(trained(x, y, by_laws(laws, found.fill), *how), *tests)
    part = torch.arange(len(x)) % 5 == 0
    here = part.to(device)
    held = [
        accuracy(
            trained(x[~here], y[~part], by_laws([law] * 10, found.fill), *how), x[here], y[part]
        )
        for law in GRID
    ]
    best = GRID[held.index(max(held))]
    reached["grid"] = accuracy(trained(x, y, by_laws([best] * 10, found.fill), *how), *tests)
    policy = trivial()
    if policy is not None:
        reached["TrivialAugmentWide"] = accuracy(trained(x, y, policy, *how), *tests)
    return {
        "data": given.data,
        "labels": given.labels,
        "seed": seed,
        "predicted": {"gain": found.gain.mean, "low": found.gain.low, "high": found.gain.high},
        "realised": round(reached["prescribed"] - reached["none"], 2),
        "accuracy": reached,
        "grid_chose": best.moves(),
        "prescribed": {move.name: move.amount for move in found.moves},
        "tried": [[one.amounts, round(one.gain.mean, 2)] for one in found.tried],
        "conflicts": [
            [one.name, one.first, one.second, one.amount, one.limit] for one in found.conflicts
        ],
        "prescribe_seconds": round(seconds, 1),
        "seconds": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    """Run one data set and one number of labels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=("mnist", "fashion-mnist", "cifar10", "digits"))
    parser.add_argument("--folder", help="of the data; digits need none")
    parser.add_argument("--labels", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--budget", type=float, default=36000.0, help="seconds")
    parser.add_argument("--needed", type=float, default=150.0, help="seconds of the first seed")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--network", default="resnet")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--test", type=int, help="number of test pictures")
    given = parser.parse_args()
    began = time.perf_counter()
    # What takes longer than expected ends cleanly: a killed client of a shared GPU faults others.
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("out of time"))
    signal.alarm(int(given.budget) + 10)
    train, test = (load(given.data, split, given.folder) for split in ("train", "test"))
    test = test.subset(range(given.test)) if given.test else test
    given.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for seed in given.seeds:
        needed = 1.25 * rows[-1]["seconds"] if rows else given.needed
        if given.budget - (time.perf_counter() - began) < needed:
            print(f"seed {seed}: not begun, it would not end in time", flush=True)
            break
        rows.append(one_seed(train, test, seed, given))
        result = {"name": "prescribe", **environment(), "rows": rows}
        path = given.out / f"{given.data}-{given.labels}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(
            {k: v for k, v in rows[-1].items() if k not in ("conflicts", "prescribed")}, flush=True
        )


if __name__ == "__main__":
    main()
