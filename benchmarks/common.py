"""What all benchmarks share: timing alternatives side by side, and recording the result."""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from symmetries._utils.provenance import provenance, source_digest, versions

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("lightning-fabric", "lightning", "kornia")


def record(name: str, rows: Sequence[Mapping[str, Any]], *, part: bool = False) -> Path:
    """Write rows of results to ``benchmarks/results/NAME.json``, with what they depend on.

    Args:
        name: of the benchmark.
        rows: plain data, one mapping per measurement.
        part: whether only some of the cases were asked for: these go to a folder of their own,
            and leave the stored table alone.

    Returns:
        The file.
    """
    folder = RESULTS / "parts" if part else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    result = {"name": name, **environment(), "rows": [dict(row) for row in rows]}
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {path}")
    return path


def environment(device: str | None = None) -> dict[str, Any]:
    """Command, commit, device, versions, threads and the digest of the source of this run.

    The digest tells whether the commit that is named is the one that ran. The command names folders
    of this machine by their last part only.

    Args:
        device: that the run computes on. Without one it is a GPU if this process has used one, not
            if the machine merely has one.
    """
    known = provenance(device or ("cuda" if torch.cuda.is_initialized() else "cpu"))
    words = known["command"].split(" ")
    folders = [word.startswith("/") and not word.endswith("/") for word in words]
    pairs = zip(words, folders, strict=True)
    return {
        **known,
        "command": " ".join(Path(word).name if folder else word for word, folder in pairs),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "source": source_digest()[:12],
        "versions": versions(*PACKAGES),
    }


def wanted_clock(about: str) -> tuple[Callable[[], float], str]:
    """The clock that a script's arguments ask for, and its name.

    Args:
        about: the script's docstring.
    """
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--processor-time", action="store_true", help="not wall time, one thread")
    if not parser.parse_args().processor_time:
        return time.perf_counter, "wall"
    torch.set_num_threads(1)
    return time.process_time, "processor"


def interleaved(
    alternatives: Mapping[str, Callable[[], object]],
    rounds: int = 9,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each alternative, measured in turn so that all see the same machine.

    Args:
        alternatives: by name; each call is one measurement (repeat inside it if it is short).
        rounds: measurements of each, after one that does not count.
        clock: ``time.process_time`` counts processor time, which a busy machine disturbs less.

    Returns:
        For each name its times, one per round: compare medians, or ratios round by round.
    """
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    for turn in range(rounds + 1):
        for name, call in alternatives.items():
            synchronise()
            start = clock()
            call()
            synchronise()
            if turn:
                times[name].append(clock() - start)
    return times


def medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each alternative's times."""
    return {name: statistics.median(values) for name, values in times.items()}


def seconds_to_move(amount: int, device: str, rounds: int = 15) -> float:
    """The memory's floor: what moving so many bytes takes, half of them read and half written.

    Measured by copies of that size, so that what fits into a cache is measured in the cache.
    """
    source = torch.ones(max(1, amount // 8), device=device)
    target = torch.empty_like(source)
    times = interleaved({"copy": lambda: target.copy_(source)}, rounds)["copy"]
    return statistics.median(times)


def synchronise() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    json.dump(environment(), sys.stdout, indent=1)
