"""How a result shows itself: as a page, as a figure, and in a notebook."""

import html
import importlib
from pathlib import Path
from typing import Any, Self

from pydantic import PrivateAttr

from symmetries.results.base import Result

HEIGHT = 640  # pixels of a page in a notebook


class Attachments:
    """What a result holds in memory beside its numbers: neither saved nor compared.

    Args:
        pictures: one of :mod:`symmetries.results.pictures`, or None.
        fitted: the learner or classifier that the numbers describe, or None.
    """

    def __init__(self, pictures: Any = None, fitted: Any = None) -> None:  # noqa: ANN401
        self.pictures = pictures
        self.fitted = fitted

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attachments)

    def __hash__(self) -> int:
        return hash(Attachments)


class PagedResult(Result):
    """A result with a page, the same that the command writes, and a figure.

    Drawing needs :mod:`symmetries.report`, which is imported when something is drawn.
    """

    _attachments: Attachments = PrivateAttr(default_factory=Attachments)

    def attach(self, pictures: Any = None, fitted: Any = None) -> Self:  # noqa: ANN401
        """Return a copy of the result that holds pictures and a fitted model."""
        copy = self.model_copy()
        copy._attachments = Attachments(pictures, fitted)
        return copy

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the page that the command writes, as one self-contained HTML document.

        Args:
            path: also write the page to this file.
        """
        text: str = importlib.import_module("symmetries.report").page_html(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def plot(self) -> Any:  # noqa: ANN401 - a matplotlib figure
        """Draw the main numbers as a matplotlib figure."""
        return importlib.import_module("symmetries.report").plot(self)

    def _repr_html_(self) -> str:
        """Return the page in a frame, which a notebook shows."""
        page = html.escape(self.to_html())
        style = f"width:100%;height:{HEIGHT}px;border:0"
        return f'<iframe srcdoc="{page}" style="{style}" title="report"></iframe>'


class ShownResult(PagedResult):
    """A result with a page, a figure, pictures and a fitted model."""

    @property
    def pictures(self) -> Any:  # noqa: ANN401 - one of symmetries.results.pictures
        """Pictures for the page; None for a result that was read from a file."""
        return self._attachments.pictures

    @property
    def fitted(self) -> Any:  # noqa: ANN401 - results know no learner
        """The fitted model that the numbers describe; None for a result that was read."""
        return self._attachments.fitted
