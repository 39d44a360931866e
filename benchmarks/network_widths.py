"""Widths planted in labels: the optimum of the exact evidence, and what a network learns.

Tasks on digits whose labels tell how far a network may be averaged over rotations: which of three
digits, turned by any angle (one sector: the label does not depend on the pose); in which of 2, 3
and 6 equal sectors a seven points; upright 6 against 9; and as a negative control in which of 12
sectors, where nearly every angle is its own class.

First, for each half-width of a grid, the network is trained at that width, with precisions by the
evidence, and its Laplace evidence is computed from the full generalised Gauss-Newton matrix of all
examples in double precision (mean over initial weights; the optimum is the top of a parabola
through the best and its neighbours). Then ``InvariantNetwork`` learns the width: by its search with
several seeds, of initial weights and batches (it reads no start), each with an interval and a
verdict, and by gradients alone from three starts. Tasks that were measured one by one are put
together by ``--join``.

    python benchmarks/network_widths.py
    python benchmarks/network_widths.py --data mnist --folder MNIST --device cuda
    python benchmarks/network_widths.py --data cifar10 --folder CIFAR10 --device cuda

CIFAR-10: a residual network, horses in place of sevens, inside a circle.
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

from symmetries.data import ImageSet, load
from symmetries.data.derived import rotated
from symmetries.learners.invariant_network import InvariantNetwork, InvariantNetworkConfig
from symmetries.learners.invariant_network.candidates import trained_each
from symmetries.nn.named_networks import named_network
from symmetries.training.step import seeded

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "papers" / "invariant-weights"))
from common import RESULTS, record
from pose_labels import pose_sectors, six_or_nine

STARTS = (9.0, 90.0, 171.0)  # half-widths in degrees
CLOSE = {"digits": 10.0, "mnist": 10.0, "cifar10": 20.0}  # degrees
THREE = (2, 4, 7)
PARTS = (
    "log evidence", "learned", "accuracy, learned", "intervals", "told", "profiles", "by gradients",
    "measured",
)  # fmt: skip
TASKS = ("1 sector", "2 sectors", "3 sectors", "6 sectors", "6 or 9", "12 sectors")


@dataclass(frozen=True)
class Size:
    """How much of everything: small for a processor, larger for a GPU."""

    examples: int
    side: int
    channels: tuple[int, ...]  # none: a residual network of 78,000 weights
    spacing: int  # degrees between half-widths of the grid
    samples: int  # S, in training
    exact: int  # S, for the exact evidence
    steps: int
    batch: int
    rows: int


SIZES = {
    "digits": Size(300, 8, (8, 16), 15, 12, 36, 400, 100, 300),
    "mnist": Size(1000, 28, (8, 16), 15, 16, 36, 800, 100, 1000),
    "cifar10": Size(1000, 32, (), 20, 8, 24, 500, 64, 1000),
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
    images, labels = found.images[: size.examples], found.labels[: size.examples]
    return images * disc(size.side) if images.shape[1] == 3 else images, labels, found.classes


def disc(side: int) -> Tensor:
    """1 inside the largest circle of an image, else 0: corners would give the angle away."""
    axis = (torch.arange(side) + 0.5) * 2 / side - 1
    return (axis.square() + axis[:, None].square() < 1).float()


def network(classes: int, size: Size, seed: int) -> nn.Module:
    """Two convolutions of stride 2 and a linear layer; or a residual network."""
    if not size.channels:
        return named_network("resnet", (3, size.side, size.side), classes, seed)
    first, second = size.channels
    side = -(-size.side // 4)
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(1, first, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(first, second, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(second * side * side, classes),
        )  # fmt: skip


def untrained(
    data: tuple[Tensor, Tensor, int],
    size: Size,
    width: float,
    seed: int,
    **more: Any,  # noqa: ANN401 - fields of the configuration
) -> InvariantNetwork:
    """A network that starts from a half-width in degrees."""
    images, _, classes = data
    config = InvariantNetworkConfig(half_width=width / 180, samples=size.samples).replace(
        **{
            "steps": size.steps,
            "batch_size": size.batch,
            "curvature_rows": size.rows,
            "every": max(1, size.steps // 12),
            **more,
        }
    )
    module = network(classes, size, 1000 + seed)
    return InvariantNetwork(module, "rotation", tuple(images.shape[1:]), config, seed=seed)


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


class Measurement:
    """What is found out about one task, stored after every part.

    Args:
        name: of the task.
        data: digits.
        given: arguments of the script.
        size: of data, network and training.
    """

    def __init__(self, name: str, data: ImageSet, given: argparse.Namespace, size: Size) -> None:
        self.name, self.size = name, size
        self.run = {"device": given.device, "progress": False}
        self.found = task(name, data, size)
        self.widths = [float(w) for w in range(0, 181, size.spacing)]
        self.row: dict[str, Any] = {
            "task": name, "examples": len(self.found[0]), "classes": self.found[2],
            "steps": size.steps, "widths": self.widths, "log evidence": [], "learned": [],
            "accuracy, learned": [], "intervals": [], "told": [], "profiles": [],
            "starts": list(STARTS), "by gradients": [], "seconds": {"grid": 0.0, "learned": 0.0},
        }  # fmt: skip

    def grid(self, seed: int) -> None:
        """The exact evidence along the width, from other initial weights."""
        began, (images, labels, _) = time.perf_counter(), self.found
        learner = untrained(self.found, self.size, 0.0, seed)
        widths = torch.tensor(self.widths)[:, None].deg2rad()
        several = trained_each(learner, widths, images, labels, self.run)
        models = (model for some in several for model in some)
        total = [exact_evidence(model, images, labels, self.size) for model in models]
        row = self.row
        row["log evidence"].append(total)
        optimum(row)
        row["seconds"]["grid"] += time.perf_counter() - began
        print(f"{self.name}: best {row['best']:.0f} ({[round(v) for v in total]})", flush=True)

    def search(self, seed: int) -> None:
        """What the search finds; it reads no start."""
        began, row = time.perf_counter(), self.row
        model = untrained(self.found, self.size, STARTS[0], seed, search=7)
        model.fit(self.found[:2], **self.run)
        profile = model.profiles[0]
        row["learned"].append(math.degrees(profile.best))
        row["intervals"].append([math.degrees(end) for end in profile.interval])
        row["told"].append(profile.told)
        row["profiles"].append(profile.to_dict())
        row["accuracy, learned"].append(model.summary(self.found[:2]).score)
        row["seconds"]["learned"] += time.perf_counter() - began
        low, high = row["intervals"][-1]
        said = f"{row['learned'][-1]:.0f} [{low:.0f}, {high:.0f}], told {profile.told}"
        print(f"{self.name}: learned {said}, noise {profile.noise:.2f}", flush=True)

    def gradients(self, start: float) -> None:
        """Where gradients alone end, from one start."""
        more = {"search": 0, "every": 10, "draws": 2}
        model = untrained(self.found, self.size, start, 100, **more)
        model.fit(self.found[:2], **self.run)
        width = math.degrees(model.network.box.half_width[0].item())
        self.row["by gradients"].append(width)
        print(f"{self.name}: by gradients from {start:.0f}: {width:.0f}", flush=True)


def optimum(row: dict[str, Any]) -> dict[str, Any]:
    """Add where the mean of the exact evidence is highest, if it was computed."""
    if not row["log evidence"]:
        return row
    widths = row["widths"]
    means = [sum(column) / len(column) for column in zip(*row["log evidence"], strict=True)]
    near = [w for w, v in zip(widths, means, strict=True) if v > max(means) - 2]
    row["best"], row["flat within 2 nats"] = top(widths, means), [min(near), max(near)]
    row["tops by seed"] = [top(widths, each) for each in row["log evidence"]]
    return row


def judged(row: dict[str, Any], close: float) -> dict[str, Any]:
    """Add which searches come close to the exact optimum and cover it."""
    best = row.get("best")
    if best is None:
        return row
    row["covered"] = [low <= best <= high for low, high in row["intervals"]]
    row["close"] = [abs(width - best) <= close for width in row["learned"]]
    return {**row, "seeds": len(row["log evidence"])}


def schedule(seeds: int, searches: int, first: int) -> list[tuple[str, float]]:
    """Methods of a measurement with their argument, so that early ones tell the most."""
    parts: list[tuple[str, float]] = []
    for number in range(max(seeds, searches)):
        parts += [("grid", number)] if number < seeds else []
        parts += [("search", first + number)] if number < searches else []
    return parts + [("gradients", start) for start in STARTS if seeds and searches]


def join(name: str, close: float) -> None:
    """Write the table of the tasks that were measured, maybe in parts, with their commits."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((RESULTS / "parts").glob(f"{name}-*.json")):
        stored = json.loads(path.read_text())
        (row,) = stored["rows"]
        row["measured"] = [{"commit": stored["commit"], "command": stored["command"]}]
        known = found.setdefault(row["task"], row)
        if known is not row:
            for key in PARTS:
                known[key] = known[key] + row[key]
    rows = [judged(optimum(found[each]), close) for each in TASKS if each in found]
    record(name, rows)


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
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds for all tasks")
    parser.add_argument("--first", type=int, default=100, help="seed of the first search")
    parser.add_argument("--name", default="", help="added to the names of the parts")
    parser.add_argument("--join", action="store_true", help="put measured tasks together")
    given = parser.parse_args()
    kind = "cuda" if given.device.startswith("cuda") else "cpu"
    name = f"network_widths-{given.data}-{kind}"
    if given.join:
        join(name, CLOSE[given.data])
        return
    data = load(given.data, "train", folder=given.folder)
    changes = {"steps": given.steps, "spacing": given.spacing}
    size = replace(SIZES[given.data], **{k: v for k, v in changes.items() if v is not None})
    measured = [Measurement(each, data, given, size) for each in given.tasks]
    ends, slowest = time.perf_counter() + given.budget, dict[str, float]()
    for part, number in schedule(given.seeds, given.searches, given.first):
        for each in measured:
            began = time.perf_counter()
            if began + 1.2 * slowest.get(part, 0.0) > ends:
                print(f"{each.name}: {part} {number} left out, no time is left", flush=True)
                continue
            getattr(each, part)(number)
            slowest[part] = max(slowest.get(part, 0.0), time.perf_counter() - began)
            record(
                f"{name}-{each.name.replace(' ', '-')}{given.name}",
                [judged(each.row, CLOSE[given.data])],
                part=True,
            )
    if len(given.tasks) == len(TASKS) and given.searches:
        join(name, CLOSE[given.data])


if __name__ == "__main__":
    main()
