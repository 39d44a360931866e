"""Audits of models that a first user tries: constant, detached, fitted to named classes."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from symmetries import InvariantClassifier, audit
from symmetries.auditing import audit_model
from symmetries.auditing.models import CUT_OFF

IMAGES = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
WEIGHT = torch.randn(64, 3, generator=torch.Generator().manual_seed(1))
BIAS = torch.zeros(3, requires_grad=True)
MODELS = {
    "constant": lambda x: torch.zeros(len(x), 3),
    "constant of parameters": lambda x: BIAS.expand(len(x), 3),
    "detached": lambda x: x.flatten(1).detach() @ WEIGHT,
}


@pytest.mark.parametrize("name", MODELS)
def test_models_whose_outputs_have_no_gradients_are_audited_without_saliency(name):
    model = MODELS[name]
    found = audit_model(model, IMAGES, "c4", progress=False)
    assert CUT_OFF in found.notes
    assert found.saliency_similarity is None
    result = audit(model, IMAGES, "c4", progress=False)
    assert any(CUT_OFF in note for note in result.notes)
    assert result.saliency_similarity is None
    assert result.sensitivity is None
    assert (result.agreement.mean == 1) == name.startswith("constant")


def test_estimators_that_were_fitted_to_names_are_audited_by_names(tmp_path):
    numbers = torch.arange(40) % 2
    names = np.array(["left", "right"])[numbers]
    images = IMAGES.clone()
    images[torch.arange(40), 0, :, 2 + 3 * numbers] += 2
    images /= 3
    model = InvariantClassifier("rotation", features=16, steps=20, image_shape=(8, 8))
    model.fit(images.flatten(1).numpy(), names)
    right = model.score(images.flatten(1).numpy(), names)
    options = {"group": "c4", "fast": True, "progress": False}
    found = audit(model, (images, names), **options)
    assert found.accuracy.mean == pytest.approx(right)
    assert right > 0.6
    assert [row.label for row in found.by_class] == [0, 1]
    swapped = np.where(names == "left", "right", "left")
    assert audit(model, (images, swapped), **options).accuracy.mean == pytest.approx(1 - right)
    others = np.array(["above", "right"])[numbers]  # one class that it does not know
    fewer = audit(model, (images, others), **options)
    assert fewer.examples == 20
    with pytest.raises(ValueError, match="names of classes"):
        audit(model, (images, numbers), **options)


def test_estimators_of_others_are_audited_as_the_error_says():
    numbers = torch.arange(40) % 3
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(IMAGES.flatten(1).numpy(), numbers)
    with pytest.raises(TypeError, match=r"lambda x: model\.predict_proba\(x\.reshape"):
        audit(model, IMAGES, "c4", progress=False)
    found = audit(
        lambda x: model.predict_proba(x.reshape(len(x), -1)),
        (IMAGES, numbers),
        "c4",
        progress=False,
    )
    assert found.output == "probabilities"
    right = model.score(IMAGES.flatten(1).numpy(), numbers)
    assert found.accuracy.mean == pytest.approx(right)


def test_the_error_for_pictures_of_too_few_channels_names_them():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.Flatten())
    with pytest.raises(ValueError, match="give pictures with those that it takes"):
        audit(net, IMAGES, "c4", progress=False)
