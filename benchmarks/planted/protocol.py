"""What a method is asked and what it answers: the only thing that the benchmark knows of it.

A method is a function ``fit(question) -> Answer`` in a file of its own in ``methods/``. It gets
pictures and the group that is asked for, and never the truth. Where it cannot answer a question (a
group that it does not know, labels that are not there), it raises :class:`Refused`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from symmetries.data import ImageSet

LOOKED_AT = 512  # pictures that densities are read from
SAMPLES = 512  # moves of each, where a method draws them


class Refused(RuntimeError):
    """The method does not apply to this question, and says why."""


@dataclass(frozen=True)
class Question:
    """One cell without its truth.

    Args:
        images: with labels where the content has classes.
        group: what is asked for, as :func:`symmetries.groups.parse_group` reads it.
        seed: of the fit.
        device: "cpu" or "cuda".
    """

    images: ImageSet
    group: str
    seed: int
    device: str


@dataclass(frozen=True)
class Found:
    """What a method says of one parameter.

    Args:
        name: of the parameter.
        verdict: "absent", "partial", "full" or "cannot be told".
        width90: length of the smallest set that holds 90 % of the poses, in degrees, pixels or as
            the ratio of the ends; None where the method names none.
        interval: ends of a nominal 90 % interval of that width, or None.
        moves: (M, S) samples, in the library's own units, of what may happen to M pictures: x moved
            by them is as likely as x. None where a method has none. Shifts are those of the
            content; rotation beside flips is that of moves that do not mirror.
        probabilities: (M, order) of a finite group's elements, instead of moves.
        rows: (M,) which pictures the moves are of; None for the first M.
    """

    name: str
    verdict: str
    width90: float | None
    interval: tuple[float, float] | None = None
    moves: Tensor | None = None
    probabilities: Tensor | None = None
    rows: Tensor | None = None


@dataclass(frozen=True)
class Answer:
    """What a method says of a cell.

    Args:
        found: one for each parameter of the group.
        warnings: what it warns a reader of the answer about.
        told: share of the pictures whose pose it could tell, where it says so.
    """

    found: tuple[Found, ...]
    warnings: tuple[str, ...] = ()
    told: float | None = None
    extra: dict[str, float] = field(default_factory=dict)


def drawn(mass: Tensor, low: float, high: float, generator: torch.Generator) -> Tensor:
    """Samples (M, SAMPLES) of densities that are given as masses (M, cells) between low and high.

    Example:
        >>> mass = torch.tensor([[0.0, 1.0, 0.0]])
        >>> moves = drawn(mass, -3.0, 3.0, torch.Generator().manual_seed(0))
        >>> bool((moves.abs() <= 1).all())
        True
    """
    cell = torch.multinomial(mass.cpu(), SAMPLES, replacement=True, generator=generator)
    place = cell + torch.rand(cell.shape, generator=generator)
    return low + (high - low) * place / mass.shape[1]


Method = Callable[[Question], Answer]
