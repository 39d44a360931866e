"""Configuration of a learner's training: steps, batch size and learning rate with AdamW."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from symmetries._utils.config import Config
from symmetries._utils.field_rules import NonNegative, Positive, Share
from symmetries.training.config import Optimiser, TrainConfig


@dataclass(frozen=True)
class Recipe(Config):
    """One training of a learner with AdamW.

    Args:
        steps: number of optimiser steps.
        batch_size: images per step.
        lr: peak learning rate.
        warmup: share of the steps in which the rate rises.
        final: the last rate as a share of ``lr``.
        clip: largest norm of the gradient; None leaves it alone.
        weight_decay: decoupled weight decay.

    Example:
        >>> Recipe(steps=1000, warmup=0.1).train_config(seed=3).optimiser.algorithm
        'adamw'
    """

    steps: int = 60_000
    batch_size: int = 512
    lr: Positive = 3e-4
    warmup: Share = 0.2
    final: Share = 1e-3
    clip: Positive | None = 10.0
    weight_decay: NonNegative = 1e-4

    def train_config(self, **run: Any) -> TrainConfig:  # noqa: ANN401 - fields of TrainConfig
        """Return the configuration of the loop; ``run`` has fields such as the seed and folder."""
        optimiser = Optimiser(
            "adamw",
            warmup=self.warmup,
            final=self.final,
            clip=self.clip,
            weight_decay=self.weight_decay,
        )
        config = TrainConfig(self.steps, self.batch_size, self.lr, optimiser=optimiser)
        return config.replace(**run)


def plain_settings(config: Config, **others: Any) -> str:  # noqa: ANN401 - plain data
    """Return the settings of a learner that a resumed run must share, as JSON.

    Args:
        config: of the learner; its recipes are left out, as ``TrainConfig`` has them.
        others: such as bounds and the background.
    """
    recipes = {name for name, part in config._parts() if isinstance(part, Recipe)}
    known = {name: part for name, part in config.to_dict().items() if name not in recipes}
    return json.dumps(_flat(known) | others)


def _flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of all parts in one dictionary; their names are unique."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        found |= _flat(value) if isinstance(value, Mapping) else {name: value}
    return found
