import pytest
import torch

from symmetries.data import ImageSet, digits, drift, load, standardise, transforming
from symmetries.data.drifting import COUNTS, pair_by_label, transform_pool

from .conftest import write_mnist

SMALL = {"train": 300, "test": 900, "validation": 100}


def pool():
    return [digits("train"), digits("test")]


@pytest.fixture(scope="module")
def r4():
    return {split: transform_pool(pool(), "r4", split, SMALL) for split in SMALL}


def test_the_papers_counts():
    assert COUNTS == {"train": 10_000, "test": 50_000, "validation": 2_000}


def test_padded_and_without_the_nine(r4):
    for split, count in SMALL.items():
        data = r4[split]
        assert data.images.shape == (count, 1, 36, 36)
        assert sorted(data.labels.unique().tolist()) == list(range(9))
        assert data.class_names == tuple("012345678")


def turns(image):
    return [image.rot90(k, (1, 2)) for k in range(4)]


def shifts(image):
    return [image.roll(12 * k, 2) for k in range(3)]


@pytest.mark.parametrize(("group", "orbit"), [("r4", turns), ("t3", shifts)])
def test_images_are_exact_transforms_of_the_padded_ones(group, orbit):
    data = transform_pool(pool(), group, "validation", SMALL)
    source = torch.cat([part.images for part in pool()])
    known = {}
    for image in torch.nn.functional.pad(source, (14, 14, 14, 14)):
        for k, moved in enumerate(orbit(image)):
            known.setdefault(moved.numpy().tobytes(), k)
    elements = [known[image.numpy().tobytes()] for image in data.images]
    assert set(elements) == set(range(len(orbit(source[0]))))  # each element is used


def test_splits_share_no_image(r4):
    keys = []
    for data in r4.values():
        orbits = [min(t.numpy().tobytes() for t in turns(image)) for image in data.images]
        keys.append(set(orbits))
    assert not keys[0] & keys[1]
    assert not keys[0] & keys[2]
    assert not keys[1] & keys[2]


def test_fixed_by_the_seed(r4):
    again = transform_pool(pool(), "r4", "train", SMALL)
    assert torch.equal(again.images, r4["train"].images)
    other = transform_pool(pool(), "r4", "train", SMALL, seed=1)
    assert not torch.equal(other.images, r4["train"].images)


def test_standardised_as_the_paper_says(r4):
    train = standardise(r4["train"].images, r4["train"].images)
    assert train.mean().abs() < 1e-5
    assert (train.std() - 1).abs() < 1e-5


def test_by_name_from_files(tmp_path, monkeypatch):
    for place in ("mnist", "fashion-mnist"):
        write_mnist(tmp_path / place, 100)
    small = {"train": 40, "test": 60, "validation": 20}
    monkeypatch.setattr("symmetries.data.drifting.COUNTS", small)
    for name in ("mnist", "fashion-mnist"):
        for group in ("r4", "t3"):
            data = load(f"transforming-{name}-{group}", "validation", tmp_path)
            assert data.images.shape == (20, 1, 36, 36)
            assert data.name == f"transforming-{name}-{group}"
            assert data.labels.max() < 9


def test_too_few_images_are_named(tmp_path):
    write_mnist(tmp_path / "mnist", 100)
    with pytest.raises(ValueError, match="62000 images outside class 9, got 135 images"):
        transforming("mnist", "r4", "train", tmp_path)


def test_bad_arguments_are_named(tmp_path):
    with pytest.raises(ValueError, match="group: expected"):
        transforming("mnist", "r8", "train", tmp_path)
    with pytest.raises(ValueError, match="split: expected one of 'test', 'train', 'validation'"):
        transforming("mnist", "r4", "valid", tmp_path)
    with pytest.raises(ValueError, match="name: expected"):
        transforming("digits", "r4", "train", tmp_path)
    large = ImageSet(torch.zeros(4, 1, 40, 40), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match="at most 36 x 36 pixels"):
        transform_pool([large], "r4", "train", {"train": 4})


def sets():
    generator = torch.Generator().manual_seed(0)
    first = ImageSet(torch.rand(9, 1, 4, 4, generator=generator), torch.arange(9) % 3)
    second = ImageSet(torch.rand(6, 1, 4, 4, generator=generator), torch.arange(6) % 3)
    return first, second


def test_drift_is_linear_and_paired_by_label():
    first, second = sets()
    partner = pair_by_label(first.labels, second.labels)
    assert torch.equal(second.labels[partner], first.labels)
    for beta in (0.0, 0.25, 1.0):
        found = drift(first, second, beta)
        expected = (1 - beta) * first.images + beta * second.images[partner]
        torch.testing.assert_close(found.images, expected, rtol=0, atol=1e-6)
        assert torch.equal(found.labels, first.labels)
    assert torch.equal(drift(first, second, 0.0).images, first.images)
    assert torch.equal(drift(first, second, 1.0).images, second.images[partner])


def test_pairs_use_different_partners_while_there_are_some():
    first, second = sets()
    partner = pair_by_label(first.labels, second.labels)
    assert len(set(partner.tolist())) == len(second)


def test_bad_drifts_are_named():
    first, second = sets()
    with pytest.raises(ValueError, match="beta: expected"):
        drift(first, second, 1.1)
    with pytest.raises(ValueError, match="beta: expected"):
        drift(first, second, float("nan"))
    with pytest.raises(ValueError, match="labels: expected labels in both sets"):
        drift(first, ImageSet(second.images), 0.5)
    with pytest.raises(ValueError, match="second: expected images of shape"):
        drift(first, ImageSet(second.images[:, :, 1:], second.labels), 0.5)
    with pytest.raises(ValueError, match="second: expected images labelled 2, got none"):
        drift(first, second.subset(second.labels < 2), 0.5)
