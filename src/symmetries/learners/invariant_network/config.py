"""Configuration of an invariant network, and the presets "quick", "default" and "paper"."""

from dataclasses import dataclass

from symmetries._utils.config import Config, register_presets
from symmetries._utils.field_rules import Count, NonNegative, Positive, Share, Size
from symmetries._validation.checks import check_whole, invalid
from symmetries.distributions.box import Sampling
from symmetries.learners.invariant_network.likelihoods import Likelihood, check_likelihood
from symmetries.training.recipe import Recipe

_TRAINING = Recipe(8000, 128, lr=2e-3, warmup=0.05, final=0.0, clip=None, weight_decay=0.0)


@dataclass(frozen=True)
class EvidenceSteps(Config):
    """How widths, precisions and noise follow the evidence.

    Args:
        search: points along each half-width of a line search before the training, which then holds
            the widths. 0 leaves them to the gradient, from their start: cheaper by the candidates,
            but it stops at local optima and where the evidence is flat.
        search_steps: share of the steps for which each candidate of the search trains; candidates
            that have not converged prefer narrower widths.
        width_lr: learning rate of the half-widths, in the group's own units.
        prior_precision: of the weights, at the start; one for each layer is learned.
        burn_in: share of the steps in which only the weights are learned.
        every: steps between two updates of widths, precisions and noise.
        curvature_rows: gradients of outputs that the posterior is computed from; too few make the
            bound looser.
        draws: random signs by which an update estimates the trace of the bound, a backward pass
            for each.
    """

    search: Count = 7
    search_steps: Share = 1.0
    width_lr: NonNegative = 0.1
    prior_precision: Positive = 1.0
    burn_in: Share = 0.1
    every: Size = 20
    curvature_rows: Size = 512
    draws: Size = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.search, "search", 2 if self.search else 0)


@dataclass(frozen=True)
class InvariantNetworkConfig(Config):
    """Objective and training of a network that learns its invariance by the Laplace evidence.

    Args:
        half_width: of each parameter at the start, as a share of its bound.
        learn: whether half-widths are learned.
        by_class: whether each class is searched for half-widths of its own, after those of all. It
            takes a search for each class.
        likelihood: "categorical" for classes, "gaussian" for values with a learned noise.
        samples: S transformations that the network is averaged over.
        sampling: "sobol", evenly spread; or "random", whose noise pulls widths down; or "grid".
        evidence: how widths, precisions and noise are learned.
        training: steps, batch size and learning rate of the weights.

    Example:
        >>> InvariantNetworkConfig.preset("quick").replace(steps=10, samples=8).training.steps
        10
    """

    half_width: Share = 0.1
    learn: bool = True
    by_class: bool = False
    likelihood: Likelihood = "categorical"
    samples: Size = 32
    sampling: Sampling = "sobol"
    evidence: EvidenceSteps = EvidenceSteps()
    training: Recipe = _TRAINING

    def __post_init__(self) -> None:
        check_likelihood(self.likelihood)
        super().__post_init__()
        if self.by_class and not self.evidence.search:
            raise invalid("by_class", "a search of half-widths", "search=0", "set search=7")


register_presets(
    InvariantNetworkConfig,
    {
        # Small images on a CPU: minutes.
        "quick": InvariantNetworkConfig(samples=8).replace(
            steps=300, batch_size=64, lr=1e-2, search=5, every=30, curvature_rows=512
        ),
        "default": InvariantNetworkConfig(),
        "paper": InvariantNetworkConfig().replace(steps=40_000),
    },
)
