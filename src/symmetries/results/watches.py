"""Result of ``symmetries watch``: whether a stream has changed, how, and since when."""

from typing import Any, Literal

from pydantic import Field

from symmetries.results.base import Record
from symmetries.results.provenance import DataSummary, RunInfo
from symmetries.results.showing import PagedResult


class ChangedParameter(Record):
    """One parameter of a change: its amount and a 95 % interval, in ``unit``.

    An end of the interval is None where changes so large are not measured: the amount is a limit.
    """

    name: str
    amount: float
    low: float | None
    high: float | None
    unit: str


class ExpectedLoss(Record):
    """Points of a model's score that a change costs, with a 95 % interval.

    ``high`` is None where the change may be larger than any that was measured. The score is
    "accuracy", or "agreement" with what the model answers for the reference if there are no labels.
    """

    points: float
    low: float
    high: float | None
    score: Literal["accuracy", "agreement"]


class WatchResult(PagedResult):
    """Result of ``symmetries watch``.

    Args:
        reference: that the stream is compared with.
        pictures: number of pictures of the stream so far.
        alarm: whether there was an alarm.
        alpha: largest probability of any false alarm, whenever one looks.
        evidence: logarithm to base 10 of the largest evidence for a change so far.
        limit: of the evidence, at which there is an alarm.
        since: number of pictures before the change.
        name: of the change, or "none of these".
        parameters: of the change.
        explained: share of the deviation that the change explains.
        loss: what the change costs the model; None without a model, or without a name.
        trace: numbers of pictures, and the evidence after them.
        run: how it was computed.
    """

    schema_name: Literal["symmetries.watch/1"] = Field(default="symmetries.watch/1", alias="schema")
    reference: DataSummary
    pictures: int = Field(ge=0)
    alarm: bool
    alpha: float
    evidence: float
    limit: float
    since: int | None
    name: str | None
    parameters: tuple[ChangedParameter, ...]
    explained: float | None
    loss: ExpectedLoss | None = None
    trace: tuple[tuple[int, float], ...] = ()
    run: RunInfo

    @property
    def examples(self) -> Any:  # noqa: ANN401 - WatchPictures
        """Pictures of the reference and of the stream; None for a result that was read."""
        return self._attachments.pictures
