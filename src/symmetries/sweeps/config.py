"""What a sweep is told: a TOML file, checked when it is read."""

import hashlib
import json
import math
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from symmetries._validation.checks import as_path, invalid

Value = bool | int | float | str | tuple[int | float, ...]


class Range(BaseModel):
    """Numbers from ``low`` to ``high``, whole if both are; ``log``: even in the logarithm."""

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
    """What to train, what to measure, what to try.

    Args:
        learner: one of :data:`symmetries.sweeps.objectives.OBJECTIVES`.
        data: a data set by name, a file or a folder. A part of its training split is held out and
            measured on; the test split is never looked at.
        measure: the number to compare, one that the learner gives.
        direction: "maximize" or "minimize".
        sampler: "tpe" (Optuna's default), "random" or "grid" (all combinations of lists).
        pruner: "median", "hyperband" or "none": which runs are stopped early.
        watch: the number of the training that decides about stopping; smaller is better.
        trials: how many to run, unless all of a grid.
        images: training images to use, the first ones; all by default.
        holdout: share of the training images that is measured on.
        seed: of the held-out part, of the sampler and of every run.
        settings: of the learner, for all runs.
        search: by name of a setting: a list of values, or low and high.
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
        """How many runs there will be."""
        if self.sampler != "grid":
            return self.trials
        return math.prod(len(v) for v in self.search.values() if isinstance(v, list))

    def digest(self) -> str:
        """A hash of everything but the number of trials, which may grow."""
        plain = self.model_dump(mode="json", exclude={"trials"})
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def read_config(path: str | Path) -> SweepConfig:
    r"""The configuration in a TOML file.

    Raises:
        ValueError: naming the file, the field and what is wrong with it.

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
        content = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise invalid(str(path), "a TOML file", error.strerror, "check the path") from error
    except (ValueError, RecursionError) as error:
        raise invalid(str(path), "a TOML file", f"{error}", "correct it") from error
    try:
        return SweepConfig.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        got = f"{where}: {first['msg']}"
        raise invalid(str(path), "a sweep", got, "see docs/scale.md") from error
