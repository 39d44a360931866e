"""Configurations: few fields at the top, and one way to change them."""

import dataclasses
import importlib
import json
import re
from pathlib import Path
from pkgutil import walk_packages

import pytest

import symmetries
from symmetries._utils.config import Config, presets_of
from symmetries.learners.invariant_vae import InvariantVAEConfig
from symmetries.learners.invariant_weights import NaturalConfig
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.learners.vae import VAEConfig
from symmetries.training import Recipe, TrainConfig, load_state
from symmetries.training.checkpoint import write_state

LEARNERS = (SymmetryConfig, VAEConfig, InvariantVAEConfig)
MADE = [*(kind() for kind in (*LEARNERS, NaturalConfig)), TrainConfig(1, 1)]


def kinds(base=Config):
    """All configurations of the library, those that are parts of others among them."""
    for kind in base.__subclasses__():
        if kind.__module__.startswith("symmetries."):
            yield kind
        yield from kinds(kind)


def test_no_configuration_has_more_than_twelve_fields():
    for module in walk_packages(symmetries.__path__, "symmetries."):
        if module.name.rpartition(".")[2] in ("config", "recipe", "autoencoder"):
            importlib.import_module(module.name)
    found = set(kinds())
    classes = re.compile(r"^class \w+\((?:Config|Recipe)\):", re.MULTILINE)
    sources = Path(symmetries.__file__).parent.rglob("*.py")
    assert len(found) == sum(len(classes.findall(path.read_text())) for path in sources) > 25
    assert {kind: n for kind in found if (n := len(dataclasses.fields(kind))) > 12} == {}


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


def test_models_saved_without_parts_are_refused_with_the_remedy(tmp_path):
    """Files from before configurations had parts."""
    model = SymmetryModel("rotation", (1, 8, 8), "quick")
    model.save(tmp_path / "new")
    state, meta = load_state(tmp_path / "new")
    write_state(tmp_path, "model", state, {**meta, "config": {"network": "mlp", "settling": 0.2}})
    expected = "config: expected the fields of SymmetryConfig, got settling; read it with the versi"
    with pytest.raises(ValueError, match=expected):
        SymmetryModel.load(tmp_path)


def test_saved_models_of_actions_that_had_a_blur_of_zero_are_read(tmp_path):
    SymmetryModel("rotation", (1, 8, 8), "quick").save(tmp_path / "new")
    state, meta = load_state(tmp_path / "new")
    for blur in (0.0, 0.1):
        write_state(tmp_path, "model", state, meta | {"action": {**meta["action"], "blur": blur}})
        if not blur:
            assert SymmetryModel.load(tmp_path).act.interpolation == "bilinear"
    with pytest.raises(ValueError, match="action: expected one without a blur, got a blur"):
        SymmetryModel.load(tmp_path)
