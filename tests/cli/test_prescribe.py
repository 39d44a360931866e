"""``symmetries prescribe``: numbers, a page and code for four libraries."""

import numpy as np
import pytest

from symmetries.analysis import prescribing
from symmetries.analysis.network_trials import Size
from symmetries.analysis.quick_networks import SIZES
from symmetries.results import PrescribeResult


@pytest.fixture
def few(monkeypatch, hooks, tmp_path):
    """Corners with labels, and trainings of a few steps."""
    monkeypatch.setitem(SIZES, "quick", Size(4, 16, 2))
    monkeypatch.setattr(prescribing, "BASES", ({"rotation": 20.0, "shift": 0.1},))
    images = (255 * hooks(100, 5, side=12)[0]).astype(np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(100) % 2)
    np.savez(tmp_path / "plain.npz", images=images)
    return tmp_path


def test_it_writes_numbers_a_page_and_code(run, few):
    words = ["prescribe", "a.npz", "--out", "out", "--device", "cpu", "--preset", "quick"]
    found = run(*words)
    assert found.exit_code == 0, found.output
    assert "Predicted gain" in found.output
    names = {path.name for path in (few / "out").iterdir()}
    libraries = ("symmetries", "torchvision", "albumentations", "kornia")
    code = {f"augment_{library}.py" for library in libraries}
    assert names == {"prescribe.json", "report.html"} | code
    result = PrescribeResult.load(few / "out" / "prescribe.json")
    for library in libraries:
        text = (few / "out" / f"augment_{library}.py").read_text()
        assert text == result.code[library]
        compile(text, library, "exec")
    again = run(*words)
    assert again.exit_code == 4
    same = run(*words[:3], "other", *words[4:])
    assert same.exit_code == 0
    other = PrescribeResult.load(few / "other" / "prescribe.json")
    assert other.model_copy(update={"run": result.run}) == result  # the same seed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plain.npz"], "expected labelled images"),
        (["nothing.npz"], "nothing.npz"),
        (["a.npz", "--preset", "paper"], "preset: expected quick or default"),
        (["a.npz", "--model", "nothing.onnx"], "model: expected an existing model"),
        (["a.npz", "--discovered", "a.npz"], "a.npz: expected JSON"),
    ],
)
def test_bad_input_is_refused_by_name(run, few, words, message):
    found = run("prescribe", *words, "--out", "out", "--device", "cpu")
    assert found.exit_code == 3, found.output
    assert message in found.output
    assert not (few / "out").exists()
