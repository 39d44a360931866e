"""Commands run in a folder of their own, with trainings of a few steps."""

import pytest

from symmetries._utils.config import presets_of
from symmetries.learners.orbit_posterior import Network, OrbitConfig, Reading, Training, Views
from symmetries.learners.symmetry_model import SymmetryConfig

ORBIT = OrbitConfig(
    bins=12,
    folds=2,
    views=Views(readings=2),
    network=Network(kind="mlp", features=16),
    training=Training(steps=6, rounds=1, batch_size=16),
    reading=Reading(pictures=128, samples=32, resamples=8),
)


@pytest.fixture
def tiny(monkeypatch):
    """The preset "quick" made much quicker: the commands are tested here, not the learning."""
    quick = SymmetryConfig.preset("quick")
    inference = quick.inference.replace(steps=12, batch_size=16)
    generative = quick.generative.replace(steps=12, batch_size=16)
    config = quick.replace(
        widths=(16,), features=(16,), layers=2, inference=inference, generative=generative
    )
    monkeypatch.setitem(presets_of(SymmetryConfig), "quick", config)
    monkeypatch.setitem(presets_of(OrbitConfig), "quick", ORBIT)
    monkeypatch.setattr("symmetries.learners.orbit_posterior.rounds.LOOKED_AT", 64)
    return config
