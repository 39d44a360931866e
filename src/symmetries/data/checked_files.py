"""Reading of files that may be truncated, damaged, or wrong about their size."""

import gzip
import os
import resource
import zlib
from pathlib import Path

from symmetries._validation.checks import invalid

AGAIN = "fetch the file again"
_DEFLATE_LIMIT = 1032  # largest expansion factor of a deflate stream


def check_claim(path: Path, claimed: int, stored: int, *, compressed: bool) -> None:
    """Raise an error if a header claims more bytes than the file can hold, before allocating.

    Args:
        path: the file, for the message.
        claimed: number of bytes according to the header.
        stored: number of bytes in the file.
        compressed: whether the bytes are a deflate stream.
    """
    most = stored * _DEFLATE_LIMIT if compressed else stored
    if not 0 <= claimed <= most:
        got = f"a header that claims {claimed} bytes in a file of {stored}"
        raise invalid(str(path), "a complete file", got, AGAIN)
    check_memory(path, claimed)


def check_memory(path: Path | str, needed: int) -> None:
    """Refuse to unpack into more memory than is free, as an archive of zeros may ask for.

    Args:
        path: the file, for the message.
        needed: bytes of all arrays that will be held at once, in the types that they end in.
    """
    free = free_memory()
    if needed > free:
        got = f"{needed:,} bytes where {free:,} are free"
        remedy = "save it as .npy and read it as needed: symmetries.data.stream"
        raise invalid(str(path), "data that fits into memory", got, remedy)


def free_memory() -> int:
    """Bytes that this process may still take: of the machine, of its container, of its limits."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    machine = _numbers("/proc/meminfo")
    found += [1024 * machine["MemAvailable"]] if "MemAvailable" in machine else []
    group = "/sys/fs/cgroup/"
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit, taken = _numbers(group + most), _numbers(group + used)
        if "" in limit and "" in taken:
            kept = _numbers(str(Path(group + used).parent / "memory.stat"))
            cached = kept.get("inactive_file", kept.get("total_inactive_file", 0))
            found.append(limit[""] - taken[""] + cached)
    own = resource.getrlimit(resource.RLIMIT_AS)[0]
    if own != resource.RLIM_INFINITY:
        found.append(own - 1024 * _numbers("/proc/self/status").get("VmSize", 0))
    return max(0, min(found))


def _numbers(path: str) -> dict[str, int]:
    """Read the numbers of a system file by the word before each; a lone number is named ""."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return {}
    words = [line.replace(":", " ").split() for line in lines]
    pairs = [(line[0], line[1]) if len(line) > 1 else ("", line[0]) for line in words if line]
    return {name: int(number) for name, number in pairs if number.isdigit()}


def read_bytes(path: Path, limit: int | None = None) -> bytes:
    """Read a plain or gzipped file, at most ``limit`` bytes; a gzip's checksum is at its end.

    Args:
        path: the file; gzipped if its name ends with .gz.
        limit: stop after this many bytes.
    """
    count = -1 if limit is None else limit
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise OSError("it is no plain file")
        if path.suffix == ".gz":
            with gzip.open(path) as stream:
                return stream.read(count)
        with path.open("rb") as stream:
            return stream.read(count)
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> ValueError:
    """Build the error for a file that cannot be read, to be raised by the caller."""
    if isinstance(error, FileNotFoundError):
        return invalid("path", "an existing file", repr(str(path)), "check the spelling")
    if isinstance(error, IsADirectoryError):
        return invalid("path", "a file", f"the folder {str(path)!r}", "name a file in it")
    remedy = "get permission to read it" if isinstance(error, PermissionError) else AGAIN
    return invalid(str(path), "a readable file", f"{error}", remedy)
