"""Configuration of a training run: plain numbers, checked when they are set."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from symmetries._utils.config import Config
from symmetries._utils.field_rules import Count, NonNegative, Positive, Share, Within
from symmetries._validation.checks import check_choice, invalid, short, wrong_type

# The precisions of Fabric without gradient scaling, which would have to read the gradients.
Precision = Literal["32-true", "64-true", "bf16-true", "bf16-mixed"]
PRECISIONS = get_args(Precision)
Schedule = Literal["cosine", "constant"]
DEVICES = ("auto", "cpu", "cuda", "mps")

# Fields that may differ between a run and its resumption without changing the weights.
FREE_AT_RESUME = frozenset(
    {"out", "resume", "checkpoint_every", "log_every", "device", "devices", "nodes"}
    | {"progress", "title", "tensorboard", "graph", "workers", "given_seed"}
)


def check_betas(betas: object) -> None:
    """Raise an error unless these are valid decay rates for Adam."""
    pair = isinstance(betas, tuple | list) and len(betas) == 2
    if not pair or not all(isinstance(b, int | float) and 0 <= b < 1 for b in betas):  # type: ignore[attr-defined]
        raise invalid("betas", "two numbers in [0, 1)", short(betas), "try (0.9, 0.999)")


@dataclass(frozen=True)
class Optimiser(Config):
    """Optimiser of a run, with its schedule, clipping and weight decay.

    Args:
        algorithm: "adam", "adamw" or "sgd".
        warmup: share of the steps in which the learning rate rises linearly to its peak.
        schedule: "cosine" falls from the peak to ``final``; "constant" stays.
        final: the last learning rate as a share of the peak, where the cosine ends.
        clip: largest norm of the gradient; None leaves it alone.
        weight_decay: decoupled for "adamw", an L2 term for the others.
        betas: of Adam.
        momentum: of SGD.
        skip_bad: how many batches with a NaN or infinite loss or gradient to leave out (and count,
            as "skipped") before the run is stopped; 0 stops at the first one.
    """

    algorithm: Literal["adam", "adamw", "sgd"] = "adam"
    warmup: Share = 0.0
    schedule: Schedule = "cosine"
    final: NonNegative = 0.0
    clip: Positive | None = None
    weight_decay: NonNegative = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    momentum: NonNegative = 0.0
    skip_bad: Count = 0

    def __post_init__(self) -> None:
        if isinstance(self.warmup, int | float) and self.warmup > 1:
            remedy = "give a share of the steps: 0.1 warms up in the first tenth"
            raise invalid("warmup", "a number between 0 and 1", self.warmup, remedy)
        super().__post_init__()
        check_betas(self.betas)


@dataclass(frozen=True)
class Hardware(Config):
    """Devices, nodes and precision of a run.

    Args:
        precision: "32-true", "64-true", "bf16-true" or "bf16-mixed", as Fabric names them.
        devices: processes per node.
        nodes: number of nodes.
        graph: "auto" captures the step as a CUDA graph where that is possible; "off" never.
        workers: loader processes for a ``Dataset``.
    """

    precision: Precision = "32-true"
    devices: int = 1
    nodes: int = 1
    graph: Literal["auto", "off"] = "auto"
    workers: Count = 0


@dataclass(frozen=True)
class Logging(Config):
    """Logs, checkpoints and progress bar of a run.

    Args:
        checkpoint_every: steps between checkpoints (one more is written at the end).
        log_every: steps between two logged metrics. Each of them waits for the device.
        title: what the progress bar calls the run.
        tensorboard: also write TensorBoard event files (an extra: ``symmetries[tensorboard]``).
    """

    checkpoint_every: int = 1000
    log_every: int = 50
    title: str = "training"
    tensorboard: bool = False


@dataclass(frozen=True)
class Origin(Config):
    """What a learner that started the run was given, for messages and for resuming.

    Args:
        given_seed: the seed as the user gave it, where the run's seed was derived from it.
        settings: of the learner, as JSON, that a resumed run must share.
    """

    given_seed: Count | None = None
    settings: str = "{}"


@dataclass(frozen=True)
class TrainConfig(Config):
    """Everything that :func:`symmetries.training.train` needs besides model, loss and data.

    Fields of the parts are set by their names alone with :meth:`replace`, as in
    ``TrainConfig(100, 32).replace(warmup=0.1, log_every=10)``.

    Args:
        steps: number of optimiser steps of the whole run.
        batch_size: examples per step, over all processes together.
        lr: learning rate at its peak.
        seed: fixes the order of the data and all random numbers of the steps.
        out: folder for checkpoints and metrics; None writes nothing.
        resume: go on from the checkpoint in ``out`` if there is one. Without it, a run starts
            afresh and what an earlier one left in ``out`` is replaced.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        progress: show a progress bar.
        optimiser: how the parameters move.
        hardware: precision, processes and workers.
        logging: what is written and shown, and how often.
        origin: what the learner was given that started the run.

    Example:
        >>> TrainConfig(steps=100, batch_size=32).replace(warmup=0.1).optimiser.schedule
        'cosine'
        >>> TrainConfig(steps=0, batch_size=32)
        Traceback (most recent call last):
        ValueError: steps: expected a whole number of at least 1, got 0; give a larger number
    """

    steps: int
    batch_size: int
    lr: Positive = 1e-3
    seed: Annotated[int, Within(0, 2**64)] = 0
    out: Path | None = None
    resume: bool = False
    device: str = "auto"
    progress: bool = True
    optimiser: Optimiser = Optimiser()
    hardware: Hardware = Hardware()
    logging: Logging = Logging()
    origin: Origin = Origin()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.device, str):
            raise wrong_type("device", "a name", self.device, "try 'auto', 'cpu' or 'cuda:1'")
        kind, _, number = self.device.partition(":")
        check_choice(kind, DEVICES, "device")
        alone = self.hardware.devices == 1
        if number and not (kind == "cuda" and number.isdecimal() and alone):
            remedy = "a numbered device needs devices=1; give the bare kind for several"
            raise invalid("device", "a kind, or 'cuda:N'", repr(self.device), remedy)
        if self.out is not None:
            object.__setattr__(self, "out", Path(self.out))
        elif self.resume or self.logging.tensorboard:
            name = "resume" if self.resume else "tensorboard"
            raise invalid("out", f"a folder, because {name}=True", None, "give a folder")

    @property
    def warmup_steps(self) -> int:
        """The number of steps in which the learning rate rises."""
        return round(self.optimiser.warmup * self.steps)

    def identity(self) -> dict[str, object]:
        """Return the fields that determine the weights, on which a resumed run must agree."""
        free = set(FREE_AT_RESUME)
        if self.optimiser.schedule == "constant":
            free.add("steps")  # training longer than first asked changes nothing done so far
        fields: dict[str, object] = {}
        for name, value in self.to_dict().items():
            fields |= value if isinstance(value, dict) else {name: value}
        # Under the names, and in the units, of the checkpoints that earlier versions wrote.
        fields["optimizer"] = fields.pop("algorithm")
        fields["final_lr"] = fields.pop("final") * self.lr  # type: ignore[operator]
        fields |= {"warmup": self.warmup_steps, "betas": list(self.optimiser.betas)}
        return {name: value for name, value in fields.items() if name not in free}
