"""The command line with small presets and frequent checkpoints: for campaign/slurm.py."""

import sys

import small_runs

from symmetries.analysis import classifiers
from symmetries.cli import app

STEPS = 300  # enough to be stopped half-way

if __name__ == "__main__":
    small_runs.small_presets()
    classifiers.INVARIANT_PRESETS["quick"]["steps"] = STEPS
    if "--nodes" in sys.argv:
        small_runs.WORLD["nodes"] = int(sys.argv[sys.argv.index("--nodes") + 1])
    app()
