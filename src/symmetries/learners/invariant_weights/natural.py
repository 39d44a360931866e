"""The ELBO maximised by natural-gradient steps on the last layer and Adam on everything else.

A width moves only as fast as the last layer follows it: with the last layer held, the bound is
best close to the width that it was fitted for. So what counts is how many steps the last layer
remembers. With batches of the whole training set (in chunks, whose sums are exact) it remembers
three steps or so, and the widths climb the bound as it is with the last layer fitted anew. Where
the bound is flat they still stop on the way: a line search over the widths comes after.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from symmetries.checks import (
    check_choice,
    check_flag,
    check_number,
    check_positive,
    check_whole,
    invalid,
)
from symmetries.distributions.box import SAMPLINGS, Sampling, UniformBox
from symmetries.learners.invariant_weights.objectives import (
    check_labelled,
    expected_sites,
    images_of,
    log_likelihood,
)
from symmetries.learners.invariant_weights.search import search_widths
from symmetries.nn.invariant_model import InvariantModel
from symmetries.nn.natural import FULL_PRIOR_STEP, PRIOR_STEP, NaturalLinear
from symmetries.training import TrainConfig, train
from symmetries.training.config import SCHEDULES, check_betas

if TYPE_CHECKING:
    from symmetries.training.step import Step
    from symmetries.training.update import Metrics

LOOKS = 100


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


def fit_natural(
    model: InvariantModel,
    images: Sequence[Tensor],
    targets: Tensor,
    config: NaturalConfig,
    *,
    sets: Sequence[int] | None = None,
    on_step: Callable[[int, Tensor], None] | None = None,
    out: Path | None = None,
    resume: bool = False,
    checkpoint_every: int = 100,
    precision: str = "32-true",
    devices: int = 1,
    nodes: int = 1,
) -> list[list[float]]:
    """Maximise the ELBO: natural-gradient steps on the last layer, Adam on everything else.

    Learned widths follow their gradient for two thirds of the steps, then a line search takes the
    best of each (``config.search``), and the rest is fitted anew. It runs in the library's
    training loop: with a folder ``out`` there are checkpoints (those of the last third in its
    folder "searched"), metrics and an exact resumption, and a run that diverges keeps its last
    good checkpoint.

    Args:
        model: with a ``NaturalLinear`` head; trained in place, where its parameters are.
        images: one or several tensors (N, C, H, W), see :func:`images_of`.
        targets: (N,) or (N, outputs).
        config: everything else.
        sets: which tensor of images belongs to each run.
        on_step: called with the step's number and the expected log-likelihoods (R,).
        out: folder for checkpoints and metrics; None writes nothing.
        resume: go on from the checkpoint in ``out`` if there is one.
        checkpoint_every: steps between checkpoints, about.
        precision: "32-true", or "64-true" for a model and images in double precision.
        devices: processes of a node. They do what one would, where the share of each is no more
            than a chunk; otherwise chunks have other transformations.
        nodes: number of nodes.

    Returns:
        The half-widths along the way, at most about a hundred looks: [step, run 0, run 1, ...]
        with all parameters of a run in turn.

    Raises:
        NonFiniteError: if the bound becomes NaN or infinite.
    """
    check_labelled(model, images, targets)
    head = model.head
    if not isinstance(head, NaturalLinear):
        remedy = "train other posteriors with elbo_loss and symmetries.training.train"
        raise invalid("model.head", "a NaturalLinear", type(head).__name__, remedy)
    options: dict[str, Any] = {
        "resume": resume,
        "checkpoint_every": checkpoint_every,
        "precision": precision,
        "devices": devices,
        "nodes": nodes,
    }
    fit = _Fit(model, images, targets, sets, on_step, options)
    boxes = [cast(UniformBox, box) for box in model.boxes]
    learned = [box.free for box in boxes if box.free.requires_grad]
    after = config.steps // 3 if config.search else 0
    first = config.steps - after
    looks = fit(replace(config, steps=first), 0, out)
    if not after:
        return looks
    few = slice(config.search_examples)
    if learned:
        search_widths(
            model, [part[few] for part in images], targets[few], sets=sets, points=config.search,
            samples=config.samples, draws=config.draws, chunk=config.chunk, seed=config.seed,
        )  # fmt: skip
    head.reset()
    for free in learned:
        free.requires_grad_(False)
    try:
        last = replace(config, steps=after, fresh=True)
        return looks + fit(last, first, out and out / "searched")
    finally:
        for free in learned:
            free.requires_grad_()


@dataclass(frozen=True)
class _Fit:
    """A run of the training loop; what its stages share."""

    model: InvariantModel
    images: Sequence[Tensor]
    targets: Tensor
    sets: Sequence[int] | None
    on_step: Callable[[int, Tensor], None] | None
    options: dict[str, Any]

    def __call__(self, config: NaturalConfig, first: int, out: Path | None) -> list[list[float]]:
        """Train; the steps are numbered from ``first``. Returns the widths along the way."""
        model, look = self.model, max(1, config.steps // LOOKS)
        every = look * max(1, round(self.options["checkpoint_every"] / look))
        run = TrainConfig(
            steps=config.steps,
            batch_size=min(config.batch_size, len(self.targets)),
            lr=config.lr,
            betas=config.betas,
            schedule=config.schedule,
            seed=config.seed + first,
            out=out,
            log_every=look,
            device=str(model.half_width.device),
            progress=False,
            graph="off",
            **self.options | {"checkpoint_every": every},  # after a look: it is sound
        )
        loss = _NaturalLoss(config, len(self.targets), self.sets)
        groups = _param_groups(model, config)
        model.log_noise.requires_grad_()  # the loop wants a gradient, also where none is needed

        def tell(step: "Step", metrics: "Metrics") -> None:
            if self.on_step is not None:
                self.on_step(first + step.index, loss.fit)

        data = (*self.images, self.targets)
        try:
            history = train(model, loss, data, run, param_groups=groups, on_step=tell)
        finally:
            model.log_noise.requires_grad_(model.task == "regression")
        columns = [history[name] for name in history.metrics if name.startswith("half_width")]
        rows = zip(history.step, *columns, strict=True)
        return [[float(first + step), *row] for step, *row in rows]


def _param_groups(model: InvariantModel, config: NaturalConfig) -> list[dict[str, object]]:
    """What Adam moves besides the last layer: widths, and all the rest."""
    widths = {id(p) for p in model.boxes.parameters()}
    # The loop wants a parameter, also where only the last layer is learned.
    learned = [p for p in model.parameters() if p.requires_grad] or [model.log_noise]
    own = [p for p in learned if id(p) in widths]
    rest = [p for p in learned if id(p) not in widths]
    parts = ((own, config.lr), (rest, config.body_lr))
    return [{"params": p, "lr": lr} for p, lr in parts if p]


class _NaturalLoss:
    """The loss of the training loop: gradients for Adam, and a step of the last layer on the way.

    The last layer is part of the model's state, so checkpoints hold it; everything random comes
    from the step. The gradient is summed over chunks here and handed on as a linear function.
    """

    def __init__(self, config: NaturalConfig, count: int, sets: Sequence[int] | None) -> None:
        self.config = config
        self.count = count
        self.sets = sets
        self.fit = torch.empty(0)

    def __call__(
        self, module: nn.Module, batch: tuple[Tensor, ...], step: "Step"
    ) -> dict[str, Tensor]:
        model, config, index = cast(InvariantModel, module), self.config, step.index
        head = cast(NaturalLinear, model.head)
        learned = self._moving(model, index)
        moves_head = index % config.head_every == 0 or index < config.warmup
        slopes = [torch.zeros_like(p) for p in learned]
        fit = torch.zeros_like(model.log_noise[:, 0])
        sums, size = None, len(batch[-1])
        for first in range(0, size, config.chunk):
            part = [tensor[first : first + config.chunk] for tensor in batch]
            with torch.set_grad_enabled(bool(learned)):
                pictures = images_of(part[:-1], self.sets)
                phi = model.features(pictures, config.samples, config.sampling, step.generator)
                mean, variance = outputs = head(phi)
                terms = log_likelihood(
                    model, mean, variance, part[-1], config.draws, step.generator
                )
                here = terms.sum(1) / size
            if learned:
                found = torch.autograd.grad(-here.sum(), learned)
                slopes = [a + b for a, b in zip(slopes, found, strict=True)]
            fit += here.detach()
            if moves_head:
                if (
                    index == 0 and config.fresh
                ):  # from the weights 0, not from the prior: it would go too far
                    outputs = (torch.zeros_like(outputs[0]), torch.zeros_like(outputs[1]))
                sites = expected_sites(model, outputs, part[-1], config.draws, step.generator)
                sums = head.sums(phi.detach(), *sites, into=sums)
        if sums is not None:
            size *= step.world
            for total in sums if step.world > 1 else ():
                torch.distributed.all_reduce(total)
            # While few examples were seen, they count as that many and not as all N.
            seen = min(self.count, size * (index + 1)) if config.fresh else self.count
            rate = max(1 / (index + 1), size / (config.memory * self.count))
            prior_step = FULL_PRIOR_STEP if size >= self.count else PRIOR_STEP
            head.step(sums, min(config.rate, rate), seen / size, prior_step)
        self.fit = fit
        return self._terms(model, learned, slopes)

    def _moving(self, model: InvariantModel, index: int) -> list[nn.Parameter]:
        """What Adam moves at this step."""
        since = index - self.config.warmup
        if since < 0 or since % self.config.width_every:
            return []
        widths = {id(p) for p in model.boxes.parameters()}
        resting = index < self.config.body_warmup
        learned = [p for p in model.parameters() if p.requires_grad]
        learned = [p for p in learned if not resting or id(p) in widths]
        idle = model.task == "classification"
        return [p for p in learned if not (idle and p is model.log_noise)]

    def _terms(
        self, model: InvariantModel, learned: list[nn.Parameter], slopes: list[Tensor]
    ) -> dict[str, Tensor]:
        kl = model.head.kl() / self.count
        handle = 0.0 * model.log_noise.sum()
        for parameter, slope in zip(learned, slopes, strict=True):
            handle = handle + (slope * parameter).sum()
        numbers = {
            "loss": (kl - self.fit).sum().detach() + (handle - handle.detach()),
            "log_likelihood": self.fit.mean(),
            "kl": kl.mean(),
        }
        width = model.half_width.detach()
        names = model.group.names
        for run, row in enumerate(width):
            numbers |= {
                f"half_width.{run}.{name}": value for name, value in zip(names, row, strict=True)
            }
        return numbers
