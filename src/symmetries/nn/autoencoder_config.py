"""Configuration of convolutional encoders and decoders."""

from dataclasses import dataclass

from symmetries._utils.config import Config, check_sizes
from symmetries._validation.checks import check_flag, check_whole


@dataclass(frozen=True)
class AutoencoderConfig(Config):
    """Sizes of an encoder and its mirrored decoder.

    Args:
        latent: size of z.
        channels: of the encoder's convolutions; the decoder has them in reverse.
        strides: of the encoder's convolutions.
        hidden: units of the hidden layer between convolutions and code.
        half: convolutions in bfloat16 on CUDA.
    """

    latent: int = 20
    channels: tuple[int, ...] = (64, 128)
    strides: tuple[int, ...] = (2, 2)
    hidden: int = 256
    half: bool = False

    def __post_init__(self) -> None:
        for name in ("latent", "hidden"):
            check_whole(getattr(self, name), name, most=10**6)
        for name in ("channels", "strides"):
            check_sizes(getattr(self, name), name)
        check_flag(self.half, "half")
