"""Atomic writing of files, and locks that give a folder to one run."""

import errno
import fcntl
import os
import stat
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


def read_regular(path: Path) -> bytes:
    """The bytes of a plain file; a pipe or a device, which may have no end, is refused at once.

    Raises:
        OSError: also for these.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        return file.read()


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

    The lock is the kernel's (``fcntl.lockf``): it goes when its process goes, however that ends,
    so a lock left by a crash never blocks the next run. Within one process, where such locks do
    not count, a set of the files in use does the same.

    Args:
        folder: created if necessary.

    Raises:
        FolderInUseError: names the process that holds the lock.
    """
    with writing(folder / ".lock"):
        folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / ".lock", folder):
        yield


@contextmanager
def file_lock(path: Path, owned: Path, *, remove: bool = False) -> Iterator[None]:
    """Hold a lock file while the block runs; see :func:`folder_lock`.

    Args:
        path: the lock file; its folder must be there.
        owned: what the lock stands for, for the message.
        remove: whether the file goes when the block ends.

    Raises:
        FolderInUseError: naming the process that holds it.
    """
    key = path.parent.resolve() / path.name
    with _held_guard:
        if key in _held:
            raise _in_use(owned, os.getpid())
        _held.add(key)
    try:
        descriptor = _locked(path, owned)
        try:
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            yield
        finally:
            if remove:  # before the lock goes: who waits for the old file sees that it is gone
                path.unlink(missing_ok=True)
            else:
                os.truncate(descriptor, 0)
            os.close(descriptor)
    finally:
        with _held_guard:
            _held.discard(key)


def _locked(path: Path, owned: Path) -> int:
    """The descriptor of a lock file that this process holds, and that is still at its path."""
    while True:
        with writing(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            raise _in_use(owned, holder) from None
        try:
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:  # its last holder removed it meanwhile
            pass
        os.close(descriptor)


def _in_use(owned: Path, holder: object) -> FolderInUseError:
    return FolderInUseError(
        f"{owned}: another run (process {holder}) writes into this folder; "
        "wait for it, stop it, or choose another folder"
    )
