"""Configuration of invariant weights, and the presets "quick", "default" and "paper"."""

from dataclasses import dataclass
from typing import Literal

from symmetries._utils.config import Config, register_presets
from symmetries._utils.field_rules import Count, NonNegative, Positive, Share
from symmetries._validation.checks import check_whole
from symmetries.distributions.box import Sampling
from symmetries.training.config import Schedule, check_betas


@dataclass(frozen=True)
class HeadSteps(Config):
    """Natural-gradient steps on the last layer.

    Args:
        rate: largest rate of the steps.
        memory: how many times the training set the last layer remembers: the rate falls as
            1 / (step + 1) to batch_size / (memory N).
        head_every: steps between two updates, which cost a factorisation.
        head_only: number of first steps in which only the last layer is learned (at every step).
        fresh: whether the last layer starts anew, from the weights 0; False goes on from where it
            is, as after a fit to fewer examples.
    """

    rate: Share = 0.3
    memory: Positive = 1.0
    head_every: int = 1
    head_only: Count = 10
    fresh: bool = True


@dataclass(frozen=True)
class AdamSteps(Config):
    """Adam's steps on widths, filters, networks and noise.

    Args:
        body_lr: learning rate of filters, networks and noise, where they are learned.
        betas: of Adam. With batches of the whole set a short memory, (0.8, 0.95), keeps widths
            moving where the bound flattens: slopes are then compared with recent ones.
        schedule: of all rates: "cosine", falling to 0, or "constant".
    """

    body_lr: NonNegative = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    schedule: Schedule = "cosine"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_betas(self.betas)


@dataclass(frozen=True)
class NaturalConfig(Config):
    """Configuration of :func:`fit_natural`.

    Args:
        steps: number of steps.
        batch_size: examples per step; large batches suit natural gradients.
        chunk: examples at a time: the sums over a batch are made from chunks of this size.
        samples: S transformations, new ones for every chunk.
        sampling: "random", "sobol" or "grid".
        draws: samples of the outputs.
        lr: learning rate of Adam on the widths, in the group's own units.
        search: points along each learned width of a line search (:func:`search_widths`) after two
            thirds of the steps; the last third fits the last layer anew, with the widths that were
            found (fixed ones too: a run gives the same alone as among others). 0 leaves all steps
            to the gradient.
        search_examples: the search uses at most so many of the first examples.
        seed: of all random numbers and of the order of examples.
        head: steps on the last layer.
        adam: steps on everything else.
    """

    steps: int = 300
    batch_size: int = 2000
    chunk: int = 2000
    samples: int = 32
    sampling: Sampling = "sobol"
    draws: int = 8
    lr: NonNegative = 0.03
    search: Count = 7
    search_examples: int = 4000
    seed: Count = 0
    head: HeadSteps = HeadSteps()
    adam: AdamSteps = AdamSteps()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.search, "search", 2 if self.search else 0)


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
