"""Hostile files: hundreds of mutations of every format, and files made by hand to run code.

``python campaign/hostile.py --each 500``. A file must give what an independent reader (ONNX
Runtime, NumPy, Pillow, a plain parser) makes of the same bytes, or be refused in our words. Counted
are runs of foreign code (a mark that appears), crashes (a process that ends, or an error in foreign
words), answers that differ, and memory beyond twice the arrays that are needed.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import store
from hostile_readers import HELD, READERS, DiffersError, peak
from hostile_starts import mutated, starts
from kills import child, ended

from symmetries.training.checkpoint import CheckpointError

ROOM = 2**31  # bytes that a worker may take beyond what it has
SLACK = 48 * 2**20  # of memory: libraries, buffers, what Python keeps
SECONDS = 120  # a loaded machine takes a tenth of it for the largest picture that is allowed


def judge(kind: str, path: Path, mark: Path) -> tuple[str, str, int, int]:
    """What came of one file: a word, what was said, memory taken, and bytes that were needed."""
    Path("/proc/self/clear_refs").write_text("5")
    before, needed = peak(), 0
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            needed = READERS[kind](path)
        word, said = "ok", ""
    except DiffersError as error:
        word, said = "differs", str(error)
    except (ValueError, OSError) as error:
        said = str(error)
        word = "refused" if ";" in said or isinstance(error, CheckpointError) else "crashed"
    except MemoryError as error:
        word, said = "crashed", f"MemoryError: {error}"
    except Exception as error:
        word, said = "crashed", f"{type(error).__name__}: {error}"
    signal.alarm(0)
    taken = (HELD.pop() if HELD else peak()) - before
    if mark.exists():
        mark.unlink()
        word = "ran code"
    return word, said, taken, needed


def work(kind: str, each: int, first: int, seed: int, folder: Path, log: Path) -> None:
    """Judge the mutations from ``first`` on, a line for each."""
    mark = folder / "mark"
    begin = starts(kind, folder, mark)
    mark.unlink(missing_ok=True)
    size = 1024 * int(
        next(
            line.split()[1]
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("VmSize")
        )
    )
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    place = folder / "given"
    place.mkdir(exist_ok=True)
    with log.open("a") as lines:
        for number in range(first, each + len(begin)):
            chance = random.Random(f"{seed} {kind} {number}")
            name, content = begin[number % len(begin)]
            if number >= len(begin):  # the first ones are as they were made
                content = mutated(kind, content, chance)
            for old in place.iterdir():
                old.unlink()
            (place / name).write_bytes(content)
            if name == "model.json":
                for tensors in (folder / "classifier").glob("*.safetensors"):
                    shutil.copy(tensors, place)
            lines.write(json.dumps({"begun": number}) + "\n")
            lines.flush()
            word, said, taken, needed = judge(kind, place / name, mark)
            over = taken > 2 * needed + SLACK
            row = {"word": word, "said": said[:300], "over": over, "taken": taken}
            lines.write(json.dumps(row) + "\n")
            lines.flush()


def campaign(kind: str, each: int, seed: int, folder: Path) -> dict[str, Any]:
    """All mutations of one format; a worker that dies is a crash, and the next one goes on."""
    counts: Counter[str] = Counter()
    examples: list[str] = []
    log, largest, first = folder / "log", 0, 0
    log.touch()
    while True:
        sys.stdout.flush()
        task = partial(work, kind, each, first, seed, folder, log)
        code = ended(child(task), wait=True)
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        if code == 0:
            break
        begun = [row["begun"] for row in rows if "begun" in row]
        if "begun" not in (rows[-1] if rows else {}):
            raise SystemExit(f"{kind}: the worker failed by itself ({code})")
        with log.open("a") as lines:
            row = {"word": "crashed", "said": f"ended with {code}", "over": False, "taken": 0}
            lines.write(json.dumps(row) + "\n")
        first = begun[-1] + 1
    numbers = [row["begun"] for row in rows if "begun" in row]
    for number, row in zip(numbers, [row for row in rows if "word" in row], strict=True):
        counts[row["word"]] += 1
        counts["over memory"] += row["over"]
        largest = max(largest, row["taken"])
        if row["word"] in ("ran code", "crashed", "differs") or row["over"]:
            examples.append(f"{number}: {row['word']}: {row['said']}")
    return {
        "files": sum(counts[word] for word in ("ok", "refused", "ran code", "crashed", "differs")),
        **{word: counts[word] for word in ("ok", "refused", "ran code", "crashed", "differs")},
        "over_memory": counts["over memory"],
        "largest_megabytes": round(largest / 2**20, 1),
        "examples": examples[:12],
    }


def main() -> None:
    """Try every format, and store the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=500, help="mutations of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", nargs="+", choices=[*READERS], default=[*READERS])
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    started = time.time()
    numbers: dict[str, Any] = {"formats": {}}
    for kind in options.formats:
        with tempfile.TemporaryDirectory() as scratch:
            found = campaign(kind, options.each, options.seed, Path(scratch))
        numbers["formats"][kind] = found
        print(kind, json.dumps(found), flush=True)
    store("hostile", numbers, started)


if __name__ == "__main__":
    main()
