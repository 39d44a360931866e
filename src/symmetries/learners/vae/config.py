"""What a VAE is told, and two sets of answers: quick, paper."""

from dataclasses import dataclass
from typing import Any

from symmetries._validation.checks import check_flag, check_number, check_whole, invalid
from symmetries.training import TrainConfig
from symmetries.training.recipe import (
    PlainData,
    adamw_config,
    check_recipe,
    check_sizes,
    chosen,
)


@dataclass(frozen=True)
class VAEConfig(PlainData):
    """Networks and training of a VAE. Defaults are those of Allingham et al. 2024, Appendix C.4.

    Args:
        latent: size of z.
        channels: of the encoder's convolutions; the decoder has them in reverse.
        strides: of the encoder's convolutions.
        hidden: units of the hidden layer between convolutions and code.
        initial_noise: standard deviation of a pixel at the start.
        least_noise: smallest standard deviation of a pixel.
        kl_warmup: share of the steps in which the weight of the KL rises from 0 to 1; without it
            codes are noise at first, and decoders learn to do without them. The paper has none.
        half: convolutions in bfloat16 on CUDA.
        steps: of the optimiser.
        batch_size: images per step.
        lr: peak learning rate.
        warmup: share of the steps in which the rate rises.
        final: the last rate as a share of ``lr``.
        clip: largest norm of the gradient; None leaves it alone.
        weight_decay: of AdamW.
    """

    latent: int = 20
    channels: tuple[int, ...] = (64, 128)
    strides: tuple[int, ...] = (2, 2)
    hidden: int = 256
    initial_noise: float = 1.0
    least_noise: float = 0.01
    kl_warmup: float = 0.2
    half: bool = False
    steps: int = 20_000
    batch_size: int = 512
    lr: float = 3e-3
    warmup: float = 0.15
    final: float = 1e-4
    clip: float | None = 10.0
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        for name in ("latent", "hidden"):
            check_whole(getattr(self, name), name, most=10**6)
        for name in ("channels", "strides"):
            check_sizes(getattr(self, name), name)
        check_flag(self.half, "half")
        check_recipe(self)
        for name in ("initial_noise", "least_noise"):
            check_number(getattr(self, name), name)
        for name in ("kl_warmup", "warmup", "final"):
            check_number(getattr(self, name), name, 0, 1)
        if not self.least_noise > 0:
            remedy = "without a least noise the likelihood of constant pixels has no bound"
            raise invalid("least_noise", "a positive number", self.least_noise, remedy)
        if not self.initial_noise > self.least_noise:
            expected = f"more than least_noise = {self.least_noise}"
            raise invalid("initial_noise", expected, self.initial_noise, "the paper starts at 1")

    def train_config(self, **run: Any) -> TrainConfig:  # noqa: ANN401 - fields of TrainConfig
        """For the training loop; ``run`` are further fields, such as the seed and the folder."""
        return adamw_config(self, round(self.warmup * self.steps), **run)


PRESETS = {
    # Small images on a CPU: some seconds.
    "quick": VAEConfig(
        latent=8,
        channels=(16, 32),
        strides=(2, 1),
        hidden=64,
        initial_noise=0.15,
        least_noise=0.05,
        steps=600,
        batch_size=64,
    ),
    "paper": VAEConfig(),
}


def resolve_config(config: VAEConfig | str) -> VAEConfig:
    """A configuration, or the preset of that name."""
    return chosen(config, VAEConfig, PRESETS)
