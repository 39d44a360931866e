import colorsys
import hashlib
import math

import numpy as np
import pytest
import torch
from scipy import ndimage

from symmetries.data import (
    ImageSet,
    coloured,
    digits,
    load,
    rotated,
    scaled,
    sprites,
    translated,
    upside_down_sixes,
)
from symmetries.data.derived import Draws, hue_colours


def blob(n, row, column, side=28):
    """Images with one smooth bright spot, and its place."""
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    spot = torch.exp(-((y - row) ** 2 + (x - column) ** 2) / 8)
    return ImageSet(spot.expand(n, 1, side, side).contiguous(), torch.zeros(n, dtype=torch.int64))


def centres(images):
    """Mean place of the brightness: x to the right and y up, in pixels from the middle."""
    side = images.shape[-1]
    steps = torch.arange(side) - (side - 1) / 2
    total = images.sum((1, 2, 3))
    x = (images.sum((1, 2)) * steps).sum(1) / total
    y = -(images.sum((1, 3)) * steps).sum(1) / total
    return x.numpy(), y.numpy()


@pytest.mark.parametrize("degrees", [15, 90, 180])
def test_rotation_turns_each_image_by_its_angle(degrees):
    data = rotated(blob(200, 13.5, 21.5), degrees, "train")
    most = math.radians(degrees)
    angles = Draws(0, "rotation/train").uniform(200, -most, most)
    x, y = centres(data.images)
    turned = np.angle((x + 1j * y) * np.exp(-1j * angles))  # the spot starts at angle zero
    assert np.abs(turned).max() < 0.02
    assert np.abs(angles).max() > 0.95 * most
    assert (angles < 0).mean() == pytest.approx(0.5, abs=0.15)


def test_translation_moves_right_and_up():
    data = translated(blob(200, 13.5, 13.5), split="test")
    x, y = centres(data.images)
    shifts = Draws(0, "translation/test").uniform(400, -8, 8).reshape(200, 2)
    np.testing.assert_allclose(np.stack([x, y], 1), shifts, atol=0.15)


def test_small_images_move_less():
    x, _ = centres(translated(blob(200, 7.5, 7.5, 16), split="train").images)
    assert 3 < np.abs(x).max() < 16 * 2 / 7


def test_scale_is_isotropic_and_up_to_two():
    data = scaled(blob(200, 13.5, 13.5))
    zooms = np.exp(Draws(0, "scale/train").uniform(200, -math.log(2), math.log(2)))
    mass = data.images.sum((1, 2, 3)).numpy()
    np.testing.assert_allclose(mass / (8 * math.pi), zooms**2, rtol=0.03)
    assert zooms.min() < 0.52
    assert zooms.max() > 1.9


def test_rotation_agrees_with_scipy():
    """An independent oracle for values: bilinear, zero outside."""
    data = digits("test").subset(range(20))
    found = rotated(data, 180, "test").images
    angles = Draws(0, "rotation/test").uniform(20, -180, 180)
    for n in range(20):
        before = (data.images[n, 0].double() * 255).round().numpy()
        after = ndimage.rotate(before, angles[n], reshape=False, order=1, mode="grid-constant")
        assert np.abs(np.clip(after, 0, 255) - found[n, 0].numpy() * 255).max() < 0.51


def test_results_are_levels_of_grey():
    images = load("digits-scaled", "test").images
    assert torch.equal((images * 255).round() / 255, images)


def test_train_and_test_differ_and_seeds_differ():
    data = digits("test").subset(range(20))
    one = rotated(data, 90, "train").images
    assert torch.equal(one, rotated(data, 90, "train").images)
    assert not torch.equal(one, rotated(data, 90, "test").images)
    assert not torch.equal(one, rotated(data, 90, "train", seed=1).images)


def test_labels_and_names_stay():
    data = load("digits-partially-rotated", "test")
    assert torch.equal(data.labels, digits("test").labels)
    assert data.name == "digits-partially-rotated"
    assert data.class_names == tuple("0123456789")


def test_no_rotation_changes_nothing_but_the_levels():
    data = digits("test")
    same = rotated(data, 0).images
    assert (same - data.images).abs().max() < 0.5 / 255 + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_hue_agrees_with_colorsys(seed):
    hue, saturation = np.random.default_rng(seed).random((2, 50))
    expected = [colorsys.hsv_to_rgb(h, s, 1) for h, s in zip(hue, saturation, strict=True)]
    np.testing.assert_allclose(hue_colours(hue, saturation), expected, atol=1e-12)


def test_colours_keep_value_and_stay_in_range():
    data = digits("test")
    images = coloured(data, "test").images
    assert images.shape == (360, 3, 8, 8)
    torch.testing.assert_close(images.amax(1, keepdim=True), data.images, rtol=0, atol=0.003)
    bright = data.images[:, 0].flatten(1).argmax(1)
    pixels = images.flatten(2)[torch.arange(360), :, bright].tolist()
    hsv = np.array([colorsys.rgb_to_hsv(*pixel) for pixel in pixels])
    assert -0.01 < hsv[:, 0].min() < 0.02  # red
    assert 0.28 < hsv[:, 0].max() < 0.31  # 0.6 pi
    assert 0.59 < hsv[:, 1].min() < 0.62
    assert 0.88 < hsv[:, 1].max() < 0.91


def test_sixes_half_upside_down():
    source = digits("train")
    data = upside_down_sixes(source, "train")
    sixes = source.images[source.labels == 6]
    assert len(data) == len(sixes)
    assert data.labels.sum() == len(sixes) // 2
    assert data.class_names == ("6", "9")
    back = torch.where(data.labels[:, None, None, None] == 1, data.images.flip(2, 3), data.images)
    assert torch.equal(back, sixes)


def test_sixes_in_pairs():
    data = upside_down_sixes(digits("train"), pairs=True)
    assert torch.equal(data.images[::2].rot90(2, (2, 3)), data.images[1::2])
    assert data.labels[:4].tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda data: rotated(data, 181), "degrees"),
        (lambda data: rotated(data, math.nan), "degrees"),
        (lambda data: translated(data, -1.0), "pixels"),
        (lambda data: translated(data, 9.0), "pixels"),
        (lambda data: scaled(data, 0.5), "factor"),
        (lambda data: scaled(data, math.inf), "factor"),
        (lambda data: rotated(data, 5, "validation"), "split"),
        (lambda data: coloured(coloured(data)), "data"),
        (lambda data: upside_down_sixes(ImageSet(data.images)), "data"),
        (lambda data: upside_down_sixes(data.subset(data.labels < 5)), "data"),
    ],
)
def test_bad_arguments_are_named(make, name):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        make(digits("test"))


def digest(images):
    return hashlib.sha256((images * 255).round().to(torch.uint8).numpy().tobytes()).hexdigest()


@pytest.mark.parametrize("name", ["rotated", "partially-rotated", "translated", "scaled", "colour"])
def test_same_everywhere(name):
    """The sets are fixed for good: any change of them on any machine shows here."""
    assert digest(load(f"digits-{name}", "test").images) == DIGESTS[name]


def test_same_everywhere_larger_images():
    data = sprites("test", 64, 64)
    assert digest(rotated(data, 45, "test").images) == DIGESTS["sprites"]


DIGESTS = {
    "rotated": "c677884fe1a2f302ff22d29cf754db390708e0cdf2b0e1f6d68a0cde29262271",
    "partially-rotated": "2642f60ddfe415708cc8432f4f88a8c73b3612847a3e64ae3123c17533e74b1d",
    "translated": "2cffdf0b8ebc1dac7e06e151c30cd5c7181b6a09c2fabfc6f56255bbdacceef1",
    "scaled": "dc8c44cbc4e4d5ad2456b4c01447ed83ea13e3ac6ff2e797fefacc70d4f9ea37",
    "colour": "3f3367aede7cbac36b7710efd0d86b06b5eaa73f8900f93080237468ccd13e02",
    "sprites": "a5d6d5d17d4039b1a17c56087ba4b7491cea04d7455c4173956ec0aeda1e550b",
}
