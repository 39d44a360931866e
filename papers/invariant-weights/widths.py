"""Where the widths of a job come from, if not from gradients: searches, remembered."""

import json
import math
from dataclasses import replace
from pathlib import Path

import torch
from building import build, clock
from crossed import Box, Crossed, best, blurred, search, widths
from jobs import Job
from torch import Tensor
from trainings import Natural, natural
from turns import line_search

from symmetries.learners.invariant_weights import fit_natural, search_widths, width_rows
from symmetries.nn.invariant_model import InvariantModel

RESULTS = Path(__file__).with_name("results.json")
SHIFT = 0.6  # largest shift that a search tries, in half-images
FOUND: dict[tuple, Tensor] = {}  # widths that a search has found, for runs that share it
CROSSED: dict[tuple, tuple] = {}  # and all that a search with trained filters has tried


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
    looks = width_rows(fit_natural(model, few, labels[part], config, sets=sets))
    middle = clock(labels.device)
    if how.search:
        options = {"sets": sets, "samples": how.search, "draws": config.draws, "seed": seed}
        options["sampling"] = config.sampling
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


def cross(job: Job, names: tuple[str, ...], images: list[Tensor], labels: Tensor, seed: int) -> Job:
    """The job with the widths of a search by the bound on images that filters have not seen.

    Rotations from several starts: a search for each seed. Boxes: one for all seeds, that of seed 0,
    which is taken from the stored results if it is there.
    """
    how = job.training.crossed
    key = searched_by(job, names, seed)
    if job.family == "rotation":
        starts = [(names.index(run.set), math.degrees(run.width)) for run in job.runs]
        if key not in CROSSED:
            CROSSED[key] = line_search(starts, images, labels, replace(how, seed=seed))
        ends, _ = CROSSED[key]
        found = zip(job.runs, ends, strict=True)
        return replace(job, runs=tuple(replace(r, width=math.radians(w)) for r, w in found))
    if key not in CROSSED:
        boxes = stored(job, names) if seed else []
        boxes = boxes or search(images, labels, how)
        CROSSED[key] = boxes, {} if seed else blurred(images, labels, how, boxes)
    of = dict(zip(names, CROSSED[key][0], strict=True))
    return replace(
        job, runs=tuple(replace(r, width=widths(best(of[r.set], r.row))) for r in job.runs)
    )


def searched_by(job: Job, names: tuple[str, ...], seed: int) -> tuple:
    """What a search is remembered by."""
    return names, job.training.crossed, seed if job.family == "rotation" else 0


def stored(job: Job, names: tuple[str, ...]) -> list[dict[Box, float]]:
    """For each set the boxes that the same search, of stored results, has tried; [] without."""
    tables = json.loads(RESULTS.read_text())["tables"] if RESULTS.exists() else {}
    for batch in tables.get(job.table, []):
        if Crossed(**(batch["training"]["crossed"] or {})) == job.training.crossed:
            sets = [batch["tried"].get(name, {}) for name in names]
            if all(sets):
                return [{tuple(map(int, b.split())): v for b, v in s.items()} for s in sets]
    return []


def tried(job: Job, names: tuple[str, ...], seed: int) -> dict[str, dict[str, object]]:
    """For each set what a search with trained filters has tried, boxes or degrees, and the bounds.

    Beside boxes, for comparison only, the mean bound of the best ones with blurred filters.
    """
    if not getattr(job.training, "crossed", None):
        return {}
    found, more = CROSSED[searched_by(job, names, seed)]
    if job.family == "rotation":
        return {n: {f"{w:g}": v for w, v in of.items()} for n, of in zip(names, more, strict=True)}
    named = zip(names, found, strict=True)
    boxes = {n: {" ".join(map(str, b)): v for b, v in of.items()} for n, of in named}
    return boxes | ({"blur": {str(b): v for b, v in more.items()}} if more else {})
