"""Atomic replacement of a folder: a reader sees the old one or the new one, never a mixture."""

import ctypes
import os
import shutil
from pathlib import Path

from symmetries.training.atomic_files import sync

AT_FDCWD, EXCHANGE = -100, 2  # of renameat2(2)


def replace_folder(new: Path, out: Path, old: Path) -> None:
    """Move ``new`` to ``out`` in one step; entries of ``out`` that ``new`` lacks are kept.

    Where ``out`` has entries, they are linked into ``new``, and the two folders exchange their
    names in one call (renameat2, Linux). Where that call is missing, ``out`` is renamed to ``old``
    first: a kill between the two renames leaves no ``out``, and :func:`recover` brings it back.

    Args:
        new: a finished folder on the same file system.
        out: where it shall be.
        old: a free name beside them.
    """
    for folder, _, files in os.walk(new):
        for name in files:
            sync(Path(folder) / name)
        sync(Path(folder))
    if not out.exists() or not any(out.iterdir()):
        mode = out.stat().st_mode & 0o7777 if out.exists() else 0o777 & ~_umask()
        new.chmod(mode)
        os.rename(new, out)  # refuses a folder that another process has filled meanwhile
        sync(out.parent)
        return
    new.chmod(out.stat().st_mode & 0o7777)
    for entry in out.iterdir():
        if not os.path.lexists(new / entry.name):
            _link(entry, new / entry.name)
    if exchange(new, out):
        before = new
    else:
        os.rename(out, old)
        os.rename(new, out)
        before = old
    sync(out.parent)
    for entry in before.iterdir():  # what another process put there after it was linked
        if not os.path.lexists(out / entry.name):
            os.rename(entry, out / entry.name)
    shutil.rmtree(before)


def recover(out: Path, new: Path, old: Path) -> None:
    """Remove what a killed run left beside ``out``, or restore what it had moved away.

    Only who owns ``out`` may call this.
    """
    if old.exists() and not os.path.lexists(out):
        os.rename(old, out)
    for left in (new, old):
        remove(left)


def remove(path: Path) -> None:
    """Remove a folder, a file or a link, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def exchange(first: Path, second: Path) -> bool:
    """Exchange the names of two folders atomically; return False if the system cannot."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    code = call(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), EXCHANGE)
    return int(code) == 0


def _link(source: Path, target: Path) -> None:
    """Link an entry to a second name; folders are created, and their files hard-linked."""
    if source.is_symlink():
        target.symlink_to(os.readlink(source))
    elif source.is_dir():
        target.mkdir()
        for entry in source.iterdir():
            _link(entry, target / entry.name)
        shutil.copystat(source, target)
    else:
        try:
            os.link(source, target)
        except OSError:  # a file system without links
            shutil.copy2(source, target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
