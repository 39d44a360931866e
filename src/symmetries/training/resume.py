"""Checkpoint of a run: weights, optimiser, history, and the identity of the run."""

import errno
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from symmetries import __version__
from symmetries._utils.provenance import threads
from symmetries._validation.checks import invalid
from symmetries.training.atomic_files import writing
from symmetries.training.checkpoint import (
    has_state,
    load_state,
    module_state,
    remove_state,
    write_state,
)
from symmetries.training.config import TrainConfig
from symmetries.training.history import History
from symmetries.training.optim import load_optimizer_tensors, optimizer_tensors

NAME = "checkpoint"
MOST_THREADS = 4096  # a larger number in a file is a mistake


class NonFiniteError(RuntimeError):
    """The loss or a weight became NaN or infinite."""


@dataclass
class Checkpoints:
    """Writes and reads the single checkpoint of a run.

    Random states are not stored, because all random numbers follow from (seed, step).

    Args:
        folder: folder of the run.
        model: model with the weights.
        optimizer: optimiser with its state.
        config: configuration of the run.
        examples: number of examples, which determines their order.
        seeds: seeds of all runs that train as one.
        data: fingerprint of the data; None if it is not known.
        code: digest of the source files of the learner and of what it stands on; None if the loss
            belongs to no learner.
    """

    folder: Path
    model: nn.Module
    optimizer: Optimizer
    config: TrainConfig
    examples: int
    seeds: tuple[int, ...] = ()
    data: str | None = None
    code: str | None = None
    last: int | None = None  # steps done at the newest checkpoint
    skipped: int = 0  # bad batches left out before it
    threads: int | None = None  # that it was computed with

    def exists(self) -> bool:
        """Return whether there is a checkpoint to resume from."""
        return has_state(self.folder, NAME)

    def clear(self) -> None:
        """Remove the checkpoint of an earlier run, so that it cannot be resumed."""
        remove_state(self.folder, NAME)

    def identity(self) -> dict[str, Any]:
        """Return the settings that must not change when a run resumes."""
        groups = [len(group["params"]) for group in self.optimizer.param_groups]
        several = {"seeds": list(self.seeds)} if len(self.seeds) > 1 else {}
        return {
            **self.config.identity(),
            "examples": self.examples,
            **({} if self.data is None else {"data": self.data}),
            "parameters": groups,
            **({} if self.code is None else {"code": self.code}),
            "version": f"symmetries {__version__}, torch {torch.__version__}",
            **several,
        }

    @property
    def given_seed(self) -> int:
        """The seed as the user gave it."""
        given = self.config.origin.given_seed
        return self.config.seed if given is None else given

    def save(self, done: int, history: History, seconds: float, skipped: int = 0) -> None:
        """Write the state after ``done`` steps, replacing the previous one."""
        with writing(self.folder / f"{NAME}.json"):
            if not self.folder.is_dir():  # the folder was removed, with the files in it
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        parts = {"model": module_state(self.model), "optimizer": optimizer_tensors(self.optimizer)}
        tensors = {f"{part}.{key}": v for part, state in parts.items() for key, v in state.items()}
        meta = {
            "step": done,
            "seconds": seconds,
            "skipped": skipped,
            "identity": self.identity(),
            "given_seed": self.given_seed,
            "threads": threads(),
            "history": history.to_json(),
        }
        write_state(self.folder, NAME, tensors, meta)
        self.last = done

    def load(self) -> tuple[int, History]:
        """Restore the state; return the number of steps done, and the history."""
        tensors, meta = load_state(self.folder, NAME)
        self._check_identity(meta["identity"], meta.get("given_seed"))
        parts: dict[str, dict[str, torch.Tensor]] = {"model": {}, "optimizer": {}}
        for name, value in tensors.items():
            part, _, key = name.partition(".")
            parts[part][key] = value
        try:
            self.model.load_state_dict(parts["model"])
        except RuntimeError as error:
            message = f"{self.folder}: the checkpoint is of another model; {error}"
            raise ValueError(message) from error
        load_optimizer_tensors(self.optimizer, parts["optimizer"])
        history = History.from_json(meta["history"])
        history.seconds = meta["seconds"]
        self.last = meta["step"]
        self.skipped = int(meta.get("skipped", 0))
        self.threads = meta.get("threads")
        return meta["step"], history

    def _check_identity(self, stored: dict[str, Any], given_seed: int | None) -> None:
        mine = self.identity()
        where = f"as in the checkpoint of {self.folder}"
        for name, value in mine.items():
            before = stored.get(name, value)
            if before == value:
                continue
            remedy = "resume with the same settings and data, or choose another folder"
            expected, got = f"{before!r} {where}", repr(value)
            if name == "seed":  # show the user's seed, not the one derived by the learner
                expected = f"{'the same' if given_seed is None else given_seed} {where}"
                got = f"{self.given_seed}"
                remedy = "resume with that seed, or choose another folder"
            elif name == "seeds":
                expected, got = f"the same {where}", "others"
            elif name == "settings":
                before, value = json.loads(before), json.loads(value)
                name = next(k for k in {**before, **value} if before.get(k) != value.get(k))
                expected, got = f"{before.get(name)!r} {where}", repr(value.get(name))
            elif name == "version":
                remedy = "resume with those versions, or start anew in another folder"
            elif name == "code":
                expected, got = f"the learner's code {where} ({before})", value
                remedy = "resume with that code, or start anew in another folder"
            elif name == "data":
                expected, got = f"the data of the checkpoint of {self.folder} ({before})", value
                remedy = "resume with the same data, or choose another folder"
            raise invalid(name, expected, got, remedy)

    def describe(self) -> str:
        """Describe the newest checkpoint in one sentence, for errors."""
        if self.last is None:
            return "No checkpoint has been written"
        return f"The last good checkpoint is {self.folder / NAME}.json, after step {self.last}"


def stored_threads(folder: Path) -> int | None:
    """The number of threads that the checkpoints in a folder were computed with, if it is known."""
    for path in sorted(folder.rglob("*.json")):
        try:
            number = json.loads(path.read_bytes())["meta"]["threads"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if type(number) is int and 1 <= number <= MOST_THREADS:
            return number
    return None


def check_weights(model: nn.Module, done: int) -> None:
    """Raise an error before weights that are not finite replace a good checkpoint."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise NonFiniteError(f"weight {name!r} is NaN or infinite after step {done}")
