"""Shared parts of learner configurations: plain data, and conversion to a TrainConfig."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Protocol, Self, TypeVar

from symmetries._validation.checks import check_number, check_positive, check_whole, invalid, short
from symmetries.training.config import TrainConfig

T = TypeVar("T")


def chosen(config: T | str, kind: type[T], presets: Mapping[str, T]) -> T:
    """Return a configuration, or the preset of that name."""
    if isinstance(config, kind):
        return config
    if not isinstance(config, str) or config not in presets:
        names = ", ".join(repr(name) for name in sorted(presets))
        expected = f"{kind.__name__}(...), or one of {names}"
        raise invalid("config", expected, short(config), "choose one of these")
    return presets[config]


class PlainData:
    """Base class of a dataclass of plain values that converts to JSON and back."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the object from the output of :meth:`to_dict`, with tuples or lists."""
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in data.items()})


class Recipe(Protocol):
    """Fields of a configuration that determine the length and speed of training."""

    @property
    def steps(self) -> int:
        """Number of optimiser steps."""

    @property
    def batch_size(self) -> int:
        """Images per step."""

    @property
    def lr(self) -> float:
        """Peak learning rate."""

    @property
    def final(self) -> float:
        """Final learning rate as a fraction of ``lr``."""

    @property
    def clip(self) -> float | None:
        """Largest norm of the gradient."""

    @property
    def weight_decay(self) -> float:
        """Weight decay of AdamW."""


def check_recipe(recipe: Recipe) -> None:
    """Raise an error unless the training loop accepts these numbers."""
    check_whole(recipe.steps, "steps")
    check_whole(recipe.batch_size, "batch_size")
    check_positive(recipe.lr, "lr")
    check_number(recipe.final, "final", least=0)
    check_number(recipe.weight_decay, "weight_decay", least=0)
    if recipe.clip is not None:
        check_positive(recipe.clip, "clip")


def check_sizes(sizes: object, name: str) -> None:
    """Raise an error unless these are sizes of layers: integers of at least 1."""
    if not isinstance(sizes, tuple | list):
        raise invalid(name, "a tuple of whole numbers", short(sizes), "try (64, 32)")
    for size in sizes:
        check_whole(size, name, most=10**6)


def plain_settings(config: PlainData, **others: Any) -> str:  # noqa: ANN401 - plain data
    """Return the settings of a learner that determine its weights, as JSON.

    Fields of :class:`TrainConfig` are not repeated here.

    Args:
        config: configuration of the learner; nested recipes are left out.
        others: further settings, such as bounds and the background.
    """
    every = config.to_dict() | others
    own = {field.name for field in fields(TrainConfig)}
    return json.dumps({k: v for k, v in every.items() if k not in own and not isinstance(v, dict)})


def adamw_config(recipe: Recipe, warmup: int, **run: Any) -> TrainConfig:  # noqa: ANN401
    """Return a :class:`TrainConfig` with AdamW.

    Args:
        recipe: number of steps, batch size and learning rates.
        warmup: number of steps over which the rate rises.
        run: further fields of :class:`TrainConfig`, such as the seed and the folder.
    """
    return TrainConfig(
        steps=recipe.steps,
        batch_size=recipe.batch_size,
        lr=recipe.lr,
        warmup=warmup,
        final_lr=recipe.final * recipe.lr,
        clip=recipe.clip,
        weight_decay=recipe.weight_decay,
        optimizer="adamw",
        **run,
    )
