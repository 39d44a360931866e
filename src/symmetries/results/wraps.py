"""Result of ``symmetries wrap``: a frozen model behind a canonicaliser, and what that brings."""

from typing import Literal

from pydantic import Field

from symmetries.results.audits import Estimate, ParameterRange, Preprocessing
from symmetries.results.base import Record
from symmetries.results.provenance import DataSummary, RunInfo
from symmetries.results.showing import ShownResult

Rule = Literal["unmoved", "mode", "views"]


class Candidate(Record):
    """One rule that was tried, with its scores on the pictures by which rules are chosen.

    Args:
        rule: "unmoved" is the bare model, "mode" moves pictures to their most likely pose, "views"
            averages over several poses by their probabilities.
        threshold: nats by which a pose must be more likely than none; None for "unmoved".
        untouched: score on reference pictures as they are.
        loss: points of the score that pictures as they are lose by it, of 100.
        loss_error: standard error of that.
        moved: score on moved pictures.
        allowed: whether the loss and its standard error stay below the limit.
    """

    rule: Rule
    threshold: float | None
    untouched: float
    loss: float
    loss_error: float
    moved: float
    allowed: bool


class Compared(Record):
    """The bare model and the wrapped one on the same pictures.

    Args:
        bare: score of the bare model.
        wrapped: score of the wrapped model.
        gain: difference of both in points of 100, picture by picture.
        moves: share of the pictures that the wrapped model moves.
    """

    bare: Estimate
    wrapped: Estimate
    gain: Estimate
    moves: float


class ClassEffect(Record):
    """Scores of one class before and after wrapping, for untouched and for moved pictures."""

    name: str
    examples: int = Field(ge=1)
    untouched: tuple[float, float]
    moved: tuple[float, float]


class Latency(Record):
    """Milliseconds of one call of the bare and of the wrapped model, with a number of pictures."""

    pictures: int
    bare: float
    wrapped: float


class ExportedFile(Record):
    """A file that holds the wrapped model, and how much its outputs differ from the module's.

    Args:
        name: of the file.
        size: bytes.
        sha256: of its content.
        pictures: moved pictures on which it was compared with the module.
        difference: largest difference of an output.
        scale: largest output.
    """

    name: str
    size: int
    sha256: str
    pictures: int
    difference: float
    scale: float


class WrapResult(ShownResult):
    """Result of ``symmetries wrap``.

    Args:
        warnings: what a reader must know before using the model.
        model: its name.
        output: kind of its answer.
        score: what is compared: "accuracy", or how answers of moved pictures agree with those of
            the bare model for pictures as they are.
        group: transformations that the wrapped model undoes.
        range: how far the pictures were moved that decided and that were measured.
        limit: points that pictures as they are may lose.
        rule: the rule that was chosen.
        threshold: of the rule.
        views: forward passes of the model for each picture.
        candidates: all rules, on the pictures that decided.
        chosen_on: number of these pictures.
        measured_on: number of the other held-out pictures, on which the rest was measured.
        untouched: on reference pictures as they are.
        moved: on moved ones.
        classes: by class, where there are labels.
        pose_error: median angle, in degrees, between the move that was made and the one that was
            read, for rotations.
        latency: of both models.
        files: that were written.
        preprocessing: what is done inside of the files before the model sees a picture.
        notes: about the model.
        reference: pictures in the poses that the model knows.
        run: how it was computed.
    """

    schema_name: Literal["symmetries.wrap/1"] = Field(default="symmetries.wrap/1", alias="schema")
    warnings: tuple[str, ...]
    model: str
    output: str
    score: str
    group: str
    range: tuple[ParameterRange, ...]
    limit: float
    rule: Rule
    threshold: float | None
    views: int = Field(ge=1)
    candidates: tuple[Candidate, ...]
    chosen_on: int
    measured_on: int
    untouched: Compared
    moved: Compared
    classes: tuple[ClassEffect, ...] = ()
    pose_error: float | None = None
    latency: tuple[Latency, ...] = ()
    files: tuple[ExportedFile, ...] = ()
    preprocessing: Preprocessing | None = None
    notes: tuple[str, ...] = ()
    reference: DataSummary
    run: RunInfo
