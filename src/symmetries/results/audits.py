"""Result of ``symmetries audit``: how invariant a classifier is, measured from several sides."""

import math
from statistics import NormalDist
from typing import Annotated, Literal, Self

from pydantic import AllowInfNan, Field

from symmetries.results.base import Record
from symmetries.results.provenance import DataSummary, RunInfo
from symmetries.results.showing import ShownResult

# NaN is allowed where a single example gives no standard error; a saved audit has at least two.
Uncertain = Annotated[float, AllowInfNan(True)]

OWN_OPERATIONS = "own operations"  # the law of a module with children, in the table of layers


class Estimate(Record):
    """A number measured over examples, with its uncertainty.

    Group elements of one example are averaged first, so examples are independent of each other
    and the standard error covers both the choice of examples and, where elements are drawn at
    random (anew for each example), that of elements.

    Args:
        mean: over examples and group elements; the sum if a sum was requested.
        standard_error: of that number; NaN for a single example.
        low: lower end of the confidence interval.
        high: upper end of the confidence interval.
        discretisation: the same measure if data is moved there and back again, which resampling
            alone explains. None where that has no meaning.
    """

    mean: float
    standard_error: Uncertain
    low: Uncertain
    high: Uncertain
    discretisation: float | None = None

    @classmethod
    def normal(
        cls,
        mean: float,
        standard_error: float,
        *,
        level: float = 0.95,
        least: float = -math.inf,
        most: float = math.inf,
        discretisation: float | None = None,
    ) -> Self:
        """Return an estimate with the normal interval mean ± z standard_error, clipped to a range.

        Args:
            mean: of the measure.
            standard_error: of the mean.
            level: probability that the interval covers the true number.
            least: smallest value that the measure can have, such as 0 for an error.
            most: largest value that it can have, such as 1 for a share.
            discretisation: see :class:`Estimate`.

        Example:
            >>> found = Estimate.normal(0.98, 0.02, most=1.0)
            >>> round(found.low, 3), found.high
            (0.941, 1.0)
        """
        low, high = _interval(mean, standard_error, level)
        if low == low:  # not NaN
            low, high = min(max(low, least), mean), max(min(high, most), mean)
        return cls(
            mean=mean,
            standard_error=standard_error,
            low=low,
            high=high,
            discretisation=discretisation,
        )

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Normal confidence interval mean ± z standard_error of any level.

        Example:
            >>> low, high = Estimate.normal(1.0, 0.1).interval(0.68)
            >>> round(low, 2), round(high, 2)
            (0.9, 1.1)
        """
        return _interval(self.mean, self.standard_error, level)


def _interval(mean: float, standard_error: float, level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise ValueError(f"level: expected a probability between 0 and 1, got {level!r}; try 0.95")
    z = NormalDist().inv_cdf((1 + level) / 2)
    return mean - z * standard_error, mean + z * standard_error


class LayerError(Record):
    """How far the output of a layer is from moving with the input.

    Args:
        name: of the layer, as in ``model.named_modules()``; "" is the model itself.
        shape: of its output for one example; empty for own operations.
        law: "equivariance" of a feature map, g h(x) = h(g x); "invariance" of a vector,
            h(x) = h(g x); "regular" equivariance of channels that stand for the elements of a
            finite group, field after field, and change places with them; "own operations" of a
            module with children, of which only ``added`` is measured.
        error: norm of the difference relative to the norm of h(x); None where the group cannot
            act on the layer's output.
        discretisation: the same for h(g^-1 g x) and h(x), moved there and back: what resampling
            alone explains. None where ``error`` is.
        standard_error: of ``error``, over examples and the elements drawn for each; None where
            there is no error, or one example.
        relaxation: how far the layer says that it is relaxed, by coordinate, if it has a method
            ``relaxation()``, as relaxed group convolutions do; None otherwise.
        added: how much this layer alone adds to the error of the output, relative to its size: the
            change if the layer is replaced by its conjugate g^-1 h g. None where that was not
            measured.
        added_alone: what of it resampling explains: the same if its inputs or its output are moved
            there and back; under shifts and turns, what is not seen where pixels go to pixels.
    """

    name: str
    shape: tuple[int, ...]
    law: str
    error: float | None
    discretisation: float | None
    standard_error: float | None = None
    relaxation: dict[str, float] | None = None
    added: float | None = None
    added_alone: float | None = None

    @property
    def added_beyond(self) -> float:
        """Squared contribution beyond resampling, by which layers are ranked; 0 if not measured."""
        return (self.added or 0.0) ** 2 - (self.added_alone or 0.0) ** 2


class LieDerivative(Record):
    """Local equivariance error: how fast equivariance breaks as a parameter moves away from 0.

    Args:
        name: of the layer; empty for the model.
        parameter: along which it is differentiated.
        unit: of the parameter; the error is per unit squared.
        error: mean of |L f(x)|^2 / dim, with the same for data moved there and back, which
            resampling alone explains.
        rounding: what rounding of outputs adds to it at most.
    """

    name: str
    parameter: str
    unit: str
    error: Estimate
    rounding: float = Field(ge=0)


class DriftPoint(Record):
    """The measures at one degree of drift.

    Args:
        beta: degree of drift, from 0 (the data) to 1 (the other data).
        accuracy: on the blended data.
        accuracy_ratio: the same divided by the accuracy at 0; None if that is 0.
        logit_invariance: LI.
        distribution_invariance: DI.
        saliency_similarity: SI; None for a model without gradients.
    """

    beta: float = Field(ge=0, le=1)
    accuracy: Estimate
    accuracy_ratio: float | None
    logit_invariance: Estimate
    distribution_invariance: Estimate
    saliency_similarity: Estimate | None


class ParameterRange(Record):
    """How far one parameter went: from ``low`` to ``high``, in degrees, pixels or factors."""

    name: str
    low: float
    high: float
    unit: str


class Preprocessing(Record):
    """What was done to the images before the model saw them.

    Args:
        size: (height, width) that they were resized to; None if they were not.
        fit: how they were fitted into that size: "stretch", "crop" or "pad".
        channels: order of the colours that the model saw: "rgb" or "bgr".
        mean: subtracted from each channel, after that order; None where nothing was.
        std: that each channel was divided by.
    """

    size: tuple[int, int] | None = None
    fit: Literal["stretch", "crop", "pad"] = "stretch"
    channels: Literal["rgb", "bgr"] = "rgb"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __str__(self) -> str:
        """Return one line for tables and pages; an empty string if nothing was done."""
        parts = []
        if self.size is not None:
            parts.append(f"{self.fit} to {self.size[1]} x {self.size[0]}")
        if self.channels != "rgb":
            parts.append(f"channels {self.channels}")
        if self.mean is not None and self.std is not None:
            mean, std = (", ".join(f"{v:g}" for v in part) for part in (self.mean, self.std))
            parts.append(f"mean {mean}, std {std}")
        return "; ".join(parts)


class ClassRow(Record):
    """The measures of the examples of one class.

    Args:
        label: number of the class; where there are no labels, of the predicted class.
        examples: how many there are.
        agreement: share of moved examples for which the model predicts the same class.
        low: lower end of its confidence interval, Wilson's.
        high: upper end of its confidence interval.
        accuracy: on the data as given; None without labels.
        accuracy_moved: on the moved data; None without labels.
        becomes: class that is predicted most often where the prediction changes; None if it never
            does.
        becomes_share: share of moved examples for which that class is predicted instead.
    """

    label: int
    examples: int = Field(ge=1)
    agreement: float = Field(ge=0, le=1)
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)
    accuracy: float | None = None
    accuracy_moved: float | None = None
    becomes: int | None = None
    becomes_share: float = Field(default=0.0, ge=0, le=1)


class SaliencyPoint(Record):
    """Similarity of saliency maps after values below a threshold were removed.

    Args:
        threshold: as a share of the largest value of each map.
        similarity: mean cosine; None where fewer than two pixels of a picture are left, which
            agree or disagree by chance.
        pixels: mean number of pixels of a picture that are left.
    """

    threshold: float = Field(ge=0, le=1)
    similarity: Estimate | None
    pixels: float = Field(ge=0)


class AuditResult(ShownResult):
    """Result of ``symmetries audit``: how invariant a model is.

    Measures are None where they do not apply: those of accuracy without labels, those of saliency
    and sensitivity without gradients.

    Args:
        group: its name, or its ``repr`` if it has none.
        elements: number of group elements per example.
        exhaustive: whether these are all of the group (else they were drawn for each example).
        identity: whether the identity is among them.
        range: how far each parameter of a continuous group went.
        examples: number of examples.
        output: kind of the model's output, such as "logits".
        classes: number of classes; None for other outputs.
        level: of the confidence intervals.
        agreement: share of moved examples for which the model predicts the same class.
        accuracy: on the data as given.
        accuracy_moved: on the moved data.
        logit_invariance: LI, 0 is perfect.
        normalised_logit_invariance: LI relative to the size of the logits.
        margin: mean lead of the first logit over the second.
        margin_change: mean change of that lead when moved, as a share of the mean lead.
        distribution_invariance: DI, 0 is perfect.
        by_class: agreement and accuracy of each class.
        measures: measures of outputs that are no logits, by name.
        units: of these measures, where they are known.
        saliency_area: saliency similarity over all thresholds, 1 is perfect.
        saliency_curve: saliency similarity by threshold.
        saliency_similarity: SI of the paper, at its threshold of 0.9.
        sensitivity: largest singular value of the input Jacobian.
        closely: number of examples for saliency, sensitivity and resampling alone.
        layers: equivariance error by layer, and what each adds to that of the output.
        lie: local equivariance error of the outputs, for continuous groups.
        drift: the measures on the way to other data, if there are any.
        seconds: time that the measures took.
        model: its name, where there is one.
        preprocessing: what was done to the images before the model saw them.
        notes: what a reader should know about how it was measured.
        data: what it was measured on, where that is known.
        run: how the numbers were computed, where that is known.
    """

    schema_name: Literal["symmetries.audit/1"] = Field(default="symmetries.audit/1", alias="schema")
    group: str
    elements: int = Field(ge=1)
    exhaustive: bool
    identity: bool
    range: tuple[ParameterRange, ...] = ()
    examples: int = Field(ge=2)
    output: str = "logits"
    classes: int | None = Field(default=None, ge=2)
    level: float
    agreement: Estimate | None = None
    accuracy: Estimate | None = None
    accuracy_moved: Estimate | None = None
    logit_invariance: Estimate | None = None
    normalised_logit_invariance: Estimate | None = None
    margin: float | None = None
    margin_change: Estimate | None = None
    distribution_invariance: Estimate | None = None
    by_class: tuple[ClassRow, ...] = ()
    measures: dict[str, Estimate] = Field(default_factory=dict)
    units: dict[str, str] = Field(default_factory=dict)
    saliency_area: Estimate | None = None
    saliency_curve: tuple[SaliencyPoint, ...] = ()
    saliency_similarity: Estimate | None
    sensitivity: Estimate | None
    closely: int | None = None
    layers: tuple[LayerError, ...]
    lie: tuple[LieDerivative, ...] = ()
    drift: tuple[DriftPoint, ...] = ()
    seconds: float = Field(ge=0)
    model: str | None = None
    preprocessing: Preprocessing | None = None
    notes: tuple[str, ...] = ()
    data: DataSummary | None = None
    run: RunInfo | None = None
