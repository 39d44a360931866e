"""``symmetries discover``: what it writes, and how it stops and goes on."""

import json

import numpy as np
import pytest

from symmetries.cli.discover import table
from symmetries.cli.options import parse_size
from symmetries.data import background
from symmetries.learners.orbit_posterior import OrbitPosterior, fitting
from symmetries.results import PoseSubgroup, SelfTest, SymmetryResult

COUNT = 96


@pytest.fixture
def pictures(tmp_path):
    """A labelled file of small pictures with a bright background."""
    rng = np.random.default_rng(0)
    images = np.full((COUNT, 10, 12), 255, np.uint8)
    images[:, 2:8, 3:9] = rng.integers(0, 200, (COUNT, 6, 6))
    np.savez(tmp_path / "mine.npz", images=images, labels=np.arange(COUNT) % 3)
    return "mine.npz"


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C at the second round of the next run."""
    real, calls = fitting.fit_round, []

    def fit_round(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(fitting, "fit_round", fit_round)


def test_it_writes_the_numbers_the_page_and_the_model(run, tiny, tmp_path, pictures):
    result = run(
        "discover", pictures, "--group", "rotation,translation", "--out", "out", "--seed", 3
    )
    assert result.exit_code == 0, result.output
    assert "pictures used" in result.stdout
    assert "wrote out/model" in result.stdout
    numbers = SymmetryResult.load(tmp_path / "out" / "symmetries.json")
    assert (numbers.group, numbers.method) == ("shift_x,shift_y,rotation", "orbit")
    assert [part.unit for part in numbers.transformations] == ["degrees", "pixels", "pixels"]
    for part in numbers.transformations:
        assert part.interval[0] <= part.width90 <= part.interval[1]
        assert 0 <= part.share_told <= 1
        assert len(part.deciles) == 11
        assert list(part.deciles) == sorted(part.deciles)
    assert set(numbers.classes) == {"0", "1", "2"}
    assert {found.images for found in numbers.classes.values()} == {COUNT // 3}
    assert len(numbers.check.planted) == 6  # a narrow and a wide one of each
    assert numbers.run.seed == 3
    html = (tmp_path / "out" / "report.html").read_text()
    assert "Symmetries of mine" in html
    assert html.count('class="orbit"') == 3
    assert OrbitPosterior.load(tmp_path / "out" / "model").action.fill == 1.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.npz", "out"]


def test_warnings_stand_at_the_top_of_everything(run, tiny, tmp_path, pictures):
    images = dict(np.load(pictures))["images"]
    images[:2] = 255
    np.save(tmp_path / "some.npy", images)
    arguments = ["discover", "some.npy", "--group", "rotation", "--overwrite", "--out", "o"]
    shown = run(*arguments)
    assert shown.exit_code == 0, shown.output
    first = "2 images of one colour were left out"
    lines = shown.stdout.splitlines()
    said = [i for i, line in enumerate(lines) if line.startswith("warning: ")]
    assert said == list(range(len(said)))  # before the table
    assert any(first in line for line in lines[: len(said)])
    quiet = run(*arguments, "--quiet", "--json")
    content = json.loads(quiet.stdout)
    assert list(content)[:2] == ["schema", "warnings"]
    assert len(content["warnings"]) == len(said)
    assert f"warning: {first}" in quiet.stderr
    html = (tmp_path / "o" / "report.html").read_text()
    assert html.index(first) < html.index('class="lede"')
    np.save(tmp_path / "none.npy", images[:2])
    assert "constant ones only" in run("discover", "none.npy", "--quiet").stderr


def test_no_check_tests_nothing(run, tiny, tmp_path, pictures):
    found = run("discover", pictures, "--group", "rotation", "--no-check", "--out", "o", "--json")
    content = json.loads(found.stdout)
    assert content["check"] is None
    assert "--no-check" in content["run"]["command"]
    assert "made without its self-test" in (tmp_path / "o" / "report.html").read_text()


def test_histograms_integrate_to_one_at_most(run, tiny, pictures):
    result = run("discover", pictures, "--group", "zoom,shift_x", "--quiet", "--json")
    for part in json.loads(result.stdout)["transformations"]:
        edges = np.array(part["histogram"]["edges"])
        edges = np.log(edges) if part["unit"] == "factor" else edges
        total = np.dot(part["histogram"]["density"], np.diff(edges))
        assert 0.5 < total < 1.05
        widths = part["widths"]
        edges = np.log(widths["edges"]) if part["unit"] == "factor" else np.array(widths["edges"])
        assert np.dot(widths["density"], np.diff(edges)) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("c4", ["rotation"]),
        ("rotation,flip_x", ["flip_x", "rotation"]),
        ("rotation,hue", ["rotation", "hue"]),
        ("flip_x,hue", ["flip_x", "hue"]),
        ("se2,flip_y", ["flip_y", "rotation", "shift_x", "shift_y"]),
    ],
)
def test_finite_groups_products_and_no_labels(run, tiny, tmp_path, group, names):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "rgb.npy", rng.integers(0, 255, (70, 8, 8, 3), dtype=np.uint8))
    done = run("discover", "rgb.npy", "--group", group, "--no-check", "--quiet", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [part["name"] for part in found["transformations"]] == names
    for part in found["transformations"]:
        if part["unit"] == "elements":
            assert sum(part["histogram"]["density"]) == pytest.approx(1, abs=1e-3)
    assert found["classes"] == {}


def test_an_interrupted_run_says_how_to_go_on(run, tiny, tmp_path, pictures, request):
    arguments = ["discover", pictures, "--group", "rotation", "--quiet", "--no-check"]
    whole = run(*arguments, "--out", "whole", "--json")
    request.getfixturevalue("interrupted")
    stopped = run(*arguments, "--out", "out")
    assert stopped.exit_code == 130
    words = "mine.npz --group rotation --no-check --out out --preset quick --seed 0"
    assert f"go on with: symmetries discover {words} --resume" in stopped.stderr
    assert not (tmp_path / "out").exists()
    resumed = run(*arguments, "--out", "out", "--json", "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert not (tmp_path / "out.resume").exists()
    same = [json.loads(found.stdout)["transformations"] for found in (whole, resumed)]
    assert same[0] == same[1]


def test_a_run_does_not_go_on_with_others(run, tiny, tmp_path, pictures, interrupted):
    arguments = ["discover", pictures, "--group", "rotation", "--out", "out"]
    assert run(*arguments).exit_code == 130
    other = run(*arguments, "--resume", "--seed", "3")
    assert other.exit_code == 3
    assert "seed: expected 0 as in the checkpoint of out.resume" in other.stderr
    assert "got 3; resume with that seed" in other.stderr
    grey = run(*arguments, "--resume", "--fill", "0.3")
    assert "fill: expected 1.0 as in the checkpoint of out.resume" in grey.stderr
    two = run(*arguments, "--resume", "--method", "two-stage")
    assert two.exit_code == 3
    assert "method: expected orbit, as in the checkpoints of out.resume" in two.stderr
    assert run("discover", "nothing.npz", "--out", "out").exit_code != 0  # a slip of the pen
    arrays = dict(np.load(pictures))
    np.savez(pictures, **arrays | {"images": arrays["images"][:, ::-1]})
    changed = run(*arguments, "--resume")
    assert changed.exit_code == 3
    assert "data: expected the data of the checkpoint of out.resume" in changed.stderr
    assert (tmp_path / "out.resume").is_dir()  # a mistake does not cost what was learned
    np.savez(pictures, **arrays)
    resumed = run(*arguments, "--resume", "--no-check")
    assert resumed.exit_code == 0, resumed.output
    assert "nothing to resume" not in resumed.output
    assert not (tmp_path / "out.resume").exists()


def test_a_failed_run_leaves_nothing_behind(run, tiny, tmp_path, monkeypatch):
    from symmetries.training import NonFiniteError

    def fail(*arguments, **options):
        raise NonFiniteError("the loss is NaN")

    monkeypatch.setattr(fitting, "fit_round", fail)
    result = run("discover", "digits", "--group", "rotation", "--out", "out", "--quiet")
    assert (result.exit_code, "NaN" in result.stderr) == (5, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("precision", ["64-true", "bf16-true", "bf16-mixed"])
def test_precisions(run, tiny, pictures, precision, monkeypatch):
    if precision == "bf16-true":  # one process that tries bfloat16 is enough
        monkeypatch.setattr("symmetries.cli.runs.BF16_PROBE", "")
    arguments = [
        "discover",
        pictures,
        "--group",
        "rotation,translation",
        "--no-check",
        "--quiet",
        "--json",
    ]
    done = run(*arguments, "--precision", precision)
    assert done.exit_code == 0, done.output
    assert precision in json.loads(done.stdout)["run"]["command"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--preset", "slow"], "preset: expected one of"),
        (["--preset", "paper"], "preset: expected quick or default"),
        (["--method", "three-stage"], "method: expected one of"),
        (["--precision", "half"], "precision: expected one of"),
        (["--group", "spin"], "group: expected"),
        (["--group", "signal"], "group: expected a group that acts on images"),
        (["--group", "rotation,scale"], "the two-stage model takes it"),
        (["--group", "c4,translation"], "group: expected a flip beside planar motions"),
        (["--resize", "big"], "--resize: expected a size such as 32"),
        (["--resize", "4"], "data: expected pictures of at least 8 x 8 pixels"),
    ],
)
def test_bad_options_are_one_line(run, tiny, tmp_path, options, message):
    result = run("discover", "digits", "--quiet", *options)
    assert result.exit_code == 3
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("out/*"))


def test_what_is_no_picture_is_refused(run, tiny, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "points.npy", rng.random((200, 30, 2)))
    refused = run("discover", "points.npy", "--group", "rotation", "--quiet")
    assert refused.exit_code == 3
    assert "200 arrays of 30 x 2 numbers; points" in refused.stderr
    np.save(tmp_path / "few.npy", rng.random((9, 8, 8)))
    refused = run("discover", "few.npy", "--group", "rotation", "--quiet")
    assert "expected at least 64 different pictures, got 9" in refused.stderr


def test_sizes_and_backgrounds():
    import torch

    assert parse_size("48x32") == (32, 48)
    assert background(torch.full((2, 1, 8, 8), 0.25)) == 0.25
    noise = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert background(noise) == 0.0


def test_each_remark_has_a_line_of_its_own():
    group = PoseSubgroup(name="C2", distance=1, alternative="C6", alternative_distance=9)
    result = SymmetryResult.model_construct(
        method="orbit", transformations=(), subgroup=group, check=SelfTest(sentence="2 of 2")
    )
    assert table(result).caption.splitlines()[1:] == ["2 of 2"]
