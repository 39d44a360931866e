"""What an audit finds, as plain data."""

from typing import Literal

from pydantic import Field

from symmetries.results import DataSummary, Record, Result, RunInfo


class Measure(Record):
    """A number with its uncertainty.

    Args:
        mean: over examples and group elements.
        standard_error: of the mean.
        low: lower end of the confidence interval.
        high: its upper end.
        discretisation: what the measure is if data is moved there and back again: that much is
            explained by resampling alone. None where that has no meaning.
    """

    mean: float
    standard_error: float
    low: float
    high: float
    discretisation: float | None = None


class LayerRow(Record):
    """Equivariance error of a layer; see :class:`symmetries.auditing.layers.LayerError`."""

    name: str
    shape: tuple[int, ...]
    law: str
    error: float | None
    discretisation: float | None
    standard_error: float | None = None
    relaxation: dict[str, float] | None = None


class DriftRow(Record):
    """The measures at one degree of drift; see :class:`symmetries.auditing.drift.DriftPoint`.

    Args:
        beta: degree of drift, from 0 (the data) to 1 (the other data).
        accuracy: on the blended data.
        accuracy_ratio: the same by the accuracy at 0; None if that is 0.
        logit_invariance: LI.
        distribution_invariance: DI.
        saliency_similarity: SI; None for a model without gradients.
    """

    beta: float = Field(ge=0, le=1)
    accuracy: Measure
    accuracy_ratio: float | None
    logit_invariance: Measure
    distribution_invariance: Measure
    saliency_similarity: Measure | None


class AuditResult(Result):
    """How invariant a classifier is.

    Args:
        group: its name, or how Python writes it.
        elements: number of group elements per example.
        exhaustive: whether these are all of the group (else they were drawn for each example).
        identity: whether the identity is among them.
        examples: number of examples.
        classes: number of classes.
        level: of the confidence intervals.
        accuracy: on the data as given.
        accuracy_moved: on the moved data.
        logit_invariance: LI, 0 is perfect.
        normalised_logit_invariance: LI relative to the size of the logits.
        distribution_invariance: DI, 0 is perfect.
        saliency_similarity: SI, 1 is perfect; None for a model without gradients.
        sensitivity: largest singular value of the input Jacobian; None without gradients.
        layers: equivariance error by layer.
        drift: the measures on the way to other data, if there is any.
        seconds: that it took.
        model: its name, where there is one.
        data: what it was measured on, where the command knows.
        run: how, where the command knows.
    """

    schema_name: Literal["symmetries.audit/1"] = Field(default="symmetries.audit/1", alias="schema")
    group: str
    elements: int = Field(ge=1)
    exhaustive: bool
    identity: bool
    examples: int = Field(ge=2)
    classes: int = Field(ge=2)
    level: float
    accuracy: Measure
    accuracy_moved: Measure
    logit_invariance: Measure
    normalised_logit_invariance: Measure
    distribution_invariance: Measure
    saliency_similarity: Measure | None
    sensitivity: Measure | None
    layers: tuple[LayerRow, ...]
    drift: tuple[DriftRow, ...] = ()
    seconds: float = Field(ge=0)
    model: str | None = None
    data: DataSummary | None = None
    run: RunInfo | None = None
