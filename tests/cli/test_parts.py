"""Work in parts: resumed where it was interrupted, and shared by several processes."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from symmetries.analysis import audits, augmentation
from symmetries.analysis.preprocessing import InPrecision
from symmetries.auditing import audit_model
from symmetries.cli.parts import Parts
from symmetries.cli.resuming import RANKS, is_helper
from symmetries.groups import Affine2

MODEL = """
import torch

weight = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))


def net(x):
    return (x.flatten(1) @ weight.to(x)).tanh()
"""


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", images=rng.random((60, 8, 8)), labels=np.arange(60) % 3)
    (tmp_path / "parts_model.py").write_text(MODEL)
    return "a.npz"


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(audits, "PART", 5)
    monkeypatch.setattr(augmentation, "AT_ONCE", 20)


def stopping_at_the_third(done):
    """A part that is interrupted where two are done."""
    real = Parts._one

    def stop(self, part, first, last):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(first)
        return real(self, part, first, last)

    return stop


def in_fives(part, count):
    found = [part(start, min(start + 5, count)) for start in range(0, count, 5)]
    return {name: torch.cat([values[name] for values in found]) for name in found[0]}


def test_an_audit_in_parts_is_the_same_audit():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(12, 1, 6, 6, generator=generator), torch.arange(12) % 3
    weight = torch.randn(36, 3, generator=generator)

    def model(images):
        return images.flatten(1) @ weight

    whole, parts = (
        audit_model(model, (x, y), Affine2("rotation"), samples=2, progress=False, **options)
        for options in ({}, {"over": in_fives})
    )
    for name in ("accuracy_moved", "logit_invariance", "saliency_similarity", "sensitivity"):
        found, expected = (getattr(result, name).mean for result in (parts, whole))
        assert found == pytest.approx(expected, rel=1e-4)  # products of other sizes round otherwise


def without_run(text):
    found = json.loads(text)
    return {key: value for key, value in found.items() if key not in ("seconds", "run")}


def test_an_interrupted_audit_goes_on(run, tmp_path, monkeypatch, pictures, small_parts):
    arguments = ["audit", "parts_model:net", pictures, "--group", "rotation", "--quiet", "--json"]
    arguments += ["--examples", 12]
    whole = run(*arguments, "--out", "whole")
    assert whole.exit_code == 0, whole.output
    real, done = Parts._one, []
    monkeypatch.setattr(Parts, "_one", stopping_at_the_third(done))
    stopped = run(*arguments, "--out", "out")
    assert stopped.exit_code == 130
    assert "--out out --preset quick --seed 0 --resume" in stopped.stderr
    assert not (tmp_path / "out").exists()
    measured = []

    def count(self, part, start, stop):
        return real(self, lambda a, b: measured.append(a) or part(a, b), start, stop)

    monkeypatch.setattr(Parts, "_one", count)
    resumed = run(*arguments, "--out", "out", "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert done == [0, 5]
    assert measured == [10]
    assert without_run(resumed.stdout) == without_run(whole.stdout)
    assert not (tmp_path / "out.resume").exists()


def test_parts_of_another_run_are_not_used(run, tmp_path, pictures, small_parts):
    folder = tmp_path / "out.resume"
    arguments = ["audit", "parts_model:net", pictures, "--quiet", "--json", "--out", "out"]
    first = run(*arguments)
    folder.mkdir()
    from symmetries.training.checkpoint import write_state

    write_state(folder, "part-0-5", {"accuracy": torch.zeros(5)}, {"command": "another"})
    again = run(*arguments, "--resume", "--overwrite")
    assert without_run(again.stdout) == without_run(first.stdout)


def test_parts_of_other_data_are_made_anew(run, tmp_path, pictures, small_parts, monkeypatch):
    arguments = ["audit", "parts_model:net", pictures, "--quiet", "--json"]
    with monkeypatch.context() as patch:
        patch.setattr(Parts, "_one", stopping_at_the_third([]))
        assert run(*arguments, "--out", "out").exit_code == 130
    arrays = dict(np.load(tmp_path / pictures))
    np.savez(tmp_path / pictures, **arrays | {"images": arrays["images"][:, ::-1]})
    whole = run(*arguments, "--out", "whole")
    resumed = run(*arguments, "--out", "out", "--resume")
    assert without_run(resumed.stdout) == without_run(whole.stdout)


@pytest.mark.parametrize("precision", ["64-true", "bf16-mixed"])
def test_a_model_in_another_precision(precision):
    layer = torch.nn.Linear(4, 3)
    x = torch.rand(5, 4)
    expected = layer(x)
    if precision == "64-true":
        found = InPrecision(layer, precision)(x)
        assert layer.weight.dtype == torch.float64
        torch.testing.assert_close(found, expected)
        return
    with torch.backends.mkldnn.flags(enabled=False):  # some processors only claim to have bfloat16
        found = InPrecision(layer, precision)(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=0.05, rtol=0.05)


def test_a_precision_that_the_processor_lacks_is_one_line(run, monkeypatch, pictures):
    monkeypatch.setattr("symmetries.cli.runs.BF16_PROBE", "import os; os.abort()")
    result = run("audit", "parts_model:net", pictures, "--precision", "bf16-true", "--quiet")
    assert (result.exit_code, "use 32-true" in result.stderr) == (3, True)
    assert "precision: expected one of" in run("discover", "digits", "--precision", "7").stderr


def test_two_processes_find_what_one_finds(run, tmp_path, pictures):
    """The two in processes of their own: Fabric starts the second from the command line."""
    (tmp_path / "main.py").write_text("from symmetries.cli import app; app()")
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "b.npz", images=rng.random((300, 8, 8)), labels=np.arange(300) % 3)
    assert audits.PART < 60  # of the fifth that is held out: two parts, one for each
    arguments = ["audit", "parts_model:net", "b.npz", "--group", "c4", "--device", "cpu"]
    arguments += ["--quiet", "--json", "--out"]
    one = without_run(run(*arguments, "one").stdout)
    done = subprocess.run(
        [sys.executable, "main.py", *arguments, "two", "--devices", "2"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert without_run(done.stdout) == one
    assert not list(tmp_path.glob("*.resume"))


@pytest.mark.parametrize("name", ["LOCAL_RANK", "RANK", "SLURM_PROCID"])
def test_the_first_process_alone_writes(name, monkeypatch):
    for other in RANKS:
        monkeypatch.delenv(other, raising=False)
    assert not is_helper(2)
    monkeypatch.setenv(name, "0")
    assert not is_helper(2)
    monkeypatch.setenv(name, "1")
    assert is_helper(2)
    assert not is_helper(1)  # srun starts runs of one process side by side, too
