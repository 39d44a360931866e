"""Estimators among others: in a pipeline, in cross-validation, and in a torch DataLoader."""

import numpy as np
import pytest
import torch
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch.utils.data import DataLoader, TensorDataset

from symmetries.estimators import InvariantRegressor, RelaxedClassifier
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel

RNG = np.random.default_rng(0)
CLASSES = np.arange(40) % 2
IMAGES = RNG.random((40, 36)) * 0.2 + CLASSES[:, None] * np.linspace(0, 1, 36)  # a slope, or none


@pytest.mark.parametrize(
    ("estimator", "targets"),
    [
        (RelaxedClassifier(width=2, steps=30), CLASSES),
        (InvariantRegressor(features=24, steps=10, samples=4), IMAGES.mean(1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_cross_validation_of_a_pipeline(estimator, targets):
    pipeline = make_pipeline(FunctionTransformer(), estimator)
    scores = cross_val_score(pipeline, IMAGES, targets, cv=2)
    assert len(scores) == 2
    assert scores.min() > 0.5


def test_augment_in_a_data_loader():
    images = torch.rand(12, 1, 8, 8)
    model = SymmetryModel("rotation", (1, 8, 8), SymmetryConfig.preset("quick"))

    def moved(items):
        pictures, labels = (torch.stack(part) for part in zip(*items, strict=True))
        return model.augment(pictures), labels

    loader = DataLoader(TensorDataset(images, torch.arange(12)), 4, collate_fn=moved)
    batches = list(loader)
    assert [labels.tolist() for _, labels in batches] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
    ]
    assert all(pictures.shape == (4, 1, 8, 8) for pictures, _ in batches)
    assert not torch.equal(torch.cat([pictures for pictures, _ in batches]), images)
