"""Configuration of relaxed equivariance, and the presets "quick", "default" and "paper"."""

from dataclasses import dataclass
from typing import Literal

from symmetries._utils.config import Config, register_presets
from symmetries._utils.field_rules import NonNegative
from symmetries.training.recipe import Recipe

_TRAINING = Recipe(4000, 128, lr=3e-3, warmup=0.05, final=0.0, clip=None, weight_decay=0.0)


@dataclass(frozen=True)
class RelaxedConfig(Config):
    """Network, objective and training of a classifier with relaxed layers.

    Args:
        mode: "strict", "soft" (omega' relaxes each layer) or "partial" (some rotations are kept).
        relaxation: omega' at the start, for "soft" layers.
        learn: whether omega', or the partial fraction, is learned.
        penalty: lambda, the weight of ||omega'||^2.
        relaxation_lr: learning rate of omega' as a multiple of the others'.
        width: number of fields of the first layer.
        kernel_size: of the convolutions; None chooses by the images' size.
        training: steps, batch size and learning rate.

    Example:
        >>> RelaxedConfig.preset("quick").replace(steps=10, penalty=0.5).training.steps
        10
    """

    mode: Literal["strict", "soft", "partial"] = "soft"
    relaxation: float = 0.1
    learn: bool = True
    penalty: NonNegative = 0.1
    relaxation_lr: NonNegative = 4.0
    width: int = 16
    kernel_size: int | None = None
    training: Recipe = _TRAINING


register_presets(
    RelaxedConfig,
    {
        # Small images on a CPU: about a minute.
        "quick": RelaxedConfig(width=6).replace(steps=200, batch_size=64),
        "default": RelaxedConfig(),
        "paper": RelaxedConfig(width=32).replace(steps=20_000, batch_size=64),
    },
)
