"""Does rounding products to bfloat16 change what is learned? The symmetry model, both ways.

Trained on MNIST (on small digits without a GPU) with products in TF32 and in bfloat16, three seeds
each, and judged in float32 on held-out images: the objective of each stage. "moved" is the
difference of the means in standard errors, as the spread over seeds gives them.

    python benchmarks/precision.py
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from symmetries.data import load
from symmetries.learners.symmetry_model import PRESETS, SymmetryModel
from symmetries.learners.symmetry_model.losses import generative_loss, lie_inference_loss
from symmetries.training import Step

sys.path.insert(0, str(Path(__file__).parent))
from common import record

GPU = torch.cuda.is_available()
GROUP = "shift_x,shift_y,rotation,scale_x,scale_y"
STEPS = (2000, 1000) if GPU else (4, 4)
SEEDS = (0, 1, 2)


@torch.no_grad()
def judge(model: SymmetryModel, images: Tensor) -> dict[str, float]:
    """The two objectives on images that were not trained on, in float32."""
    step = Step(1, 0, images.device)
    config = replace(model.config, alignment=0.0)
    step.begin(0)
    first = lie_inference_loss(model.inference, images, step, model.act, config)
    step.begin(0)
    second = generative_loss(
        model.generative, images, step, model.inference, model.act, model.config
    )
    return {"agreement": float(first["agreement"]), "nll": float(second["nll"])}


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most-seconds", type=float, default=1e9, help="end before")
    options, began = parser.parse_args(), time.perf_counter()
    last = began
    name = "mnist" if GPU else "digits"
    train, test = load(name, "train").images, load(name, "test").images[:2000]
    device = "cuda" if GPU else "cpu"
    found: dict[str, list[dict[str, float]]] = {"tf32": [], "bf16": []}
    for seed in SEEDS:
        now = time.perf_counter()
        if now - began + (now - last) > options.most_seconds:  # as long as the seed before
            break
        last = now
        for products, each in found.items():
            base = PRESETS["default"]
            config = replace(
                base,
                products=products,
                inference=replace(base.inference, steps=STEPS[0]),
                generative=replace(base.generative, steps=STEPS[1]),
            )
            model = SymmetryModel(GROUP, tuple(train.shape[1:]), config, seed=seed)
            model.fit(train, device=device, progress=False, log_every=STEPS[0])
            each.append(judge(model, test.to(device)))
            print(products, seed, each[-1], flush=True)
        if seed:
            record(f"precision-{device}", list(summary(found)))  # as they come


def summary(found: dict[str, list[dict[str, float]]]) -> Iterator[dict[str, Any]]:
    """Mean and spread of each number, and how far it moved in its own standard errors."""
    for what in found["tf32"][0]:
        values = {way: [each[what] for each in seeds] for way, seeds in found.items()}
        means = {way: statistics.mean(numbers) for way, numbers in values.items()}
        spread = {way: statistics.stdev(numbers) for way, numbers in values.items()}
        error = (sum(s**2 for s in spread.values()) / len(values["tf32"])) ** 0.5
        for products in found:
            row = {"what": f"symmetry model, held-out {what}", "products": products}
            row |= {"mean": means[products], "spread over seeds": spread[products]}
            row |= {"seeds": len(values[products])}
            yield row | {"moved": abs(means[products] - means["tf32"]) / max(error, 1e-12)}


if __name__ == "__main__":
    main()
