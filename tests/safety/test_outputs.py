"""Outputs stand or fall as a whole, and nobody loses what another has done."""

import itertools
import json
import os
import signal
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import symmetries.sweeps
from symmetries.cli import app, output, replacing

# A training of seconds, slow enough to be met while it runs; --out and the rest as given.
TINY = """
import sys, time
from symmetries._utils.config import presets_of
from symmetries.cli import app
from symmetries.learners.orbit_posterior import OrbitConfig, fitting
fitting.LOOKED_AT = 64
presets_of(OrbitConfig)["quick"] = OrbitConfig.preset("quick").replace(
    bins=12, folds=2, training={"steps": STEPS, "batch_size": 16, "rounds": 1},
    network={"kind": "mlp", "features": 16}, reading={"pictures": 64, "resamples": 8},
)
app()
"""
DISCOVER = ["discover", "a.npz", "--group", "rotation", "--quiet", "--out", "out"]


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", images=rng.random((80, 8, 8)), labels=np.arange(80) % 2)


def wait_for(condition, process, seconds=120):
    limit = time.time() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.time() < limit
        time.sleep(0.02)


def test_a_refused_second_run_leaves_the_first_alone(spawn, tmp_path, pictures):
    first = spawn(*DISCOVER, code=TINY.replace("STEPS", "150"))
    wait_for(lambda: list(tmp_path.glob("out.resume/**/metrics.csv")), first)
    os.kill(first.pid, signal.SIGSTOP)
    second = spawn(*DISCOVER, code=TINY.replace("STEPS", "150"))
    said = second.communicate(timeout=120)[1]
    assert second.returncode == 4, said
    assert f"process {first.pid}" in said
    assert list(tmp_path.glob("out.resume/**/metrics.csv")), "what the first has written is gone"
    os.kill(first.pid, signal.SIGCONT)
    said = first.communicate(timeout=240)[1]
    assert first.returncode == 0, said
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "model",
        "report.html",
        "symmetries.json",
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npz", "out"]


def test_two_orbits_into_one_new_folder(spawn, tmp_path, pictures):
    """The second begins while the first draws, and ends after it."""
    slow = """
import time
import symmetries.report as report
from symmetries.cli import app
real = report.render
def render(page):
    import pathlib
    pathlib.Path("drawing").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    return real(page)
report.render = render
app()
"""
    words = ["orbit", "a.npz", "--group", "rotation", "--quiet", "--out", "out"]
    first = spawn(*words, code=slow)
    wait_for((tmp_path / "drawing").exists, first)
    second = spawn(*words, "--seed", 1)
    limit = time.time() + 120
    while second.poll() is None and time.time() < limit:
        time.sleep(0.05)
    (tmp_path / "go").touch()
    codes = sorted(process.wait(timeout=120) for process in (first, second))
    assert codes == [0, 4], (first.communicate(), second.communicate())


CHANGES = ("rename", "replace", "link", "unlink", "rmdir", "mkdir")


def written(out, text, place=0):
    """Write an output in a process that is killed just before its change number ``place``."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    count = itertools.count(1)

    def watched(real):
        def call(*arguments, **options):
            if next(count) == place:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    for name in CHANGES:
        setattr(os, name, watched(getattr(os, name)))
    code = 1
    try:
        guard = getattr(output, "owned", nullcontext)  # a lock, since there is one
        with guard(out), output.output_folder(out, True) as partial:
            (partial / "numbers.json").write_text(text)
            (partial / "model").mkdir()
            (partial / "model" / "weights").write_text(text)
        code = 0
    finally:
        os._exit(code)


def state(out):
    numbers = (out / "numbers.json").read_text()
    weights = (out / "model" / "weights").read_text()
    return {numbers, weights}


def test_a_kill_at_any_rename_leaves_the_old_or_the_new(tmp_path):
    out = tmp_path / "out"
    assert written(out, "old") == 0
    (out / "thesis.tex").write_text("precious")
    killed, text = 0, "old"
    for place in range(1, 60):
        before, text = text, f"run {place}"
        code = written(out, text, place)
        assert out.is_dir(), f"nothing is there after a kill at operation {place}"
        found = state(out)
        assert len(found) == 1, f"a mixture after a kill at operation {place}: {found}"
        assert found <= {before, text}
        assert (out / "thesis.tex").read_text() == "precious"
        text = found.pop()
        if code == 0:
            break
        killed += 1
    assert killed >= 5
    assert code == 0
    assert [p.name for p in tmp_path.iterdir()] == ["out"], "leftovers of killed runs"


def swept(folder, trials, place=0):
    """Sweep in a process that is killed just before its result's change number ``place``."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    count = itertools.count(1)

    def watched(real):
        def call(*arguments, **options):
            if next(count) == place:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    done = SimpleNamespace(
        state=SimpleNamespace(name="COMPLETE"), value=0.5, params={}, user_attrs={}, duration=None
    )

    def join(settings, out, **options):  # a study without its runs
        out.mkdir(exist_ok=True)
        named = [SimpleNamespace(number=n, **vars(done)) for n in range(trials)]
        return SimpleNamespace(trials=named)

    symmetries.sweeps.join = join
    for name in CHANGES:
        setattr(os, name, watched(getattr(os, name)))
    replacing.exchange = watched(replacing.exchange)
    code = 1
    try:
        words = ["sweep", str(folder / "a.toml"), "--out", str(folder / "out"), "--device", "cpu"]
        code = CliRunner().invoke(app, words).exit_code
    finally:
        os._exit(code)


def test_a_killed_sweep_leaves_numbers_and_page_of_one_state(tmp_path):
    """It replaced sweep.json first and report.html later."""
    (tmp_path / "a.toml").write_text(
        'learner = "relaxed"\ndata = "digits"\nmeasure = "accuracy"\n[search]\nlr = [1e-3]\n'
    )
    assert swept(tmp_path, 1) == 0
    for place in range(1, 30):
        code = swept(tmp_path, 1 + place, place)
        shown = [p for p in (tmp_path / "out").rglob("*") if "/." not in str(p)]
        (numbers,) = [p for p in shown if p.name == "sweep.json"]
        (page,) = [p for p in shown if p.name == "report.html"]
        count = len(json.loads(numbers.read_text())["trials"])
        assert f"{count} runs were completed" in page.read_text(), f"mixed at operation {place}"
        if code == 0:
            break
    assert code == 0
    assert place > 5
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.startswith(".")]


def latin(tmp_path):
    """A folder of pictures with a class whose name is no UTF-8."""
    rng = np.random.default_rng(0)
    for name in (b"caf\xe9", b"tea"):
        folder = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path / "pictures"), name)))
        folder.mkdir(parents=True)
        for i in range(12):
            Image.fromarray(rng.integers(0, 255, (8, 8), np.uint8)).save(folder / f"{i}.png")
    return "pictures"


@pytest.mark.parametrize("command", ["discover", "fit", "orbit"])
def test_a_name_in_latin_1_costs_nothing(spawn, tmp_path, command):
    latin(tmp_path)
    words = [command, "pictures", "--group", "rotation", "--quiet", "--out", "out"]
    code = TINY.replace("STEPS", "4").replace(
        "app()",
        "from symmetries.analysis import classifiers\n"
        "size = {'features': 24, 'steps': 4, 'batch_size': 16}\n"
        "classifiers.INVARIANT_PRESETS['quick'] = size\napp()",
    )
    process = spawn(*words, code=code)
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 0, said
    (result,) = (tmp_path / "out").glob("*.json")
    assert json.loads(result.read_text())["data"]["classes"] == ["caf\\xe9", "tea"]


def test_work_is_kept_when_the_end_fails(spawn, tmp_path, pictures):
    failing = TINY.replace("STEPS", "6").replace(
        "app()",
        "import symmetries.report\n"
        "def render(page):\n    raise ValueError('the page cannot be drawn')\n"
        "symmetries.report.render = render\napp()",
    )
    process = spawn(*DISCOVER, code=failing)
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 3, said
    assert list(tmp_path.glob("out.resume/**/checkpoint.json")), "the training is gone"
    assert "--resume" in said
    process = spawn(*DISCOVER, "--resume", code=TINY.replace("STEPS", "6"))
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 0, said
    assert not (tmp_path / "out.resume").exists()


@pytest.mark.parametrize("command", ["orbit", "discover"])
def test_files_of_others_beside_the_output_stay(run, tmp_path, pictures, command):
    """A run removed the folder OUT.resume at its end, whatever was in it."""
    (tmp_path / "out.resume" / "jobs").mkdir(parents=True)
    letter = tmp_path / "out.resume" / "jobs" / "letter.tex"
    letter.write_text("precious")
    refused = run(command, "a.npz", "--group", "rotation", "--quiet", "--out", "out")
    assert letter.read_text() == "precious"
    assert refused.exit_code == 4
    assert "letter.tex" in refused.output
    letter.unlink()
    done = run("orbit", "a.npz", "--group", "rotation", "--quiet", "--out", "out")
    assert done.exit_code == 0, done.output


def test_checkpoints_go_in_one_step(run, spawn, tmp_path, pictures):
    """A kill while they were removed left a part without its tensors, which no run could resume."""
    (tmp_path / "plain.py").write_text("def net(x):\n    return x.flatten(1)[:, :3]\n")
    words = ["audit", "plain:net", "a.npz", "--group", "c4", "--examples", "4", "--quiet"]
    killed = """
import os, signal
from symmetries.cli import app
real = os.unlink
def unlink(path, *arguments, **options):
    if str(path).endswith(".json") and "part" in str(path):
        for name in os.listdir(options["dir_fd"]):  # folders have no order
            if name.endswith(".safetensors"):
                real(name, **options)
        os.kill(os.getpid(), signal.SIGKILL)
    return real(path, *arguments, **options)
os.unlink = unlink
app()
"""
    process = spawn(*words, "--out", "out", code=killed)
    said = process.communicate(timeout=240)[1]
    assert process.returncode == -signal.SIGKILL, said
    again = run(*words, "--out", "out", "--resume", "--overwrite")
    assert again.exit_code == 0, again.output
    assert sorted(p.name for p in tmp_path.iterdir() if "__" not in p.name) == [
        "a.npz",
        "out",
        "plain.py",
    ]
