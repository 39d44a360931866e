"""Result of ``symmetries discover``: which transformations occur in data, and how much."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from symmetries.results.base import Record
from symmetries.results.provenance import DataSummary, RunInfo
from symmetries.results.showing import ShownResult

Verdict = Literal["absent", "partial", "full"]


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
        width90: length of the smallest set that holds 90 % of the learned distribution, averaged
            over the data. Transformations are counted from the image, so that the length does not
            depend on the prototype.
        noise_floor: the same length for repeated inference of one image: smaller widths cannot be
            told from zero.
        verdict: "absent", "partial" or "full".
        histogram: of the learned distribution, averaged over the images. Values are counted from
            the prototype in a :class:`SymmetrySummary`, and from the most common pose of each
            image in a :class:`SymmetryResult`.
    """

    name: str
    unit: str
    width90: float
    noise_floor: float
    verdict: Verdict
    histogram: Histogram


class ClassSymmetries(Record):
    """The same for one class: widths and densities by name of the parameter."""

    images: int = Field(ge=0)
    width90: dict[str, float]
    density: dict[str, tuple[float, ...]]


class SymmetrySummary(Record):
    """Symmetries that a fitted model finds in images.

    Args:
        transformations: one for each parameter of the group, or one for a finite group.
        images: how many were looked at.
        content_kept: share of the pictures that survives the way to the prototype and back.
        classes: widths by name of the class, where there are labels; without densities.
    """

    transformations: tuple[Transformation, ...]
    images: int
    content_kept: float
    classes: dict[str, ClassSymmetries] = Field(default_factory=dict)

    def __getitem__(self, name: str) -> Transformation:
        return next(part for part in self.transformations if part.name == name)

    @model_validator(mode="before")
    @classmethod
    def _upgrade(cls, content: Any) -> Any:  # noqa: ANN401 - anything that is to be validated
        """Read the layout of older files, whose transformations held the widths of classes."""
        if not isinstance(content, Mapping):
            return content
        parts = content.get("transformations", ())
        if not parts or not all(isinstance(p, Mapping) and "per_class" in p for p in parts):
            return content
        widths: dict[str, dict[str, float]] = {}
        upgraded = []
        for part in parts:
            kept = {key: value for key, value in part.items() if key in Transformation.model_fields}
            histogram = {"edges": part["edges"], "density": part["density"]}
            upgraded.append(kept | {"histogram": histogram})
            for name, width in part["per_class"].items():
                widths.setdefault(name, {})[part["name"]] = width
        classes = {n: {"images": 0, "width90": w, "density": {}} for n, w in widths.items()}
        return {**content, "transformations": upgraded, "classes": classes}


class Quality(Record):
    """How far to trust the numbers.

    Args:
        images: how many were looked at for the widths.
        content_kept: share of the pictures that survives the way to the prototype and back.
        losses: last numbers of the training, by stage and name.
    """

    images: int = Field(ge=1)
    content_kept: float
    losses: dict[str, dict[str, float]]


class SymmetryResult(ShownResult):
    """Result of ``symmetries discover``: which transformations occur in data, and how much."""

    schema_name: Literal["symmetries.discover/1"] = Field(
        default="symmetries.discover/1", alias="schema"
    )
    group: str
    data: DataSummary
    transformations: tuple[Transformation, ...]
    classes: dict[str, ClassSymmetries]
    quality: Quality
    run: RunInfo

    def __getitem__(self, name: str) -> Transformation:
        return next(part for part in self.transformations if part.name == name)
