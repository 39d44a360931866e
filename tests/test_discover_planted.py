"""``symmetries.discover`` against planted truths: the width, the shape of the law, the verdicts."""

import numpy as np
import pytest
from rich.console import Console

import symmetries
from symmetries._utils.config import presets_of
from symmetries.cli.discover import table
from symmetries.learners.orbit_posterior import Network, OrbitConfig, Reading, Training, Views
from symmetries.report.words import remarks
from symmetries.results import SymmetryResult

CONFIG = OrbitConfig(
    bins=36,
    folds=2,
    views=Views(readings=4),
    network=Network(kind="mlp", features=64, dropout=0.05),
    training=Training(steps=250, rounds=1, batch_size=128),
    reading=Reading(pictures=256, samples=256, resamples=50),
)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def found(images, **options):
    """What a small and short fit finds of rotations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(presets_of(OrbitConfig), "quick", CONFIG)
        patch.setattr("symmetries.learners.orbit_posterior.rounds.LOOKED_AT", 512)
        labels = np.arange(len(images)) % 2
        options |= {"device": "cpu", "progress": False}
        return symmetries.discover((images, labels), "rotation", **options)


@pytest.fixture(scope="module")
def turning(hooks):
    return found(hooks(700, 60)[0])


@pytest.fixture(scope="module")
def thirds(hooks):
    return found(hooks(700, 2, poses=3)[0])


def test_a_planted_uniform_is_found_and_looks_uniform(turning):
    part = turning["rotation"]
    assert part.verdict == "partial"
    assert 0.85 < part.width90 / 108 < 1.2
    edges, density = map(np.array, (part.histogram.edges, part.histogram.density))
    assert edges[0] == pytest.approx(-edges[-1])
    middle = (edges[:-1] > -46) & (edges[1:] < 46)
    # A triangle would have less than 0.3; three draws of the data had 0.53 to 0.78.
    assert density[middle].min() > 0.45 * density[middle].max()
    outside = (edges[1:] < -85) | (edges[:-1] > 85)
    assert density[outside].max(initial=0) < 0.2 * density[middle].mean()


def test_the_self_test_and_the_classes_are_in_the_result(turning):
    assert [row.name for row in turning.check.planted] == ["rotation"] * 2
    narrow, wide = turning.check.planted
    assert turning["rotation"].width90 < narrow.expected < wide.expected
    assert 0.7 < narrow.recovered / narrow.expected < 1.4
    for one in turning.classes.values():
        low, high = one.interval["rotation"]
        assert low <= one.width90["rotation"] <= high
        assert 0.8 < one.width90["rotation"] / 108 < 1.3


def test_new_versions_are_turned_as_the_data_are(turning, hooks):
    upright, _ = hooks(64, 0, seed=5)
    more = symmetries.augment(turning, upright, 4, progress=False, device="cpu")
    densities = turning.fitted.densities(more.images)[0]
    turned = np.rad2deg(densities.centres().numpy())
    assert np.mean(np.abs(turned) < 75) > 0.8
    assert np.std(turned) > 20


def test_poses_a_third_of_a_turn_apart_are_named(thirds):
    part, group = thirds["rotation"], thirds.subgroup
    assert (part.verdict, part.poses, group.name) == ("partial", 3, "C3")
    assert group.distance < 15 < group.alternative_distance
    edges, density = map(np.array, (part.histogram.edges, part.histogram.density))
    middles = (edges[1:] + edges[:-1]) / 2
    near = np.abs((middles + 60) % 120 - 60) < 25
    assert (density * np.diff(edges))[near].sum() > 0.8
    assert edges[0] == pytest.approx(-180)
    assert "The poses make the group C3" in thirds.to_html()
    assert "otated by multiples of 120°" in thirds.to_html()
    again = SymmetryResult.model_validate_json(thirds.model_dump_json(by_alias=True))
    assert again.subgroup == group


def test_portraits_of_separate_poses_are_counted_from_the_picture_as_it_is(thirds):
    for one in thirds.pictures.surest:
        density = np.array(one.densities["rotation"])
        middles = (np.arange(len(density)) + 0.5) * 360 / len(density) - 180
        near = np.abs((middles + 60) % 120 - 60) < 25
        assert density[near].sum() > 0.75 * density.sum()
    assert "counted from each picture as it is" in thirds.to_html()


def test_the_command_shows_the_group_and_the_self_test_on_lines_of_their_own(thirds):
    console = Console(width=200)
    with console.capture() as shown:
        console.print(table(thirds))
    lines = [line.strip() for line in shown.get().splitlines()]
    assert any(line.endswith("partial, in steps of 120°") for line in lines)
    text = " ".join(lines)
    assert "\\x0a" not in text
    assert all(remark in text for remark in remarks(thirds))
    assert len(remarks(thirds)) == 2


def test_widths_planted_beside_separate_poses_are_expected_as_they_are(thirds):
    narrow = thirds.check.planted[0]
    assert 100 < narrow.expected < 170  # three boxes of 43 degrees, 90 % of them
    assert 0.7 < narrow.recovered / narrow.expected < 1.4


def test_separate_poses_are_not_told_without_a_self_test(hooks):
    part = found(hooks(500, 1, poses=2, seed=1)[0], check=False)["rotation"]
    assert part.verdict == "cannot be told"
    assert "separate poses" in part.reason
