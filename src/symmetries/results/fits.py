"""Result of ``symmetries fit``: accuracy and learned invariance of a classifier."""

from typing import Literal

from pydantic import Field

from symmetries.results.base import Record
from symmetries.results.provenance import DataSummary, RunInfo
from symmetries.results.showing import ShownResult


class Invariance(Record):
    """How far a transformation may move an input before the output of the model changes.

    Args:
        name: of the parameter.
        unit: "degrees", "pixels", "factor", ...
        half_width: the model averages over values from -half_width to +half_width (over factors
            from 1 / half_width to half_width).
        interval: half-widths that explain the training data about as well (95 %); None where the
            half-width was not learned.
        told: whether the interval is short enough to name a half-width.
        gain: where it cannot be told, how much better the best half-width explains training images
            that were left out than none does, in nats for each image, and its standard error. The
            half-width is 0 unless the gain is above the error, or above 0 where the evidence has
            settled and excludes 0, and ``gain_right`` not below 0.
        gain_right: the gain in the share of these images that are classified correctly.
    """

    name: str
    unit: str
    half_width: float
    interval: tuple[float, float] | None = None
    told: bool = True
    gain: tuple[float, float] | None = None
    gain_right: float | None = None

    @property
    def low(self) -> float:
        """Lower end of the interval; the half-width itself where it was not learned."""
        return self.half_width if self.interval is None else self.interval[0]

    @property
    def high(self) -> float:
        """Upper end of the interval; the half-width itself where it was not learned."""
        return self.half_width if self.interval is None else self.interval[1]


class EvidenceCurve(Record):
    """Log evidence of networks that were trained with fixed half-widths.

    Args:
        name: of the parameter.
        unit: as in :class:`Invariance`.
        half_width: of each network.
        log_evidence: of each network, in nats for the whole training set.
    """

    name: str
    unit: str
    half_width: tuple[float, ...]
    log_evidence: tuple[float, ...]


class WidthCurve(Record):
    """Learned widths during training: one number for each entry of ``step``.

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
    """How far a layer departs from equivariance along a coordinate; 0 is exactly equivariant.

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


class FitResult(ShownResult):
    """Result of ``symmetries fit``, measured on data that it did not train on.

    Args:
        warnings: to be read first; empty if there is nothing to say.
        method: how the classifier was trained.
        group: its transformations.
        data: the training data.
        examples: number of test examples.
        accuracy: share of the test examples that is classified correctly.
        accuracy_interval: ends of its 95 % interval.
        elbo: evidence lower bound per training example, in nats; with ``network`` the Laplace
            approximation of the log evidence; None for relaxed networks.
        log_likelihood: of the test labels, per example.
        invariance: learned half-widths; empty for relaxed networks.
        relaxation: by layer, of relaxed networks.
        training: half-widths, or relaxations and loss, during training.
        network: name or class of the network that was averaged; None is the method's own.
        plain_accuracy: of the same network without transformations; None if it was not trained.
        evidence: along each half-width, of a network.
        run: how the numbers were computed.
    """

    schema_name: Literal["symmetries.fit/1"] = Field(default="symmetries.fit/1", alias="schema")
    warnings: tuple[str, ...] = ()
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
    network: str | None = None
    plain_accuracy: float | None = Field(default=None, ge=0, le=1)
    evidence: tuple[EvidenceCurve, ...] = ()
    run: RunInfo
