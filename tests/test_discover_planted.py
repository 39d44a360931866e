"""``symmetries.discover`` against planted truths: the width, the shape of the law, the verdicts."""

import numpy as np
import pytest

import symmetries
from symmetries._utils.config import presets_of
from symmetries.learners.orbit_posterior import Network, OrbitConfig, Reading, Training, Views

CONFIG = OrbitConfig(
    bins=36,
    folds=2,
    views=Views(readings=4),
    network=Network(kind="mlp", features=64, dropout=0.05),
    training=Training(steps=250, rounds=1, batch_size=128),
    reading=Reading(pictures=256, samples=256, resamples=50),
)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def turning(hooks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(presets_of(OrbitConfig), "quick", CONFIG)
        patch.setattr("symmetries.learners.orbit_posterior.rounds.LOOKED_AT", 512)
        images, _ = hooks(700, 60)
        labels = np.arange(700) % 2
        options = {"device": "cpu", "progress": False}
        return symmetries.discover((images, labels), "rotation", **options)


def test_a_planted_uniform_is_found_and_looks_uniform(turning):
    part = turning["rotation"]
    assert part.verdict == "partial"
    assert 0.85 < part.width90 / 108 < 1.2
    edges, density = map(np.array, (part.histogram.edges, part.histogram.density))
    assert edges[0] == pytest.approx(-edges[-1])
    middle = (edges[:-1] > -46) & (edges[1:] < 46)
    assert density[middle].min() > 0.6 * density[middle].max()
    outside = (edges[1:] < -85) | (edges[:-1] > 85)
    assert density[outside].max(initial=0) < 0.2 * density[middle].mean()


def test_the_self_test_and_the_classes_are_in_the_result(turning):
    assert [row.name for row in turning.check.planted] == ["rotation"] * 2
    narrow, wide = turning.check.planted
    assert turning["rotation"].width90 < narrow.expected < wide.expected
    assert 0.7 < narrow.recovered / narrow.expected < 1.4
    for found in turning.classes.values():
        low, high = found.interval["rotation"]
        assert low <= found.width90["rotation"] <= high
        assert 0.8 < found.width90["rotation"] / 108 < 1.3


def test_new_versions_are_turned_as_the_data_are(turning, hooks):
    upright, _ = hooks(64, 0, seed=5)
    more = symmetries.augment(turning, upright, 4, progress=False, device="cpu")
    densities = turning.fitted.densities(more.images)[0]
    turned = np.rad2deg(densities.centres().numpy())
    assert np.mean(np.abs(turned) < 75) > 0.8
    assert np.std(turned) > 20
