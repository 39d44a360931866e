"""Result of ``symmetries discover``: which transformations occur in data, and how much."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from symmetries.results.base import Record
from symmetries.results.provenance import DataSummary, RunInfo
from symmetries.results.showing import ShownResult

Verdict = Literal["absent", "partial", "full", "cannot be told"]
Method = Literal["orbit", "two-stage"]


class Histogram(Record):
    """How often each value occurs.

    ``edges`` are in the unit of the parameter; ``density`` holds one number less, per unit (per
    unit of the logarithm for factors, per element for finite groups).
    """

    edges: tuple[float, ...]
    density: tuple[float, ...]


class Transformation(Record):
    """How much one transformation occurs in data.

    Args:
        name: of the parameter.
        unit: "degrees", "pixels", "factor", ... A width in factors is the ratio of the ends: 1.2
            means sizes that vary by 20 %.
        width90: length of the smallest set that holds 90 % of the learned distribution. Of an orbit
            posterior the median over the pictures whose pose can be told; of a two-stage model the
            mean over the data. A width in elements is their effective number.
        interval: of the width, by bootstrap over pictures and fits; None of a two-stage model.
        noise_floor: smaller widths cannot be told from zero: the resolution of an orbit posterior,
            the width of repeated inference of one image of a two-stage model.
        verdict: "absent", "partial", "full" or "cannot be told".
        reason: why it cannot be told; empty where it can.
        share_told: share of the pictures whose pose can be told.
        poses: number of evenly likely poses, a whole fraction of a turn apart, around which the
            density lies; 1 if it is in one piece, or covers everything. The width is of all.
        deciles: of the widths of all pictures, 11 numbers.
        widths: histogram of the widths of all pictures.
        calibration: largest gap of the probability integral transform on unseen pictures.
        histogram: of the learned distribution, averaged over the images. Of an orbit posterior each
            density is laid on the centre of its smallest set, which is comparable between
            pictures. Of a two-stage model values are counted from the prototype in a
            :class:`SymmetrySummary`, and from the most common pose in a :class:`SymmetryResult`.
    """

    name: str
    unit: str
    width90: float
    interval: tuple[float, float] | None = None
    noise_floor: float
    verdict: Verdict
    reason: str = ""
    share_told: float | None = Field(default=None, ge=0, le=1)
    poses: int = Field(default=1, ge=1)
    deciles: tuple[float, ...] = ()
    widths: Histogram | None = None
    calibration: float | None = None
    histogram: Histogram


class PoseSubgroup(Record):
    """The subgroup of the rotations, or of rotations and mirror images, that the poses make.

    Args:
        name: "C4", "D4", "SO(2)" or "O(2)".
        distance: Wasserstein-1 distance, in degrees, between the poses, as they are seen, and the
            even law on the subgroup.
        alternative: the nearest other one: cyclic, of at most twelve rotations, or all rotations.
        alternative_distance: of that.
    """

    name: str
    distance: float
    alternative: str
    alternative_distance: float


class ClassSymmetries(Record):
    """Widths or densities of one class, by name of the parameter.

    An orbit posterior has intervals and no densities, a two-stage model the reverse.
    """

    images: int = Field(ge=0)
    width90: dict[str, float]
    interval: dict[str, tuple[float, float]] = Field(default_factory=dict)
    density: dict[str, tuple[float, ...]] = Field(default_factory=dict)


class PlantedWidth(Record):
    """One transformation that the self-test planted into the data.

    Args:
        name: of the parameter.
        unit: of the widths.
        planted: 90 % width of what was planted.
        expected: 90 % width of that on top of what the data had; of that alone where shifts take
            the place of those that the data had.
        recovered: what was found.
        visible: whether it could be seen: data that turn fully show no further turns.
    """

    name: str
    unit: str
    planted: float
    expected: float
    recovered: float
    visible: bool


class SelfTest(Record):
    """Whether the method works on these data: what was planted into them and what was recovered."""

    sentence: str
    planted: tuple[PlantedWidth, ...] = ()


class SymmetrySummary(Record):
    """Symmetries that a fitted model finds in images.

    Args:
        warnings: to be read first.
        transformations: one for each parameter of the group, or one for a finite group.
        images: number of images.
        content_kept: share of the pictures that survives the way to a two-stage model's prototype
            and back.
        gain: nats by which an orbit posterior tells moves of unseen pictures better than chance.
        classes: widths by name of the class, where there are labels; without densities.
        check: the self-test; None where there was none.
        subgroup: of the rotations that the poses make, where they make one.
    """

    warnings: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...]
    images: int
    content_kept: float | None = None
    gain: float | None = None
    classes: dict[str, ClassSymmetries] = Field(default_factory=dict)
    check: SelfTest | None = None
    subgroup: PoseSubgroup | None = None

    def __getitem__(self, name: str) -> Transformation:
        return next(part for part in self.transformations if part.name == name)


class Quality(Record):
    """Numbers that say how far the result can be trusted.

    Args:
        images: number of images behind the widths.
        content_kept: share of the pictures that survives the way to a two-stage model's prototype
            and back.
        gain: nats by which an orbit posterior tells moves of unseen pictures better than chance.
        losses: last numbers of the training, by stage and name.
    """

    images: int = Field(ge=1)
    content_kept: float | None = None
    gain: float | None = None
    losses: dict[str, dict[str, float]]


class SymmetryResult(ShownResult):
    """Result of ``symmetries discover``: which transformations occur in data, and how much.

    Args:
        warnings: to be read first; empty if there is nothing to say.
        method: "orbit" or "two-stage".
        group: name of the transformations that were looked for.
        data: the images.
        transformations: one for each parameter of the group, or one for a finite group.
        classes: the same by class, where there are labels.
        check: the self-test; None where there was none.
        subgroup: of the rotations that the poses make, where they make one.
        quality: how far to trust the numbers.
        run: how they were computed.
    """

    former_schemas: ClassVar[tuple[str, ...]] = ("symmetries.discover/1",)
    schema_name: Literal["symmetries.discover/2"] = Field(
        default="symmetries.discover/2", alias="schema"
    )
    warnings: tuple[str, ...] = ()
    method: Method = "orbit"
    group: str
    data: DataSummary
    transformations: tuple[Transformation, ...]
    classes: dict[str, ClassSymmetries]
    check: SelfTest | None = None
    subgroup: PoseSubgroup | None = None
    quality: Quality
    run: RunInfo

    def __getitem__(self, name: str) -> Transformation:
        return next(part for part in self.transformations if part.name == name)

    @model_validator(mode="before")
    @classmethod
    def _upgrade(cls, content: Any) -> Any:  # noqa: ANN401 - anything that is to be validated
        """Convert results of the first schema, which only had two-stage models."""
        if not isinstance(content, Mapping) or content.get("schema") not in cls.former_schemas:
            return content
        return {**content, "schema": "symmetries.discover/2", "method": "two-stage"}
