"""``symmetries discover --method two-stage``: what it writes, and how it stops and goes on."""

import json

import numpy as np
import pytest

from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.results import SymmetryResult


@pytest.fixture
def pictures(tmp_path):
    """A labelled file of a few small pictures with a bright background."""
    rng = np.random.default_rng(0)
    images = np.full((24, 10, 12), 255, np.uint8)
    images[:, 2:8, 3:9] = rng.integers(0, 200, (24, 6, 6))
    np.savez(tmp_path / "mine.npz", images=images, labels=np.arange(24) % 3)
    return "mine.npz"


def test_it_writes_the_numbers_the_page_and_the_model(run, tiny, tmp_path, pictures):
    result = run(
        "discover",
        "--method",
        "two-stage",
        pictures,
        "--group",
        "rotation,shift_x",
        "--out",
        "out",
        "--seed",
        3,
    )
    assert result.exit_code == 0, result.output
    assert "noise floor" in result.stdout
    assert "wrote out/model" in result.stdout
    numbers = SymmetryResult.load(tmp_path / "out" / "symmetries.json")
    assert numbers.group == "shift_x,rotation"
    assert [part.unit for part in numbers.transformations] == ["pixels", "degrees"]
    assert set(numbers.classes) == {"0", "1", "2"}
    assert numbers.run.seed == 3
    html = (tmp_path / "out" / "report.html").read_text()
    assert "Symmetries of mine" in html
    assert html.count('class="orbit"') == 2
    assert SymmetryModel.load(tmp_path / "out" / "model").act.fill == 1.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.npz", "out"]


def test_histograms_integrate_to_one_at_most(run, tiny, pictures):
    result = run(
        "discover",
        "--method",
        "two-stage",
        pictures,
        "--group",
        "zoom,shift_x",
        "--quiet",
        "--json",
    )
    for part in json.loads(result.stdout)["transformations"]:
        edges = np.array(part["histogram"]["edges"])
        edges = np.log(edges) if part["unit"] == "factor" else edges
        total = np.dot(part["histogram"]["density"], np.diff(edges))
        assert 0.5 < total < 1.05


def test_finite_groups_colours_and_no_labels(run, tiny, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "rgb.npy", rng.integers(0, 255, (9, 8, 8, 3), dtype=np.uint8))
    found = json.loads(
        run(
            "discover", "--method", "two-stage", "rgb.npy", "--group", "c4", "--quiet", "--json"
        ).stdout
    )
    part = found["transformations"][0]
    assert part["unit"] == "elements"
    assert sum(part["histogram"]["density"]) == pytest.approx(1, abs=1e-3)
    assert found["classes"] == {}
    again = run(
        "discover",
        "--method",
        "two-stage",
        "rgb.npy",
        "--group",
        "rotation,hue",
        "--out",
        "o",
        "--quiet",
        "--json",
    )
    names = [part["name"] for part in json.loads(again.stdout)["transformations"]]
    assert names == ["rotation", "hue"]


def test_an_interrupted_run_says_how_to_go_on(run, tiny, tmp_path, monkeypatch, pictures):
    from symmetries.learners.symmetry_model import fitting

    whole = run(
        "discover",
        "--method",
        "two-stage",
        pictures,
        "--group",
        "rotation",
        "--out",
        "whole",
        "--quiet",
        "--json",
    )
    real = fitting._fit_generative

    def interrupt(model, data, run):
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "_fit_generative", interrupt)
    arguments = [
        "discover",
        "--method",
        "two-stage",
        pictures,
        "--group",
        "rotation",
        "--out",
        "out",
        "--quiet",
    ]
    stopped = run(*arguments)
    assert stopped.exit_code == 130
    words = "mine.npz --group rotation --method two-stage --out out --preset quick --seed 0"
    command = f"symmetries discover {words}"
    assert f"go on with: {command} --resume" in stopped.stderr
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(fitting, "_fit_generative", real)
    resumed = run(*arguments, "--json", "--resume")
    assert resumed.exit_code == 0
    assert not (tmp_path / "out.resume").exists()
    same = [json.loads(found.stdout)["transformations"] for found in (whole, resumed)]
    assert same[0] == same[1]


def test_a_run_does_not_go_on_with_others(run, tiny, tmp_path, monkeypatch, pictures):
    from symmetries.learners.symmetry_model import fitting

    def interrupt(model, data, run):
        raise KeyboardInterrupt

    arguments = [
        "discover",
        "--method",
        "two-stage",
        pictures,
        "--group",
        "rotation",
        "--out",
        "out",
    ]
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "_fit_generative", interrupt)
        assert run(*arguments).exit_code == 130
    other = run(*arguments, "--resume", "--seed", "3")
    assert other.exit_code == 3
    assert "seed: expected 0 as in the checkpoint of out.resume" in other.stderr
    assert "got 3; resume with that seed" in other.stderr
    grey = run(*arguments, "--resume", "--fill", "0.3")
    assert "fill: expected 1.0 as in the checkpoint of out.resume" in grey.stderr
    assert (
        run("discover", "--method", "two-stage", "nothing.npz", "--out", "out").exit_code != 0
    )  # a slip of the pen
    arrays = dict(np.load(pictures))
    np.savez(pictures, **arrays | {"images": arrays["images"][:, ::-1]})
    changed = run(*arguments, "--resume")
    assert changed.exit_code == 3
    assert "data: expected the data of the checkpoint of out.resume" in changed.stderr
    assert (tmp_path / "out.resume").is_dir()  # a mistake does not cost what was learned
    np.savez(pictures, **arrays)
    resumed = run(*arguments, "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert "nothing to resume" not in resumed.output
    assert not (tmp_path / "out.resume").exists()


def test_nothing_to_resume_is_said(run, tiny, pictures):
    arguments = [
        "discover",
        "--method",
        "two-stage",
        pictures,
        "--group",
        "rotation",
        "--overwrite",
        "--resume",
    ]
    said = run(*arguments, "--out", "out")
    assert said.exit_code == 0, said.output
    assert "nothing to resume in out.resume: starting anew" in said.stderr
    assert "inference ━" in said.stderr
    assert "generative ━" in said.stderr
    assert "nothing to resume" not in run(*arguments, "--out", "out", "--quiet").output
    assert "nothing to resume" not in run(*arguments, "--out", "out", "--json").output


def test_a_failed_run_leaves_nothing_behind(run, tiny, tmp_path, monkeypatch):
    from symmetries.learners.symmetry_model import fitting
    from symmetries.training import NonFiniteError

    def fail(model, data, run):
        raise NonFiniteError("the loss is NaN")

    monkeypatch.setattr(fitting, "_fit_generative", fail)
    result = run(
        "discover",
        "--method",
        "two-stage",
        "digits",
        "--group",
        "rotation",
        "--out",
        "out",
        "--quiet",
    )
    assert (result.exit_code, "NaN" in result.stderr) == (5, True)
    assert list(tmp_path.iterdir()) == []
