"""Widths planted in labels: the optimum of the exact evidence, and what a network learns.

Tasks on digits whose labels tell how far a network may be averaged over rotations: which of three
digits, turned by any angle (one sector: the label does not depend on the pose); in which of 2, 3
and 6 equal sectors a seven points; upright 6 against 9; and as a negative control in which of 12
sectors, where nearly every angle is its own class.

First, for each half-width of a grid, the network is trained at that width, with precisions by the
evidence, and its Laplace evidence is computed from the full generalised Gauss-Newton matrix of all
examples in double precision (mean over initial weights; the optimum is the top of a parabola
through the best and its neighbours). Then ``InvariantNetwork`` learns the width: by its search with
three seeds or more, of initial weights and batches (it reads no start), each with an interval and a
verdict, and by gradients alone from three starts. Tasks that were measured one by one are put
together by ``--join``.

    python benchmarks/network_widths.py
    python benchmarks/network_widths.py --data mnist --folder MNIST --device cuda
"""

import argparse
import json
import math
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.data import ImageSet, digits, mnist
from symmetries.data.derived import rotated
from symmetries.data.pose_labels import pose_sectors, six_or_nine
from symmetries.learners.invariant_network import InvariantNetwork, InvariantNetworkConfig
from symmetries.training.step import seeded

sys.path.insert(0, str(Path(__file__).parent))
from common import RESULTS, record

STARTS = (9.0, 90.0, 171.0)  # half-widths in degrees
THREE = (2, 4, 7)
TASKS = ("1 sector", "2 sectors", "3 sectors", "6 sectors", "6 or 9", "12 sectors")


@dataclass(frozen=True)
class Size:
    """How much of everything: small for a processor, larger for a GPU."""

    examples: int
    side: int
    channels: tuple[int, int]
    spacing: int  # degrees between half-widths of the grid
    samples: int  # S, in training
    exact: int  # S, for the exact evidence
    steps: int
    batch: int
    rows: int


SIZES = {
    "digits": Size(300, 8, (8, 16), 15, 12, 36, 400, 100, 300),
    "mnist": Size(1000, 28, (8, 16), 15, 16, 36, 800, 100, 600),
}


def task(name: str, data: ImageSet, size: Size) -> tuple[Tensor, Tensor, int]:
    """Images, labels and the number of classes of a task."""
    copies = -(-size.examples // int((data.labels == 7).sum()))
    if name == "1 sector":
        kept = torch.stack([data.labels == digit for digit in THREE]).any(0).nonzero()[:, 0]
        turned = rotated(data.subset(kept.tolist()), 180.0)
        classes = torch.tensor([THREE.index(int(label)) for label in turned.labels])
        found = ImageSet(turned.images, classes, "three digits")
    elif name == "6 or 9":
        found = six_or_nine(data)
    else:
        found = pose_sectors(data, int(name.split()[0]), copies)
    return found.images[: size.examples], found.labels[: size.examples], found.classes


def network(classes: int, size: Size, seed: int) -> nn.Sequential:
    """Two convolutions of stride 2 and a linear layer."""
    first, second = size.channels
    side = -(-size.side // 4)
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(1, first, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(first, second, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(second * side * side, classes),
        )  # fmt: skip


def fitted(
    data: tuple[Tensor, Tensor, int],
    size: Size,
    width: float,
    seed: int,
    device: str,
    **more: Any,  # noqa: ANN401 - fields of the configuration
) -> InvariantNetwork:
    """A network trained from a half-width in degrees."""
    images, labels, classes = data
    config = InvariantNetworkConfig(half_width=width / 180, samples=size.samples).replace(
        **{
            "steps": size.steps,
            "batch_size": size.batch,
            "curvature_rows": size.rows,
            "every": max(1, size.steps // 25),
            **more,
        }
    )
    module = network(classes, size, 1000 + seed)
    model = InvariantNetwork(module, "rotation", tuple(images.shape[1:]), config, seed=seed)
    model.fit((images, labels), device=device, progress=False)
    return model


def exact_evidence(model: InvariantNetwork, images: Tensor, labels: Tensor, size: Size) -> float:
    """The log evidence by the full Gauss-Newton matrix, in double precision."""
    model = model.double()
    images, labels = images.double().to(model.device), labels.to(model.device)
    eta = torch.linspace(-1, 1, size.exact, device=model.device).double()[:, None]
    eta = eta * (1 - 1 / size.exact) * model.network.box.half_width  # midpoints of equal parts
    return float(model.evidence().total(images, labels, eta.detach()))


def top(widths: list[float], values: list[float]) -> float:
    """Where the parabola through the best value and its neighbours is highest."""
    best = max(range(len(values)), key=values.__getitem__)
    if best in (0, len(values) - 1):
        return widths[best]
    left, middle, right = values[best - 1 : best + 2]
    shift = 0.5 * (left - right) / (left - 2 * middle + right)
    return widths[best] + shift * (widths[best + 1] - widths[best])


def measure(
    name: str, data: ImageSet, size: Size, seeds: int, device: str, searches: int
) -> dict[str, Any]:
    """The exact optimum of a task, then what is learned."""
    found = task(name, data, size)
    images, labels, classes = found
    began = time.process_time()
    widths = [float(w) for w in range(0, 181, size.spacing)]
    totals = [
        [
            exact_evidence(
                fitted(found, size, width, seed, device, learn=False, draws=1), images, labels, size
            )
            for width in widths
        ]
        for seed in range(seeds)
    ]
    means = [sum(column) / seeds for column in zip(*totals, strict=True)]
    best = top(widths, means)
    middle = time.process_time()
    row: dict[str, Any] = {
        "task": name, "examples": len(images), "classes": classes, "widths": widths,
        "log evidence": totals, "best": best, "seeds": seeds,
        "tops by seed": [top(widths, total) for total in totals],
        "flat within 2 nats": [
            min(w for w, v in zip(widths, means, strict=True) if v > max(means) - 2),
            max(w for w, v in zip(widths, means, strict=True) if v > max(means) - 2),
        ],
    }  # fmt: skip
    print(f"{name}: best {best:.0f} ({[round(m) for m in means]})", flush=True)
    if searches:
        row["starts"] = list(STARTS)
        for how, more in (
            ("learned", {"search": 7}),
            ("by gradients", {"search": 0, "every": 10, "draws": 2}),
        ):
            # The search does not read the start: seeds in its place.
            runs = [(STARTS[0], 100 + i) for i in range(searches)] if how == "learned" else None
            runs = runs or [(start, 100) for start in STARTS]
            ends = [fitted(found, size, width, seed, device, **more) for width, seed in runs]
            row[how] = [math.degrees(m.network.box.half_width[0].item()) for m in ends]
            row[f"accuracy, {how}"] = [m.summary((images, labels)).score for m in ends]
            print(f"{name}: {how} {[round(w) for w in row[how]]}", flush=True)
            if how == "learned":
                profiles = [m.profiles[0] for m in ends]
                row["intervals"] = [[math.degrees(end) for end in p.interval] for p in profiles]
                row["told"] = [p.told for p in profiles]
                row["covered"] = [low <= best <= high for low, high in row["intervals"]]
                row["profiles"] = [p.to_dict() for p in profiles]
                shown = [tuple(round(end) for end in ends) for ends in row["intervals"]]
                print(f"{name}: intervals {shown}, told {row['told']}", flush=True)
    row["processor seconds"] = {"grid": middle - began, "learned": time.process_time() - middle}
    return row


def join(name: str) -> None:
    """Write the table of the tasks that were measured, each with its commit and command."""
    found = {}
    for path in (RESULTS / "parts").glob(f"{name}-*.json"):
        stored = json.loads(path.read_text())
        (row,) = stored["rows"]
        found[row["task"]] = {**row, "commit": stored["commit"], "command": stored["command"]}
    record(name, [found[task] for task in TASKS if task in found])


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", choices=SIZES, default="digits")
    parser.add_argument("--folder", help="of MNIST's files")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=2, help="initial weights of the grid")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--searches", type=int, default=3, help="of the width; 0: grid only")
    parser.add_argument("--steps", type=int, help="of each training")
    parser.add_argument("--spacing", type=int, help="degrees between half-widths of the grid")
    parser.add_argument("--join", action="store_true", help="put measured tasks together")
    given = parser.parse_args()
    kind = "cuda" if given.device.startswith("cuda") else "cpu"
    name = f"network_widths-{given.data}-{kind}"
    if given.join:
        join(name)
        return
    data = digits("train") if given.data == "digits" else mnist("train", folder=given.folder)
    changes = {"steps": given.steps, "spacing": given.spacing}
    size = replace(SIZES[given.data], **{k: v for k, v in changes.items() if v is not None})
    for task_name in given.tasks:
        row = measure(task_name, data, size, given.seeds, given.device, given.searches)
        record(f"{name}-{task_name.replace(' ', '-')}", [row], part=True)
    if len(given.tasks) == len(TASKS) and given.searches:
        join(name)


if __name__ == "__main__":
    main()
