"""Work that is not training: its progress bar, and many examples in parts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from torch import Tensor

from symmetries.auditing.examine import joined

Part = Callable[[int, int], dict[str, Tensor]]
Over = Callable[[Part, int], dict[str, Tensor]]


def say_to_stderr(text: str) -> None:
    """Print a line on the error stream."""
    Console(emoji=False, stderr=True, highlight=False).print(text, soft_wrap=True, markup=False)


@contextmanager
def progress_bar(title: str, total: int, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show a bar on stderr; the yielded function advances it by one and names the finished part."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[done]}"),
    )
    with Progress(*columns, console=Console(emoji=False, stderr=True), disable=quiet) as progress:
        task = progress.add_task(title, total=total, done="")

        def advance(done: str) -> None:
            progress.update(task, advance=1, done=done)

        yield advance


def in_parts(size: int, advance: Callable[[str], None]) -> Over:
    """Return a function that evaluates ``part(start, stop)`` on all examples, some at a time.

    Args:
        size: examples of a part.
        advance: called after each part.

    Example:
        >>> import torch
        >>> over = in_parts(2, lambda done: None)
        >>> over(lambda start, stop: {"x": torch.arange(start, stop)}, 5)["x"].tolist()
        [0, 1, 2, 3, 4]
    """

    def over(part: Part, count: int) -> dict[str, Tensor]:
        found = []
        for start in range(0, count, size):
            found.append(part(start, min(start + size, count)))
            advance("")
        return joined(found)

    return over
