"""Result of ``symmetries prescribe``: how to augment, for which class, and what it should bring."""

from typing import Literal

from pydantic import Field

from symmetries.results.audits import Estimate
from symmetries.results.base import Record
from symmetries.results.provenance import DataSummary, RunInfo
from symmetries.results.showing import ShownResult

MoveName = Literal["rotation", "shift", "zoom", "flip_x", "light", "erase", "mix"]


class Conflict(Record):
    """A move that makes pictures of one class look like pictures of another.

    Args:
        name: of the move.
        first: the class that is moved.
        second: the class that it then looks like.
        amount: at which they look alike most, where that happens first.
        share: of the pictures of each class that then look like the other, above that without a
            move; the largest over all amounts that were tried.
        limit: largest amount for both classes: 0.8 times half of it, as both are moved; 0 for
            mirror images and light.
    """

    name: MoveName
    first: str
    second: str
    amount: float
    share: float
    limit: float


class TriedPolicy(Record):
    """One augmentation that was tried.

    Args:
        amounts: by move, half of its range: degrees, share of the side, factor, probability (0.5),
            or share; of "mix" the strength, from 0 to 1.
        gain: accuracy of small networks on held-out pictures with it, minus without, in points.
    """

    amounts: dict[MoveName, float]
    gain: Estimate


class PrescribedMove(Record):
    """One move that is prescribed.

    Args:
        name: of the move.
        unit: "degrees", "share of the side", "factor", "probability", "share", "share of the
            picture" or "strength".
        amount: half of its range, for classes without a limit.
        by_class: the same for each class, by name.
    """

    name: MoveName
    unit: str
    amount: float
    by_class: dict[str, float]


class ModelCurve(Record):
    """Accuracy of the given model along one move: amounts, accuracy at each, and the mean."""

    name: MoveName
    amounts: tuple[float, ...]
    accuracy: tuple[float, ...]
    within: float = Field(
        description="mean over what is prescribed, as far as each class may go; of brightness over "
        "all shears and changes of light"
    )


class PrescribeResult(ShownResult):
    """Result of ``symmetries prescribe``.

    Args:
        warnings: to be read first.
        moves: what to augment with; empty if nothing helps.
        conflicts: what labels forbid.
        tried: every augmentation that was tried.
        gain: predicted gain of all of ``moves``, in points of accuracy on pictures like the data,
            measured with small networks on other cuts into folds than those that chose; these cuts
            decide only whether anything is prescribed.
        robustness: the same on pictures that are moved as prescribed.
        accuracy: of the small networks without augmentation, on these folds.
        networks: number of trainings behind it.
        curves: of the given model, if there is one.
        fill: value around moved pictures; None if they are reflected at their edges.
        code: Python by library: "symmetries", "torchvision", "albumentations", "kornia".
        data: labelled pictures.
        run: how it was computed.
    """

    schema_name: Literal["symmetries.prescribe/1"] = Field(
        default="symmetries.prescribe/1", alias="schema"
    )
    warnings: tuple[str, ...]
    moves: tuple[PrescribedMove, ...]
    conflicts: tuple[Conflict, ...]
    tried: tuple[TriedPolicy, ...]
    gain: Estimate
    robustness: Estimate
    accuracy: float
    networks: int
    curves: tuple[ModelCurve, ...] = ()
    fill: float | None
    code: dict[str, str]
    data: DataSummary
    run: RunInfo
