"""Configuration of an invariant network, and the presets "quick", "default" and "paper"."""

from dataclasses import dataclass

from symmetries._utils.config import Config, register_presets
from symmetries._utils.field_rules import NonNegative, Positive, Share, Size
from symmetries.distributions.box import Sampling
from symmetries.learners.invariant_network.likelihoods import Likelihood, check_likelihood
from symmetries.training.recipe import Recipe

_TRAINING = Recipe(8000, 128, lr=2e-3, warmup=0.05, final=0.0, clip=None, weight_decay=0.0)


@dataclass(frozen=True)
class InvariantNetworkConfig(Config):
    """Objective and training of a network that learns its invariance by the Laplace evidence.

    Args:
        half_width: of each parameter at the start, as a share of its bound.
        learn: whether half-widths are learned.
        likelihood: "categorical" for classes, "gaussian" for values with a learned noise.
        samples: S transformations that the network is averaged over.
        sampling: "sobol", evenly spread; or "random", whose noise pulls widths down; or "grid".
        prior_precision: of the weights, at the start; one for each layer is learned.
        burn_in: share of the steps in which only the weights are learned.
        every: steps between two updates of widths, precisions and noise.
        curvature_rows: gradients of outputs that the posterior is computed from; too few make the
            bound looser.
        draws: random signs by which an update estimates the trace of the bound, a backward pass
            for each.
        width_lr: learning rate of the half-widths, in the group's own units.
        training: steps, batch size and learning rate of the weights.

    Example:
        >>> InvariantNetworkConfig.preset("quick").replace(steps=10, samples=8).training.steps
        10
    """

    half_width: Share = 0.1
    learn: bool = True
    likelihood: Likelihood = "categorical"
    samples: Size = 32
    sampling: Sampling = "sobol"
    prior_precision: Positive = 1.0
    burn_in: Share = 0.1
    every: Size = 20
    curvature_rows: Size = 512
    draws: Size = 4
    width_lr: NonNegative = 0.1
    training: Recipe = _TRAINING

    def __post_init__(self) -> None:
        check_likelihood(self.likelihood)
        super().__post_init__()


register_presets(
    InvariantNetworkConfig,
    {
        # Small images on a CPU: about a minute.
        "quick": InvariantNetworkConfig(samples=16).replace(steps=1500, batch_size=64),
        "default": InvariantNetworkConfig(),
        "paper": InvariantNetworkConfig().replace(steps=40_000),
    },
)
