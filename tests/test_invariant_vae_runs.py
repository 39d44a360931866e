"""The reproduction of the invariant generative models: every part runs with --quick, on digits."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from symmetries.data import digits
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.learners.vae import VAE

SCRIPT = Path(__file__).parents[1] / "papers" / "invariant-vae" / "run.py"
EXPECTED = {
    "rotation": {"width90", "ratio", "agreement", "bound", "reconstruction_error"},
    "affine": {"width90", "bound"},
    "growing": {"space", "accuracy", "agreement", "bound"},
    "augerino": {"half_width"},
    "ablations": {"width90_q", "width90_p", "share_outside", "bound"},
    "learned-noise": {"width90", "bound"},
    "same": {"bound", "source"},
    "same-learned": {"bound", "source"},
    "figure9": {"bound", "reconstruction_error", "source"},
    "samples": {"bound", "bound_fitted", "sure_of_fitted", "sure_of_prior", "nearest_fitted"},
    "images": set(),
}


@pytest.fixture
def rows_of(run_script, tmp_path):
    """A function that runs a part, and returns the rows that it has stored."""

    def run(part, *options):
        run_script(SCRIPT, "--quick", "--out", tmp_path, "--parts", part, *options)
        return json.loads((tmp_path / "results.json").read_text())["rows"]

    return run


def check(rows, part):
    assert {row["part"] for row in rows} == {part}
    assert all(EXPECTED[part] <= set(row) for row in rows)
    assert all(row["made"]["commit"] for row in rows)


def test_augerino_quick(rows_of, tmp_path):
    rows = rows_of("augerino")
    check(rows, "augerino")
    assert {row["added"] for row in rows} == {0.0, 90.0}
    # None is made twice; started as users start it.
    command = [sys.executable, SCRIPT, "--quick", "--out", tmp_path, "--parts", "augerino"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert json.loads((tmp_path / "results.json").read_text())["rows"] == rows


@pytest.mark.parametrize("part", ["rotation", "figure9"])
def test_both_papers_quick(part, rows_of):
    check(rows_of(part), part)


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", ["ablations", "affine", "growing", "images", "learned-noise", "same", "same-learned"]
)
def test_every_other_part_quick(part, rows_of):
    check(rows_of(part), part)


def test_samples_quick(rows_of, tmp_path):
    rows = rows_of("samples", "--kinds", "VAE", "joint", "--least-noise", "0.01")
    check(rows, "samples")
    assert [row["kind"] for row in rows] == ["VAE", "joint"]
    assert len(list(tmp_path.glob("samples-*-0.01.npz"))) == 2
    for row in rows:
        assert row["accuracy"] > 0.8
        assert 0 < row["sure_of_fitted"] <= 1
        assert sum(row["classes_of_fitted"]) == pytest.approx(1, abs=1e-3)
        assert row["bound_fitted"] > row["bound"]  # codes of test images are likelier


@pytest.mark.slow
def test_new_digits_of_the_density_are_more_like_digits_than_those_of_the_prior(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    likeness, samples = (importlib.import_module(name) for name in ("likeness", "samples"))
    data, test = digits("train"), digits("test")
    model = VAE((1, 8, 8), "quick")
    model.fit(data, progress=False, device="cpu")
    row, arrays = samples.judged(model, likeness.classifier(data, "cpu"), data, test)
    assert row["sure_of_prior"] + 0.1 < row["sure_of_fitted"] < row["sure_of_test"]
    assert min(row["classes_of_fitted"]) > 0.03
    assert row["nearest_fitted"] > row["nearest_reconstructed"]  # no copies
    assert row["bound_fitted"] > row["bound"]
    assert arrays["fitted"].shape == (samples.KEPT, 1, 8, 8)


def test_a_classifier_is_sure_of_digits_and_not_of_mixtures(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    likeness = importlib.import_module("likeness")
    data, test = digits("train"), digits("test")
    judge = likeness.classifier(data, "cpu")
    assert likeness.classifier(data, "cpu") is judge
    assert likeness.accuracy(judge, test) > 0.9
    found = likeness.scores(judge, test.images, "test")
    assert found["sure_of_test"] > 0.8
    assert min(found["classes_of_test"]) > 0.05
    mixed = (test.images + test.images.roll(1, 0)) / 2
    assert likeness.scores(judge, mixed, "mixed")["sure_of_mixed"] < found["sure_of_test"] - 0.2
    assert likeness.nearest(data.images[:20], data.images) < 1e-3
    assert likeness.nearest(mixed, data.images) > likeness.nearest(test.images, data.images)


def test_rows_of_new_images_are_means_over_seeds(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    sample_rows = importlib.import_module("sample_rows")
    row = {"part": "samples", "kind": "VAE", "added": 0.0, "least_noise": 0.2, "steps": 5}
    row |= {"size": 9, "codes": 9000, "components": 30, "classes_of_fitted": [0.25, 0.75]}
    row |= {"bound": 1.0, "bound_fitted": 2.0, "nearest_fitted": 0.25, "nearest_reconstructed": 0.5}
    row |= {f"sure_of_{name}": 0.5 for name in sample_rows.SEEN}
    second = row | {"seed": 1, "sure_of_fitted": 0.6, "components": 10, "bound_fitted": 3.0}
    other = row | {"seed": 0, "kind": "joint", "added": 45.0}
    rows = [second, other, row | {"seed": 0}, {"part": "figure9"}]
    assert sample_rows.likeness_rows(rows) == [
        ["VAE", "±0", "0.2", "50.0 ± 0.0 %", "55.0 ± 7.1 %", "50.0 ± 0.0 %", "50.0 ± 0.0 %"],
        ["joint", "±45", "0.2", *["50.0 %"] * 4],
    ]
    means = ["9,000", "30 / 10", "1.0", "2.5", "25.0 ± 0.0 %", "0.250", "0.500"]
    assert sample_rows.code_rows(rows)[0] == ["VAE", "±0", "0.2", *means]


def test_framed_prototypes_have_one_place_size_and_shape():
    spec = importlib.util.spec_from_file_location("framed", SCRIPT.with_name("framed.py"))
    framed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(framed)
    places = torch.linspace(-1, 1, 24)
    blobs = torch.exp(-((places / 0.2).square() + (places[:, None] / 0.4).square()))
    x = blobs * torch.rand(30, 1, 1, 1, generator=torch.Generator().manual_seed(0))
    model = SymmetryModel("shift_x,shift_y,rotation,scale_x,scale_y", (1, 24, 24), "quick")
    with torch.no_grad():
        model.inference.head.bias += torch.tensor([0.3, -0.4, 0.1, 0.5, 0.2, -0.3])
    centre, second = framed.moments(framed.Framed(model, x).prototype(x))
    _, of_images = framed.moments(x)
    before = framed.moments(model.prototype(x))
    assert float(before[0].norm()) > 0.05
    assert float((before[1][0, 0] / before[1][1, 1]).log().abs()) > 0.2
    size = of_images.trace() / 2
    torch.testing.assert_close(centre, torch.zeros(2), atol=0.01, rtol=0)
    torch.testing.assert_close(second, size * torch.eye(2), atol=0.04 * float(size), rtol=0)
    wrapped = framed.Framed(model, x)
    again = wrapped.act(wrapped.element(x), wrapped.prototype(x))
    assert float((again - x).abs().max()) < 0.1


def test_versions_are_those_of_the_symmetry_model(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    versions = importlib.import_module("versions")
    x = torch.rand(5, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    model = SymmetryModel("rotation", (1, 12, 12), "quick")
    with torch.no_grad():
        model.inference.head.bias += 0.3
    moves = versions.transformations(model, x, 15, seed=1)
    assert moves.shape == (5, 3, 3, 3)
    expected = model.sample(x, 3, torch.Generator().manual_seed(1))
    torch.testing.assert_close(model.act.orbit(moves, x), expected, atol=1e-5, rtol=0)


def test_digits_planted_anew_are_as_smooth_as_the_set(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    versions, sets = importlib.import_module("versions"), importlib.import_module("sets")
    places = torch.linspace(-1, 1, 20)
    bars = ((places[:, None].abs() < 0.6) & (places.abs() < 0.15)).float().expand(200, 1, 20, 20)
    generator = torch.Generator().manual_seed(0)
    for added in (0.0, 180.0):
        new = versions.planted_anew(added)(bars, generator)
        first, second = (6.28 * torch.rand(2, 200, generator=generator)).unbind()
        shifts = sets.between_pixels(bars, generator)
        stored = sets.turned(sets.turned(bars, first), (added > 0) * second - first, shifts)
        assert abs(sets.roughness(new) / sets.roughness(stored) - 1) < 0.02
        upright = new.sum((1, 2)).std(1) > new.sum((1, 3)).std(1)
        assert upright.all() == (added == 0), added


def test_versions_drawn_ahead_are_moved_images(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    versions = importlib.import_module("versions")
    x = torch.rand(5, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    model = SymmetryModel("rotation", (1, 12, 12), "quick")
    new = versions.drawn_ahead(model, x, 15, seed=1)
    moves = versions.transformations(model, x, 15, seed=1)
    torch.testing.assert_close(new, model.act.orbit(moves, x).flatten(0, 1).clamp(0, 1))


def test_losses_are_judged_as_shares_of_the_vae(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    moves = importlib.import_module("vae_moves")
    lost = {"VAE": (-100.0, -200.0), "AugVAE": (-20.0, -120.0), "InvVAE": (0.0, -15.0)}
    grid = [
        {"kind": kind, "size": size, "added": added, "bound": 1000 + (size == 12_500) * few}
        | {"seed": 0, "prototype_bound": 1000 + (added == 180) * 30}
        for kind, (few, _) in lost.items()
        for size in (12_500, 50_000)
        for added in (0.0, 180.0)
    ]
    for row in grid:
        row["bound"] += (row["added"] == 180) * lost[row["kind"]][1]
    goal = {"augvae_share": 0.5, "invvae_share": 0.1}
    lines = {line[0]: line[1:] for line in moves.loss_rows(grid, goal)}
    assert lines["12,500 for 50,000 images, ±0"][2] == "-20.0 (20%)"
    assert lines["±180 for ±0, 50,000 images"] == [
        *("-200.0", "not run", "-120.0 (60%) **missed**"),
        *("+30.0 (15%) **missed**", "-15.0 (8%)"),
    ]
    assert lines["12,500 at ±180 for 50,000 at ±0"][2] == "-140.0 (47%)"
    counts = [line[2:] for line in moves.goal_rows(grid, goal, str)]
    assert counts == [
        ["4 of 4 comparisons", "True"],
        ["2 of 4 comparisons", "False"],
        ["0 of 2 comparisons", "False"],
        ["2 of 2 comparisons", "True"],
    ]
    assert moves.counted([], str) == ("0 of 0 comparisons", "False")


def test_every_entry_of_a_lane_is_a_command_line_and_none_comes_twice(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    lanes, setting = (importlib.import_module(name) for name in ("lanes", "setting"))
    for name, lane in lanes.LANES.items():
        asked = [vars(lanes.run.parse(words.split())) for _, words in lane]
        assert all(asked.count(one) == 1 for one in asked), name
        assert all(seconds > 0 for seconds, _ in lane), name
    wide = [lanes.run.parse(words.split()) for _, words in lanes.LANES["wide-180"]]
    assert {(a.hidden, tuple(a.symmetry_steps), a.own) for a in wide} == {
        (1024, (12000, 10000), True)
    }
    assert setting.figure9_setting(wide[0]).vae.network.hidden == 1024


def test_of_several_settings_the_best_on_images_held_out_is_shown(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    rows, moves = (importlib.import_module(name) for name in ("vae_rows", "vae_moves"))
    cell = {"source": "mnist", "kind": "AugVAE", "added": 0.0, "size": 50_000, "seed": 0}
    small = {"steps": 20_000, "channels": [64, 128], "hidden": 256, "lr": 0.003}
    large = small | {"steps": 40_000, "channels": [64, 128, 256], "hidden": 1024, "own": True}
    tried = [
        cell | small | {"bound_held_out": 10.0, "bound": 30.0},
        cell | large | {"bound_held_out": 11.0, "bound": 20.0},  # though worse on test images
    ]
    (best,) = rows.chosen(tried)
    assert best["bound"] == 20.0
    assert [rows.setting(row) for row in tried] == ["20k", "40k+ wide"]
    assert [moves.setting_of(row) for row in tried] == [
        "AugVAE, rate 0.003, 20,000 steps",
        "AugVAE, rate 0.003, 1,024 hidden units, 40,000 steps, symmetry model of its 45,000 images",
    ]
