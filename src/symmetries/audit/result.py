"""What an audit finds, as plain data."""

from typing import Literal

from pydantic import Field

from symmetries.results import Record, Result


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
    """Equivariance error of a layer; see :class:`symmetries.audit.layers.LayerError`."""

    name: str
    shape: tuple[int, ...]
    law: str
    error: float | None
    discretisation: float | None


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
        saliency_similarity: SI, 1 is perfect.
        sensitivity: largest singular value of the input Jacobian.
        layers: equivariance error by layer.
        seconds: that it took.
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
    saliency_similarity: Measure
    sensitivity: Measure
    layers: tuple[LayerRow, ...]
    seconds: float = Field(ge=0)
