"""Where a learned omega' ends, by where it starts; and what its gradient says on the way.

Two tasks on the same quarter-turned digits: which digit (symmetric), which way up (not). One small
network, three seeds, several lambda.

    python papers/relaxed-equivariance/starts.py --out starts.json
"""

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))

from image_sets import images_of

from symmetries.groups import Cyclic
from symmetries.learners.relaxed import accuracy, fit_relaxed
from symmetries.nn.relaxation import relaxation, relaxed_layers
from symmetries.nn.relaxed_networks import RelaxedCNN, Symmetry
from symmetries.training import TrainConfig
from symmetries.training.atomic_files import write_atomic

TASKS = ("digit", "turn")


def network(seed: int, omega: float) -> nn.Module:
    """The small network of ``--quick``."""
    torch.manual_seed(seed)
    options = {"hidden": 16, "features": 16}
    symmetry = Symmetry(Cyclic(4), "soft", {"rotation": omega}, True, options)
    return RelaxedCNN(1, 4, symmetry, width=4, kernel_size=3)


def learned(task: str, seed: int, omega: float, penalty: float, steps: int) -> dict[str, Any]:
    """Omega' after training."""
    training, test = images_of(task, None, False)
    model = network(seed, omega)
    config = TrainConfig(steps, 32, lr=5e-3, seed=seed, device="cpu", progress=False)
    fit_relaxed(model, *training, config, penalty=penalty, relaxation_lr=4.0)
    row = {"task": task, "seed": seed, "start": omega, "penalty": penalty, "steps": steps}
    values = [round(part["value"], 4) for part in relaxation(model)]
    return {**row, "relaxation": values, "accuracy": round(100 * accuracy(model, *test), 2)}


def gradient(task: str, seed: int, omega: float, steps: int) -> dict[str, Any]:
    """The gradient of the cross-entropy by omega', which is held: mean and deviation of batches."""
    (images, labels), _ = images_of(task, None, False)
    model = network(seed, omega)
    if steps:
        config = TrainConfig(steps, 32, lr=5e-3, seed=seed, device="cpu", progress=False)
        fit_relaxed(model, images, labels, config, relaxation_lr=1e-9)
    frequencies = [layer.relaxed_frequency for layer in relaxed_layers(model).values()]
    rows = []
    for x, y in zip(images.split(32)[:-1], labels.split(32)[:-1], strict=True):
        parts = torch.autograd.grad(F.cross_entropy(model(x), y), frequencies)
        rows.append(torch.cat(parts))
    deviation, mean = torch.std_mean(torch.stack(rows), 0)
    row = {"task": task, "seed": seed, "omega": omega, "steps": steps}
    return {
        **row,
        "mean": [round(value, 4) for value in mean.tolist()],
        "deviation": [round(value, 4) for value in deviation.tolist()],
    }


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """All of it, about five minutes on one core."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--starts", nargs="+", type=float, default=[0.1, 0.5])
    parser.add_argument("--penalties", nargs="+", type=float, default=[0.0, 0.1, 0.5])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)
    found: dict[str, Any] = {"gradients": [], "learned": []}
    for task, omega, steps in product(TASKS, arguments.starts, (0, 50, 150)):
        found["gradients"].append(gradient(task, 0, omega, steps))
        print(found["gradients"][-1], flush=True)
    grid = product(arguments.starts, arguments.penalties, range(arguments.seeds), TASKS)
    for omega, penalty, seed, task in grid:
        found["learned"].append(learned(task, seed, omega, penalty, arguments.steps))
        print(found["learned"][-1], flush=True)
        if arguments.out is not None:
            write_atomic(arguments.out, (json.dumps(found, indent=1) + "\n").encode())
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
