"""The reproduction of the symmetry model: --quick, on digits and small sprites, finds the truth."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "papers" / "symmetry-model" / "run.py"


def test_quick_finds_planted_rotation_and_no_shift(tmp_path):
    command = [sys.executable, "-W", "ignore", str(SCRIPT), "--quick", "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, "--device", "cpu"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert [row["task"] for row in rows] == ["digits-rotation", "sprites-rotation"]
    for row in rows:
        found = {part["name"]: part for part in row["summary"]}
        assert found["rotation"]["verdict"] == "partial"
        assert found["shift_x"]["verdict"] == found["shift_y"]["verdict"] == "absent"
        assert row["made"]["commit"]
    # Planted within +-45 degrees: 90 % of that, and as much again for an ellipse upside down.
    sprites = next(part for part in rows[1]["summary"] if part["name"] == "rotation")
    assert sprites["width90"] == pytest.approx(2 * 81, rel=0.25)
    assert sprites["noise_floor"] < 15
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert {f"sprites-rotation-45-0-{kind}.png" for kind in ("orbits", "chains")} <= pictures
