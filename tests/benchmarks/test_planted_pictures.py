"""Planted pictures show what the generator says, measured by other means than it uses."""

import colorsys
import math

import numpy as np
import pytest
import torch
from benchmarks.planted.contents import CONTENTS
from benchmarks.planted.glyphs import CHARACTERS, FONTS, glyphs
from benchmarks.planted.originals import Unavailable, wheel_picture
from benchmarks.planted.planting import plant
from PIL import Image
from scipy import ndimage


def pair(content, size, transformation, count=6, seed=3):
    """Pictures with and without a planted transformation, of the same originals."""
    moved = plant(content, size, count, transformation, seed)
    return moved, plant(content, size, count, {}, seed).images


def moments(picture):
    """Centre of mass (x right, y up) and second moments of (H, W), in pixels: by plain loops."""
    image = picture.numpy().astype(np.float64)
    rows, columns = np.indices(image.shape)
    total = image.sum()
    x, y = columns - (image.shape[1] - 1) / 2, (image.shape[0] - 1) / 2 - rows
    mean = np.array([(image * x).sum(), (image * y).sum()]) / total
    points = np.stack((x - mean[0], y - mean[1]))
    return mean, np.einsum("ihw,jhw,hw->ij", points, points, image) / total


def best_turn(picture, still):
    """The angle, counter-clockwise, that turns one picture into the other, by trying all."""
    quarter = ndimage.rotate(still, 90, reshape=False, order=1)
    assert np.abs(quarter - np.rot90(still)).max() < 1e-5  # scipy turns counter-clockwise, too
    angles = np.arange(-180, 180, 1.0)
    turned = [ndimage.rotate(still, a, reshape=False, order=3) for a in angles]
    return angles[int(np.argmax([(picture * t).sum() for t in turned]))]


def test_letters_are_turned_by_the_angle_that_is_stored():
    moved, still = pair("letters", 64, {"rotation": math.pi}, count=4)
    for picture, unmoved, angle in zip(
        moved.images[:, 0], still[:, 0], moved.planted["rotation"], strict=True
    ):
        gap = best_turn(picture.numpy(), unmoved.numpy()) - math.degrees(angle)
        assert abs((gap + 180) % 360 - 180) < 1.5


@pytest.mark.parametrize("content", ["letters", "hearts"])
def test_content_is_shifted_by_what_is_stored(content):
    moved, still = pair(content, 48, {"shift_x": 0.2, "shift_y": 0.2})
    for i in range(len(still)):
        found = moments(moved.images[i, 0])[0] - moments(still[i, 0])[0]
        stored = [24 * float(moved.planted[name][i]) for name in ("shift_x", "shift_y")]
        assert found == pytest.approx(stored, abs=0.05)


def test_sizes_are_changed_by_what_is_stored():
    moved, still = pair("letters", 64, {"zoom": 0.3})
    for i in range(len(still)):
        ratio = np.trace(moments(moved.images[i, 0])[1]) / np.trace(moments(still[i, 0])[1])
        assert math.log(ratio) / 2 == pytest.approx(float(moved.planted["zoom"][i]), abs=0.02)


def test_scales_and_shear_are_what_is_stored():
    names = ("scale_x", "scale_y", "shear")
    moved, still = pair("hearts", 64, dict.fromkeys(names, 0.25))
    for i in range(len(still)):
        sx, sy, shear = (float(moved.planted[name][i]) for name in names)
        generator = np.array([[sx, shear], [shear, sy]])
        values, vectors = np.linalg.eigh(generator)
        matrix = vectors @ np.diag(np.exp(values)) @ vectors.T
        expected = matrix @ moments(still[i, 0])[1] @ matrix.T
        assert moments(moved.images[i, 0])[1] == pytest.approx(expected, rel=0.04, abs=0.4)


def test_hue_is_turned_by_what_is_stored():
    moved, still = pair("coloured letters", 24, {"hue": math.pi})

    def hue(picture):
        return 360 * colorsys.rgb_to_hsv(*picture.mean((1, 2)).tolist())[0]

    for i in range(len(still)):
        gap = hue(moved.images[i]) - hue(still[i]) - math.degrees(moved.planted["hue"][i])
        assert abs((gap + 180) % 360 - 180) < 1


def test_half_of_the_pictures_are_mirrored_and_it_is_stored_which():
    moved, still = pair("letters", 32, {"flip_x": 0.5}, count=40)
    mirrored = moved.planted["flip_x"].bool()
    assert 8 < int(mirrored.sum()) < 32
    expected = torch.where(mirrored[:, None, None, None], still.flip(-1), still)
    assert torch.allclose(moved.images, expected, atol=1e-5)


def test_natural_sizes_are_drawn_as_the_content_says():
    found = plant("letters", 16, 2000, {}, 0).natural["zoom"]
    half = CONTENTS["letters"].natural["zoom"].half
    assert float(found.abs().max()) <= half
    assert float(found.std()) == pytest.approx(half / math.sqrt(3), rel=0.05)


def test_fonts_do_not_differ_in_place_size_and_proportions():
    every, labels = glyphs()
    assert len(every) == len(CHARACTERS) * len(FONTS)
    for character in range(len(CHARACTERS)):
        found = [moments(glyph[0]) for glyph in every[labels == character]]
        assert np.abs([mean for mean, _ in found]).max() < 0.3  # of 256 pixels
        seconds = np.stack([second for _, second in found])
        spread = np.abs(seconds - seconds.mean(0)).max() / np.trace(seconds.mean(0))
        assert spread < 0.01


def test_random_fields_have_no_direction():
    images = plant("random fields", 32, 400, {}, 0).images[:, 0].double()
    across = (images[:, :, 2:] - images[:, :, :-2]).square().mean() / 4
    along = (images[:, 2:] - images[:, :-2]).square().mean() / 4
    falling = (images[:, 1:, 1:] - images[:, :-1, :-1]).square().mean() / 2
    rising = (images[:, 1:, :-1] - images[:, :-1, 1:]).square().mean() / 2
    for one in (along, falling, rising):
        assert float(one / across) == pytest.approx(1, abs=0.06)


def test_parts_of_a_texture_are_what_lies_at_their_centres(tmp_path):
    ramp = np.linspace(0, 255, 512, dtype=np.uint8)
    (tmp_path / "scikit-image").mkdir()
    Image.fromarray(np.tile(ramp, (512, 1))).save(tmp_path / "scikit-image" / "brick.png")
    found = plant("bricks", 32, 20, {"rotation": math.pi}, 0, tmp_path)
    kind = CONTENTS["bricks"]
    assert wheel_picture("brick.png", tmp_path).shape == (1, 512, 512)
    assert kind.files == "scikit-image"
    for picture, angle in zip(found.images[:, 0], found.planted["rotation"], strict=True):
        rising = torch.stack(
            (picture[:, 2:].sum() - picture[:, :-2].sum(), picture[:-2].sum() - picture[2:].sum())
        )  # to the right, up
        direction = math.atan2(float(rising[1]), float(rising[0]))
        assert math.cos(direction - float(angle)) > 0.999
        assert float(picture.min()) > 0  # no corner lies outside


def test_a_picture_that_is_not_there_is_said(tmp_path):
    with pytest.raises(Unavailable, match="install it"):
        wheel_picture("nothing.png", tmp_path)


def test_the_same_seed_gives_the_same_pictures_and_another_gives_others():
    first, again, other = (plant("hearts", 16, 5, {"rotation": 1.0}, s) for s in (1, 1, 2))
    assert torch.equal(first.images, again.images)
    assert not torch.equal(first.images, other.images)
