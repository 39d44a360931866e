"""Configuration of the invariant VAE, and the presets "quick", "default" and "paper"."""

from dataclasses import dataclass
from typing import Literal

from symmetries._utils.config import Config, register_presets
from symmetries._utils.field_rules import Positive, Share, Size
from symmetries._validation.checks import invalid
from symmetries.nn.autoencoder import AutoencoderConfig
from symmetries.ops.warp import Interpolation
from symmetries.training.recipe import Recipe


@dataclass(frozen=True)
class Objective(Config):
    """The joint bound and its noises.

    Args:
        samples: transformations that the encoder averages over, for each image.
        invariance: which of them: uniform within this share of the bounds. 1 makes the encoder
            fully invariant; 0 leaves it as it is.
        beta: weight of the KL of z at the start; falls to 1 as a cosine.
        sampled: add noise of a learned scale to prototypes while training, x_hat ~ p(x_hat | z).
        noise: standard deviation of a pixel, given its prototype and transformation.
        learn_noise: learn it, one for each pixel, from that start.
        least_noise: smallest standard deviation of a pixel, where it is learned.
    """

    samples: Size = 10
    invariance: Share = 1.0
    beta: float = 10.0
    sampled: bool = True
    noise: Positive = 0.2
    learn_noise: bool = False
    least_noise: Positive = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise < self.least_noise:
            expected = f"at least least_noise = {self.least_noise}"
            raise invalid("noise", expected, self.noise, "lower least_noise, too")
        if self.beta < 1:
            raise invalid("beta", "at least 1, where it ends", self.beta, "the paper starts at 10")


@dataclass(frozen=True)
class Flows(Config):
    """The distributions of eta: the posterior q(eta | x) and the prior p(eta | z).

    Args:
        features: hidden layers that read images for q(eta | x).
        angles: "circle", the centre of q(eta | x) is the direction of a predicted vector, so that
            it can follow a full turn without a jump; "line", a number like the others (the
            paper's).
        views: evenly turned copies of an image over which the centre of q(eta | x) is averaged,
            where it is one "circle" angle: it then turns with the image. 1 is the paper's.
        initial_spread: scale of q(eta | x) at the start, as a share of the bounds.
        base: hidden layers that predict mean and scale of the flows' bases.
        layers: number of layers of each flow.
        bins: number of bins of its splines.
        conditioner: width of its conditioners.
        flexible: whether p(eta | z) has splines; otherwise it is a Gaussian.
        conditional: whether p(eta | z) depends on z.
    """

    features: tuple[int, ...] = (1024, 512, 256)
    angles: Literal["circle", "line"] = "circle"
    views: Size = 8
    initial_spread: Positive = 0.03
    base: tuple[int, ...] = (64, 32)
    layers: Size = 2
    bins: Size = 4
    conditioner: Size = 64
    flexible: bool = True
    conditional: bool = True


_NETWORK = AutoencoderConfig(channels=(64, 128, 256), strides=(2, 2, 1))
_TRAINING = Recipe(15_000, 256, lr=1e-3, warmup=1 / 30, final=0.1, clip=None)


@dataclass(frozen=True)
class InvariantVAEConfig(Config):
    """Networks and training of the joint model. Defaults follow Allingham et al. 2022, Appendix A.

    Args:
        network: encoder and decoder.
        objective: the bound and its noises.
        flow: the distributions of eta.
        interpolation: of all resampling.
        training: steps, batch size and learning rate.

    Example:
        >>> InvariantVAEConfig.preset("quick").replace(latent=4, noise=0.1).objective.noise
        0.1
    """

    network: AutoencoderConfig = _NETWORK
    objective: Objective = Objective()
    flow: Flows = Flows()
    interpolation: Interpolation = "bilinear"
    training: Recipe = _TRAINING


_SMALL = {"latent": 8, "channels": (16, 32), "strides": (2, 1), "hidden": 64}
_SHORT = {"steps": 600, "batch_size": 64, "lr": 3e-3, "warmup": 1 / 12}
register_presets(
    InvariantVAEConfig,
    {
        # Small images on a CPU: about a minute.
        "quick": InvariantVAEConfig().replace(
            **_SMALL, **_SHORT, samples=5, features=(128, 64), beta=2.0
        ),
        "default": InvariantVAEConfig(),
        # As published, as far as it says.
        "paper": InvariantVAEConfig().replace(
            strides=(2, 1, 1), noise=1.0, features=(64, 32), angles="line", views=1
        ),
    },
)
