"""Configurations: few fields at the top, one way to change them, and those of before still load."""

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch

from symmetries._utils.config import Config, presets_of
from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig
from symmetries.learners.invariant_weights import NaturalConfig
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.learners.vae import VAEConfig
from symmetries.training import Recipe, TrainConfig, load_state
from symmetries.training.checkpoint import write_state

LEARNERS = (SymmetryConfig, VAEConfig, InvariantVAEConfig)
MADE = [*(kind() for kind in (*LEARNERS, NaturalConfig)), TrainConfig(1, 1)]
# What to_dict() of all presets gave when configurations had no parts.
FLAT = json.loads(Path(__file__).with_name("flat_configs.json").read_text())


@pytest.mark.parametrize("config", MADE, ids=lambda config: type(config).__name__)
def test_the_top_level_has_at_most_twelve_fields(config):
    assert len(dataclasses.fields(config)) <= 12


@pytest.mark.parametrize("config", MADE, ids=lambda config: type(config).__name__)
def test_a_name_means_one_field_but_in_recipes(config):
    """So that replace() needs no path."""
    seen = set()

    def walk(part):
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if isinstance(value, Recipe) and isinstance(config, SymmetryConfig):
                continue
            assert field.name not in seen
            seen.add(field.name)
            if isinstance(value, Config):
                walk(value)

    walk(config)


@pytest.mark.parametrize("kind", LEARNERS)
def test_presets_of_before_are_those_of_now(kind):
    assert set(FLAT[kind.__name__]) == set(presets_of(kind))
    for name, flat in FLAT[kind.__name__].items():
        found, now = kind.from_dict(flat), kind.preset(name)
        warmups = [getattr(c, "training", Recipe()).warmup for c in (found, now)]
        assert math.isclose(*warmups)
        assert found == now or kind is InvariantVAEConfig
        assert json.dumps(found.replace(**TRAINING[kind]).to_dict()) == json.dumps(
            now.replace(**TRAINING[kind]).to_dict()
        )


TRAINING = {SymmetryConfig: {}, VAEConfig: {}, InvariantVAEConfig: {"warmup": 0.1}}


@pytest.mark.parametrize("kind", LEARNERS)
def test_json_and_back(kind):
    for config in presets_of(kind).values():
        assert kind.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_replace_finds_fields_and_changes_parts():
    config = SymmetryConfig.preset("quick")
    other = config.replace(samples=7, widths=[3, 2], inference={"steps": 9}, holdout=0.3)
    assert (other.objective.samples, other.network.widths, other.holdout) == (7, (3, 2), 0.3)
    assert other.inference == dataclasses.replace(config.inference, steps=9)
    assert other.generative == config.generative
    assert config == SymmetryConfig.preset("quick")
    both = config.replace(moments="centre", pinned=True)  # checked together
    assert both.network.pinned
    whole = config.replace(generative=Recipe(5), objective={"blur": 1.0}, alignment=0.0)
    assert (whole.generative.steps, whole.objective.blur, whole.objective.alignment) == (5, 1.0, 0)


def test_what_replace_refuses():
    config = SymmetryConfig()
    with pytest.raises(ValueError, match="sample: expected a field of SymmetryConfig, got 3; did"):
        config.replace(sample=3)
    with pytest.raises(ValueError, match=r"steps: .*inference and generative.*inference=.'steps'"):
        config.replace(steps=3)
    with pytest.raises(TypeError, match=r"inference: expected Recipe\(...\), got"):
        config.replace(inference=3)
    with pytest.raises(ValueError, match=r"config: expected VAEConfig\(...\), or one of 'paper'"):
        VAEConfig.preset("slow")
    with pytest.raises(ValueError, match="warmup: expected a number between 0 and 1, got 500"):
        TrainConfig(1000, 1).replace(warmup=500)


@pytest.mark.parametrize("kind", [SymmetryModel, InvariantVAE])
def test_models_saved_without_parts_load(kind, tmp_path):
    """Files of version 0.1: a flat configuration, and the background without its action."""
    config = "SymmetryConfig" if kind is SymmetryModel else "InvariantVAEConfig"
    model = kind("rotation", (1, 8, 8), "quick", fill=0.25, seed=3)
    model.save(tmp_path / "new")
    state, meta = load_state(tmp_path / "new")
    del meta["action"]
    old = {**meta, "fill": 0.25, "config": FLAT[config]["quick"]}
    write_state(tmp_path, "model", state, old)
    again, x = kind.load(tmp_path), torch.rand(2, 1, 8, 8)
    assert (again.act.fill, again.act.interpolation) == (0.25, "bilinear")
    assert torch.equal(again.prototype(x), model.prototype(x))
