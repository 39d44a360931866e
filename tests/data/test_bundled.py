import pytest
import torch
from sklearn.datasets import load_digits

from symmetries.data import digits


def test_the_two_splits_are_the_whole_set():
    train, test = digits("train"), digits("test")
    assert (len(train), len(test)) == (1437, 360)
    found = torch.cat([train.images, test.images]).flatten(1)
    whole = torch.from_numpy(load_digits().data / 16).float()
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, whole.tolist()))


def test_labels_belong_to_the_images():
    source = load_digits()
    known = {tuple(row): int(label) for row, label in zip(source.data, source.target, strict=True)}
    data = digits("test")
    rows = (data.images.flatten(1) * 16).tolist()
    assert data.labels.tolist() == [known[tuple(row)] for row in rows]
    assert data.labels.bincount(minlength=10).min() > 20


def test_the_split_never_changes():
    assert digits("test").labels[:12].tolist() == LABELS


def test_unknown_split_is_named():
    with pytest.raises(ValueError, match="split: expected"):
        digits("dev")


LABELS = [3, 0, 2, 6, 9, 1, 8, 1, 3, 5, 8, 4]
