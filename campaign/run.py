"""The whole campaign as one command: every part, then the page.

``python campaign/run.py`` is what ``make campaign`` runs: hours, into campaign/results and
docs/reliability.md. ``--size small`` runs every part for seconds, into out/campaign with a page of
its own, so that what is stored stays what it is. ``--only`` and ``--minutes`` choose parts and how
long the two long ones take.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
# The arguments of every part: for the stored figures, and for a trial of the whole.
PARTS: dict[str, tuple[list[str], list[str]]] = {
    "kills": (
        ["--kills", "15"],
        ["--kills", "1", "--learners", "penalties", "invariant weights, natural gradients"],
    ),
    "faults": ([], []),
    "corruptions": (["--each", "150"], ["--each", "3"]),
    "hostile": (["--each", "500"], ["--each", "8"]),
    "outputs": ([], ["--most", "2", "--pairs", "2"]),
    "inputs": ([], ["--sample", "2"]),
    "ddp": ([], ["--learners", "penalties", "--commands", "audit"]),
    "elastic": (["--repeat", "20"], []),
    "slurm": ([], []),
    "memory": (["--gigabytes", "8"], ["--gigabytes", "0.5", "--steps", "5"]),
    "packages": (["--store"], ["--store"]),
    "fuzz": (
        ["--minutes", "75"],
        ["--minutes", "0.2", "--readers", "npz", "pictures", "checkpoint-json", "safetensors"],
    ),
    "soak": (["--minutes", "61"], ["--minutes", "0.1"]),
}


def main() -> None:
    """Run the parts one after the other; stop at the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("full", "small"), default="full")
    parser.add_argument("--only", nargs="+", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--minutes", help="of fuzzing, and of soaking")
    options = parser.parse_args()
    small = options.size == "small"
    names = dict(os.environ)
    if small:
        names["CAMPAIGN_RESULTS"] = str(FOLDER.parent / "out" / "campaign")
    for part in options.only:
        words = [*PARTS[part][small]]
        if options.minutes and "--minutes" in words:
            words[words.index("--minutes") + 1] = options.minutes
        print(f"== {part} {' '.join(words)}", flush=True)
        started = time.time()
        command = [sys.executable, "-W", "ignore", str(FOLDER / f"{part}.py"), *words]
        if code := subprocess.run(command, env=names).returncode:
            raise SystemExit(f"{part} ended with {code}")
        print(f"== {part}: {time.time() - started:.0f} s", flush=True)
    subprocess.run([sys.executable, str(FOLDER / "page.py")], env=names, check=True)


if __name__ == "__main__":
    main()
