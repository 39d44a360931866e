import numpy as np
import pytest
import torch

from symmetries.data import NAMES, describe, load, mnist, names
from symmetries.data.derived import rotated

from .conftest import write_mnist


def test_every_paper_set_has_a_name():
    wanted = {"digits", "sprites", "sprites-resampled", "dsprites", "mnist", "fashion-mnist"}
    wanted |= {"cifar10", "cifar100", "mnist-colour", "mnist6-180", "mnist-rotated-15"}
    for base in ("mnist", "cifar10"):
        for ending in ("rotated", "partially-rotated", "translated", "scaled"):
            wanted.add(f"{base}-{ending}")
    for base in ("mnist", "fashion-mnist"):
        wanted |= {f"transforming-{base}-r4", f"transforming-{base}-t3"}
    assert wanted <= set(names()) == set(NAMES)


def test_every_name_is_described():
    for name in names():
        assert NAMES[name] in describe(name)
    assert "up to 37.5 degrees" in describe("cifar100-rotated-37.5")


@pytest.mark.parametrize(
    "name", [name for name in names() if name.startswith("mnist") and "colour" not in name]
)
def test_names_load_from_files(tmp_path, name):
    write_mnist(tmp_path, 40)
    data = load(name, "test", tmp_path)
    assert data.images.shape[1:] == (1, 28, 28)
    assert data.name == name


def test_colour_by_name(tmp_path):
    write_mnist(tmp_path, 40)
    assert load("mnist-colour", "test", tmp_path).images.shape == (20, 3, 28, 28)


def test_added_rotation_takes_any_angle(tmp_path):
    write_mnist(tmp_path, 40)
    found = load("mnist-rotated-22.5", "test", tmp_path)
    expected = rotated(mnist("test", tmp_path), 22.5, "test")
    assert torch.equal(found.images, expected.images)
    half = load("mnist-rotated-90", "test", tmp_path)
    assert torch.equal(half.images, load("mnist-partially-rotated", "test", tmp_path).images)
    with pytest.raises(ValueError, match="degrees: expected 0 to 180"):
        load("mnist-rotated-200", "test", tmp_path)


def test_names_win_over_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("digits.npy", np.zeros((2, 5, 5), np.uint8))
    assert load("digits", "test").images.shape == (360, 1, 8, 8)
    assert load("digits.npy").images.shape == (2, 1, 5, 5)
    (tmp_path / "digits").mkdir()
    with pytest.raises(ValueError, match=r"digits: expected pictures"):
        load("./digits")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("minst", "did you mean mnist"),
        ("digits-rotatd", "expected a name or an existing path"),
        ("rotated-45", "expected a name or an existing path"),
        ("digits-", "expected a name or an existing path"),
        ("", "expected"),
    ],
)
def test_unknown_names_are_named(name, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=words):
        load(name)


def test_bad_kinds_are_named(tmp_path):
    with pytest.raises(TypeError, match="from_array for arrays and tensors"):
        load(torch.zeros(2, 1, 8, 8))
    (tmp_path / "table.csv").write_text("1,2")
    with pytest.raises(ValueError, match=r"a \.npy or \.npz file"):
        load(tmp_path / "table.csv")
    with pytest.raises(ValueError, match="did you mean mnist"):
        describe("mnits")


@pytest.mark.parametrize("name", ["digits", "sprites", "digits-rotated"])
def test_bad_splits_are_named(name):
    with pytest.raises(ValueError, match="split: expected one of 'test', 'train'"):
        load(name, "validation")
