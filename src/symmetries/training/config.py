"""Configuration of a training run, checked on construction."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from symmetries._validation.checks import (
    check_choice,
    check_number,
    check_positive,
    check_whole,
    invalid,
    short,
    wrong_type,
)

# The precisions of Fabric without gradient scaling, which would have to read the gradients.
PRECISIONS = ("32-true", "64-true", "bf16-true", "bf16-mixed")
SCHEDULES = ("cosine", "constant")
OPTIMIZERS = ("adam", "adamw", "sgd")
GRAPH_MODES = ("auto", "off")
DEVICES = ("auto", "cpu", "cuda", "mps")

# Fields that may differ between a run and its resumption without changing the weights.
FREE_AT_RESUME = frozenset(
    {"out", "resume", "checkpoint_every", "log_every", "device", "devices", "nodes"}
    | {"progress", "title", "tensorboard", "graph", "workers", "given_seed"}
)


@dataclass(frozen=True)
class TrainConfig:
    """Configuration of :func:`symmetries.training.train`: everything but model, loss and data.

    Args:
        steps: number of optimiser steps of the whole run.
        batch_size: examples per step, over all processes together.
        lr: peak learning rate.
        warmup: number of steps over which the rate rises linearly to ``lr``.
        schedule: "cosine" decays from ``lr`` to ``final_lr``; "constant" stays at ``lr``.
        final_lr: learning rate at the end of the cosine schedule.
        clip: largest norm of the gradient; None disables clipping.
        weight_decay: weight decay (decoupled for "adamw", an L2 term for the others).
        optimizer: "adam", "adamw" or "sgd".
        betas: coefficients of Adam.
        momentum: momentum of SGD.
        seed: random seed of the order of the data and of all random numbers of the steps.
        out: folder for checkpoints and metrics; None writes nothing.
        resume: continue from the checkpoint in ``out`` if there is one. If False, the run starts
            from the beginning and replaces an earlier run in ``out``.
        checkpoint_every: number of steps between checkpoints (one more is written at the end).
        log_every: number of steps between logged metrics. Logging synchronises with the device.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        precision: "32-true", "64-true", "bf16-true" or "bf16-mixed", as in Fabric.
        devices: number of processes per node.
        nodes: number of nodes.
        progress: whether to show a progress bar.
        title: title of the progress bar.
        tensorboard: whether to write TensorBoard event files (needs ``symmetries[tensorboard]``).
        graph: "auto" captures the step as a CUDA graph if possible; "off" never does.
        workers: number of loader processes for a ``Dataset``.
        skip_bad: number of batches with a NaN or infinite loss or gradient to skip (and count,
            as "skipped") before the run stops; 0 stops at the first one.
        given_seed: the seed to show in messages, if ``seed`` was derived from another number.
        settings: the learner's settings as JSON (see :func:`plain_settings`), which a resumed run
            must share.

    Example:
        >>> TrainConfig(steps=100, batch_size=32, warmup=10).schedule
        'cosine'
        >>> TrainConfig(steps=0, batch_size=32)
        Traceback (most recent call last):
        ValueError: steps: expected a whole number of at least 1, got 0; give a larger number
    """

    steps: int
    batch_size: int
    lr: float = 1e-3
    warmup: int = 0
    schedule: str = "cosine"
    final_lr: float = 0.0
    clip: float | None = None
    weight_decay: float = 0.0
    optimizer: str = "adam"
    betas: tuple[float, float] = (0.9, 0.999)
    momentum: float = 0.0
    seed: int = 0
    out: Path | None = None
    resume: bool = False
    checkpoint_every: int = 1000
    log_every: int = 50
    device: str = "auto"
    precision: str = "32-true"
    devices: int = 1
    nodes: int = 1
    progress: bool = True
    title: str = "training"
    tensorboard: bool = False
    graph: str = "auto"
    workers: int = 0
    skip_bad: int = 0
    given_seed: int | None = None
    settings: str = "{}"

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "checkpoint_every", "log_every", "devices", "nodes"):
            check_whole(getattr(self, name), name)
        for name in ("warmup", "workers", "skip_bad"):
            check_whole(getattr(self, name), name, least=0)
        check_whole(self.seed, "seed", least=0, most=2**64)
        for name in ("final_lr", "weight_decay", "momentum"):
            check_number(getattr(self, name), name, least=0)
        check_positive(self.lr, "lr")
        if self.clip is not None:
            check_positive(self.clip, "clip")
        check_betas(self.betas)
        if self.warmup > self.steps:
            raise invalid("warmup", f"at most steps = {self.steps}", self.warmup, "use fewer steps")
        check_choice(self.schedule, SCHEDULES, "schedule")
        check_choice(self.optimizer, OPTIMIZERS, "optimizer")
        check_choice(self.precision, PRECISIONS, "precision")
        check_choice(self.graph, GRAPH_MODES, "graph")
        if not isinstance(self.device, str):
            raise wrong_type("device", "a name", self.device, "try 'auto', 'cpu' or 'cuda:1'")
        kind, _, number = self.device.partition(":")
        check_choice(kind, DEVICES, "device")
        if number and not (kind == "cuda" and number.isdecimal() and self.devices == 1):
            remedy = (
                "a numbered device needs devices=1; give only the type, such as 'cuda', for several"
            )
            raise invalid("device", "a type of device, or 'cuda:N'", repr(self.device), remedy)
        if self.out is not None:
            object.__setattr__(self, "out", Path(self.out))
        elif self.resume or self.tensorboard:
            name = "resume" if self.resume else "tensorboard"
            raise invalid("out", f"a folder, because {name}=True", None, "give a folder")

    def identity(self) -> dict[str, object]:
        """Return the fields that determine the weights, on which a resumed run must agree."""
        free = set(FREE_AT_RESUME)
        if self.schedule == "constant":
            free.add("steps")  # training for longer does not change the steps already done
        fields = dataclasses.asdict(self)
        fields["betas"] = list(self.betas)
        return {name: value for name, value in fields.items() if name not in free}


def check_betas(betas: object) -> None:
    """Raise an error unless ``betas`` are valid coefficients of Adam."""
    pair = isinstance(betas, tuple | list) and len(betas) == 2
    if not pair or not all(isinstance(b, int | float) and 0 <= b < 1 for b in betas):  # type: ignore[attr-defined]
        raise invalid("betas", "two numbers in [0, 1)", short(betas), "try (0.9, 0.999)")
