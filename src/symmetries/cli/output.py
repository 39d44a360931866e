"""Output folders that appear complete or not at all, and overwrite files only if asked to."""

import errno
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from symmetries.cli.errors import OutputError
from symmetries.cli.replacing import recover, replace_folder
from symmetries.training.atomic_files import FolderInUseError, file_lock

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# Endings of hidden neighbours of an output, while it is written.
NEW, OLD, LOCK = ".symmetries-new", ".symmetries-old", ".symmetries-lock"
LONGEST = 255 - len(f"..resume{OLD}")  # bytes of a name
LONGEST_PATH = 4096 - 512  # bytes that leave room for the files of an output


@contextmanager
def owned(out: Path, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of an output path inside the block; a second run with it is refused.

    The process that holds it removes what a killed run left; others remove nothing.

    Args:
        out: the folder or file that the run will write.
        wait: for how many seconds to wait for another run that owns it.

    Raises:
        FolderInUseError: naming the process that holds it.
    """
    real = real_path(out)
    with ExitStack() as stack:
        try:
            made = [folder for folder in real.parents if not folder.exists()]  # the deepest first
            stack.callback(remove_empty, made)
            real.parent.mkdir(parents=True, exist_ok=True)
            _acquire(stack, real, out, wait)
        except OSError as error:
            raise no_place(out, error) from error
        recover(real, beside(real, NEW), beside(real, OLD))
        yield


def _acquire(stack: ExitStack, real: Path, out: Path, wait: float) -> None:
    """Acquire the lock of an output; leaving the stack releases it."""
    last = time.monotonic() + wait
    while True:
        try:
            stack.enter_context(file_lock(beside(real, LOCK), out, remove=True))
            return
        except FolderInUseError:
            if time.monotonic() >= last:
                raise
        time.sleep(0.02)


def check_name(out: Path) -> None:
    """Raise an error, before any work is done, for a path that cannot be an output."""
    real = real_path(out)
    name = real.name
    if not name or Path.cwd().is_relative_to(real):  # it would be replaced under our feet
        raise OutputError(f"{out}: the working folder, or one around it; choose another --out")
    if len(os.fsencode(name)) > LONGEST:
        raise OutputError(f"{out}: a name of more than {LONGEST} bytes; choose a shorter --out")
    if len(os.fsencode(real)) > LONGEST_PATH:
        got = f"{str(out)[:LONGEST]}...: a path of more than {LONGEST_PATH} bytes"
        raise OutputError(f"{got}; choose a shorter --out")


def real_path(out: Path) -> Path:
    """Return the path that a symbolic link leads to."""
    try:
        return Path(os.path.realpath(out))
    except (OSError, ValueError) as error:
        raise OutputError(f"{out!r}: not a path ({error}); choose another --out") from error


def beside(real: Path, ending: str) -> Path:
    """Return the path of a hidden file beside an output."""
    return real.with_name(f".{real.name}{ending}")


@contextmanager
def output_folder(out: Path, overwrite: bool) -> Iterator[Path]:
    """Provide a hidden folder that replaces ``out`` in one step if the block succeeds.

    An existing ``out`` is refused before any work is done, unless ``overwrite``; then files of the
    same name are replaced and others stay. Whatever happens, the hidden folder goes; where the
    process is killed, the next run into ``out`` removes it. Hold :func:`owned` around it.

    Args:
        out: the folder to make.
        overwrite: whether it may exist.
    """
    real = real_path(out)
    if real.exists() and not real.is_dir():
        raise OutputError(f"{out}: a file of that name is in the way; choose another --out")
    if real.is_dir() and any(real.iterdir()) and not overwrite:
        raise OutputError(f"{out}: the folder exists; add --overwrite, or choose another --out")
    if real.is_mount():
        raise OutputError(f"{out}: a mount, which cannot be replaced; choose a folder in it")
    made = [folder for folder in real.parents if not folder.exists()]  # the deepest first
    partial = beside(real, NEW)
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        remove_empty(made)
        raise no_place(out, error) from error
    try:
        yield partial
        replace_folder(partial, real, beside(real, OLD))
    except OSError as error:
        if isinstance(error, OutputError) or not _concerns(error, partial, real):
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OutputError(f"{out}: {reason}; free some space or choose another --out") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        remove_empty(made)


def no_place(out: Path, error: OSError) -> OutputError:
    """Return the error for an output that cannot be written."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return OutputError(f"{out}: {reason}; choose an --out in a folder that you may write to")


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove the folders that exist and are empty, in this order."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _concerns(error: OSError, *places: Path) -> bool:
    """Return whether the error concerns one of these paths, or a full disk."""
    name = str(error.filename or "")
    return error.errno in FULL or any(name.startswith(str(place)) for place in places)
