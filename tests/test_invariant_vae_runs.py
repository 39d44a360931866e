"""The reproduction of the invariant generative models: every part runs with --quick, on digits."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "papers" / "invariant-vae" / "run.py"
EXPECTED = {
    "rotation": {"width90", "ratio", "agreement", "bound", "reconstruction_error"},
    "affine": {"width90", "bound"},
    "augerino": {"half_width"},
    "ablations": {"width90_q", "width90_p", "share_outside", "bound"},
    "learned-noise": {"width90", "bound"},
    "figure9": {"bound", "reconstruction_error", "source"},
    "samples": {"bound", "least_noise"},
    "images": set(),
}


def rows_of(part, folder):
    command = [sys.executable, "-W", "ignore", str(SCRIPT), "--quick", "--out", str(folder)]
    done = subprocess.run([*command, "--parts", part], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((folder / "results.json").read_text())["rows"]


def check(part, folder):
    rows = rows_of(part, folder)
    assert {row["part"] for row in rows} == {part}
    assert all(EXPECTED[part] <= set(row) for row in rows)
    assert all(row["made"]["commit"] for row in rows)
    return rows


def test_augerino_quick(tmp_path):
    rows = check("augerino", tmp_path)
    assert {row["added"] for row in rows} == {0.0, 90.0}
    assert len(rows_of("augerino", tmp_path)) == len(rows)  # none is made twice


@pytest.mark.slow
@pytest.mark.parametrize("part", sorted(set(EXPECTED) - {"augerino"}))
def test_every_part_quick(part, tmp_path):
    check(part, tmp_path)


@pytest.mark.slow
def test_likeness_quick(tmp_path):
    rows_of("rotation", tmp_path)
    rows = [row for row in rows_of("likeness", tmp_path) if row["part"] == "likeness"]
    assert [(row["kind"], row["added"]) for row in rows] == [("joint", 0.0)]  # 90 is too far
    assert rows[0]["accuracy"] > 0.8
    assert rows[0]["sure_of_new"] < rows[0]["sure_of_test"]  # after 40 steps
