"""Random numbers that are the same on every machine and with every version of NumPy.

NumPy guarantees a stable raw stream of each bit generator, but not the output of ``Generator``.
Derived sets are fixed by a seed, so they draw from the raw stream.
"""

import numpy as np
from numpy.typing import NDArray

from symmetries._validation.checks import invalid

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Draws:
    """A stream of random numbers, fixed by a seed and a name.

    Args:
        seed: any integer from 0.
        stream: name of the stream; streams with different names are independent.

    Example:
        >>> float(Draws(0, "example").uniform(1)[0])
        0.14722189129168872
        >>> Draws(0, "example").permutation(5).tolist()
        [0, 1, 3, 2, 4]
    """

    def __init__(self, seed: int, stream: str) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise invalid("seed", "an integer from 0", repr(seed), "try seed=0")
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, *stream.encode()]))

    def uniform(self, count: int, low: float = 0.0, high: float = 1.0) -> Floats:
        """Return ``count`` numbers uniform in [low, high), with 53 random bits each."""
        raw = np.asarray(self._bits.random_raw(count), dtype=np.uint64)
        return low + (high - low) * ((raw >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def integers(self, count: int, high: int) -> Integers:
        """Return ``count`` integers uniform in 0 .. high - 1."""
        return np.floor(self.uniform(count) * high).astype(np.int64)

    def permutation(self, count: int) -> Integers:
        """Return a random permutation of 0 .. count - 1."""
        return np.argsort(self.uniform(count), kind="stable").astype(np.int64)

    def choice(self, weights: Floats, count: int) -> Integers:
        """Return ``count`` positions in ``weights``, drawn in proportion to the weights."""
        edges = np.cumsum(weights, dtype=np.float64)
        if not edges[-1] > 0:
            raise invalid("weights", "a positive sum", edges[-1], "give a positive weight")
        found = np.searchsorted(edges, self.uniform(count) * edges[-1], side="right")
        return np.asarray(found, dtype=np.int64)
