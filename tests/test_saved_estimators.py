"""Estimators on disk: the same predictions afterwards, and clear errors for other files."""

import json

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from symmetries.estimators import InvariantClassifier, InvariantRegressor
from symmetries.estimators.saving import decode, encode
from symmetries.groups import Affine2
from symmetries.nn.conversion import export_onnx
from symmetries.training import save_model

SMALL = {"features": 24, "steps": 6, "samples": 4}
X = np.random.default_rng(0).random((40, 6, 6))
WORDS = np.array(["cat", "dog"])[np.arange(40) % 2]


@pytest.mark.parametrize("images", [X, X.reshape(40, 36), np.stack([X, X, X], 1)])
def test_a_classifier_predicts_the_same_after_loading(tmp_path, images):
    group = Affine2("rotation", "zoom")
    model = InvariantClassifier(group, random_state=np.random.RandomState(3), **SMALL)
    model.fit(images, WORDS).save(tmp_path / "m")
    loaded = InvariantClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(images), model.predict_proba(images))
    assert set(loaded.predict(images)) <= {"cat", "dog"}
    assert loaded.invariance_ == model.invariance_
    assert loaded.elbo_ == model.elbo_
    assert loaded.get_params()["features"] == 24


def test_a_classifier_as_a_module_gives_its_logits():
    model = InvariantClassifier(**SMALL).fit(4 * X, WORDS)
    logits = model.module()(torch.tensor(4 * X, dtype=torch.float32)[:, None])
    assert logits.shape == (40, 2)
    expected = model._moments(4 * X)[0]
    torch.testing.assert_close(logits.double(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("group", ["rotation", "rotation,translation,scale"])
@pytest.mark.parametrize("strict", [False, True])
def test_the_module_exports_for_any_number_of_images(group, strict):
    module = InvariantClassifier(group, **SMALL).fit(X, WORDS).module()
    batch = {0: torch.export.Dim("batch")}
    example = (torch.rand(3, 1, 6, 6),)
    program = torch.export.export(module, example, dynamic_shapes=(batch,), strict=strict)
    for count in (1, 5, 50):  # fewer images than filters, and more
        images = torch.rand(count, 1, 6, 6)
        with torch.no_grad():
            torch.testing.assert_close(
                program.module()(images), module(images), atol=1e-5, rtol=1e-5
            )


def test_the_module_exports_to_onnx_without_a_loop_over_pixels(tmp_path):
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    module = InvariantClassifier(**SMALL).fit(X, WORDS).module()
    path = export_onnx(module, torch.rand(2, 1, 6, 6), tmp_path / "model.onnx")
    assert "Loop" not in {node.op_type for node in onnx.load(path).graph.node}
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for count in (1, 50):
        images = torch.rand(count, 1, 6, 6)
        (found,) = session.run(["outputs"], {"images": images.numpy()})
        with torch.no_grad():
            torch.testing.assert_close(
                torch.from_numpy(found), module(images), atol=1e-5, rtol=1e-5
            )


def test_the_module_draws_once_and_saves_nothing_of_it():
    model = InvariantClassifier(**SMALL).fit(X, WORDS)
    module, images = model.module(), torch.rand(5, 1, 6, 6)
    assert "noise" not in module.state_dict()
    again = module.model.features(
        images / module.scale, 4, "sobol", torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(module(images), module.model.head(again)[0][0], atol=0, rtol=0)


def test_a_regressor_keeps_its_scale(tmp_path):
    y = 1000 + 50 * X.mean((1, 2))
    model = InvariantRegressor(**SMALL).fit(X, y)
    model.save(tmp_path)
    np.testing.assert_array_equal(InvariantRegressor.load(tmp_path).predict(X), model.predict(X))


def test_only_what_was_fitted_is_saved(tmp_path):
    with pytest.raises(NotFittedError):
        InvariantClassifier().save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_other_files_are_refused(tmp_path):
    InvariantClassifier(**SMALL).fit(X, WORDS).save(tmp_path)
    with pytest.raises(ValueError, match=r"expected a saved InvariantRegressor, got Invariant"):
        InvariantRegressor.load(tmp_path)
    with pytest.raises(ValueError, match="has anything been saved here"):
        InvariantClassifier.load(tmp_path / "nothing")


def test_a_newer_version_is_refused(tmp_path):
    path = InvariantClassifier(**SMALL).fit(X, WORDS).save(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}))
    with pytest.raises(ValueError, match="upgrade it"):
        InvariantClassifier.load(tmp_path)


def test_arguments_of_another_version_are_named(tmp_path):
    model = InvariantClassifier(**SMALL).fit(X, WORDS)
    meta = {"estimator": "InvariantClassifier", "parameters": {"spin": 1}, "fitted": {}}
    save_model(tmp_path, model.model_, meta)
    with pytest.raises(ValueError, match=r"'spin'; read it with the version"):
        InvariantClassifier.load(tmp_path)


def test_values_go_both_ways():
    value = [None, True, 1, 2.5, "a", (1, 2), {"b": (3,)}]
    assert decode(encode(value)) == value
    array = decode(encode(np.array([3, 4], dtype=np.int16)))
    assert (array.dtype, array.tolist()) == (np.int16, [3, 4])
    assert decode(encode(np.float32(0.5))) == 0.5
    with pytest.raises(ValueError, match="plain data"):
        encode(object())
