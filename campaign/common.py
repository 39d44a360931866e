"""What every part of the campaign shares: where results go, and what they say about the run."""

import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from symmetries._utils.provenance import commit, versions

ROOT = Path(__file__).resolve().parents[1]
# Tests send results elsewhere.
RESULTS = Path(os.environ.get("CAMPAIGN_RESULTS", Path(__file__).resolve().parent / "results"))

# One thread, no spinning: the campaign shares its machine.
QUIET = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "CUDA_VISIBLE_DEVICES": ""}


def environment(**more: str) -> dict[str, str]:
    """The environment of the campaign's own processes."""
    return {**os.environ, **QUIET, "PYTHONPATH": str(ROOT / "campaign"), **more}


def store(part: str, numbers: dict[str, Any], started: float) -> Path:
    """Write the numbers of one part to campaign/results, with how they came about."""
    run = {
        "commit": commit(),
        # Files by their names: where they lay says nothing on another machine.
        "command": " ".join(["python", *(Path(w).name if "/" in w else w for w in sys.argv)]),
        "created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(time.time() - started, 1),
        **versions(),
        "machine": f"{os.cpu_count()} CPU cores, {platform.machine()}",
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{part}.json"
    path.write_text(json.dumps({**numbers, "run": run}, indent=1) + "\n")
    return path
