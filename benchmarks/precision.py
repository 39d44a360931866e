"""Does rounding products change what is learned? The symmetry model on a GPU, both ways.

MNIST, products in TF32 and in bfloat16. Five seeds, judged in float32 on held-out images by the
objective of each stage. "moved" is the difference of the means to the first way in standard errors,
as the spread over seeds gives them.

    python benchmarks/precision.py
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from symmetries.data import load
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.learners.symmetry_model.losses import generative_loss, lie_inference_loss
from symmetries.training import Step

sys.path.insert(0, str(Path(__file__).parent))
from common import record

GPU = torch.cuda.is_available()
GROUP = "shift_x,shift_y,rotation,scale_x,scale_y"
STEPS = (1000, 600)
WAYS = ("tf32", "bf16")
SEEDS = (0, 1, 2, 3, 4)


@torch.no_grad()
def judge(model: SymmetryModel, images: Tensor) -> dict[str, float]:
    """The two objectives on images that were not trained on, in float32."""
    step = Step(1, 0, images.device)
    config = model.config.replace(alignment=0.0)
    step.begin(0)
    first = lie_inference_loss(model.inference, images, step, model.act, config)
    step.begin(0)
    second = generative_loss(
        model.generative, images, step, model.inference, model.act, model.config
    )
    found = {"agreement": float(first["agreement"]), "nll": float(second["nll"])}
    return found


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most-seconds", type=float, default=1e9, help="end before")
    options, began = parser.parse_args(), time.perf_counter()
    if not GPU:
        sys.exit("device: expected a GPU, got none; processors multiply float32")
    train, test = load("mnist", "train").images, load("mnist", "test").images[:2000]
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    if options.most_seconds < 1e9:  # compile all, so that a seed takes as long as the next
        for products in WAYS:
            trained(products, 0, train[:2000], (20, 20))
    last = time.perf_counter()
    for seed in SEEDS:
        now = time.perf_counter()
        if now - began + (now - last) > options.most_seconds:  # as long as the seed before
            break
        last = now
        for products, each in found.items():
            model = trained(products, seed, train, STEPS)
            each.append(judge(model, test.to("cuda")))
            print(products, seed, each[-1], flush=True)
        if seed:
            record("precision-cuda", list(summary(found)))  # as they come


def trained(products: str, seed: int, images: Tensor, steps: tuple[int, int]) -> SymmetryModel:
    """A model after so many steps of each stage."""
    stages = {"inference": {"steps": steps[0]}, "generative": {"steps": steps[1]}}
    config = SymmetryConfig.preset("default").replace(matmul_precision=products, **stages)
    model = SymmetryModel(GROUP, tuple(images.shape[1:]), config, seed=seed)
    model.fit(images, device="cuda", progress=False, log_every=steps[0])
    return model


def summary(found: dict[str, list[dict[str, float]]]) -> Iterator[dict[str, Any]]:
    """Mean and spread of each number, and how far it moved in its own standard errors."""
    first = WAYS[0]
    for what in found[first][0]:
        values = {way: [each[what] for each in seeds] for way, seeds in found.items()}
        means = {way: statistics.mean(numbers) for way, numbers in values.items()}
        spread = {way: statistics.stdev(numbers) for way, numbers in values.items()}
        for products in found:
            error = (spread[first] ** 2 + spread[products] ** 2) ** 0.5 / len(values[first]) ** 0.5
            row = {"what": f"symmetry model, held-out {what}", "products": products}
            row |= {"mean": means[products], "spread over seeds": spread[products]}
            row |= {"seeds": len(values[products])}
            yield row | {"moved": abs(means[products] - means[first]) / max(error, 1e-12)}


if __name__ == "__main__":
    main()
