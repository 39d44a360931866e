import warnings

import pytest
import torch

from symmetries.data import ImageSet, data_folder, standardise
from symmetries.data.base import FAR, check_unit_range, warn_if_large


def images(n=4):
    return torch.linspace(0, 1, n * 64).reshape(n, 1, 8, 8)


def test_subset_keeps_order_labels_and_names():
    data = ImageSet(images(), torch.tensor([3, 1, 0, 2]), "four", ("a", "b", "c", "d"))
    part = data.subset([2, 0])
    assert len(part) == 2
    assert part.labels.tolist() == [0, 3]
    assert torch.equal(part.images, data.images[[2, 0]])
    assert (part.name, part.class_names) == ("four", ("a", "b", "c", "d"))
    masked = data.subset(data.labels < 2)
    assert masked.labels.tolist() == [1, 0]


def test_classes_counts_names_else_labels():
    labels = torch.tensor([0, 1, 1, 0])
    assert ImageSet(images(), labels).classes == 2
    assert ImageSet(images(), labels, "n", ("a", "b", "c")).classes == 3
    assert ImageSet(images()).classes == 0


@pytest.mark.parametrize(
    ("pixels", "words"),
    [
        (torch.zeros(3, 8, 8), "images[:, None]"),
        (torch.zeros(0, 1, 8, 8), "at least one image"),
        (torch.zeros(2, 0, 8, 8), "no empty axis"),
        (torch.zeros(2, 1, 8, 8, dtype=torch.uint8), "floating-point"),
        (torch.zeros(2, 1, 8, 8, dtype=torch.float64), "float32"),
        (torch.full((2, 1, 8, 8), 255.0), "divide by 255"),
        (torch.full((2, 1, 8, 8), 16.0), "or by the largest value"),
        (torch.full((2, 1, 8, 8), -1.0), "(images + 1) / 2"),
        (torch.linspace(-2.1, 1.9, 128).view(2, 1, 8, 8), "undo the normalisation"),
        (torch.linspace(0, 1.7, 128).view(2, 1, 8, 8), "divide by"),
        (torch.linspace(-2.0, 7.0, 128).reshape(2, 1, 8, 8), "undo the normalisation"),
        (torch.full((2, 1, 8, 8), torch.nan), "128 of 128 NaN"),
        (torch.tensor([0.0, torch.inf]).reshape(2, 1, 1, 1), "1 of 2 NaN or infinite"),
    ],
)
def test_bad_images_are_named(pixels, words):
    with pytest.raises(ValueError, match="images: expected") as caught:
        ImageSet(pixels)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (torch.zeros(3, dtype=torch.int64), "one label per image"),
        (torch.zeros(4), "labels.long()"),
        (torch.tensor([0, 1, -1, 0]), "count classes from 0"),
        (torch.tensor([0, 1, 9_000_000, 0]), "class numbers below 100,000, got a label 9000000"),
        (torch.tensor([0, 1, 2, 0]), "a name for every class"),
    ],
)
def test_bad_labels_are_named(labels, words):
    with pytest.raises(ValueError, match="labels: expected") as caught:
        ImageSet(images(), labels, "n", ("a", "b"))
    assert words in str(caught.value)


@pytest.mark.parametrize("indices", [[], [4], [-5], [0.5], [[0, 1]], torch.tensor([True])])
def test_bad_indices_are_named(indices):
    with pytest.raises(ValueError, match="indices: expected"):
        ImageSet(images()).subset(indices)


def test_standardise_uses_the_reference():
    train = torch.rand(20, 1, 8, 8)
    done = standardise(train, train)
    assert done.mean().abs() < 1e-5
    assert (done.std() - 1).abs() < 1e-5
    assert torch.equal(standardise(train[:3], train), done[:3])
    with pytest.raises(ValueError, match="reference: expected"):
        standardise(train, torch.ones(2, 1, 8, 8))


def test_folder_from_argument_then_variable_then_cache(monkeypatch, tmp_path, no_folder):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    assert data_folder() == tmp_path / "cache"
    monkeypatch.setenv("SYMMETRIES_DATA", str(second))
    assert data_folder() == second
    assert data_folder(first) == first
    with pytest.raises(ValueError, match="folder: expected"):
        data_folder(tmp_path / "nowhere")
    monkeypatch.setenv("SYMMETRIES_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="SYMMETRIES_DATA: expected"):
        data_folder()


@pytest.mark.parametrize("largest", [255.0, 16.0])
def test_learners_tell_of_bytes_as_floats(largest):
    from symmetries.learners.invariant_vae import InvariantVAE
    from symmetries.learners.symmetry_model import SymmetryModel
    from symmetries.learners.vae import VAE

    generator = torch.Generator().manual_seed(0)
    bytes_ = largest * torch.rand(6, 1, 8, 8, generator=generator).round()
    match = rf"images: expected values in \[0, 1\], got values in \[0, {largest:g}\]; divide by"
    with pytest.raises(ValueError, match=match):
        SymmetryModel("rotation", (1, 8, 8)).fit(bytes_)
    for model in (VAE((1, 8, 8)), InvariantVAE("rotation", (1, 8, 8))):
        with pytest.warns(RuntimeWarning, match=rf"values in \[0, {largest:g}\].* divide by 255"):
            next(model.train_jobs(bytes_))


def test_noisy_and_standardised_images_are_fine():
    images = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    check_unit_range(images, "images", FAR)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_large(images)
        warn_if_large(images.abs().clamp(max=1.5))
    images[0, 0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match="finite values"):
        check_unit_range(images, "images", FAR)
