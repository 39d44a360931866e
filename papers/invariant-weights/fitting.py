"""Trains the runs of a job as one model, and measures them."""

import sys
import time
from dataclasses import asdict, replace
from functools import lru_cache

import numpy as np
import torch
from crossed import best, blurred, search, widths
from jobs import Job, Natural, Stochastic, natural
from torch import Tensor

from symmetries.data import ImageSet, load
from symmetries.groups.affine import Affine2
from symmetries.learners.invariant_weights import (
    augerino_loss,
    elbo_loss,
    evaluate,
    fit_natural,
    search_widths,
)
from symmetries.nn.invariant_model import InvariantModel, shallow_model
from symmetries.training import TrainConfig, train
from symmetries.training.step import Step

TEST_SAMPLES = (64, 256)  # for one parameter, for several
LOOKS = 100
FRAMES = 8
KEPT = 6  # filters shown
SHIFT = 0.6  # largest shift that a search tries, in half-images
FOUND: dict[tuple, Tensor] = {}  # widths that a search has found, for runs that share it
CROSSED: dict[tuple, tuple] = {}  # and all that a search with trained filters has tried


def build(job: Job, shape: tuple[int, int, int], seed: int) -> InvariantModel:
    """The models of a job, as one."""
    how = job.training
    stochastic = isinstance(how, Stochastic)
    return shallow_model(
        shape,
        10,
        Affine2(job.family),
        half_widths=[run.width for run in job.runs],
        learn=[run.learn for run in job.runs],
        features=job.features,
        kind=job.kind,
        sigma=job.sigma,
        amplitude=job.amplitude,
        blur=job.blur,
        posterior=how.posterior if stochastic else "natural",
        prior_variance=job.prior_variance,
        learn_prior=how.learn_prior,
        scale=how.scale if stochastic else 1.0,
        bias=False,
        seed=seed,
    )


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
    fine = fit_natural(model, images, labels, replace(how.fine, seed=seed), sets=sets)
    return looks + [[step + done, *row] for step, *row in fine]


def find_widths(
    model: InvariantModel,
    how: Natural,
    images: list[Tensor],
    labels: Tensor,
    sets: list[int],
    seed: int,
) -> list[list[float]]:
    """The first stage: gradients and a search, on some of the examples."""
    part, config = slice(how.examples), replace(how.coarse, seed=seed)
    few, started = [t[part] for t in images], clock(labels.device)
    looks = fit_natural(model, few, labels[part], config, sets=sets)
    middle = clock(labels.device)
    if how.search:
        options = {"sets": sets, "samples": how.search, "draws": config.draws, "seed": seed}
        chunk = max(1, config.chunk * config.samples // how.search)  # as much at a time
        search_widths(model, few, labels[part], steps=8, chunk=chunk, **options)
    seconds = clock(labels.device) - middle
    print(f"widths: gradients {middle - started:.1f} s, search {seconds:.1f} s", flush=True)
    return looks


def start_widths(
    model: InvariantModel,
    job: Job,
    images: list[Tensor],
    labels: Tensor,
    sets: list[int],
    seed: int,
) -> None:
    """Put the widths where a search finds them for filters as they are drawn."""
    how = job.training
    key = (job.family, job.runs, how.search, how.search_examples, how.order, job.features, seed)
    if key not in FOUND:
        FOUND[key] = searched_widths(job, images, labels, sets, seed)
    for box, width, run in zip(model.boxes, FOUND[key], job.runs, strict=True):
        if run.learn:
            box.set_half_width(width)


def searched_widths(
    job: Job, images: list[Tensor], labels: Tensor, sets: list[int], seed: int
) -> Tensor:
    """Half-widths (R, dim) of the best bound, for filters as they are drawn."""
    how = job.training
    twin = build(replace(job, training=natural(), prior_variance=50.0), images[0].shape[1:], seed)
    twin.body.requires_grad_(False)
    twin.to(labels.device)
    if how.order == "best":
        began, part = clock(labels.device), slice(how.search_examples)
        for box, run in zip(twin.boxes, job.runs, strict=True):
            if run.learn:
                box.set_half_width(torch.zeros(twin.group.dim))
        options = {"sets": sets, "samples": how.search, "draws": 8, "steps": 8, "seed": seed}
        few, chunk = [t[part] for t in images], max(1, 64_000 // how.search)
        named = zip(twin.group.names, twin.group.bounds, strict=True)
        most = [SHIFT if name.startswith("shift") else bound for name, bound in named]
        shape = {"points": 5, "halvings": 2, "order": "best", "most": most}
        search_widths(twin, few, labels[part], chunk=chunk, **shape, **options)
        print(f"widths: search {clock(labels.device) - began:.1f} s", flush=True)
    else:
        stages = replace(natural(), examples=how.search_examples, search=how.search)
        find_widths(twin, stages, images, labels, sets, seed)
    return twin.half_width.detach()


def cross(job: Job, names: tuple[str, ...], images: list[Tensor], labels: Tensor) -> Job:
    """The job with the widths of a search by the bound on images that filters have not seen."""
    key = (names, job.training.crossed)
    if key not in CROSSED:
        boxes = search(images, labels, job.training.crossed)
        CROSSED[key] = boxes, blurred(images, labels, job.training.crossed, boxes)
    found = dict(zip(names, CROSSED[key][0], strict=True))
    runs = (replace(run, width=widths(best(found[run.set], run.row))) for run in job.runs)
    return replace(job, runs=tuple(runs))


def tried(job: Job, names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """For each set the boxes that a search with trained filters has tried, and their bounds.

    Beside them, for comparison only, the mean bound of the best boxes with blurred filters.
    """
    boxes, blurs = CROSSED.get((names, getattr(job.training, "crossed", None)), ([], {}))
    named = dict(zip(names, boxes, strict=False))
    found = {n: {" ".join(map(str, b)): v for b, v in of.items()} for n, of in named.items()}
    return found | ({"blur": {str(b): v for b, v in blurs.items()}} if blurs else {})


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
        progress=False, log_every=max(1, how.steps // 8),
    )  # fmt: skip
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
        job = cross(job, names, images, labels)
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
        "tried": tried(job, names),
        "evaluation_seconds": clock(device) - started - seconds,
        "ms_per_run_and_step": rate,
        "runs": runs,
        "widths": looks,
        "arrays": filters(model, job, frames) if job.kind == "relu" and seed == 0 else {},
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


@lru_cache(maxsize=16)
def cached(name: str, part: str, folder: str | None) -> ImageSet:
    """A set, made once."""
    return load(name, part, folder)


def labels_of(sets: list[ImageSet]) -> Tensor:
    """The labels that all sets share: they are the same images, moved."""
    labels = sets[0].labels
    if labels is None or not all(torch.equal(labels, other.labels) for other in sets):
        sys.exit("the sets of a job must have the same labels in the same order")
    return labels


def clock(device: torch.device) -> float:
    """Seconds, after the device has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()
