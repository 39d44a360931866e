"""Kills at every change of the file system by every command, and two runs against one output.

``python campaign/outputs.py`` does three things with each command. It overwrites an output of
another seed and is killed just before each of its changes in turn (rename, link, unlink, ...): what
is there must be the old output or the new one, never a mixture. It is killed again at each of them
and then resumed: the end must be that of a run that nobody disturbed. And it is stopped at each of
them while a second run into the same output goes to its end: one must end well and nothing may be
lost. At last pairs of runs begin at random distances. ``--most`` and ``--pairs`` make it shorter.
"""

import argparse
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import RESULTS, store
from kills import child, ended
from output_runs import (
    COMMANDS,
    RESUMED,
    content,
    count_changes,
    damage,
    disturbed,
    invoke,
    left_over,
    overwriting,
    places,
    plainly,
    prepare,
    resuming,
    state,
    stopped_or_ended,
    target,
    whole,
)


def kills(name: str, most: int | None, folder: Path, share: tuple[int, int]) -> dict[str, int]:
    """Kill a command at each of its changes in turn, on top of what the kill before left."""
    counts: Counter[str] = Counter()
    out = target(folder, name)
    if plainly(folder, name, 0):
        raise SystemExit(f"{name}: the undisturbed run failed")
    counts["changes"] = count_changes(folder, name, signal.SIGKILL, *overwriting(name))
    before, seed = state(out), 1
    for place in places(counts["changes"], most)[share[0] :: share[1]]:
        seed += 1
        damage(folder, name)
        work = partial(disturbed, folder, name, seed, place, signal.SIGKILL, *overwriting(name))
        code = ended(child(work), wait=True)
        found = whole(out, f"{name}, change {place}")
        known = name in ("augment", "data fetch", "sweep") or found in (before, {seed})
        counts["mixed"] += len(found) != 1 or not known
        counts["kills"] += code == -signal.SIGKILL
        counts["failed"] += code not in (0, -signal.SIGKILL)
        before = found
    counts["failed"] += plainly(folder, name, seed + 1, *overwriting(name)) != 0
    counts["left over"] += bool(left_over(folder))
    return counts


def resumed(name: str, most: int | None, folder: Path) -> dict[str, int]:
    """Kill a command at each of its changes, resume it, and compare with a quiet run."""
    counts: Counter[str] = Counter()
    out, expected = target(folder, name), {}
    for seed in (2, 1):
        plainly(folder, name, seed, "--overwrite")
        expected[seed] = content(out)
    more = () if name == "watch" else ("--overwrite",)
    if name == "watch":  # goes on with its own output only, so that it begins with none
        cleared(name, folder)
    changes = count_changes(folder, name, signal.SIGKILL, *more)
    for number, place in enumerate(places(changes, most)):
        seed = 2 - number % 2  # there is an output of the other one
        if name == "watch":
            cleared(name, folder)
        work = partial(disturbed, folder, name, seed, place, signal.SIGKILL, *more)
        counts["kills"] += ended(child(work), wait=True) == -signal.SIGKILL
        counts["failed"] += plainly(folder, name, seed, *resuming(name)) != 0
        same = content(out) == expected[seed]
        left = left_over(folder)
        if not same or left:
            print(f"{name}, resumed after change {place}: same {same}, left {left}", flush=True)
        counts["same"] += same
        counts["left over"] += bool(left)
    return counts


def judge(name: str, codes: list[int | None], over: bool, folder: Path) -> Counter[str]:
    """Count how a pair of runs into one output ended, the first one's exit code first."""
    found = whole(target(folder, name), f"{name}, codes {codes}")
    shared = name in ("data fetch", "sweep")  # both may end well: one study, the same files
    fine = 0 in codes and set(codes) <= {0, 4} and (codes != [0, 0] or over or shared)
    left = left_over(folder)
    lost = len(found) != 1 or not fine or bool(left)
    if lost:
        print(f"{name}: codes {codes}, state {found}, left {left}", flush=True)
    kinds = {"pairs": 1, "losses": lost, "refused": 4 in codes, "both": codes == [0, 0]}
    return Counter({kind: int(value) for kind, value in kinds.items()})


def cleared(name: str, folder: Path) -> None:
    """Remove an output."""
    out = target(folder, name)
    shutil.rmtree(out, ignore_errors=True)
    if out.is_file():
        out.unlink()


KILLED = ("changes", "kills", "mixed", "failed", "left over")
AGAIN = ("kills", "same", "failed", "left over")
PARTS = ("commands", "resumed", "phases")
MODES: tuple[tuple[str, ...], ...] = ((), ("--overwrite",), ("--overwrite", "--resume"))


def phases(name: str, most: int | None, folder: Path) -> Counter[str]:
    """Stop a run at each of its changes while another run into its output goes to its end."""
    counts: Counter[str] = Counter()
    plainly(folder, name, 0)
    changes = count_changes(folder, name, signal.SIGSTOP, *overwriting(name))
    chosen = places(changes, most)
    modes = [mode for mode in MODES if "--resume" in resuming(name) or "--resume" not in mode]
    for number, place in enumerate(chosen):
        more = modes[number % len(modes)]
        cleared(name, folder)
        first = child(partial(disturbed, folder, name, 2, place, signal.SIGSTOP, *more))
        code = stopped_or_ended(first)
        second = plainly(folder, name, 3, *more)
        if code is None:
            os.kill(first, signal.SIGCONT)
            code = ended(first, wait=True)
        counts += judge(name, [code, second], "--overwrite" in more, folder)
    return counts


def pairs(names: list[str], count: int, folder: Path, seed: int) -> Counter[str]:
    """Begin two runs into one output at some distance; both run at the same time."""
    counts: Counter[str] = Counter()
    chance = random.Random(seed)
    seconds: dict[str, float] = {}
    for number in range(count):
        name = names[number % len(names)]
        if name not in seconds:
            cleared(name, folder)
            started = time.perf_counter()
            plainly(folder, name, 0)
            seconds[name] = time.perf_counter() - started
        cleared(name, folder)
        more = overwriting(name) if chance.random() < 0.5 else ()
        first = child(lambda: os._exit(invoke(folder, name, 2, *more)))  # noqa: B023
        time.sleep(chance.uniform(0, 1.1) * seconds[name])
        second = child(lambda: os._exit(invoke(folder, name, 3, *more)))  # noqa: B023
        codes = [ended(pid, wait=True) for pid in (first, second)]
        counts += judge(name, codes, bool(more), folder)
    return counts


def main() -> None:
    """Kill, resume, pair, and store the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, help="changes of a command; all unless given")
    parser.add_argument("--again", type=int, help="of them to resume from and to stop at")
    parser.add_argument("--pairs", type=int, default=40, help="at random distances")
    parser.add_argument("--commands", nargs="+", choices=[*COMMANDS], default=[*COMMANDS])
    parser.add_argument("--parts", nargs="+", choices=[*PARTS, "none"], default=PARTS)
    parser.add_argument("--share", nargs=2, type=int, default=(0, 1), help="I N: of the kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--merge", nargs="+", type=Path, help="results of parts")
    options = parser.parse_args()
    started = time.time()
    if options.merge:
        merge(options.merge)
        return
    again_at = options.most if options.again is None else options.again
    torch.set_num_threads(1)
    numbers: dict[str, Any] = {part: {} for part in PARTS}
    for name in options.commands:
        with tempfile.TemporaryDirectory() as scratch:
            prepare(Path(scratch))
            if "commands" in options.parts:
                found = kills(name, options.most, Path(scratch), tuple(options.share))
                numbers["commands"][name] = {word: found[word] for word in KILLED}
            if name in RESUMED and "resumed" in options.parts:
                again = resumed(name, again_at, Path(scratch))
                numbers["resumed"][name] = {word: again[word] for word in AGAIN}
        if "phases" in options.parts:
            with tempfile.TemporaryDirectory() as scratch:
                prepare(Path(scratch))
                numbers["phases"][name] = _counts(phases(name, again_at, Path(scratch)))
        print(name, *(numbers[part].get(name) for part in PARTS), flush=True)
        store("outputs", numbers, started)
    if not options.pairs:
        return
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch))
        numbers["pairs"] = _counts(
            pairs(options.commands, options.pairs, Path(scratch), options.seed)
        )
    print("pairs", numbers["pairs"], flush=True)
    store("outputs", numbers, started)


def merge(files: list[Path]) -> None:
    """Write the results of parts that ran beside each other as one; it names all their commits."""
    found = [json.loads(file.read_text()) for file in files]
    runs = [one["run"] for one in found]
    whole: dict[str, Any] = {part: {} for part in PARTS}
    for one in found:
        for part in PARTS:
            for name, row in one[part].items():
                before = whole[part].get(name, {})
                both = {word: count + before.get(word, 0) for word, count in row.items()}
                same = {"changes": row["changes"]} if "changes" in row else {}
                whole[part][name] = both | same
        whole |= {"pairs": one["pairs"]} if "pairs" in one else {}
    for part in PARTS:
        whole[part] = {name: whole[part][name] for name in COMMANDS if name in whole[part]}
    last = max(runs, key=lambda run: str(run["created"]))
    whole["run"] = {**last, "parts": runs}
    for word in ("commit", "machine", "torch"):
        whole["run"][word] = ", ".join(dict.fromkeys(str(run[word]) for run in runs))
    (RESULTS / "outputs.json").write_text(json.dumps(whole, indent=1) + "\n")


def _counts(found: Counter[str]) -> dict[str, int]:
    return {word: found[word] for word in ("pairs", "losses", "refused", "both")}


if __name__ == "__main__":
    main()
