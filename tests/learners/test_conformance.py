"""Every learner keeps one protocol: fit, save, load, summary, report. One suite for all of them."""

import json
import warnings
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from symmetries.actions.images import ImageAction
from symmetries.actions.points import PointAction
from symmetries.data.base import ImageSet
from symmetries.groups import SE2, parse_group
from symmetries.learners.base import RUN_FIELDS
from symmetries.learners.invariant_network import InvariantNetwork, InvariantNetworkConfig
from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig
from symmetries.learners.invariant_weights import InvariantWeights, InvariantWeightsConfig
from symmetries.learners.orbit_posterior import (
    Network,
    OrbitConfig,
    OrbitPosterior,
    Reading,
    Training,
    Views,
)
from symmetries.learners.relaxed import RelaxedConfig, RelaxedEquivariance
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel, summary
from symmetries.learners.vae import VAE, InvVAE, VAEConfig, inv_vae, proposal
from symmetries.learners.vae import model as vae_model
from symmetries.training import History, TrainConfig, load_state
from symmetries.training.step import seeded

SHAPE, COUNT, CLASSES = (1, 8, 8), 66, 3
RUN: dict[str, Any] = {"device": "cpu", "progress": False, "log_every": 1}
SHORT = {"steps": 6, "batch_size": 8}
SMALL = {"latent": 2, "channels": (4,), "strides": (2,), "hidden": 8}
SYMMETRY = SymmetryConfig.preset("quick").replace(
    widths=(8,),
    features=(8,),
    base=(8,),
    layers=1,
    conditioner=8,
    inference=SHORT,
    generative=SHORT,
)
JOINT = InvariantVAEConfig.preset("quick").replace(
    **SMALL, **SHORT, features=(8,), base=(8,), conditioner=8, samples=2
)
WEIGHTS = InvariantWeightsConfig.preset("quick").replace(
    features=16, **SHORT, samples=4, draws=2, head_only=1, search=2
)
ORBIT = OrbitConfig(
    bins=12,
    folds=2,
    check=False,
    views=Views(readings=1),
    network=Network(kind="mlp", features=8),
    training=Training(**SHORT, rounds=1),
    reading=Reading(pictures=COUNT, samples=16, resamples=4),
)
NETWORK = InvariantNetworkConfig.preset("quick").replace(
    **SHORT, samples=2, draws=1, every=2, curvature_rows=16, search=2
)
RELAXED = RelaxedConfig.preset("quick").replace(**SHORT, width=2)


def images(seed: int = 0) -> Tensor:
    """Soft bars of random directions."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.meshgrid(*[torch.linspace(-1, 1, SHAPE[1])] * 2, indexing="xy")
    angle = 6.3 * torch.rand(COUNT, 1, 1, generator=generator)
    across, along = angle.cos() * x + angle.sin() * y, angle.cos() * y - angle.sin() * x
    return torch.exp(-12 * across.square() - 2 * (along - 0.2).square())[:, None]


def symmetry_model(group: str, seed: int = 0) -> SymmetryModel:
    return SymmetryModel(group, SHAPE, SYMMETRY, seed=seed)


def moved(seed: int = 0) -> SymmetryModel:
    """A symmetry model that moves images: as it starts it leaves them where they are."""
    model, generator = symmetry_model("rotation"), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model


def small_network(seed: int = 0) -> nn.Module:
    """A network of a user."""
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(1, 2, 3, stride=2), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(),
            nn.Linear(18, CLASSES),
        )  # fmt: skip


class StopHere(Exception):
    """Raised in the middle of a training."""


@dataclass(frozen=True)
class Case:
    """A learner: how it is built from an action (if it takes one) and a seed, and its outputs."""

    kind: type
    build: Any
    outputs: Any
    group: str | None = None
    labelled: bool = False
    stages: tuple[str, ...] = ()

    def make(self, seed: int = 0, action: Any = None) -> Any:
        return self.build(self.group if action is None else action, seed)

    def load(self, folder: Any) -> Any:
        """Learners that hold something of the user's are given it again."""
        held = {InvVAE: moved, InvariantNetwork: small_network}.get(self.kind)
        return self.kind.load(folder) if held is None else self.kind.load(folder, held())

    @property
    def data(self) -> Any:
        labels = torch.arange(COUNT) % CLASSES
        return (images(), labels) if self.labelled else images()


def symmetry_case(group: str) -> Case:
    return Case(
        SymmetryModel,
        lambda action, seed: SymmetryModel(action, SHAPE, SYMMETRY, seed=seed),
        lambda model, x: [model.prototype(x), model.infer(x), model.log_prob(x, model.infer(x))],
        group,
        stages=("inference", "generative"),
    )


def orbit_case(group: str) -> Case:
    return Case(
        OrbitPosterior,
        lambda action, seed: OrbitPosterior(action, SHAPE, ORBIT, seed=seed),
        lambda model, x: [density.mass for density in model.densities(x)],
        group,
    )


def joint_case(group: str) -> Case:
    return Case(
        InvariantVAE,
        lambda action, seed: InvariantVAE(action, SHAPE, JOINT, seed=seed),
        lambda model, x: [model.prototype(x), model.reconstruct(x)],
        group,
    )


CASES = {
    "symmetry model": symmetry_case("rotation,translation"),
    "symmetry model, finite": symmetry_case("c4"),
    "orbit posterior": orbit_case("rotation,translation"),
    "orbit posterior, finite": orbit_case("c4"),
    "VAE": Case(
        VAE,
        lambda _, seed: VAE(SHAPE, VAEConfig.preset("quick").replace(**SMALL, **SHORT), seed=seed),
        lambda model, x: [model.reconstruct(x), model.noise],
    ),
    "InvVAE": Case(
        InvVAE,
        lambda _, seed: InvVAE(
            moved(), VAEConfig.preset("quick").replace(**SMALL, **SHORT), seed=seed
        ),
        lambda model, x: [model.reconstruct(x), model.noise, model.spread],
    ),
    "invariant VAE": joint_case("rotation"),
    "invariant VAE, finite": joint_case("c4"),
    "invariant weights": Case(
        InvariantWeights,
        lambda action, seed: InvariantWeights(action, SHAPE, CLASSES, WEIGHTS, seed=seed),
        lambda model, x: [model(x), model.network.half_width],
        "rotation",
        labelled=True,
        stages=("gradient", "searched"),
    ),
    "invariant network": Case(
        InvariantNetwork,
        lambda action, seed: InvariantNetwork(
            small_network(seed), action, SHAPE, NETWORK, seed=seed
        ),
        lambda model, x: [model(x), model.network.box.half_width],
        "rotation",
        labelled=True,
    ),
    "relaxed equivariance": Case(
        RelaxedEquivariance,
        lambda action, seed: RelaxedEquivariance(action, SHAPE, CLASSES, RELAXED, seed=seed),
        lambda model, x: [model(x)],
        "c4",
        labelled=True,
    ),
}
ACTING = {name: case for name, case in CASES.items() if case.group is not None}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
every_learner = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@pytest.fixture(scope="module", autouse=True)
def few_choices():
    """InvVAE looks for its proposal among fewer candidates, and for less long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inv_vae, "SPREADS", (0.03, 0.3))
        patch.setattr(inv_vae, "STRETCHES", (1.0, 1.6))
        patch.setattr(inv_vae, "PROPOSAL_SAMPLES", 4)
        patch.setattr(proposal, "FIRST_STEPS", 4)
        yield


@pytest.fixture(scope="module")
def fitted(few_choices) -> dict[int, tuple[Any, History]]:
    return {}


def fit(case: Case, made: dict[int, tuple[Any, History]]) -> tuple[Any, History]:
    """A model of the case, fitted once for all tests that only read it."""
    if id(case) not in made:
        model = case.make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made[id(case)] = model, model.fit(case.data, **RUN)
    return made[id(case)]


@torch.no_grad()
def outputs(case: Case, model: Any) -> list[Tensor]:
    return [part.detach().clone() for part in case.outputs(model, images(9))]


def equal(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@every_learner
def test_fit_returns_the_history_of_what_it_changed(case, fitted):
    model, history = fit(case, fitted)
    assert isinstance(model, nn.Module)
    assert not model.training
    assert isinstance(history, History)
    assert model.history is history
    assert len(history["loss"]) == len(history.step) > 1
    assert tuple(history.stages) == case.stages
    assert not equal(outputs(case, case.make()), outputs(case, model))
    again = History.from_json(json.loads(json.dumps(history.to_json())))
    assert again.step == history.step
    assert list(again.stages) == list(history.stages)


@every_learner
def test_saved_and_loaded_it_gives_the_same_numbers(case, fitted, tmp_path):
    model, _ = fit(case, fitted)
    assert model.save(tmp_path / "model").suffix == ".json"
    again = case.load(tmp_path / "model")
    assert type(again) is case.kind
    assert again.config == model.config
    assert equal(outputs(case, again), outputs(case, model))


@every_learner
def test_what_is_no_saved_learner_is_refused_by_name(case, fitted, tmp_path):
    model, _ = fit(case, fitted)
    other = VAE if case.kind is not VAE else InvariantVAE
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="expected a saved"):
        other.load(tmp_path / "model")
    with pytest.raises((ValueError, OSError), match="missing"):
        case.load(tmp_path / "missing")


def in_form(case: Case, form: str) -> Any:
    """The data of a case, as users have them."""
    x, labels = case.data if case.labelled else (case.data, torch.arange(COUNT) % CLASSES)
    return {
        "arrays": (x.numpy(), labels.numpy()) if case.labelled else x.numpy(),
        "image set": ImageSet(x, labels),
        "loader": DataLoader(TensorDataset(x, labels), batch_size=20),
    }[form]


@pytest.mark.parametrize("form", ["image set", "loader"])  # arrays: in the test of seeds
@every_learner
def test_data_comes_in_every_form(case, fitted, form):
    model, history = fit(case, fitted)
    data, same = in_form(case, form), case.make()
    found = same.fit(data, **RUN)
    torch.testing.assert_close(found["loss"], history["loss"], rtol=0, atol=0, equal_nan=True)
    assert same.summary(data).images == model.summary(case.data).images


@every_learner
def test_a_resumed_run_continues_exactly(case, fitted, tmp_path):
    whole, parts = fit(case, fitted)[0], case.make()
    data, run = case.data, {**RUN, "checkpoint_every": 1}
    append, seen = History.append, []

    def stop(self: Any, step: int, *numbers: Any, **more: Any) -> None:
        append(self, step, *numbers, **more)
        seen.append(step)
        if len(seen) == 4:
            raise StopHere

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(History, "append", stop)
        with pytest.raises(StopHere):
            parts.fit(data, out=tmp_path / "parts", **run)
    resumed = case.make()
    resumed.fit(data, out=tmp_path / "parts", resume=True, **run)
    assert equal(outputs(case, resumed), outputs(case, whole))
    other = case.make(seed=1)
    with pytest.raises(ValueError, match="seed: expected 0 as in the checkpoint"):
        other.fit(data, out=tmp_path / "parts", resume=True, **run)


@every_learner
def test_seeds_reproduce_and_differ(case, fitted):
    model, history = fit(case, fitted)
    same, other = case.make(), case.make(seed=1)
    found = same.fit(in_form(case, "arrays"), **RUN)
    assert same.summary(in_form(case, "arrays")).images == model.summary(case.data).images
    assert equal(outputs(case, same), outputs(case, model))
    torch.testing.assert_close(found["loss"], history["loss"], rtol=0, atol=0, equal_nan=True)
    other.fit(case.data, **RUN)
    assert not equal(outputs(case, other), outputs(case, model))


@every_learner
def test_the_summary_goes_to_json_and_back(case, fitted):
    model, _ = fit(case, fitted)
    found = model.summary(case.data)
    plain = found.to_dict() if hasattr(found, "to_dict") else found.model_dump(mode="json")
    text = json.loads(json.dumps(plain, allow_nan=False))
    read = type(found).from_dict if hasattr(found, "from_dict") else type(found).model_validate
    assert read(text) == found
    assert text["images"] == COUNT
    assert model.summary(case.data) == found, "random"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.labelled])
def test_a_summary_of_some_images_is_not_of_the_first_class_alone(name):
    model = CASES[name].make()
    x, labels = torch.zeros(600, *SHAPE), (torch.arange(600) // 300)  # one answer for all images
    answer = int(model(x[:1]).argmax())
    if answer > 1:
        labels = torch.where(labels == 1, answer, labels)
    found = model.summary((x, labels), most=100)
    numbers = found.to_dict() if hasattr(found, "to_dict") else found.model_dump()
    share = numbers["score"] if "score" in numbers else numbers["accuracy"]
    assert 0.3 < share < 0.7


@pytest.mark.parametrize("name", ["VAE", "InvVAE", "invariant VAE", "invariant VAE, finite"])
def test_the_error_of_some_images_is_not_that_of_the_first_ones(name):
    model = CASES[name].make()
    x = torch.zeros(600, *SHAPE)
    x[300:] = 10.0
    first, every, some = (
        model.summary(part, most=most, samples=2).reconstruction_error
        for part, most in ((x[:300], 100), (x, 600), (x, 100))
    )
    assert first < 0.1 * every
    assert some == pytest.approx(every, rel=0.3)


@pytest.mark.parametrize("name", ["symmetry model", "symmetry model, finite"])
def test_classes_of_some_images_are_not_those_of_the_first_ones(name):
    x, labels = torch.rand(600, *SHAPE), torch.arange(600) // 300
    found = CASES[name].make().summary(x, labels, most=100, n=8)
    assert found.images == 100
    assert {row.images > 30 for row in found.classes.values()} == {True}
    assert len(found.classes) == 2


def test_the_noise_floor_is_that_of_images_of_all_classes(monkeypatch):
    repeated = []

    def misses(model, x, generator):
        repeated.append(x)
        return torch.zeros(len(x), 2, len(model.bounds))

    monkeypatch.setattr(summary, "_misses", misses)
    x = torch.cat([torch.rand(300, *SHAPE), 5 + torch.rand(300, *SHAPE)])
    CASES["symmetry model"].make().summary(x, n=8)
    assert 0.3 < float((repeated[0] > 4).float().mean()) < 0.7


def test_noise_and_spread_are_found_on_images_of_all_classes(monkeypatch):
    for module in (vae_model, inv_vae):
        monkeypatch.setattr(module, "NOISE_IMAGES", 40)
    seen = []

    def noted(model, images, *more):
        seen.append(float((images > 4).float().mean()))

    monkeypatch.setattr(VAE, "fit_noise", noted)
    monkeypatch.setattr(InvVAE, "_fit_moved_noise", noted)
    monkeypatch.setattr(InvVAE, "fit_spread", noted)
    x = torch.cat([torch.rand(60, *SHAPE), 5 + torch.rand(60, *SHAPE)])
    CASES["InvVAE"].make().fit(x, **RUN)
    assert len(seen) == 3
    assert all(0.1 < share < 0.9 for share in seen)


@every_learner
def test_the_report_is_one_page(case, fitted, tmp_path):
    model, _ = fit(case, fitted)
    path = model.report(tmp_path / "page.html", case.data)
    page = path.read_text()
    assert page.lstrip().lower().startswith("<!doctype html")
    assert type(model).__name__ in page
    assert page.count("<svg") == max(1, len(case.stages))
    assert "http://" not in page.replace("http://www.w3.org", "")
    model.save(tmp_path / "model")
    assert case.load(tmp_path / "model").report(tmp_path / "bare.html").exists()


@every_learner
def test_bad_data_is_refused_by_name(case):
    model = case.make()
    good = case.data[0] if case.labelled else case.data

    def given(x: Any) -> Any:
        return (x, case.data[1][: len(x)]) if case.labelled else x

    for bad, message in (
        (good[:, :, :5], r"images: expected .*8"),
        (good[:0], r"images: expected at least one image"),
        (good.clone().fill_(float("nan")), r"images: expected .*finite"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(given(bad), **RUN)
    with pytest.raises((TypeError, ValueError), match=r"images|data"):
        model.fit("images", **RUN)
    with pytest.raises(ValueError, match=r"options: expected an option of fit: .*'speed'"):
        model.fit(case.data, speed=3)
    if case.labelled:
        with pytest.raises((TypeError, ValueError), match=r"labels|data"):
            model.fit(ImageSet(good, None, "bars"), **RUN)


@pytest.mark.parametrize("case", ACTING.values(), ids=ACTING)
def test_it_is_built_from_an_action_a_group_or_its_name(case, tmp_path):
    group = parse_group(case.group)
    named, given = case.make(), case.make(action=group)
    act = ImageAction(group, interpolation="bicubic", fill=0.25, padding="border")
    acting = case.make(action=act)
    assert equal(outputs(case, named), outputs(case, given))
    assert acting.act is act
    if hasattr(acting.config, "interpolation"):
        assert acting.config.interpolation == "bicubic"
        acting.save(tmp_path / "model")
        again = case.load(tmp_path / "model").act
        assert (again.interpolation, again.padding, again.fill) == ("bicubic", "border", 0.25)
    with pytest.raises(ValueError, match="action: expected an action on images, got PointAction"):
        case.make(action=PointAction(SE2()))
    with pytest.raises(ValueError, match="group: expected"):
        case.make(action="spin")


@every_learner
def test_the_state_is_on_disk_as_plain_data(case, fitted, tmp_path):
    model, _ = fit(case, fitted)
    model.save(tmp_path)
    _, meta = load_state(tmp_path)
    assert type(model.config).from_dict(meta["config"]) == model.config
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}


def test_options_of_a_run_are_fields_of_a_training():
    assert TrainConfig(1, 1)._leaves() >= RUN_FIELDS
