"""``symmetries watch``: a folder that grows, names on standard input, exit codes."""

import json
import os

import numpy as np
import pytest
from PIL import Image

from symmetries.results import WatchResult


@pytest.fixture
def corners(hooks, tmp_path, monkeypatch):
    """A reference of 300 corners, and a function that lets pictures arrive."""
    monkeypatch.setattr("symmetries.monitoring.readers.STEPS", 300)
    monkeypatch.setattr("symmetries.monitoring.naming.LOOKED_AT", 60)
    reference = (255 * hooks(300, 8, side=12)[0]).astype(np.uint8)
    np.savez(tmp_path / "reference.npz", images=reference)
    pictures = (255 * hooks(400, 8, seed=1, side=12)[0]).astype(np.uint8)
    (tmp_path / "camera").mkdir()

    def arrive(start, stop, turn=0.0):
        names = []
        for number in range(start, stop):
            picture = Image.fromarray(pictures[number]).rotate(turn, Image.Resampling.BICUBIC)
            path = tmp_path / "camera" / f"{number:04}.png"
            picture.save(path)
            os.utime(path, ns=(number * 10**9, number * 10**9))
            names.append(str(path))
        return names

    return arrive


def watched(tmp_path):
    return WatchResult.load(tmp_path / "out" / "watch.json")


def test_a_folder_that_grows(run, tmp_path, corners):
    words = ["watch", "reference.npz", "camera", "--out", "out"]
    corners(0, 120)
    first = run(*words)
    assert first.exit_code == 0, first.output
    assert "no change in 120 pictures" in first.output
    assert "symmetries_watch_alarm 0" in (tmp_path / "out" / "watch.prom").read_text()
    command = watched(tmp_path).run.command  # with no option that watch does not have
    assert command == "symmetries watch reference.npz camera --out out --seed 0"
    corners(120, 260, turn=12)
    second = run(*words, "--json")
    assert second.exit_code == 6, second.output
    lines = [json.loads(line) for line in second.stdout.splitlines()]
    assert [line["pictures"] for line in lines] == [170, 220, 260]
    found = watched(tmp_path)
    assert (found.pictures, found.name) == (260, "rotation")
    assert found.parameters[0].amount == pytest.approx(12, abs=2)
    assert abs(found.since - 120) <= 10
    assert 'parameter="rotation"' in (tmp_path / "out" / "watch.prom").read_text()
    assert run(*words).exit_code == 6  # nothing new: it stays changed
    assert watched(tmp_path).pictures == 260


def test_what_a_change_costs_a_model_is_told(run, tmp_path, corners):
    """A planted model that is right as long as corners do not lean by more than 8 degrees or so."""
    (tmp_path / "ours.py").write_text(
        "import torch\n"
        "def net(x):\n"
        "    columns, rows = (torch.linspace(-1, 1, x.shape[d]) for d in (3, 2))\n"
        "    moment = (x[:, 0] * rows[:, None] * columns).mean((1, 2))\n"
        "    return torch.stack((moment, -moment), 1)\n"
    )
    corners(0, 160, turn=12)
    words = ["watch", "reference.npz", "camera", "--model", "ours:net", "--out", "out"]
    found = run(*words)
    assert found.exit_code == 6, found.output
    result = watched(tmp_path)
    assert result.loss.score == "agreement"
    assert result.loss.low <= result.loss.points <= result.loss.high
    assert "expected loss of agreement" in found.output.replace("\n", " ")
    assert "expected loss" in (tmp_path / "out" / "report.html").read_text()
    assert "symmetries_watch_expected_loss_points" in (tmp_path / "out/watch.prom").read_text()
    again = run(*words)  # nothing new: what it costs is known without the model's help
    assert again.exit_code == 6
    assert watched(tmp_path).loss == result.loss
    other = run(*words[:3], "--out", "out")
    assert other.exit_code != 6
    assert "of another model" in other.output
    text = (tmp_path / "ours.py").read_text()
    (tmp_path / "ours.py").write_text(text.replace("(moment, -moment)", "(-moment, moment)"))
    assert "of another model" in run(*words).output


@pytest.fixture
def quickly(corners, monkeypatch):
    """A reader that has hardly learned, where what it reads does not matter."""
    monkeypatch.setattr("symmetries.monitoring.readers.STEPS", 20)
    monkeypatch.setattr("symmetries.monitoring.naming.GRID", 5)


def test_names_on_standard_input(tmp_path, corners, quickly, monkeypatch):
    from typer.testing import CliRunner

    from symmetries.cli import app

    monkeypatch.chdir(tmp_path)
    names = "\n".join(corners(0, 30))
    words = ["watch", "reference.npz", "-", "--out", "out"]
    done = CliRunner().invoke(app, words, input=names)
    assert done.exit_code == 0, done.output
    assert watched(tmp_path).pictures == 30


def test_another_reference_or_folder_is_refused(run, tmp_path, corners, quickly):
    corners(0, 20)
    words = ["watch", "reference.npz", "camera", "--out", "out"]
    run(*words)
    for more in (["--seed", "1"], ["--alpha", "0.05"]):
        refused = run(*words, *more)
        assert refused.exit_code == 4
        assert f"of another {more[0][2:]}" in refused.output
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.tex").write_text("precious")
    refused = run("watch", "reference.npz", "camera", "--out", "mine")
    assert refused.exit_code == 4
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["letter.tex"]
    assert run(*words, "--alpha", "0.05", "--overwrite").exit_code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["watch", "nothing", "camera"], 3),
        (["watch", "reference.npz", "nothing"], 3),
        (["watch", "reference.npz", "camera", "--alpha", "0"], 3),
    ],
)
def test_bad_input_is_refused(run, corners, words, code):
    done = run(*words, "--out", "out")
    assert done.exit_code == code, done.output
    assert "please report" not in done.output


def test_a_stream_that_is_not_there_is_refused_before_any_work(run, tmp_path, corners):
    done = run("watch", "reference.npz", "cameraa", "--out", "out")
    assert done.exit_code == 3, done.output
    assert "cameraa" in done.output
    assert not (tmp_path / "out").exists()


def test_a_stream_in_folders_of_a_folder_is_refused_before_any_work(run, tmp_path, corners):
    corners(0, 3)
    (tmp_path / "camera").rename(tmp_path / "inner")
    (tmp_path / "camera").mkdir()
    (tmp_path / "inner").rename(tmp_path / "camera" / "monday")
    done = run("watch", "reference.npz", "camera", "--out", "out")
    assert done.exit_code == 3, done.output
    assert "1 folder" in done.output
    assert not (tmp_path / "out").exists()


def test_nothing_is_said_of_no_pictures(run, tmp_path, corners, quickly):
    done = run("watch", "reference.npz", "camera", "--out", "out")
    assert done.exit_code == 0, done.output
    assert "no pictures have come yet" in done.output
    assert "no change" not in done.output


@pytest.mark.parametrize("labels", [[0, 0, 1], [0, 1, 0]])
def test_a_stream_that_is_sorted_by_class_is_warned_of(run, tmp_path, corners, quickly, labels):
    with np.load(tmp_path / "reference.npz") as stored:
        images = stored["images"][:3]
    np.savez(tmp_path / "stream.npz", images=images, labels=labels)
    done = run("watch", "reference.npz", "stream.npz", "--out", "out")
    assert done.exit_code == 0, done.output
    assert ("sorted by class" in done.output) == (labels == [0, 0, 1])


def test_pictures_of_another_shape_are_refused_before_anything_is_learned(
    run, tmp_path, corners, monkeypatch
):
    monkeypatch.delattr("symmetries.monitoring.Watcher.fit")
    np.savez(tmp_path / "stream.npz", images=np.zeros((3, 8, 8), np.uint8))
    done = run("watch", "reference.npz", "stream.npz", "--out", "out")
    assert done.exit_code == 3, done.output
    assert "stream: expected pictures (1, 12, 12)" in done.output
    assert not (tmp_path / "out").exists()
