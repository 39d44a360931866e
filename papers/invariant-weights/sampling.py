"""The best width by the number of transformations, and widths that labels identify.

The bound of equation 9 pays for the variance of an average over S random transformations, and that
price grows with the width: which width is best depends on S. ``best_by_samples`` measures the bound
on a grid of half-widths for several S and for the exact average, on digits turned by up to 0, 45,
90 and 180 degrees.

Labels of digits do not say how far the digits were turned. ``identified`` has tasks whose labels do
say how far f may be averaged: in which of n equal sectors a digit points (n = 2, 3, 6), and 6
against 9. First the bound of the exact average on a grid, then the width that is learned.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict

import torch
from building import cached, clock
from jobs import ANGLES, PAPER_PRIOR, PRIORS
from pose_labels import pose_sectors, six_or_nine
from torch import Tensor
from trainings import FULL

from symmetries.data import ImageSet
from symmetries.data.derived import rotated
from symmetries.groups.affine import Affine2
from symmetries.learners.invariant_weights import fit_natural, refitted_elbo, width_rows
from symmetries.nn.invariant_model import InvariantModel, shallow_model

PLANTED = (0, 45, 90, 180)
SAMPLES = (1, 8, 16, 32, 64)
EXACT = 128  # evenly spread ones: three degrees apart at most
FINER = 19  # first widths of the line search: 10 degrees apart
GRID, FINE = 6, 5  # degrees between half-widths
EXAMPLES, FEATURES = 6_000, 1024
SHARED = 128  # images that share their random transformations, as in the paper's batches
AT_ONCE = 8_000  # images times transformations, for memory
STEPS, OUTPUTS = 10, 32  # of the last layer; draws of the outputs where the bound is flat
SECTORS = (2, 3, 6)


def network(
    outputs: int, widths: list[float], features: int, seed: int, prior: str
) -> InvariantModel:
    """Models with these half-widths in degrees, as one, held."""
    learned = PRIORS[prior]
    return shallow_model(
        (1, 28, 28), outputs, Affine2("rotation"), half_widths=[math.radians(w) for w in widths],
        learn=False, features=features, kind="fourier", sigma=0.3, bias=False, seed=seed,
        prior_variance=50.0 if learned else PAPER_PRIOR * features / FEATURES, learn_prior=learned,
    )  # fmt: skip


def profile(
    model: InvariantModel,
    images: list[Tensor],
    labels: Tensor,
    sets: list[int],
    samples: int,
    draws: int = 8,
    steps: int = STEPS,
) -> Tensor:
    """Bounds per image of all runs at their own widths; 0 samples is the exact average."""
    exact = samples == 0
    return refitted_elbo(
        model, images, labels, model.half_width.detach(), sets=sets, fresh=True,
        samples=EXACT if exact else samples, sampling="sobol" if exact else "random", draws=draws,
        steps=steps, chunk=AT_ONCE // EXACT if exact else min(SHARED, AT_ONCE // samples),
    ) / len(labels)  # fmt: skip


def best_by_samples(
    folder: str | None, device: torch.device, seed: int, steps: int | None = None
) -> Iterator[dict[str, object]]:
    """The bound at many half-widths, by S, by what was planted, and by prior."""
    examples, features = (400, 64) if steps else (EXAMPLES, FEATURES)
    plain = cached("mnist", "train", folder)
    few = ImageSet(plain.images[:examples], plain.labels[:examples], "mnist", plain.class_names)
    images = [rotated(few, angle).images.to(device) for angle in PLANTED]
    labels = few.labels.to(device)
    degrees = [float(w) for w in range(0, 181, 45 if steps else GRID)]
    sets = [number for number in range(len(PLANTED)) for _ in degrees]
    for prior in PRIORS:
        if seed and prior != "learned prior":
            continue
        model = network(10, len(PLANTED) * degrees, features, seed, prior).to(device)
        for samples in (0, *SAMPLES):
            began = clock(device)
            found = profile(model, images, labels, sets, samples).view(len(PLANTED), -1)
            seconds = clock(device) - began
            tops = [degrees[int(row.argmax())] for row in found]
            print(
                f"{prior}, S = {samples or 'inf'}, seed {seed}: {tops}, {seconds:.1f} s", flush=True
            )
            yield {
                "tag": f"{prior}, S = {samples}", "seed": seed, "prior": prior, "samples": samples,
                "examples": examples, "features": features, "degrees": degrees,
                "elbo": {str(a): row.tolist() for a, row in zip(PLANTED, found, strict=True)},
                "seconds": seconds,
            }  # fmt: skip


def identified(
    folder: str | None,
    device: torch.device,
    seed: int,
    steps: int | None = None,
    points: int = FINER,
    samples: int = FULL.samples,
) -> Iterator[dict[str, object]]:
    """For each task the exact bound on a grid of widths, then what is learned from every start.

    The line search begins with ``points`` widths. Earlier runs had 7, 30 degrees apart, and could
    stay on a lower top of the bound. ``samples`` transformations are those of the learner.
    """
    features, count = (64, 400) if steps else (FEATURES, EXAMPLES)
    plain = cached("mnist", "train", folder)
    tasks = {f"{n} sectors": pose_sectors(plain, n) for n in SECTORS}
    tasks["6 or 9"] = six_or_nine(plain)
    degrees = [float(w) for w in range(0, 181, 30 if steps else FINE)]
    for name, task in tasks.items():
        outputs, images = task.classes, task.images[:count].to(device)
        labels = task.labels[:count].to(device)
        began = clock(device)
        model = network(outputs, degrees, features, seed, "learned prior").to(device)
        sets = [0] * len(degrees)
        found = profile(model, [images], labels, sets, 0, OUTPUTS, 2 * STEPS).tolist()
        top = degrees[max(range(len(found)), key=found.__getitem__)]
        learner = network(outputs, list(map(float, ANGLES)), features, seed, "learned prior")
        for box in learner.boxes:
            box.free.requires_grad_(True)
        config = FULL.replace(
            steps=36, lr=0.3, head_only=6, betas=(0.8, 0.95), search=points, seed=seed,
            search_examples=count, draws=OUTPUTS, samples=samples,
            chunk=min(FULL.chunk * FULL.samples // samples, count),
        )  # fmt: skip
        starts = [0] * len(ANGLES)
        looks = width_rows(fit_natural(learner.to(device), [images], labels, config, sets=starts))
        before = [row for row in looks if row[0] < config.steps * 2 // 3][-1][1:]
        ends = learner.half_width.detach()[:, 0].rad2deg().tolist()
        seconds = clock(device) - began
        shown = [round(w) for w in ends]
        print(f"{name}, seed {seed}: best {top:g}, learned {shown}, {seconds:.1f} s", flush=True)
        yield {
            "tag": name, "seed": seed, "outputs": outputs, "examples": len(labels),
            "features": features, "degrees": degrees, "elbo": found, "best": top,
            "starts": list(ANGLES), "learned": ends,
            "by_gradients": [math.degrees(w) for w in before],
            "training": asdict(config), "seconds": seconds,
        }  # fmt: skip
