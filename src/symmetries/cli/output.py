"""Output folders: whole or not at all, never over somebody's files without being told to."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from symmetries.cli.errors import OutputError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def output_folder(out: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary folder beside ``out`` whose files move there when the block ends well.

    An existing ``out`` is refused before any work is done, unless ``overwrite``; then files of the
    same name are replaced and others stay. Whatever happens, the temporary folder goes.

    Args:
        out: the folder to make.
        overwrite: whether it may exist.
    """
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out}: a file of that name is in the way; choose another --out")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise OutputError(f"{out}: the folder exists; add --overwrite, or choose another --out")
    made = [folder for folder in out.parents if not folder.exists()]  # the deepest first
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        remove_empty(made)
        raise OutputError(
            f"{out}: {error.strerror}; choose an --out in a folder that you may write to"
        ) from error
    try:
        yield partial
        move_into(partial, out)
    except OSError as error:
        if isinstance(error, OutputError) or not _concerns(error, partial, out):
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OutputError(f"{out}: {reason}; free some space or choose another --out") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        remove_empty(made)


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove those folders, one after the other, that are there and hold nothing."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def move_into(partial: Path, out: Path) -> None:
    """Move everything in ``partial`` to ``out``, replacing what has the same name."""
    if not out.exists():
        partial.chmod(0o777 & ~_umask())  # mkdtemp makes it private
        os.replace(partial, out)
        return
    for entry in sorted(partial.iterdir()):
        target = out / entry.name
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        os.replace(entry, target)


def _concerns(error: OSError, *places: Path) -> bool:
    """Whether the error is about one of these places, or about a disk that is full."""
    name = str(error.filename or "")
    return error.errno in FULL or any(name.startswith(str(place)) for place in places)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
