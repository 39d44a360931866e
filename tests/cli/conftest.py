"""Commands run in a folder of their own, with trainings of a few steps."""

import pytest

from symmetries._utils.config import presets_of
from symmetries.learners.symmetry_model import SymmetryConfig


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
    return config
