"""What all runs share: models of a job as one, sets that are made once, a clock."""

import sys
import time
from collections.abc import Mapping
from functools import lru_cache

import torch
from jobs import Job
from torch import Tensor
from trainings import Stochastic

from symmetries.data import ImageSet, load
from symmetries.groups.affine import Affine2
from symmetries.nn.invariant_model import InvariantModel, shallow_model

KEY = ("family", "kind", "tag", "seed")  # of a batch, in its table


def curves_of(table: str, batch: Mapping[str, object]) -> str:
    """The name of the array with the widths of a batch along its training."""
    return f"{table}/widths " + " ".join(str(batch[name]) for name in KEY if name in batch)


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
