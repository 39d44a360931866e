"""What every result records about its data and about the run that made it."""

from pydantic import Field

from symmetries.results.base import Record


class DataSummary(Record):
    """Description of a data set. ``classes`` are names, empty where there are no labels."""

    name: str
    count: int = Field(ge=0)
    channels: int = Field(ge=1)
    height: int = Field(ge=1)
    width: int = Field(ge=1)
    classes: tuple[str, ...] = ()
    sha256: str | None = Field(default=None, description="of the pixels and the labels")


class RunInfo(Record):
    """How the numbers were computed, enough to run it again; ``time`` is in seconds.

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
