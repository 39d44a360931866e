"""Atomic writing of files, and locks that give a folder to one run."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_held: set[Path] = set()
_held_guard = threading.Lock()


class FolderInUseError(RuntimeError):
    """Another run is writing to the folder."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write into an error that names the file and the remedy."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        message = (
            f"{path}: cannot write ({reason}); earlier files are intact. "
            "Check that the folder exists, is writable and has space left"
        )
        raise OSError(error.errno, message) from error


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that after a crash either the old or the new content is there, complete.

    Uses a temporary file in the same folder, fsync, rename, and fsync of the folder.

    Args:
        path: the file; its folder must exist.
        content: the whole content.
    """
    temporary = path.with_name(f".{path.name}-{os.getpid()}.tmp")
    with writing(path):
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock a folder while the block runs; a second run in it is refused.

    The lock belongs to the operating system (``fcntl.lockf``) and ends with its process, so a lock
    left by a crash never blocks the next run. Such locks do not apply within one process, where a
    set of the folders in use serves instead.

    Args:
        folder: created if necessary.

    Raises:
        FolderInUseError: names the process that holds the lock.
    """
    path = folder / ".lock"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
    key = folder.resolve()
    with _held_guard:
        if key in _held:
            raise _in_use(folder, os.getpid())
        _held.add(key)
    try:
        with writing(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            raise _in_use(folder, holder) from None
        try:
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            yield
        finally:
            os.truncate(descriptor, 0)
            os.close(descriptor)
    finally:
        with _held_guard:
            _held.discard(key)


def _in_use(folder: Path, holder: object) -> FolderInUseError:
    return FolderInUseError(
        f"{folder}: another run (process {holder}) is writing to this folder; "
        "wait for it, stop it, or choose another folder"
    )
