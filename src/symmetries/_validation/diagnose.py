"""What to say where torch failed: values are looked at only then, as looking makes a GPU wait."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from torch import Tensor

from symmetries._validation.checks import check_class_range, check_finite, invalid

HUGE = 1e18  # beyond it the square of a number is infinite in single precision


@contextmanager
def diagnose_labels(labels: Tensor, classes: int, name: str = "labels") -> Iterator[None]:
    """Where torch fails inside the block, say so if a label is no class: it looks only then.

    For losses, which must not look at values at every step.
    """
    try:
        yield
    except (IndexError, RuntimeError):
        with suppress(RuntimeError):  # values that cannot be read, as inside torch.vmap
            check_class_range(labels, classes, name)
        raise


@contextmanager
def diagnose_values(values: Tensor, name: str) -> Iterator[None]:
    """Where torch fails inside the block, say so if values are NaN, infinite or huge."""
    try:
        yield
    except RuntimeError:
        check_finite(values, name)
        largest = float(values.abs().max()) if values.numel() else 0.0
        if largest > HUGE:
            got = f"up to {largest:.2g}"
            raise invalid(name, "numbers that can be squared", got, "scale to [0, 1]") from None
        raise
