"""Streams, folders and states of ``symmetries watch`` that are not what they should be."""

import hashlib
import json
import os
import shutil
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from symmetries.cli import app
from symmetries.monitoring import Watcher
from symmetries.results import WatchResult

WORDS = ("watch", "reference.npz", "camera", "--out", "out")


@pytest.fixture
def camera(tmp_path, monkeypatch):
    """A reference of noise, an empty folder, and a function that adds a picture to it."""
    monkeypatch.setattr("symmetries.monitoring.readers.STEPS", 2)
    monkeypatch.setattr("symmetries.monitoring.naming.GRID", 3)
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (200, 8, 8)).astype(np.uint8)
    np.savez(tmp_path / "reference.npz", images=noise[:120])
    np.savez(tmp_path / "stream.npz", images=noise[120:160])
    (tmp_path / "camera").mkdir()

    def add(name, number=0, at=None):
        path = tmp_path / "camera" / name
        Image.fromarray(noise[120 + number]).save(path, format="PNG")
        os.utime(path, ns=(at or number, at or number))
        return path

    return add


def pictures(tmp_path):
    return WatchResult.load(tmp_path / "out" / "watch.json").pictures


def test_a_file_that_comes_late_is_read_and_none_twice(run, tmp_path, camera):
    """It has an earlier time than those that were read: copied from a camera that was away."""
    for number in range(5):
        camera(f"{number}.png", number, at=1000 + number)
    assert run(*WORDS).exit_code == 0
    camera("late.png", 7, at=500)
    assert run(*WORDS).exit_code == 0
    assert pictures(tmp_path) == 6
    assert run(*WORDS).exit_code == 0
    assert pictures(tmp_path) == 6


def test_a_picture_that_cannot_be_read_is_named_or_left_out(run, tmp_path, camera):
    camera("good.png", 1)
    (tmp_path / "camera" / "bad\x1b[31m.png").write_bytes(b"no picture")
    refused = run(*WORDS)
    assert refused.exit_code == 3
    assert r"bad\x1b[31m.png" in refused.output
    assert "\x1b[31m" not in refused.output
    done = run(*WORDS, "--skip-bad")
    assert done.exit_code == 0, done.output
    assert "left out" in done.output
    assert pictures(tmp_path) == 1


@pytest.mark.parametrize("name", [b"\xe9t\xe9.png", b"\x1b[31m.png", b" space .png"])
def test_names_of_any_bytes(run, tmp_path, camera, monkeypatch, name):
    camera(os.fsdecode(name), 1)
    assert run(*WORDS).exit_code == 0
    assert run(*WORDS).exit_code == 0
    assert pictures(tmp_path) == 1
    monkeypatch.chdir(tmp_path)
    words = ["watch", "reference.npz", "-", "--out", "named"]
    done = CliRunner().invoke(app, words, input=b"camera/" + name + b"\n")
    assert done.exit_code == 0, done.output
    assert WatchResult.load(tmp_path / "named" / "watch.json").pictures == 1


def test_a_stream_named_in_latin_1(run, tmp_path, camera):
    camera("0.png")
    os.rename(tmp_path / "camera", os.fsencode(tmp_path) + b"/\xe9t\xe9")
    words = ("watch", "reference.npz", os.fsdecode(b"\xe9t\xe9"), "--out", "out")
    for _ in range(2):
        done = run(*words)
        assert done.exit_code == 0, done.output
    assert pictures(tmp_path) == 1


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "nothing"])
def test_names_of_things_that_are_no_files(tmp_path, camera, monkeypatch, kind):
    """A pipe would be waited for without an end."""
    thing = tmp_path / "thing.png"
    if kind == "pipe":
        os.mkfifo(thing)
    elif kind == "device":
        thing.symlink_to("/dev/zero")
    elif kind == "folder":
        thing.mkdir()
    monkeypatch.chdir(tmp_path)
    signal.alarm(60)
    done = CliRunner().invoke(app, [*WORDS[:2], "-", *WORDS[3:]], input=b"thing.png\n")
    signal.alarm(0)
    assert done.exit_code == 3, done.output
    assert "thing.png: expected a file" in done.output


def test_another_size_names_the_file(run, tmp_path, camera):
    Image.new("L", (9, 8)).save(tmp_path / "camera" / "wide.png")
    refused = run(*WORDS)
    assert refused.exit_code == 3
    assert "wide.png: expected a picture of 8 x 8 pixels" in refused.output


@pytest.mark.parametrize("change", ["exchanged", "shorter"])
def test_stored_data_must_be_those_that_were_read(run, tmp_path, camera, change):
    words = ("watch", "reference.npz", "stream.npz", "--out", "out")
    assert run(*words).exit_code == 0
    images = np.load(tmp_path / "stream.npz")["images"]
    more = images[::-1] if change == "exchanged" else images[:20]
    np.savez(tmp_path / "stream.npz", images=np.concatenate([more, images[:5]]))
    refused = run(*words)
    assert refused.exit_code == 3
    assert "the 40 pictures that were read before" in refused.output
    np.savez(tmp_path / "stream.npz", images=np.concatenate([images, images[:5]]))
    assert run(*words).exit_code == 0
    assert pictures(tmp_path) == 45


def test_other_settings_do_not_go_on(run, tmp_path, camera):
    camera("0.png")
    assert run(*WORDS).exit_code == 0
    refused = run(*WORDS, "--fill", "0.5")
    assert refused.exit_code == 4
    assert "of another fill" in refused.output


def test_the_number_of_threads_is_kept(run, tmp_path, camera, monkeypatch):
    camera("0.png")
    assert run(*WORDS).exit_code == 0
    before = Watcher.load(tmp_path / "out" / "state").position["threads"]
    asked = []
    monkeypatch.setattr("symmetries.cli.runs.keep_threads", asked.append)
    assert run(*WORDS).exit_code == 0
    assert asked == [before]


def within(meta, **values):
    return {**meta, "test": {**meta["test"], **values}}


def counts(meta):
    return meta["test"]["counts"]


FORGED = {
    "shape of text": lambda meta: {**meta, "shape": "wide"},
    "many channels": lambda meta: {**meta, "shape": [10**12, 8, 8]},
    "no test": lambda meta: {**meta, "test": None},
    "counts of text": lambda meta: within(meta, counts="many"),
    "negative counts": lambda meta: within(
        meta, counts=(-np.array(meta["test"]["counts"])).tolist()
    ),
    "fewer counts": lambda meta: within(meta, counts=counts(meta)[:1]),
    "no peak": lambda meta: within(meta, peak=[]),
    "infinite number": lambda meta: within(meta, number=10**400),
    "alpha of text": lambda meta: within(meta, alpha="low"),
    "an alarm of nothing": lambda meta: within(meta, number=0, peak=[99.0] * 6),
    "more pictures": lambda meta: within(meta, number=7),
    "no pictures held out": lambda meta: {**meta, "held_out": 0},
    "position a list": lambda meta: {**meta, "position": [1]},
    "files of text": lambda meta: {**meta, "position": {**meta["position"], "after": "all"}},
    "files of numbers": lambda meta: {**meta, "position": {**meta["position"], "after": [[1, 2]]}},
    "threads of text": lambda meta: {**meta, "position": {**meta["position"], "threads": "all"}},
}


@pytest.fixture
def watched(run, tmp_path, camera, tmp_path_factory):
    """An output after three pictures; the first test makes it, the others copy it."""
    for number in range(3):
        camera(f"{number}.png", number, at=number + 1)
    if not hasattr(watched_before, "folder"):
        assert run(*WORDS).exit_code == 0
        watched_before.folder = tmp_path_factory.mktemp("watched")
        shutil.copytree(tmp_path / "out", watched_before.folder / "out")
    else:
        shutil.copytree(watched_before.folder / "out", tmp_path / "out")
    return camera


watched_before = SimpleNamespace()


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_state_is_refused_in_our_words(run, tmp_path, watched, name):
    path = tmp_path / "out" / "state" / "watch.json"
    header = json.loads(path.read_text())
    header.pop("sha256")
    header["meta"] = FORGED[name](header["meta"])
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**header, "sha256": digest}, indent=1, sort_keys=True) + "\n")
    watched("more.png", 5, at=99)
    done = run(*WORDS)
    assert done.exit_code in ((0,) if name == "threads of text" else (3, 4)), done.output
    assert "please report" not in done.output


def test_a_cut_state_is_refused(run, tmp_path, watched):
    for path in (tmp_path / "out" / "state").iterdir():
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        done = run(*WORDS)
        assert done.exit_code == 3, done.output
        assert "please report" not in done.output
        path.write_bytes(content)
