"""Configuration of convolutional encoders and decoders."""

from dataclasses import dataclass

from symmetries._utils.config import Config
from symmetries._utils.field_rules import Size


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

    latent: Size = 20
    channels: tuple[int, ...] = (64, 128)
    strides: tuple[int, ...] = (2, 2)
    hidden: Size = 256
    half: bool = False
