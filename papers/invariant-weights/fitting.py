"""Trains the runs of a job as one model, and measures them."""

from dataclasses import asdict, replace

import numpy as np
import torch
from building import build, cached, clock, labels_of
from jobs import Job
from torch import Tensor
from trainings import Natural, Stochastic
from widths import cross, find_widths, start_widths, tried

from symmetries.learners.invariant_weights import (
    augerino_loss,
    elbo_loss,
    evaluate,
    fit_natural,
    width_rows,
)
from symmetries.nn.invariant_model import InvariantModel
from symmetries.training import TrainConfig, train
from symmetries.training.step import Step

TEST_SAMPLES = (64, 256)  # for one parameter, for several
LOOKS = 100
FRAMES = 8
KEPT = 6  # filters shown


def fit_natural_job(
    model: InvariantModel,
    job: Job,
    images: list[Tensor],
    labels: Tensor,
    sets: list[int],
    seed: int,
) -> list[list[float]]:
    """Two stages; returns the widths along the way."""
    how = job.training
    looks, done = [], 0
    if how.coarse is not None:
        looks, done = find_widths(model, how, images, labels, sets, seed), how.coarse.steps
    found = fit_natural(model, images, labels, replace(how.fine, seed=seed), sets=sets)
    fine = width_rows(found)
    return looks + [[step + done, *row] for step, *row in fine]


def fit_stochastic_job(
    model: InvariantModel,
    job: Job,
    images: list[Tensor],
    labels: Tensor,
    sets: list[int],
    seed: int,
    frames: list[tuple],
) -> list[list[float]]:
    """The paper's mini-batches, in the library's loop; returns the widths along the way."""
    how = job.training
    device = str(model.half_width.device)
    options = {"samples": how.samples, "sampling": how.sampling, "sets": sets}
    if how.augerino:
        loss = augerino_loss(how.augerino, **options)
    else:
        loss = elbo_loss(len(labels), rest=how.rest, **options)
    widths = [p for p in model.boxes.parameters() if p.requires_grad]
    own = {id(p) for p in widths}
    rest = [p for p in model.parameters() if p.requires_grad and id(p) not in own]
    groups = [{"params": rest}, {"params": widths, "lr": how.width_lr}]
    config = TrainConfig(
        steps=how.steps, batch_size=how.batch_size, lr=how.lr, seed=seed, device=device,
        progress=False,
    ).replace(log_every=max(1, how.steps // 8))  # fmt: skip
    looks = []
    every = max(1, how.steps // LOOKS)
    times = {round(how.steps * (i / (FRAMES - 1)) ** 2) for i in range(FRAMES)}
    shown = next((i for i, run in enumerate(job.runs) if run.row == "learned from 0"), None)

    def look(step: Step, metrics: object) -> None:
        done = step.index + 1
        if step.index % every == 0 or done == how.steps:
            looks.append((done, model.half_width.detach().flatten().clone()))
        if shown is not None and (done in times or done == 1):
            weight = model.body.layer.weight[shown].detach()
            frames.append((done, weight.half().cpu(), model.half_width[shown].tolist()))

    groups = [group for group in groups if group["params"]]
    train(model, loss, (*images, labels), config, param_groups=groups, on_step=look)
    return [[step, *width.tolist()] for step, width in looks]


def train_job(job: Job, folder: str | None, device: torch.device, seed: int) -> dict[str, object]:
    """Train and evaluate the runs of a job with one seed."""
    names = tuple(dict.fromkeys(run.set for run in job.runs))
    sets = [names.index(run.set) for run in job.runs]
    trains, tests = ([cached(n, part, folder) for n in names] for part in ("train", "test"))
    images = [part.images.to(device) for part in trains]
    tested = [part.images.to(device) for part in tests]
    if job.standardise:
        spread = [(t.mean(), t.std()) for t in images]
        images, tested = (
            [(t - m) / s for t, (m, s) in zip(group, spread, strict=True)]
            for group in (images, tested)
        )
    labels = labels_of(trains).to(device)[: job.examples]
    images = [part[: job.examples] for part in images]
    how, frames = job.training, []
    started = clock(device)
    if isinstance(how, Stochastic) and how.crossed:
        job = cross(job, names, images, labels, seed)
    searched = clock(device) - started
    model = build(job, tuple(images[0].shape[1:]), seed).to(device)
    if isinstance(how, Natural):
        looks = fit_natural_job(model, job, images, labels, sets, seed)
        steps, bound = how.fine.steps + (how.coarse.steps if how.coarse else 0), how.fine
    else:
        if how.search and any(run.learn for run in job.runs):
            start_widths(model, job, images, labels, sets, seed)
        if not how.width_lr:
            model.boxes.requires_grad_(False)
        looks = fit_stochastic_job(model, job, images, labels, sets, seed, frames)
        steps, bound = how.steps, how
    seconds = clock(device) - started
    # The bound as it was trained (same S, same sampling); accuracy with an even spread of T.
    options = {"samples": bound.samples, "sampling": bound.sampling, "draws": 16, "chunk": 1000}
    fit = evaluate(model, images, labels, sets=sets, **options).log_likelihood
    many = TEST_SAMPLES[model.group.dim > 1]
    score = evaluate(model, tested, labels_of(tests), sets=sets, chunk=1000, samples=many)
    kl = model.head.kl().detach() / len(labels)
    runs = describe(model, job, fit, kl, score.score, seed)
    for run in runs:
        print(
            f"{job.table} {job.tag} seed {seed} {run['set']:24} {run['row']:17} "
            f"ELBO {run['elbo']:8.3f} accuracy {run['accuracy']:6.2f} {run['shown']}",
            flush=True,
        )
    rate = 1000 * (seconds - searched) / steps / len(runs)
    print(f"{job.table} {job.family}: {seconds:.1f} s, {rate:.3f} ms per run, step", flush=True)
    return {
        "family": job.family,
        "kind": job.kind,
        "tag": job.tag,
        "seed": seed,
        "features": job.features,
        "sigma": job.sigma,
        "blur": job.blur,
        "examples": len(labels),
        "method": type(how).__name__.lower(),
        "training": asdict(how),
        "seconds": seconds,
        "search_seconds": searched,
        "tried": tried(job, names, seed),
        "evaluation_seconds": clock(device) - started - seconds,
        "ms_per_run_and_step": rate,
        "runs": runs,
        "widths": looks,
        "arrays": filters(model, job, frames) if shown(job, seed) else {},
    }


def describe(
    model: InvariantModel, job: Job, fit: Tensor, kl: Tensor, score: Tensor, seed: int
) -> list[dict]:
    """The numbers of every run."""
    side = max(model.body.layer.shape[-2:])
    runs = []
    for i, run in enumerate(job.runs):
        width = model.half_width[i].tolist()
        shown = [p.display(w, side) for p, w in zip(model.group.parameters, width, strict=True)]
        names = model.group.names
        runs.append(
            asdict(run)
            | {
                "seed": seed,
                "half_width": dict(zip(names, width, strict=True)),
                "shown": {n: f"{v:.1f} {u}" for n, (v, u) in zip(names, shown, strict=True)},
                "elbo": float(fit[i] - kl[i]),
                "log_likelihood": float(fit[i]),
                "kl": float(kl[i]),
                "accuracy": 100 * float(score[i]),
                "prior_variance": float(model.head.prior_variance[i]),
            }
        )
    return runs


def shown(job: Job, seed: int) -> bool:
    """Whether a figure shows filters of this job."""
    return job.kind == "relu" and seed == 0 and job.tag != "turns"


def filters(model: InvariantModel, job: Job, frames: list[tuple]) -> dict[str, np.ndarray]:
    """A few learned filters of some runs (those with the largest weights in the last layer)."""
    found = {}
    for i, run in enumerate(job.runs):
        if run.row in ("affine", "learned from 0") or (run.learn and run.row == "rotation"):
            best = model.head.mean[i].square().sum(0).topk(min(KEPT, job.features)).indices
            weight = model.body.layer.weight[i, best].detach().half()
            found[f"{run.row} {run.set}"] = weight.cpu().numpy()
    for number, (step, weight, width) in enumerate(frames):
        shown = next(i for i, run in enumerate(job.runs) if run.row == "learned from 0")
        best = model.head.mean[shown].square().sum(0).topk(min(KEPT, job.features)).indices.cpu()
        found[f"frame {number}"] = weight[best].numpy()
        found[f"frame {number} at"] = np.array([step, *width])
    return found
