"""Coverage-guided fuzzing of every reader, one after the other: executions and findings.

``python campaign/fuzz.py --minutes 62`` shares the time among the readers. Inputs that were found
are kept in --corpus and used again by the next run; what broke a reader is kept in --findings.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import seeds
from common import RESULTS, ROOT, environment, store

NAMES = (
    *("idx", "idx-gz", "cifar-binary", "cifar-python", "cifar-names", "cifar-archive"),
    *("npy", "npz", "pictures", "result-json", "checkpoint-json", "safetensors"),
)
# Seconds for one input, megabytes for the process (importing torch takes about 400 of them).
TIMEOUT, MEMORY, LONGEST = 10, 2048, 65536


def fuzz(name: str, seconds: float, corpus: Path, findings: Path) -> dict[str, object]:
    """Fuzz one reader for some seconds, starting again after each finding."""
    end, started = time.time() + seconds, time.time()
    executions, found, peak, coverage = 0, 0, 0, 0
    for folder in (corpus / name, findings / name):
        folder.mkdir(parents=True, exist_ok=True)
    while (left := round(end - time.time())) > 0:
        command = [sys.executable, str(ROOT / "campaign" / "fuzz_target.py"), name]
        command += [str(corpus / name), str(corpus / "seeds" / name)]
        command += [f"-max_total_time={left}", f"-timeout={TIMEOUT}", f"-rss_limit_mb={MEMORY}"]
        command += [f"-max_len={LONGEST}", "-print_final_stats=1"]
        command += [f"-artifact_prefix={findings / name}/"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
        executions += _number(r"number_of_executed_units:\s*(\d+)", done.stderr)
        peak = max(peak, _number(r"peak_rss_mb:\s*(\d+)", done.stderr))
        coverage = max(coverage, *map(int, re.findall(r"cov: (\d+)", done.stderr)), 0)
        if done.returncode:
            found += 1
            print(f"{name}: finding\n{done.stderr[-3000:]}", file=sys.stderr, flush=True)
            if found >= 5:
                break
    return {
        "seconds": round(time.time() - started, 1),
        "executions": executions,
        "findings": found,
        "branches": coverage,
        "peak_megabytes": peak,
    }


def _number(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def main() -> None:
    """Fuzz, and store the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=62.0)
    parser.add_argument("--readers", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--corpus", type=Path, default=ROOT / "out" / "fuzz" / "corpus")
    parser.add_argument("--findings", type=Path, default=ROOT / "out" / "fuzz" / "findings")
    options = parser.parse_args()
    started = time.time()
    seeds.write(options.corpus / "seeds")
    numbers: dict[str, dict[str, object]] = {}
    earlier = RESULTS / "fuzz.json"
    if len(options.readers) < len(NAMES) and earlier.exists():  # a further look at some of them
        numbers = json.loads(earlier.read_text())["readers"]
    for name in options.readers:
        share = 60 * options.minutes / len(options.readers)
        found = fuzz(name, share, options.corpus, options.findings)
        before = numbers.get(name)
        if before is not None:  # findings stay on record; whether they are fixed shows in "again"
            found = {**before, "again": found}
        numbers[name] = found
        print(name, numbers[name], flush=True)
        store("fuzz", {"readers": numbers}, started)


if __name__ == "__main__":
    main()
