"""Configuration of invariant weights, and the presets "quick", "default" and "paper"."""

from dataclasses import dataclass
from typing import Literal

from symmetries._utils.config import Config, register_presets
from symmetries._utils.field_rules import NonNegative, Share
from symmetries.learners.invariant_weights.natural_config import NaturalConfig

_NATURAL = NaturalConfig(lr=0.1)


@dataclass(frozen=True)
class InvariantWeightsConfig(Config):
    """Network and training of a model that learns its invariance from the marginal likelihood.

    Args:
        features: number of random Fourier features.
        half_width: of each parameter at the start, as a share of its bound.
        learn: whether half-widths are learned.
        sigma: standard deviation of the random frequencies; None takes that which suits the
            distances between images.
        prior_variance: of the last layer, at the start.
        task: "classification" or "regression".
        training: natural-gradient steps on the last layer, Adam on everything else.

    Example:
        >>> InvariantWeightsConfig.preset("quick").replace(steps=10, samples=8).training.samples
        8
    """

    features: int = 1024
    half_width: Share = 0.1
    learn: bool = True
    sigma: NonNegative | None = None
    prior_variance: NonNegative = 30.0
    task: Literal["classification", "regression"] = "classification"
    training: NaturalConfig = _NATURAL


register_presets(
    InvariantWeightsConfig,
    {
        # Small images on a CPU: about a minute.
        "quick": InvariantWeightsConfig(features=256).replace(steps=150, batch_size=500),
        "default": InvariantWeightsConfig(),
        "paper": InvariantWeightsConfig().replace(steps=1500, batch_size=5000),
    },
)
