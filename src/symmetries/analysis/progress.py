"""The progress bar of work that is not training."""

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
