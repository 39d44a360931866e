"""Result of ``symmetries watch``: whether a stream has changed, how, and since when."""

from typing import Literal

from pydantic import Field

from symmetries.results.base import Record, Result
from symmetries.results.provenance import DataSummary, RunInfo


class ChangedParameter(Record):
    """One parameter of a change: its amount and a 95 % interval, in ``unit``.

    An end of the interval is None where changes so large are not measured: the amount is a limit.
    """

    name: str
    amount: float
    low: float | None
    high: float | None
    unit: str


class WatchResult(Result):
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
    run: RunInfo
