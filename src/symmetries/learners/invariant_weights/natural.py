"""The ELBO maximised by natural-gradient steps on the last layer and Adam on everything else.

A width moves only as fast as the last layer follows it: with the last layer held, the bound is
best close to the width that it was fitted for. So what counts is how many steps the last layer
remembers. With batches of the whole training set (in chunks, whose sums are exact) it remembers
three steps or so, and the widths climb the bound as it is with the last layer fitted anew. Where
the bound is flat they still stop on the way: a line search over the widths comes after.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from symmetries._validation.checks import invalid, wrong_type
from symmetries.distributions.box import UniformBox
from symmetries.learners.invariant_weights.config import NaturalConfig
from symmetries.learners.invariant_weights.natural_loss import NaturalLoss
from symmetries.learners.invariant_weights.objectives import check_labelled
from symmetries.learners.invariant_weights.search import search_widths
from symmetries.nn.invariant_model import InvariantModel
from symmetries.nn.natural_linear import NaturalLinear
from symmetries.training import History, TrainConfig, train

if TYPE_CHECKING:
    from symmetries.training.step import Step
    from symmetries.training.update import Metrics

LOOKS = 100


def fit_natural(
    model: InvariantModel,
    images: Sequence[Tensor],
    targets: Tensor,
    config: NaturalConfig,
    *,
    sets: Sequence[int] | None = None,
    on_step: Callable[[int, Tensor], None] | None = None,
    out: Path | str | None = None,
    **run: Any,  # noqa: ANN401 - fields of TrainConfig
) -> History:
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
        run: other fields of :class:`symmetries.training.TrainConfig`, such as ``resume``,
            ``checkpoint_every`` (100 unless given) and ``precision`` ("64-true" for a model and
            images in double precision). Several ``devices`` compute what one would, if the share
            of each is no more than a chunk; otherwise chunks have other transformations.

    Returns:
        The logged metrics, at most about a hundred entries; "half_width.RUN.NAME" are the
        half-widths (see :func:`width_rows`). With a search, its ``stages`` are "gradient" and
        "searched".

    Raises:
        NonFiniteError: if the bound becomes NaN or infinite.
    """
    check_labelled(model, images, targets)
    head = model.head
    if not isinstance(head, NaturalLinear):
        remedy = "train other posteriors with elbo_loss and symmetries.training.train"
        raise invalid("model.head", "a NaturalLinear", type(head).__name__, remedy)
    out = None if out is None else Path(out)
    options = {"given_seed": config.seed, "checkpoint_every": 100, "progress": False} | {
        name: value for name, value in run.items() if value is not None
    }
    fit = _Fit(model, images, targets, sets, on_step, options)
    boxes = [cast(UniformBox, box) for box in model.boxes]
    learned = [box.free for box in boxes if box.free.requires_grad]
    after = config.steps // 3 if config.search else 0
    first = config.steps - after
    history = fit(config.replace(steps=first), 0, out)
    if not after:
        return history
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
        last = config.replace(steps=after, fresh=True)
        searched = fit(last, first, out and out / "searched")
        return History.joined({"gradient": history, "searched": searched})
    finally:
        for free in learned:
            free.requires_grad_()


@dataclass(frozen=True)
class _Fit:
    """One stage of :func:`fit_natural`, with what its stages share."""

    model: InvariantModel
    images: Sequence[Tensor]
    targets: Tensor
    sets: Sequence[int] | None
    on_step: Callable[[int, Tensor], None] | None
    options: dict[str, Any]

    def __call__(self, config: NaturalConfig, first: int, out: Path | None) -> History:
        """Train one stage; ``on_step`` receives step numbers that start at ``first``."""
        model, look = self.model, max(1, config.steps // LOOKS)
        every = look * max(1, round(self.options["checkpoint_every"] / look))
        run = TrainConfig(
            steps=config.steps,
            batch_size=min(config.batch_size, len(self.targets)),
            lr=config.lr,
            seed=config.seed + first,
            out=out,
            device=str(model.half_width.device),
        ).replace(
            betas=config.adam.betas,
            schedule=config.adam.schedule,
            graph="off",
            **{"log_every": look} | self.options | {"checkpoint_every": every},
        )
        loss = NaturalLoss(config, len(self.targets), self.sets)
        groups = _param_groups(model, config)
        model.log_noise.requires_grad_()  # the loop wants a gradient, also where none is needed

        def tell(step: "Step", metrics: "Metrics") -> None:
            if self.on_step is not None:
                self.on_step(first + step.index, loss.fit)

        data = (*self.images, self.targets)
        try:
            return train(model, loss, data, run, param_groups=groups, on_step=tell)
        finally:
            model.log_noise.requires_grad_(model.task == "regression")


def width_rows(history: History) -> list[list[float]]:
    """Return the half-widths of a history: rows of [step, run 0, run 1, ...].

    All parameters of a run stand in turn.

    Example:
        >>> width_rows(History([5], {"loss": [1.0], "half_width.0.rotation": [0.5]}, [0.1]))
        [[5.0, 0.5]]
    """
    if not isinstance(history, History):
        raise wrong_type("history", "a History", history, "give what fit_natural returned")
    columns = [history[name] for name in history.metrics if name.startswith("half_width")]
    return [[float(step), *row] for step, *row in zip(history.step, *columns, strict=True)]


def _param_groups(model: InvariantModel, config: NaturalConfig) -> list[dict[str, object]]:
    """Return the parameter groups of Adam: the widths, and everything else but the last layer."""
    widths = {id(p) for p in model.boxes.parameters()}
    # The loop wants a parameter, also where only the last layer is learned.
    learned = [p for p in model.parameters() if p.requires_grad] or [model.log_noise]
    own = [p for p in learned if id(p) in widths]
    rest = [p for p in learned if id(p) not in widths]
    parts = ((own, config.lr), (rest, config.adam.body_lr))
    return [{"params": p, "lr": lr} for p, lr in parts if p]
