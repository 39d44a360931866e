"""Labels that are numbers or names, in arrays, files and data sets."""

import numpy as np
import pytest
import torch
from PIL import Image

from symmetries.data import array_file, from_array, from_dataset

IMAGES = np.zeros((4, 8, 8), np.uint8)
NAMES = np.array(["dog", "cat", "dog", "eel"])


def labelled(*labels):
    return [(torch.zeros(1, 8, 8), label) for label in labels]


@pytest.mark.parametrize("labels", [NAMES, NAMES[:, None], NAMES.tolist()])
def test_names_are_classes_in_sorted_order(labels):
    data = from_array(IMAGES, labels)
    assert data.class_names == ("cat", "dog", "eel")
    assert data.labels.tolist() == [1, 0, 1, 2]


def test_the_order_of_given_names_is_kept():
    data = from_array(IMAGES, NAMES, class_names=("eel", "dog", "cat", "fox"))
    assert data.labels.tolist() == [1, 2, 1, 0]
    with pytest.raises(ValueError, match=r"names among \('eel', 'dog'\), got 'cat'"):
        from_array(IMAGES, NAMES, class_names=("eel", "dog"))


def test_labels_of_other_kinds():
    with pytest.raises(ValueError, match=r"integers or text, got float64; .*astype\(str\)"):
        from_array(IMAGES, np.zeros(4))


def test_files_have_the_same_classes_in_all_splits(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x_train=IMAGES, y_train=NAMES, x_test=IMAGES[:2], y_test=NAMES[2:])
    train, test = array_file(path), array_file(path, "test")
    assert train.class_names == test.class_names == ("cat", "dog", "eel")
    assert (train.labels.tolist(), test.labels.tolist()) == ([1, 0, 1, 2], [1, 2])
    np.savez(path, images=IMAGES, labels=NAMES, class_names=np.array(["eel", "dog", "cat"]))
    assert array_file(path).labels.tolist() == [1, 2, 1, 0]


def test_letters_that_are_none(tmp_path):
    bad = np.array([0x110000] * 4, np.uint32).view("<U1")
    np.savez(tmp_path / "a.npz", images=IMAGES, labels=bad)
    with pytest.raises(ValueError, match="labels that are text, got numbers"):
        array_file(tmp_path / "a.npz")


def test_data_sets_with_names():
    data = from_dataset(labelled("dog", "cat", "dog"))
    assert (data.labels.tolist(), data.class_names) == ([1, 0, 1], ("cat", "dog"))


@pytest.mark.parametrize("labels", [(1, 0), (np.int32(1), torch.tensor([0])), (True, False)])
def test_data_sets_with_numbers(labels):
    assert from_dataset(labelled(*labels)).labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ((0, 1.7), r"got 1\.7; return int\(label\)"),
        ((torch.tensor(0.5),), r"return int\(label\)"),
        ((torch.eye(3)[0],), r"shape \(3,\); return the number: label\.argmax\(\)"),
        (([0, 1],), r"label\.argmax\(\)"),
        (({"label": 3, "box": 1},), "a dict of 'label', 'box'; return the entry"),
        ((None,), "got None; return an int or a str"),
        ((1, "cat"), "numbers and names"),
    ],
)
def test_data_sets_with_other_labels(labels, message):
    with pytest.raises(ValueError, match=f"labels: expected class numbers or names.*{message}"):
        from_dataset(labelled(*labels))


def test_items_that_are_dicts():
    with pytest.raises(ValueError, match=r"pairs .*, got dicts of 'image', 'label'"):
        from_dataset([{"image": np.zeros((8, 8)), "label": 1}])


def test_palettes_with_transparency():
    picture = Image.new("P", (8, 9), 1)
    picture.putpalette([0] * 6)
    picture.info["transparency"] = 1
    assert from_dataset([picture]).images.min() == 1
