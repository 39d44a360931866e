"""Text for the terminal: control characters are escaped and passwords are masked."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import markup
from rich.table import Table

from symmetries._utils.text import masked, printable
from symmetries.cli.errors import OutputError


def escape(text: str) -> str:
    r"""Return text for rich with brackets escaped and control characters made visible.

    Example:
        >>> escape("[red]\x1b[31m")
        '\\[red]\\x1b[31m'
    """
    return markup.escape(printable(masked(text)))


def plain_table(
    left: Sequence[str], right: Sequence[str] = (), rows: Iterable[Sequence[str]] = ()
) -> Table:
    """Return a table without lines.

    Args:
        left: headers of the first columns, which are aligned on the left.
        right: headers of the other columns.
        rows: of cells, as markup.
    """
    table = Table(*left, box=None, pad_edge=False, header_style="dim", show_header=any(left))
    for name in right:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def check_stdout() -> None:
    """Raise if there is no standard output to write a result to."""
    if sys.stdout is None:
        raise OutputError("standard output: it is closed; write it elsewhere")


def write_json(content: Any, indent: int | None = 2) -> None:  # noqa: ANN401 - plain data
    """Write plain data to the standard output as JSON, in an encoding that it supports.

    Args:
        content: the data.
        indent: None writes one line.

    Raises:
        OutputError: if it cannot be written, as where it is full or nobody reads it.
    """
    check_stdout()
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    try:
        sys.stdout.write(json.dumps(content, indent=indent, ensure_ascii=not unicode) + "\n")
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - Python flushes it again at its end
        reason = error.strerror or str(error)
        raise OutputError(
            f"standard output: {reason}; what was written to --out is whole"
        ) from error
