"""Estimators with a network of the user's own: fits, files, exports and refusals."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from symmetries.estimators import InvariantClassifier, InvariantRegressor
from symmetries.learners import InvariantNetwork, InvariantNetworkConfig
from symmetries.learners.invariant_network import evidence
from symmetries.learners.invariant_network import model as learner_model
from symmetries.nn.conversion import export, export_onnx
from symmetries.nn.named_networks import named_network

CONFIG = InvariantNetworkConfig.preset("quick").replace(
    steps=60, search=2, samples=4, curvature_rows=64, every=20
)
X, Y = load_digits(return_X_y=True)
X, Y = X[:160], Y[:160]


def own() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


@pytest.fixture(scope="module", autouse=True)
def extrapolated():
    """The evidence is extrapolated from some rows, as for large sets: the exact one takes long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "EXACT", {"cpu": (0, 0)})
        yield


@pytest.fixture(scope="module")
def fitted() -> InvariantClassifier:
    return InvariantClassifier(network="cnn", network_config=CONFIG).fit(X, Y)


def test_a_classifier_with_a_network_predicts_and_is_loaded_again(fitted, tmp_path):
    assert fitted.score(X, Y) > 0.6
    assert fitted.invariance_[0].interval is not None
    assert np.isfinite(fitted.elbo_)
    fitted.save(tmp_path)
    again = InvariantClassifier.load(tmp_path)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.invariance_ == fitted.invariance_
    assert again.network_config == CONFIG
    assert clone(fitted).network == "cnn"


def test_the_module_has_the_average_baked_in_and_exports(fitted, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    module = fitted.module()
    images = torch.from_numpy(X[:7]).float().reshape(-1, 1, 8, 8)
    expected = torch.from_numpy(fitted.predict_proba(X[:7])).float()
    torch.testing.assert_close(module(images).softmax(1), expected, atol=1e-5, rtol=1e-4)
    program = export(module, images[:2])
    torch.testing.assert_close(program.module()(images), module(images), atol=1e-5, rtol=1e-5)
    export_onnx(module, images[:2], tmp_path / "a.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "a.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    np.testing.assert_allclose(found, module(images).detach(), atol=1e-4)


def test_a_network_of_ones_own_is_copied_and_given_again(tmp_path):
    network = own()
    before = network[1].weight.clone()
    model = InvariantClassifier(network=network, network_config=CONFIG, learn=False).fit(X, Y)
    assert torch.equal(network[1].weight, before)
    model.save(tmp_path)
    with pytest.raises(ValueError, match=r"load\(folder, network=module\)"):
        InvariantClassifier.load(tmp_path)
    again = InvariantClassifier.load(tmp_path, network=own())
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    few = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(ValueError, match="got 3 outputs for 10 classes"):
        InvariantClassifier(network=few, network_config=CONFIG).fit(X, Y)


def test_half_widths_of_single_classes_are_saved(monkeypatch, tmp_path):
    own_widths = {3: torch.tensor([2.0])}
    monkeypatch.setattr(learner_model, "search_classes", lambda *_, **__: ([], own_widths))
    config = CONFIG.replace(by_class=True, steps=20)
    fitted = InvariantClassifier(network=own(), network_config=config).fit(X, Y)
    assert fitted.class_widths_ == [(3, [2.0])]
    fitted.save(tmp_path)
    again = InvariantClassifier.load(tmp_path, network=own())
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.class_widths_ == fitted.class_widths_
    again.set_params(learn=False).fit(X, Y)
    assert again.class_widths_ == []
    assert again.model_.class_widths is None


def test_numbers_are_predicted_by_a_network():
    y = X.reshape(-1, 8, 8)[:, :4].mean((1, 2))
    config = CONFIG.replace(steps=100, lr=1e-2)
    model = InvariantRegressor("rotation", network="cnn", network_config=config).fit(X, y)
    assert model.score(X, y) > 0.5


def test_a_loader_is_fitted_without_a_shape():
    images = torch.from_numpy(X).float().reshape(-1, 1, 8, 8) / 16
    loader = DataLoader(TensorDataset(images, torch.from_numpy(Y)), batch_size=50)
    model = InvariantNetwork(own(), "rotation", config=CONFIG)
    model.fit(loader, device="cpu", progress=False)
    assert model.shape == (1, 8, 8)
    assert model(images[:3]).shape == (3, 10)


@pytest.mark.parametrize("name", ["cnn", "resnet"])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (2, 9, 14)])
def test_named_networks_take_images_of_any_size(name, shape):
    network = named_network(name, shape, 5, seed=3).eval()
    x = torch.rand(2, *shape)
    assert network(x).shape == (2, 5)
    assert torch.equal(named_network(name, shape, 5, seed=3).eval()(x), network(x))
    assert not torch.equal(named_network(name, shape, 5, seed=4).eval()(x), network(x))


@pytest.mark.parametrize("group", ["translation", "zoom", "hue", "rotation,zoom", "se2"])
def test_other_groups_have_widths_and_intervals_in_their_own_units(group):
    rng = np.random.default_rng(0)
    images, labels = rng.random((40, 3, 8, 8)), np.arange(40) % 2
    short = CONFIG.replace(steps=4, search=2, samples=2, curvature_rows=40)
    model = InvariantClassifier(group, network="cnn", network_config=short).fit(images, labels)
    assert model.predict(images[:3]).shape == (3,)
    assert len(model.invariance_) == len(model.model_.profiles) == model.model_.group.dim
    for part, profile in zip(model.invariance_, model.model_.profiles, strict=True):
        used = profile.used > 0
        low, high = part.interval if used else [1.0 if part.unit == "factor" else 0.0] * 2
        assert low - 1e-6 <= part.half_width <= high + 1e-6
    module = model.module()
    x = torch.from_numpy(images[:4]).float()
    expected = torch.from_numpy(model.predict_proba(images[:4])).float()
    torch.testing.assert_close(module(x).softmax(1), expected, atol=1e-4, rtol=1e-3)
