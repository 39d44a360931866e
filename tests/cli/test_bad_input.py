"""Bad input: one line that names it and the remedy, and nothing half-written."""

import os

import numpy as np
import pytest
from PIL import Image

from symmetries.cli.inputs import Source
from symmetries.cli.options import Reading


def picture(path, size=(12, 10), value=200):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros(size[::-1], np.uint8)
    pixels[3:7, 4:8] = value
    Image.fromarray(pixels).save(path)


@pytest.fixture
def refused(run, tmp_path):
    """Run a command that must fail; the one line that it says."""

    def check(*arguments, code=3):
        before = sorted(tmp_path.rglob("*"))
        result = run(*arguments, "--quiet")
        assert result.exit_code == code, result.output
        assert len(result.stderr.splitlines()) == 1
        assert result.stderr.startswith("error: ")
        assert sorted(tmp_path.rglob("*")) == before
        return result.stderr

    return check


def test_a_folder_without_pictures(refused, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "is this the right folder?" in refused("discover", "empty")


def test_pictures_of_mixed_sizes(refused, run, tmp_path):
    picture(tmp_path / "mixed" / "a.png")
    picture(tmp_path / "mixed" / "b.png", size=(14, 10))
    line = refused("orbit", "mixed")
    assert "b.png" in line
    assert "--resize" in line
    assert run("orbit", "mixed", "--resize", "12x10", "--group", "shift_x").exit_code == 0


def test_a_corrupt_picture(refused, run, tmp_path):
    for name in "abc":
        picture(tmp_path / "folder" / f"{name}.png", value=100 + ord(name))
    (tmp_path / "folder" / "b.png").write_bytes(b"not a picture")
    line = refused("orbit", "folder")
    assert "b.png" in line
    assert "--skip-bad" in line
    result = run("orbit", "folder", "--skip-bad", "--group", "shift_x")
    assert result.exit_code == 0
    assert "warning: left out 1 unreadable: b.png" in result.stderr


def test_labels_follow_their_pictures_when_one_is_left_out(tmp_path):
    for name in ("x/a.png", "x/b.png", "y/c.png", "y/d.png"):
        picture(tmp_path / "classes" / name)
    (tmp_path / "classes" / "x" / "b.png").write_bytes(b"")
    with pytest.warns(RuntimeWarning, match=r"b\.png"):
        found = Source(str(tmp_path / "classes"), Reading(skip_bad=True)).load()
    assert found.labels.tolist() == [0, 1, 1]
    assert found.class_names == ("x", "y")


def test_labels_that_do_not_match(refused, tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((5, 8, 8)), labels=np.arange(4))
    assert "one label per image" in refused("fit", "a.npz")


def test_arrays_of_objects(refused, tmp_path):
    np.savez(tmp_path / "a.npz", images=np.array([{}, {}], dtype=object))
    assert "pickle" in refused("discover", "a.npz")
    labels = np.array(["a", None], dtype=object)
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 8, 8)), labels=labels)
    assert "objects in labels" in refused("fit", "a.npz")


@pytest.mark.parametrize("command", [["discover"], ["fit"], ["orbit"], ["audit", "m:n"]])
def test_an_existing_output_folder(refused, tmp_path, command):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "thesis.tex").write_text("precious")
    assert "add --overwrite" in refused(*command, "digits", "--out", "there", code=4)


def test_no_permission_to_write(refused, tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr("symmetries.training.files.os.open", refuse)  # root may write anywhere
    assert "that you may write to" in refused("orbit", "digits", "--out", "out/x", code=4)


def test_nothing_is_left_when_the_disk_is_full(run, tmp_path, monkeypatch):
    def full(self, *arguments, **options):
        raise OSError(28, os.strerror(28), str(self))

    monkeypatch.setattr("pathlib.Path.write_text", full)
    result = run("orbit", "digits", "--group", "shift_x", "--out", "full", "--quiet")
    assert (result.exit_code, "No space left" in result.stderr) == (4, True)
    assert list(tmp_path.iterdir()) == []


def test_a_data_set_that_must_be_fetched(refused):
    assert "symmetries data fetch mnist" in refused("discover", "mnist", "--folder", ".")
