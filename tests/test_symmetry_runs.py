"""The reproduction of the symmetry model: --quick, on digits and small sprites, finds the truth."""

import json
import math
from pathlib import Path

import pytest
import torch

from symmetries.data import ImageSet
from symmetries.groups.affine import Affine2
from symmetries.learners.symmetry_model import SymmetryModel

SCRIPT = Path(__file__).parents[1] / "papers" / "symmetry-model" / "run.py"


def test_quick_finds_planted_rotation_and_no_shift(run_script, tmp_path):
    run_script(SCRIPT, "--quick", "--out", tmp_path, "--device", "cpu")
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


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))


def test_zeros_are_read_by_how_round_they_are(scripts):
    """Circles have any direction, long ellipses those that were drawn: within +-15 degrees."""
    import planted

    generator = torch.Generator().manual_seed(0)
    axis = torch.linspace(-1, 1, 28)
    turn = math.radians(15) * (2 * torch.rand(600, generator=generator) - 1)
    long = torch.cat((0.4 + 0.005 * torch.rand(300, generator=generator), torch.full((300,), 0.8)))
    turn[:300] = math.pi * torch.rand(300, generator=generator)
    cos, sin = turn.cos()[:, None, None], turn.sin()[:, None, None]
    x, y = axis[None, None, :], -axis[None, :, None]
    along, across = cos * x + sin * y, cos * y - sin * x
    inside = (along / long[:, None, None]) ** 2 + (across / 0.4) ** 2
    images = torch.sigmoid(20 * (1 - inside))[:, None]
    data = ImageSet(images, torch.zeros(600, dtype=torch.int64), "ellipses")

    class Model:
        group = Affine2("rotation")

        def sample_eta(self, x, n, generator):
            return 0.1 * torch.randn(len(x), n, 1, generator=generator)

    round_ones, long_ones = planted.zeros(Model(), data, 40, parts=2)
    assert round_ones["ratio"][1] < 1.1 < long_ones["ratio"][0]
    assert long_ones["directions"] == pytest.approx(2 * 27, rel=0.1)
    assert round_ones["directions"] > 200
    assert (long_ones["flat"], long_ones["widest"] < 30) == (0.0, True)
    assert long_ones["width90"] == pytest.approx(math.degrees(2 * 1.645 * 0.1), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [0, 45])
def test_rotation_of_sharp_images_is_found(scripts, degrees):
    """Their resampled pixels must not tell p how far they were turned."""
    import sharp

    images = sharp.drawn(600, degrees)
    model = SymmetryModel("rotation", (1, 16, 16), "quick")
    model.fit(images, device="cpu", progress=False)
    found = model.summary(images, most=128)["rotation"]
    if degrees:
        assert 0.8 * 81 < found.width90 < 1.2 * 81
    else:
        assert found.verdict == "absent"


def test_examples_take_turns_by_class(scripts):
    import shown

    labels = torch.tensor([2, 2, 0, 1, 0, 2, 1])
    data = ImageSet(torch.rand(7, 1, 8, 8), labels, "some")
    assert shown.in_turn(data, 5).tolist() == [2, 3, 0, 4, 6]
    bare = ImageSet(data.images, None, "bare")
    assert shown.in_turn(bare, 3).tolist() == [0, 1, 2]
