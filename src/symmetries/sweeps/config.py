"""Configuration of a sweep: a TOML file, checked when it is read."""

import hashlib
import json
import math
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from symmetries._validation.checks import as_path, invalid
from symmetries.training.atomic_files import read_regular

Value = bool | int | float | str | tuple[int | float, ...]


class Range(BaseModel):
    """Range from ``low`` to ``high``, of integers if both are; ``log`` samples in the logarithm."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)
    low: int | float
    high: int | float
    log: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError("low must be less than high, and positive with log")
        return self


Choices = Annotated[list[bool | int | float | str | list[int | float]], Field(min_length=1)]


class SweepConfig(BaseModel):
    """Configuration of a sweep: what to train, what to measure, and what to search over.

    Args:
        learner: one of :data:`symmetries.sweeps.sweep_objectives.OBJECTIVES`.
        data: a data set by name, a file or a folder. Part of its training split is held out for
            measuring; the test split is never read.
        measure: the number to compare, one of those that the learner returns.
        direction: "maximize" or "minimize".
        sampler: "tpe" (Optuna's default), "random" or "grid" (all combinations of lists).
        pruner: "median", "hyperband" or "none": decides which trials are stopped early.
        watch: the training metric that decides about pruning; smaller is better.
        trials: number of trials; a grid may have fewer.
        images: number of training images to use, from the first; all by default.
        holdout: fraction of the training images that is held out.
        seed: random seed of the held-out part, of the sampler and of every run.
        settings: settings of the learner for all runs.
        search: for each setting a list of values, or low and high.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    learner: str
    data: str
    measure: str
    direction: Literal["maximize", "minimize"] = "maximize"
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    pruner: Literal["median", "hyperband", "none"] = "none"
    watch: str = "loss"
    trials: int = Field(default=20, ge=1)
    images: int | None = Field(default=None, ge=2)
    holdout: float = Field(default=0.2, gt=0, lt=1)
    seed: int = Field(default=0, ge=0)
    settings: dict[str, Any] = Field(default_factory=dict)
    search: dict[str, Range | Choices] = Field(min_length=1)

    @model_validator(mode="after")
    def _checked(self) -> Self:
        both = sorted(set(self.settings) & set(self.search))
        if both:
            raise ValueError(f"{both[0]} is in [settings] and in [search]: leave one out")
        if self.sampler == "grid" and any(isinstance(v, Range) for v in self.search.values()):
            raise ValueError("a grid needs lists of values, not low and high")
        return self

    @property
    def total(self) -> int:
        """Number of trials of the whole sweep."""
        if self.sampler != "grid":
            return self.trials
        return math.prod(len(v) for v in self.search.values() if isinstance(v, list))

    def digest(self) -> str:
        """Return a hash of everything but the number of trials, which may grow."""
        plain = self.model_dump(mode="json", exclude={"trials"})
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def read_config(path: str | Path) -> SweepConfig:
    r"""Read the configuration in a TOML file.

    Raises:
        ValueError: if the file is invalid; it names the file, the field and the problem.

    Example:
        >>> import tempfile
        >>> text = 'learner = "relaxed"\ndata = "digits"\nmeasure = "accuracy"\n'
        >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        ...     _ = file.write(text + "[search]\nlr = [1e-3, 1e-2]\n")
        ...     file.flush()
        ...     read_config(file.name).search
        {'lr': [0.001, 0.01]}
    """
    path = as_path(path)
    try:
        content = tomllib.loads(read_regular(path).decode())
    except OSError as error:
        raise invalid(str(path), "a TOML file", error.strerror, "check the path") from error
    except (ValueError, RecursionError) as error:
        raise invalid(str(path), "a TOML file", f"{error}", "correct the syntax") from error
    try:
        return SweepConfig.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        got = f"{where}: {first['msg']}"
        raise invalid(str(path), "a sweep", got, "see docs/scale.md") from error
