"""Temporarily switch modules to eval mode."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Switch a module and its submodules to eval mode inside the block, and restore their modes.

    Example:
        >>> layer = nn.Dropout()
        >>> with eval_mode(layer):
        ...     inside = layer.training
        >>> inside, layer.training
        (False, True)
    """
    modes = [(part, part.training) for part in module.modules()]
    try:
        for part, _ in modes:
            part.training = False
        yield
    finally:
        for part, mode in modes:
            part.training = mode
