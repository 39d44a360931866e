"""No file runs code unless the user says that it may."""

import importlib.machinery
import sys
import types
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "campaign"))

import hostile_files

from symmetries.nn.named_networks import named_network


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", images=rng.random((30, 8, 8)), labels=np.arange(30) % 3)
    return "a.npz"


@pytest.mark.parametrize("name", sorted(hostile_files.MODELS))
def test_a_model_file_runs_nothing(run, tmp_path, pictures, name):
    mark = tmp_path / "mark"
    hostile_files.MODELS[name](tmp_path / name, mark)
    result = run("audit", name, pictures, "--quiet")
    assert not mark.exists(), "code in the file was run"
    assert result.exit_code == 3, result.output
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["weight.pt2", "size.pt2"])
def test_the_hostile_programs_would_run_code_if_they_were_loaded(run, tmp_path, pictures, name):
    """Without this, the test above could pass because its files are no good."""
    mark = tmp_path / "mark"
    hostile_files.MODELS[name](tmp_path / name, mark)
    run("audit", name, pictures, "--quiet", "--trust")
    assert mark.exists()


def test_a_program_is_refused_with_what_to_use_instead(run, tmp_path, pictures):
    hostile_files.program(tmp_path / "net.pt2")
    refused = run("audit", "net.pt2", pictures, "--quiet")
    assert refused.exit_code == 3
    for word in ("--trust", "ONNX", "safetensors", "module:callable"):
        assert word in refused.stderr
    trusted = run("audit", "net.pt2", pictures, "--quiet", "--trust")
    assert trusted.exit_code == 0, trusted.output


def test_torchscript_is_not_sent_to_pt2(run, tmp_path, pictures):
    hostile_files.script(tmp_path / "net.pt")
    refused = run("audit", "net.pt", pictures, "--quiet")
    assert refused.exit_code == 3
    assert ".pt2" not in refused.stderr
    assert "ONNX" in refused.stderr


def test_objects_in_arrays_run_nothing(run, tmp_path):
    mark = tmp_path / "mark"
    hostile_files.object_array(tmp_path / "a.npz", mark)
    assert run("data", "describe", "a.npz").exit_code == 3
    assert not mark.exists()


MARKING = "from pathlib import Path\nPath({mark!r}).touch()\n"


@pytest.mark.parametrize("modules", [("torch",), ("random", "symmetries")], ids=" ".join)
def test_the_working_folder_gives_no_modules(spawn_fresh, tmp_path, pictures, modules):
    """Neither to the process that tries bfloat16 nor to those of a sweep."""
    mark = tmp_path / "mark"
    work = tmp_path / "work"
    work.mkdir()
    for module in modules:
        (work / f"{module}.py").write_text(MARKING.format(mark=f"{mark}-{module}"))
    start = "import sys; sys.path.pop(0); from symmetries.cli import app; app()"  # as installed
    if "torch" in modules:
        words = ["discover", "no-such-data", "--precision", "bf16-true"]
    else:
        (work / "a.toml").write_text(
            'learner = "relaxed"\ndata = "digits"\nmeasure = "accuracy"\nimages = 40\n'
            "[settings]\nsteps = 1\n[search]\nlr = [1e-3]\n"
        )
        words = ["sweep", "a.toml", "--processes", "2", "--quiet"]
    process = spawn_fresh(*words, code=start, cwd=work)
    said = process.communicate(timeout=240)[1]
    assert not list(tmp_path.glob("mark-*")), said


@pytest.mark.parametrize("name", ["hf-hub:some/model", "local-dir:/tmp", "../model"])
def test_the_name_of_a_network_fetches_nothing(monkeypatch, name):
    """It may be the name in a stored model, and timm takes addresses for names."""
    timm = types.ModuleType("timm")
    timm.__spec__ = importlib.machinery.ModuleSpec("timm", None)
    timm.create_model = lambda *given, **options: pytest.fail("timm was asked")
    monkeypatch.setitem(sys.modules, "timm", timm)
    with pytest.raises(ValueError, match="network: expected"):
        named_network(name, (1, 8, 8), 2)


def test_reproduce_runs_no_script_of_the_working_folder(run, tmp_path):
    mark = tmp_path / "mark"
    folder = tmp_path / "papers" / "a-paper"
    folder.mkdir(parents=True)
    (folder / "run.py").write_text(MARKING.format(mark=str(mark)))
    result = run("reproduce", "a-paper")
    assert result.exit_code == 3
    assert not mark.exists()


@pytest.mark.parametrize("settings", [b"text.usetex: True\n", b"\xff\xfe\n"])
def test_the_working_folder_gives_no_settings_of_figures(spawn_fresh, tmp_path, pictures, settings):
    """They could make matplotlib run LaTeX, or end the command."""
    (tmp_path / "matplotlibrc").write_bytes(settings)
    process = spawn_fresh("orbit", pictures, "--group", "rotation", "--quiet", "--out", "out")
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 0, said
    assert not said
