"""Translate torch errors into errors that name the argument.

Values are read only after torch has failed, because reading them makes a GPU synchronise.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from torch import Tensor

from symmetries._validation.checks import check_class_range, check_finite, invalid

HUGE = 1e18  # above it the square of a number overflows in single precision


@contextmanager
def diagnose_labels(labels: Tensor, classes: int, name: str = "labels") -> Iterator[None]:
    """If torch fails inside the block, raise an error that names a label that is not a class.

    For losses, which must not read values at every step.
    """
    try:
        yield
    except (IndexError, RuntimeError):
        with suppress(RuntimeError):  # values that cannot be read, as inside torch.vmap
            check_class_range(labels, classes, name)
        raise


@contextmanager
def diagnose_values(values: Tensor, name: str) -> Iterator[None]:
    """If torch fails inside the block, raise an error that names NaN, infinite or huge values."""
    try:
        yield
    except RuntimeError:
        check_finite(values, name)
        largest = float(values.abs().max()) if values.numel() else 0.0
        if largest > HUGE:
            got = f"up to {largest:.2g}"
            raise invalid(name, "numbers that can be squared", got, "scale to [0, 1]") from None
        raise
