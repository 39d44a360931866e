"""Does rounding products change what is learned? The symmetry model, both ways.

On a GPU: MNIST, products in TF32 and in bfloat16. On a processor with AMX: small digits turned by
up to 45 degrees, the quick preset with fewer steps, products in float32 and in bfloat16 (which
"auto" means there). Five seeds (three on a CPU), judged in float32 on held-out images:
the objective of each stage; on the CPU also how far prototypes of one orbit differ (variance over 8
turns, as a share of the images') and the planted rotation's width90. "moved" is the difference of
the means to the first way in standard errors, as the spread over seeds gives them.

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

from symmetries.data import load, rotated
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.learners.symmetry_model.losses import generative_loss, lie_inference_loss
from symmetries.ops.amx import has_amx
from symmetries.training import Step

sys.path.insert(0, str(Path(__file__).parent))
from common import record

GPU = torch.cuda.is_available()
GROUP = "shift_x,shift_y,rotation,scale_x,scale_y" if GPU else "rotation,translation"
STEPS = (1000, 600) if GPU else (800, 400)
WAYS = ("tf32", "bf16") if GPU else ("float32", "bf16")
SEEDS = (0, 1, 2, 3, 4) if GPU else (0, 1, 2)
PLANTED = 45.0  # degrees, on the CPU


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
    return found if GPU else found | judge_orbits(model, images)


def judge_orbits(model: SymmetryModel, images: Tensor) -> dict[str, float]:
    """Agreement of prototypes over 8 turns, and how wide the rotation is found (degrees)."""
    eta = torch.zeros(8, 3)
    column = list(model.group.names).index("rotation")
    eta[:, column] = torch.arange(8) * (torch.pi / 4)
    turned = model.act.orbit(model.group.exp(eta), images)
    prototypes = model.prototype(turned.flatten(0, 1)).unflatten(0, turned.shape[:2])
    share = prototypes.var(1, correction=0).mean() / images.var(0).mean()
    width = model.summary(images)["rotation"].width90
    return {"orbit variance": float(share), "width90 of rotation (degrees)": width}


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most-seconds", type=float, default=1e9, help="end before")
    options, began = parser.parse_args(), time.perf_counter()
    device = "cuda" if GPU else "cpu"
    sets = [load("mnist" if GPU else "digits", split) for split in ("train", "test")]
    if not GPU:
        if not has_amx():
            print("this processor has no AMX: there is nothing to compare")
            return
        sets = [rotated(sets[0], PLANTED, "train"), rotated(sets[1], PLANTED, "test")]
    train, test = sets[0].images, sets[1].images[:2000]
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    if GPU and options.most_seconds < 1e9:  # compile all, so that a seed takes as long as the next
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
            each.append(judge(model, test.to(device)))
            print(products, seed, each[-1], flush=True)
        if seed:
            record(f"precision-{device}", list(summary(found)))  # as they come


def trained(products: str, seed: int, images: Tensor, steps: tuple[int, int]) -> SymmetryModel:
    """A model after so many steps of each stage."""
    base = SymmetryConfig.preset("default" if GPU else "quick")
    config = base.replace(
        matmul_precision="tf32" if products == "float32" else products,
        inference={"steps": steps[0]},
        generative={"steps": steps[1]},
    )
    model = SymmetryModel(GROUP, tuple(images.shape[1:]), config, seed=seed)
    device = "cuda" if GPU else "cpu"
    model.fit(images, device=device, progress=False, log_every=steps[0])
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
