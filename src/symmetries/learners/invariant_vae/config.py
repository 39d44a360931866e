"""What an invariant VAE is told, and three sets of answers: quick, default, paper."""

from dataclasses import dataclass
from typing import Any, Literal

from symmetries._validation.checks import (
    check_choice,
    check_flag,
    check_number,
    check_positive,
    check_whole,
    invalid,
)
from symmetries.ops.warp import INTERPOLATIONS, Interpolation
from symmetries.training import TrainConfig
from symmetries.training.recipe import (
    PlainData,
    adamw_config,
    check_recipe,
    check_sizes,
    chosen,
)


@dataclass(frozen=True)
class InvariantVAEConfig(PlainData):
    """Networks and training of the joint model. Defaults follow Allingham et al. 2022, Appendix A.

    Args:
        latent: size of z.
        channels: of the encoder's convolutions; the decoder has them in reverse.
        strides: of the encoder's convolutions.
        hidden: units of the hidden layer between convolutions and code.
        samples: transformations that the encoder averages over, for each image.
        invariance: which of them: uniform within this share of the bounds. 1 makes the encoder
            fully invariant; 0 leaves it as it is.
        noise: standard deviation of a pixel, given its prototype and transformation.
        learn_noise: learn it, one for each pixel, from that start.
        least_noise: smallest standard deviation of a pixel, where it is learned.
        sampled: add noise of a learned scale to prototypes while training, x_hat ~ p(x_hat | z).
        features: hidden layers that read images for q(eta | x).
        base: hidden layers that predict mean and scale of the flows' bases.
        layers: of each flow.
        bins: of its splines.
        conditioner: width of its conditioners.
        flexible: whether p(eta | z) has splines; otherwise it is a Gaussian.
        conditional: whether p(eta | z) depends on z.
        angles: "circle", the centre of q(eta | x) is the direction of a predicted vector, so that
            it can follow a full turn without a jump; "line", a number like the others (the
            paper's).
        views: evenly turned copies of an image over which the centre of q(eta | x) is averaged,
            where it is one "circle" angle: it then turns with the image. 1 is the paper's.
        initial_spread: scale of q(eta | x) at the start, as a share of the bounds.
        interpolation: of all resampling.
        beta: weight of the KL of z at the start; falls to 1 as a cosine.
        half: convolutions in bfloat16 on CUDA.
        steps: of the optimiser.
        batch_size: images per step.
        lr: peak learning rate.
        warmup: steps in which the rate rises.
        final: the last rate as a share of ``lr``.
        clip: largest norm of the gradient; None leaves it alone.
        weight_decay: of AdamW.
    """

    latent: int = 20
    channels: tuple[int, ...] = (64, 128, 256)
    strides: tuple[int, ...] = (2, 2, 1)
    hidden: int = 256
    samples: int = 10
    invariance: float = 1.0
    noise: float = 0.2
    learn_noise: bool = False
    least_noise: float = 0.01
    sampled: bool = True
    features: tuple[int, ...] = (1024, 512, 256)
    base: tuple[int, ...] = (64, 32)
    layers: int = 2
    bins: int = 4
    conditioner: int = 64
    flexible: bool = True
    conditional: bool = True
    angles: Literal["circle", "line"] = "circle"
    views: int = 8
    initial_spread: float = 0.03
    interpolation: Interpolation = "bilinear"
    beta: float = 10.0
    half: bool = False
    steps: int = 15_000
    batch_size: int = 256
    lr: float = 1e-3
    warmup: int = 500
    final: float = 0.1
    clip: float | None = None
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        check_choice(self.angles, ("circle", "line"), "angles")
        check_choice(self.interpolation, INTERPOLATIONS, "interpolation")
        sizes = ("latent", "hidden", "samples", "views", "layers", "bins", "conditioner")
        for name in sizes:
            check_whole(getattr(self, name), name, most=10**6)
        for name in ("channels", "strides", "features"):
            check_sizes(getattr(self, name), name)
        check_recipe(self)
        check_whole(self.warmup, "warmup", least=0)
        for name in ("learn_noise", "sampled", "flexible", "conditional", "half"):
            check_flag(getattr(self, name), name)
        check_number(self.invariance, "invariance")
        check_number(self.beta, "beta")
        if not 0 <= self.invariance <= 1:
            remedy = "1 is fully invariant, 0 not at all"
            raise invalid("invariance", "a share in [0, 1]", self.invariance, remedy)
        for name in ("noise", "least_noise", "initial_spread"):
            check_positive(getattr(self, name), name)
        if self.noise < self.least_noise:
            expected = f"at least least_noise = {self.least_noise}"
            raise invalid("noise", expected, self.noise, "lower least_noise, too")
        if self.beta < 1:
            raise invalid("beta", "at least 1, where it ends", self.beta, "the paper starts at 10")

    def train_config(self, **run: Any) -> TrainConfig:  # noqa: ANN401 - fields of TrainConfig
        """For the training loop; ``run`` are further fields, such as the seed and the folder."""
        return adamw_config(self, min(self.warmup, self.steps // 2), **run)


PRESETS = {
    # Small images on a CPU: about a minute.
    "quick": InvariantVAEConfig(
        latent=8,
        channels=(16, 32),
        strides=(2, 1),
        hidden=64,
        samples=5,
        features=(128, 64),
        beta=2.0,
        steps=600,
        batch_size=64,
        lr=3e-3,
        warmup=50,
    ),
    "default": InvariantVAEConfig(),
    # As published, as far as it says.
    "paper": InvariantVAEConfig(
        strides=(2, 1, 1), noise=1.0, features=(64, 32), angles="line", views=1
    ),
}


def resolve_config(config: InvariantVAEConfig | str) -> InvariantVAEConfig:
    """A configuration, or the preset of that name."""
    return chosen(config, InvariantVAEConfig, PRESETS)
