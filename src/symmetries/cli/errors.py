"""Errors and warnings of commands: one line each, with a remedy and an exit code."""

import errno
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from types import FrameType
from typing import Any, TextIO, TypeGuard

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from symmetries._utils.text import masked, printable

NO_MEMORY = re.compile(r"not enough memory|can't allocate memory|out of memory", re.IGNORECASE)
STREAM_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO}
LONGEST_NAME = 200  # letters of a path in a message
UNEXPECTED, USAGE, BAD_INPUT, NO_OUTPUT, FAILED, CHANGED, INTERRUPTED = 1, 2, 3, 4, 5, 6, 130
EXIT_CODES = {
    0: "done",
    UNEXPECTED: "unexpected error",
    USAGE: "wrong usage",
    BAD_INPUT: "bad input",
    NO_OUTPUT: "output could not be written",
    FAILED: "training failed",
    CHANGED: "the stream has changed",
    INTERRUPTED: "interrupted",
}


class OutputError(OSError):
    """The output cannot be written; the message says what to do."""


class StoppedError(Exception):
    """A training was interrupted; the message says how to resume it."""


class Commands(TyperGroup):
    """A group of commands that turns every exception into one line and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 -- click's own signature
        """Run the command line; a failure to print the help becomes a one-line error, too."""
        words = set(sys.argv[1:])
        try:
            if sys.stdout is None and (not words or words & {"-h", "--help", "--version"}):
                raise OSError(errno.EIO, "it is closed")
            return super().main(*args, **kwargs)
        except OSError as error:
            if not is_full_stream(error):
                raise
            sys.exit(_show_error(error))

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 -- click's own signature
        """Run the command; with ``--debug`` errors pass through. Warnings become one line each."""
        for stream in (sys.stdout, sys.stderr):  # letters that a terminal lacks end no command
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        # Threads that wait for work sleep, so that two commands beside each other do not hinder one
        # another; OpenMP reads this when torch is imported, which no command has done yet.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        import_matplotlib()
        try:
            with warnings.catch_warnings(), terminated_like_interrupted():
                warnings.showwarning = show_warning
                # Fabric's advice about a scheduler, which does not apply.
                warnings.filterwarnings("ignore", message="The `srun` command is available")
                return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            own = isinstance(error, typer.Abort) or hasattr(error, "exit_code")  # of click or typer
            if own or ctx.params.get("debug"):
                if isinstance(message := getattr(error, "message", None), str):
                    error.message = printable(message)  # type: ignore[union-attr]
                raise
            raise typer.Exit(_show_error(error)) from None


def _show_error(error: BaseException) -> int:
    """Print an exception as one line on the error stream, and return its exit code."""
    message, code = describe(error)
    if is_full_stream(error):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - Python flushes it at its end
    Console(emoji=False, stderr=True, soft_wrap=True, highlight=False).print(
        f"[bold red]error[/]: {escape(message)}"
    )
    return code


def import_matplotlib() -> None:
    """Import matplotlib without the settings of the working folder, if there are any.

    It reads a file ``matplotlibrc`` of the working folder before the user's own, and that file can
    make it run LaTeX, or keep it from being imported.
    """
    if os.path.lexists("matplotlibrc"):
        with chdir(sys.prefix):
            import symmetries.report.figures  # noqa: F401 - it imports matplotlib


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Treat SIGTERM, which schedulers send, like Ctrl-C: stop after the step and clean up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning for users as one line; deprecation warnings are left out."""
    if not issubclass(category, DeprecationWarning | FutureWarning):
        text = printable(masked(" ".join(str(message).split())))
        Console(emoji=False, stderr=True, soft_wrap=True, highlight=False).print(
            f"[bold yellow]warning[/]: {escape(text)}"
        )


def is_full_stream(error: BaseException) -> TypeGuard[OSError]:
    """Whether writing to the standard output failed; errors of files carry a file name."""
    return isinstance(error, OSError) and error.errno in STREAM_ERRORS and error.filename is None


def _words(error: BaseException) -> str:
    """Return the text of an exception; of a system error the file, what is wrong and a remedy."""
    if isinstance(error, OSError) and error.errno and error.filename is not None:
        name = os.fsdecode(error.filename) if not isinstance(error.filename, int) else "a file"
        name = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
        return f"{name}: {os.strerror(error.errno)}; check the path"
    return str(error)


def describe(error: BaseException) -> tuple[str, int]:
    """Return the line that is shown for an exception, and the exit code.

    Example:
        >>> describe(ValueError("group: expected a name, got 'x'; choose one"))
        ("group: expected a name, got 'x'; choose one", 3)
    """
    line = " ".join("; ".join((_words(error), *getattr(error, "__notes__", ()))).split())
    line = printable(masked(line))
    if is_full_stream(error):
        return f"standard output: {error.strerror}; write it elsewhere", NO_OUTPUT
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; nothing was left half-written", INTERRUPTED
    if isinstance(error, StoppedError):
        return line, INTERRUPTED
    if isinstance(error, OutputError) or type(error).__name__ == "FolderInUseError":
        return line, NO_OUTPUT
    if type(error).__name__ == "NonFiniteError":  # by name: importing them would import torch
        return line, FAILED
    if isinstance(error, ValueError | OSError | ImportError):
        return line, BAD_INPUT
    if isinstance(error, MemoryError) or NO_MEMORY.search(line):
        remedy = "use fewer or smaller images, a smaller preset, or a larger machine"
        return f"memory: there is not enough for this run ({line[:200]}); {remedy}", BAD_INPUT
    kind = type(error).__name__
    return f"{kind}: {line}; please report this with the output of --debug", UNEXPECTED
