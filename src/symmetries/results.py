"""Plain numbers of a run, with a versioned schema: JSON in, JSON out.

Reports, tables and tests read these and nothing else. A file says what it is in its first field,
``"schema": "symmetries.<kind>/<version>"``; the version grows when an old reader would misread it.
Numbers are in the units that a person reads: degrees, pixels, factors.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Record(BaseModel):
    """Plain, frozen data; an unknown field, a NaN or an infinity is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, serialize_by_alias=True
    )


class DataSummary(Record):
    """What was looked at. ``classes`` are names, or empty where there are no labels."""

    name: str
    count: int = Field(ge=0)
    channels: int = Field(ge=1)
    height: int = Field(ge=1)
    width: int = Field(ge=1)
    classes: tuple[str, ...] = ()
    sha256: str | None = Field(default=None, description="of the pixels and the labels")


class RunInfo(Record):
    """How the numbers came about, enough to run it again; ``time`` is in seconds.

    ``commit`` is that of a checkout, with "+" if files were changed; None for an installed package.
    """

    command: str
    seed: int
    device: str
    time: float = Field(ge=0, description="seconds")
    created: str
    versions: dict[str, str]
    commit: str | None = None
    threads: int | None = Field(default=None, ge=1, description="that torch computed with")


class OrbitCurve(Record):
    """How much images change along one parameter of a group.

    Args:
        name: of the parameter.
        unit: "degrees", "pixels", "factor", ...
        values: of the parameter, ascending, in that unit.
        change: root-mean-square change of a pixel at each value, mean over the images.
        change_low: its 10 % quantile over the images.
        change_high: its 90 % quantile over the images.
        reach: largest interval around "no transformation" in which images change, on average,
            less than they differ from their nearest neighbour; None if it is all of ``values``.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    change: tuple[float, ...]
    change_low: tuple[float, ...]
    change_high: tuple[float, ...]
    reach: tuple[float, float] | None


class Result(Record):
    """The base of what commands write: a schema name, and saving and loading.

    A saved file ends with the SHA-256 of everything else in it, so that a changed byte is found.
    """

    schema_name: str = Field(alias="schema")

    def save(self, path: str | Path) -> Path:
        """Write as JSON, whole or not at all; returns the path."""
        path = Path(path)
        partial = path.with_name(path.name + ".partial")
        try:
            partial.write_bytes(_rendered(json.loads(self.model_dump_json())))
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that ``save`` wrote, or what ``--json`` printed (which has no SHA-256).

        Raises:
            ValueError: if it is not JSON, of another kind, of another version, incomplete, or
                was changed.
        """
        expected = cls.model_fields["schema_name"].default
        text = Path(path).read_bytes()
        try:
            content = json.loads(text.decode())
            signed = isinstance(content, dict) and "sha256" in content
            if signed:
                del content["sha256"]
            plain = json.dumps(content)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: expected JSON, got {error}; write the file anew") from error
        found = content.get("schema") if isinstance(content, dict) else None
        if found != expected:
            raise ValueError(
                f"{path}: expected schema {expected!r}, got {found!r}; "
                "read it with the version of symmetries that wrote it, or write it anew"
            )
        if signed and _rendered(content) != text:
            raise ValueError(
                f"{path}: expected the SHA-256 that it names, got another; "
                "it was changed: restore it from a copy, or write it anew"
            )
        try:
            return cls.model_validate_json(plain)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ValueError(
                f"{path}: field {where!r}: {first['msg']}; write the file anew"
            ) from error


def _rendered(content: dict[str, Any]) -> bytes:
    """The one way to write a result, with its own hash at the end."""
    body = json.dumps(content, sort_keys=True)
    digest = hashlib.sha256(body.encode()).hexdigest()
    whole = json.dumps({**content, "sha256": digest}, indent=2, ensure_ascii=False)
    return (whole + "\n").encode(errors="replace")


class OrbitResult(Result):
    """What ``symmetries orbit`` finds: a curve of change for each parameter of a group.

    ``neighbour_distance`` is the median over the images of the root-mean-square difference to the
    nearest other image: the yardstick for a change that leaves the data set.
    """

    schema_name: Literal["symmetries.orbit/1"] = Field(default="symmetries.orbit/1", alias="schema")
    group: tuple[str, ...]
    data: DataSummary
    neighbour_distance: float = Field(ge=0)
    transformations: tuple[OrbitCurve, ...]
    run: RunInfo


class Histogram(Record):
    """How often each value occurs.

    ``edges`` are in the unit of the parameter; ``density`` holds one number less, per unit (per
    unit of the logarithm for factors, per element for finite groups).
    """

    edges: tuple[float, ...]
    density: tuple[float, ...]


class Transformation(Record):
    """One parameter of a group, as the data has it.

    Args:
        name: of the parameter.
        unit: "degrees", "pixels", "factor", ... A width in factors is the ratio of the ends.
        width90: length of the smallest set that holds 90 % of the learned distribution.
        noise_floor: the same length for repeated looks at one image: what the method cannot tell.
        verdict: "absent", "partial" or "full".
        histogram: offsets from each image's most common pose, averaged over the images.
    """

    name: str
    unit: str
    width90: float
    noise_floor: float
    verdict: Literal["absent", "partial", "full"]
    histogram: Histogram


class ClassSymmetries(Record):
    """The same for one class: widths and densities by name of the parameter."""

    images: int = Field(ge=0)
    width90: dict[str, float]
    density: dict[str, tuple[float, ...]]


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


class SymmetryResult(Result):
    """What ``symmetries discover`` finds: which transformations occur in data, and how much."""

    schema_name: Literal["symmetries.discover/1"] = Field(
        default="symmetries.discover/1", alias="schema"
    )
    group: str
    data: DataSummary
    transformations: tuple[Transformation, ...]
    classes: dict[str, ClassSymmetries]
    quality: Quality
    run: RunInfo


class Invariance(Record):
    """How far a transformation may move an input before the model cares.

    Args:
        name: of the parameter.
        unit: "degrees", "pixels", "factor", ...
        half_width: the model averages over values from -half_width to +half_width (over factors
            from 1 / half_width to half_width).
        interval: half-widths that explain the training data about as well (95 %); None where the
            half-width was not learned.
    """

    name: str
    unit: str
    half_width: float
    interval: tuple[float, float] | None = None


class WidthCurve(Record):
    """What moved while training: one number for each entry of ``step``.

    Args:
        step: of the training.
        half_width: by name of the parameter, in the unit of :class:`Invariance`.
        relaxation: of relaxed networks, by "LAYER COORDINATE", as in :class:`LayerRelaxation`.
        loss: of relaxed networks, on the batch of that step.
    """

    step: tuple[int, ...]
    half_width: dict[str, tuple[float, ...]]
    relaxation: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    loss: tuple[float, ...] = ()


class LayerRelaxation(Record):
    """How far a layer gave up its equivariance along a coordinate: 0 is not at all.

    Args:
        layer: its name.
        coordinate: "rotation", ...
        value: omega', the parameter that was learned.
        error: relative equivariance error that was measured on images; None where it was not.
    """

    layer: str
    coordinate: str
    value: float
    error: float | None = None


class FitResult(Result):
    """What ``symmetries fit`` measures on data that it did not train on.

    Args:
        method: how it was trained.
        group: its transformations.
        data: the training data.
        examples: number of test examples.
        accuracy: share of them that is right.
        accuracy_interval: ends of its 95 % interval.
        elbo: evidence lower bound per training example, in nats; None for relaxed networks.
        log_likelihood: of the test labels, per example.
        invariance: learned half-widths; empty for relaxed networks.
        relaxation: by layer, of relaxed networks.
        training: half-widths, or relaxations and loss, while training.
        run: how.
    """

    schema_name: Literal["symmetries.fit/1"] = Field(default="symmetries.fit/1", alias="schema")
    method: Literal["invariant", "plain", "augmented", "relaxed"]
    group: str
    data: DataSummary
    examples: int = Field(ge=1, description="test examples")
    accuracy: float = Field(ge=0, le=1)
    accuracy_interval: tuple[float, float]
    elbo: float | None
    log_likelihood: float
    invariance: tuple[Invariance, ...]
    relaxation: tuple[LayerRelaxation, ...] = ()
    training: WidthCurve
    run: RunInfo


class Trial(Record):
    """One run of a sweep; ``value`` is None unless it was completed."""

    number: int = Field(ge=0)
    state: Literal["complete", "pruned", "fail", "running", "waiting"]
    value: float | None
    settings: dict[str, bool | int | float | str | None]
    numbers: dict[str, float]
    seconds: float = Field(ge=0)


class SweepResult(Result):
    """What ``symmetries sweep`` has found so far: its trials, best first."""

    schema_name: Literal["symmetries.sweep/1"] = Field(default="symmetries.sweep/1", alias="schema")
    learner: str
    data: str
    measure: str
    direction: Literal["maximize", "minimize"]
    settings: dict[str, bool | int | float | str | None]
    trials: tuple[Trial, ...]
    run: RunInfo
