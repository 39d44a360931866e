"""Is a learned width where the bound is best, with everything else trained on from there?

Bounds of networks that are trained from scratch at fixed widths differ by how their training began
as much as by their widths. Here all begin as the same network: one whose width was learned is
copied, each copy gets a fixed width, and all are trained for as long again; one copy goes on with
its learned width.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, replace

import torch
from building import build, cached, clock
from fitting import describe, fit_stochastic_job
from jobs import Job, Run
from trainings import Stochastic
from turns import FIXED

from symmetries.learners.invariant_weights import evaluate
from symmetries.nn.invariant_model import InvariantModel

SET = "mnist-partially-rotated"
START = 45


def continued(
    folder: str | None, device: torch.device, seed: int, steps: int | None = None
) -> Iterator[dict[str, object]]:
    """The bound at fixed widths, from one learned network on, on the partially rotated set."""
    train, test = (cached(SET, part, folder) for part in ("train", "test"))
    images, labels = [train.images.to(device)], train.labels.to(device)
    how = Stochastic(steps) if steps else Stochastic()
    start = Run(f"learned from {START}", SET, math.radians(START), True)
    first = Job("continued", "relu", "rotation", (start,), how, prior_variance=1.0)
    first, shape = replace(first, features=64 if steps else first.features), images[0].shape[1:]
    began = clock(device)
    model = build(first, shape, seed).to(device)
    fit_stochastic_job(model, first, images, labels, [0], seed, [])
    width = float(model.half_width.detach())
    runs = (Run("learned on", SET, width, True),)
    runs += tuple(Run(f"fixed {a}", SET, math.radians(a), False) for a in FIXED)
    again = replace(first, runs=runs, training=replace(how, rest=0.0))
    copies = build(again, shape, seed).to(device)
    copy_network(model, copies)
    sets = [0] * len(runs)
    fit_stochastic_job(copies, again, images, labels, sets, seed + 1, [])
    seconds = clock(device) - began
    options = {"samples": how.samples, "sampling": how.sampling, "draws": 16, "chunk": 1000}
    fit = evaluate(copies, images, labels, sets=sets, **options).log_likelihood
    score = evaluate(copies, [test.images.to(device)], test.labels, sets=sets, samples=64).score
    found = describe(copies, again, fit, copies.head.kl().detach() / len(labels), score, seed)
    for run in found:
        print(f"{run['row']:12} ELBO {run['elbo']:.4f} {run['shown']}", flush=True)
    numbers = {"training": asdict(how), "seconds": seconds, "runs": found}
    yield {"tag": "continued", "seed": seed, "learned": width, **numbers}


@torch.no_grad()
def copy_network(model: InvariantModel, copies: InvariantModel) -> None:
    """Give all runs of a model the weights of another's only run; widths stay."""
    state = dict(model.named_parameters())
    for name, parameter in copies.named_parameters():
        if not name.startswith("boxes."):
            parameter.copy_(state[name].expand_as(parameter))
