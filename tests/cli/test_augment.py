"""``symmetries augment`` and ``symmetries reproduce``."""

import json
import signal
import zipfile

import numpy as np
import pytest
import torch

from symmetries._utils.provenance import commit
from symmetries.actions import ImageAction
from symmetries.analysis.provenance import data_hash
from symmetries.data import load
from symmetries.learners.orbit_posterior import OrbitPosterior
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.results import AugmentResult


@pytest.fixture(params=["orbit", "two-stage"])
def model(request, tiny, tmp_path):
    """A model as discover writes it; an untrained one moves images, too."""
    if request.param == "orbit":
        learner = OrbitPosterior(ImageAction("rotation"), (1, 8, 8), "quick")
    else:
        learner = SymmetryModel("rotation", (1, 8, 8), tiny)
    learner.save(tmp_path / "found" / "model")
    return "found"


def test_copies_with_their_labels(run, tmp_path, model):
    result = run("augment", model, "digits", "--copies", 2, "--out", "more/digits.npz")
    assert result.exit_code == 0, result.output
    assert "2,874 images" in result.stdout
    digits = load("digits")
    more = load(tmp_path / "more" / "digits.npz")
    assert more.images.shape == (2 * len(digits), 1, 8, 8)
    assert more.labels[::2].tolist() == digits.labels.tolist()
    assert more.class_names == digits.class_names
    with np.load(tmp_path / "more" / "digits.npz") as stored:
        assert stored["source"][:4].tolist() == [0, 0, 1, 1]
    change = (more.images[::2] - more.images[1::2]).abs().mean()
    assert change > 0.001


def test_the_file_says_how_it_was_made(run, tmp_path, model):
    words = ["augment", model, "digits", "--copies", 2, "--seed", 3, "--out"]
    printed = json.loads(run(*words, "more.npz", "--json", "--quiet").stdout)
    found = AugmentResult.load(tmp_path / "more.npz")
    assert found.model_dump(mode="json") == printed
    assert (found.copies, found.preset, found.precision) == (2, "quick", "32-true")
    assert found.shape == np.load(tmp_path / "more.npz")["images"].shape
    assert found.data.sha256 == data_hash(load("digits"))
    assert (found.run.seed, found.run.threads) == (3, torch.get_num_threads())
    assert found.run.commit == commit()
    run(*words, "again.npz", "--quiet")
    weights = next((tmp_path / "found" / "model").glob("*.safetensors"))
    again = AugmentResult.load(tmp_path / "again.npz")
    assert again.model_sha256 == found.model_sha256
    meta = tmp_path / "found" / "model" / "model.json"
    before = weights.read_bytes()
    kind = OrbitPosterior if "orbit" in meta.read_text() else SymmetryModel
    other = kind.load(meta.parent)
    with torch.no_grad():
        next(other.parameters()).add_(1)
    other.save(meta.parent)
    assert next(meta.parent.glob("*.safetensors")).read_bytes() != before
    run(*words, "other.npz", "--quiet")
    assert AugmentResult.load(tmp_path / "other.npz").model_sha256 != found.model_sha256


def test_a_file_without_a_record_is_refused_by_name(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 8, 8)))
    with pytest.raises(ValueError, match=r"a\.npz: expected a member run\.json, got none"):
        AugmentResult.load(tmp_path / "a.npz")


def test_a_changed_record_is_refused(run, tmp_path, model):
    run("augment", model, "digits", "--out", "more.npz", "--quiet")
    text = zipfile.ZipFile(tmp_path / "more.npz").read("run.json")
    with zipfile.ZipFile(tmp_path / "forged.npz", "w") as archive:
        archive.writestr("run.json", text.replace(b'"copies": 1', b'"copies": 2'))
    with pytest.raises(ValueError, match="it was changed"):
        AugmentResult.load(tmp_path / "forged.npz")


def test_the_same_seed_gives_the_same_copies(run, tmp_path, model):
    for name in ("a.npz", "b.npz"):
        run("augment", model, "digits", "--out", name, "--quiet")
    first, second = (np.load(tmp_path / name)["images"] for name in ("a.npz", "b.npz"))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("model", ["orbit"], indirect=True)
def test_an_orbit_posterior_computes_in_single_precision_only(run, model):
    result = run("augment", model, "digits", "--out", "a.npz", "--precision", "64-true")
    assert result.exit_code == 3
    assert "precision: expected 32-true for an orbit posterior, got '64-true'" in result.stderr


def test_presets_refine_prototypes(run, tmp_path, tiny):
    model = SymmetryModel("rotation", (1, 8, 8), tiny)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # an untrained f finds no transformation
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    model.save(tmp_path / "turning" / "model")
    for preset in ("quick", "default"):
        run("augment", "turning", "digits", "--out", f"{preset}.npz", "--preset", preset, "--quiet")
    quick, default = (np.load(tmp_path / f"{name}.npz")["images"] for name in ("quick", "default"))
    assert quick.shape == default.shape
    assert (quick != default).any()


def test_files_are_not_lost(run, tmp_path, model):
    (tmp_path / "a.npz").write_text("precious")
    refused = run("augment", model, "digits", "--out", "a.npz")
    assert (refused.exit_code, "add --overwrite" in refused.stderr) == (4, True)
    assert (tmp_path / "a.npz").read_text() == "precious"
    assert run("augment", model, "digits", "--out", "a.npz", "--overwrite").exit_code == 0
    assert ".npz" in run("augment", model, "digits", "--out", "a.png").stderr
    assert run("augment", model, "digits", "--out", "a.npz/b.npz").exit_code == 4


def test_images_of_another_size_are_refused(run, model):
    result = run("augment", model, "sprites", "--out", "a.npz", "--quiet")
    assert (result.exit_code, "resize" in result.stderr) == (3, True)


def test_an_interrupt_says_how_to_go_on_and_leaves_no_file(run, tmp_path, model, monkeypatch):
    arguments = ["augment", model, "digits", "--copies", 2, "--quiet"]
    run(*arguments, "--out", "whole.npz")
    from symmetries.analysis import augmentation

    real, calls = augmentation.to_bytes, []

    def to_bytes(versions):
        calls.append(len(versions))
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)  # Ctrl-C
        return real(versions)

    monkeypatch.setattr(augmentation, "to_bytes", to_bytes)
    stopped = run(*arguments, "--out", "more/a.npz")
    assert stopped.exit_code == 130
    assert "interrupted; go on with: symmetries augment found digits --copies 2" in stopped.stderr
    assert "--out more/a.npz --preset quick --seed 0 --resume" in stopped.stderr
    assert [path.name for path in (tmp_path / "more").iterdir()] == ["a.npz.resume"]
    assert run(*arguments, "--out", "more/a.npz", "--resume").exit_code == 0
    assert len(calls) == 3 + 4  # 6 parts, of which two were done
    resumed, whole = np.load(tmp_path / "more" / "a.npz"), np.load(tmp_path / "whole.npz")
    for name in ("images", "labels", "source"):
        assert np.array_equal(resumed[name], whole[name])
    assert [path.name for path in (tmp_path / "more").iterdir()] == ["a.npz"]


def test_a_folder_that_cannot_be_written_is_refused_at_once(run, tmp_path, model, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)  # root may write anywhere
    result = run("augment", model, "digits", "--out", "a.npz", "--quiet")
    assert result.exit_code == 4
    assert "a.npz: Permission denied; choose an --out that you may write to" in result.stderr


def test_a_disk_that_fills_up_leaves_nothing_behind(run, tmp_path, model, monkeypatch):
    def full(folder, name, *arguments):
        (folder / name).parent.mkdir(exist_ok=True)
        raise OSError(28, f"{folder / name}.json: cannot write (No space left on device)")

    monkeypatch.setattr("symmetries.cli.parts.write_state", full)
    result = run("augment", model, "digits", "--out", "a.npz", "--quiet")
    assert result.exit_code == 4
    assert result.stderr.startswith("error: a.npz: No space left on device; choose an --out")
    assert [path.name for path in tmp_path.iterdir()] == ["found"]


def paper(tmp_path, options):
    folder = tmp_path / "papers" / "a-paper"
    folder.mkdir(parents=True)
    lines = ["import argparse, pathlib", "parser = argparse.ArgumentParser()"]
    lines += [f"parser.add_argument('{name}', {rest})" for name, rest in options.items()]
    lines += ["given = parser.parse_args()", "pathlib.Path('said.txt').write_text(str(given))"]
    lines += ["print('working')", "out = getattr(given, 'out', None)"]
    lines += ["if out: pathlib.Path(out, 'results.json').write_text('[1]')"]
    (folder / "run.py").write_text("\n".join(lines))


def test_reproduce_runs_the_paper(run, tmp_path):
    paper(tmp_path, {"--quick": "action='store_true'", "--table": "type=int", "--data": ""})
    result = run("reproduce", "a-paper", 2, "--checkout", ".", "--quick", "--folder", "here")
    assert result.exit_code == 0, result.output
    said = (tmp_path / "said.txt").read_text()
    assert "quick=True" in said
    assert "table=2" in said
    assert "data='here'" in said


def test_reproduce_names_the_papers_there_are(run, tmp_path):
    paper(tmp_path, {"--quick": "action='store_true'"})
    assert "one of a-paper" in run("reproduce", "nothing", "--checkout", ".").stderr
    for words in ([1], ["--seed", 3], ["--precision", "64-true"], ["--nodes", 2]):
        result = run("reproduce", "a-paper", "--checkout", ".", *words)
        assert result.exit_code == 3
        assert "the script of a-paper has no such option" in result.stderr


def test_reproduce_takes_what_all_commands_take(run, tmp_path):
    paper(tmp_path, {"--quick": "action='store_true'", "--first-seed": "type=int", "--out": ""})
    (tmp_path / "o").mkdir()
    given = ("--preset", "quick", "--seed", 3, "--out", "o", "--resume", "--json")
    result = run("reproduce", "a-paper", "--checkout", ".", *given)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == [1]
    said = (tmp_path / "said.txt").read_text()
    assert "quick=True" in said
    assert "first_seed=3" in said
    assert "expected a folder" in run("reproduce", "a-paper", "--checkout", ".", "--json").stderr
