"""Configuration of the VAE, and the presets "quick" and "paper"."""

from dataclasses import dataclass

from symmetries._utils.config import Config, register_presets
from symmetries._utils.field_rules import Share
from symmetries._validation.checks import invalid
from symmetries.nn.autoencoder import AutoencoderConfig
from symmetries.training.recipe import Recipe

_NETWORK = AutoencoderConfig()
_TRAINING = Recipe(20_000, lr=3e-3, warmup=0.15, final=1e-4)


@dataclass(frozen=True)
class VAEConfig(Config):
    """Networks and training of a VAE. Defaults are those of Allingham et al. 2024, Appendix C.4.

    Args:
        network: encoder and decoder.
        initial_noise: standard deviation of a pixel at the start.
        least_noise: smallest standard deviation of a pixel.
        kl_warmup: share of the steps in which the weight of the KL rises from 0 to 1; without it
            codes are noise at first, and decoders learn to ignore them. The paper has none.
        training: steps, batch size and learning rate.

    Example:
        >>> VAEConfig.preset("quick").replace(latent=4, steps=100).network.latent
        4
    """

    network: AutoencoderConfig = _NETWORK
    initial_noise: float = 1.0
    least_noise: float = 0.01
    kl_warmup: Share = 0.2
    training: Recipe = _TRAINING

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.least_noise > 0:
            remedy = "without a least noise the likelihood of constant pixels has no bound"
            raise invalid("least_noise", "a positive number", self.least_noise, remedy)
        if not self.initial_noise > self.least_noise:
            expected = f"more than least_noise = {self.least_noise}"
            raise invalid("initial_noise", expected, self.initial_noise, "the paper starts at 1")


_SMALL = AutoencoderConfig(latent=8, channels=(16, 32), strides=(2, 1), hidden=64)
register_presets(
    VAEConfig,
    {
        # Small images on a CPU: some seconds.
        "quick": VAEConfig(_SMALL, 0.15, 0.05).replace(steps=600, batch_size=64),
        "paper": VAEConfig(),
    },
)
