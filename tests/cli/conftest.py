"""Commands run in a folder of their own, with trainings of a few steps."""

import dataclasses

import pytest

from symmetries.learners.symmetry_model import PRESETS


@pytest.fixture
def tiny(monkeypatch):
    """The preset "quick" made much quicker: the commands are tested here, not the learning."""
    quick = PRESETS["quick"]
    inference = dataclasses.replace(quick.inference, steps=12, batch_size=16)
    generative = dataclasses.replace(quick.generative, steps=12, batch_size=16)
    config = dataclasses.replace(
        quick, widths=(16,), features=(16,), layers=2, inference=inference, generative=generative
    )
    monkeypatch.setitem(PRESETS, "quick", config)
    return config
