"""How natural-gradient steps on the last layer and Adam on everything else are taken."""

from dataclasses import dataclass

from symmetries._validation.checks import (
    check_choice,
    check_flag,
    check_number,
    check_positive,
    check_whole,
)
from symmetries.distributions.box import SAMPLINGS, Sampling
from symmetries.training.config import SCHEDULES, check_betas


@dataclass(frozen=True)
class NaturalConfig:
    """How :func:`fit_natural` trains.

    Args:
        steps: number of steps.
        batch_size: examples per step; large batches suit natural gradients.
        chunk: examples at a time: the sums over a batch are made from chunks of this size.
        samples: S transformations, new ones for every chunk.
        sampling: "random", "sobol" or "grid".
        draws: samples of the outputs.
        rate: largest rate of the natural-gradient steps.
        memory: how many times the training set the last layer remembers: the rate falls as
            1 / (step + 1) to batch_size / (memory N).
        lr: of Adam on the widths, in the group's own units.
        body_lr: of Adam on filters, networks and noise, where they are learned.
        betas: of Adam. With batches of the whole set a short memory, (0.8, 0.95), keeps widths
            moving where the bound flattens: slopes are then compared with recent ones.
        schedule: of both rates: "cosine", falling to 0, or "constant".
        head_every: steps between two updates of the last layer, which cost a factorisation.
        width_every: steps between two moves of everything else; with 2 the last layer is fitted to
            the new widths before their slope is taken.
        warmup: first steps, in which only the last layer is learned (at every step).
        body_warmup: first steps, in which filters and networks rest while widths are learned: a
            network that is trained from the start fits what it sees, and its widths stay small.
        fresh: whether the last layer starts anew, from the weights 0; False goes on from where it
            is, as after a fit to fewer examples.
        search: points along each learned width of a line search (:func:`search_widths`) after two
            thirds of the steps; the last third fits the last layer anew, with the widths that were
            found (fixed ones too: a run gives the same alone as among others). 0 leaves all steps
            to the gradient.
        search_examples: the search looks at the first so many examples at most.
        seed: of all random numbers and of the order of examples.
    """

    steps: int = 300
    batch_size: int = 2000
    chunk: int = 2000
    samples: int = 32
    sampling: Sampling = "sobol"
    draws: int = 8
    rate: float = 0.3
    memory: float = 1.0
    lr: float = 0.03
    body_lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    schedule: str = "cosine"
    head_every: int = 1
    width_every: int = 1
    warmup: int = 10
    body_warmup: int = 0
    fresh: bool = True
    search: int = 7
    search_examples: int = 4000
    seed: int = 0

    def __post_init__(self) -> None:
        counts = ("steps", "batch_size", "chunk", "samples", "draws", "head_every")
        for name in (*counts, "search_examples"):
            check_whole(getattr(self, name), name)
        check_whole(self.search, "search", 2 if self.search else 0)
        check_number(self.rate, "rate", 0, 1)
        check_positive(self.memory, "memory")
        check_whole(self.width_every, "width_every")
        for name in ("warmup", "body_warmup", "seed"):
            check_whole(getattr(self, name), name, least=0)
        for name in ("lr", "body_lr"):
            check_number(getattr(self, name), name, least=0)
        check_betas(self.betas)
        check_choice(self.schedule, SCHEDULES, "schedule")
        check_flag(self.fresh, "fresh")
        check_choice(self.sampling, SAMPLINGS, "sampling")
