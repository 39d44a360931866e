"""Learn the symmetries of data, build them into models, measure them, sample from them."""

__version__ = "0.1.0"
