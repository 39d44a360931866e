import numpy as np
import pytest
import torch
from PIL import Image

from symmetries.data import PictureStream, load, picture_folder

RNG = np.random.default_rng(1)


def grey(path, size=(6, 9)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, size, dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return torch.from_numpy(pixels).float() / 255


def test_loose_pictures_in_the_order_of_their_names(tmp_path):
    second, first = grey(tmp_path / "b.png"), grey(tmp_path / "a.PNG")
    (tmp_path / "notes.txt").write_text("not a picture")
    (tmp_path / ".hidden.png").write_text("not a picture")
    data = load(tmp_path)
    assert torch.equal(data.images, torch.stack([first, second])[:, None])
    assert (data.labels, data.name) == (None, tmp_path.name)


def test_class_folders(tmp_path):
    for name, count in (("dog", 2), ("cat", 3)):
        for i in range(count):
            grey(tmp_path / name / f"{i}.png")
    (tmp_path / ".cache").mkdir()
    data = load(str(tmp_path))
    assert data.class_names == ("cat", "dog")
    assert data.labels.tolist() == [0, 0, 0, 1, 1]
    assert data.images.shape == (5, 1, 6, 9)


def test_splits(tmp_path):
    for split, count in (("train", 3), ("test", 1)):
        for i in range(count):
            grey(tmp_path / split / "a" / f"{i}.png")
    assert len(load(tmp_path, "train")) == 3
    assert len(load(tmp_path, "test")) == 1
    with pytest.raises(ValueError, match="a folder 'test', got none"):
        picture_folder(tmp_path / "train", "test")


def test_colour_and_grey_together_are_colour(tmp_path):
    pixels = grey(tmp_path / "a.png")
    colours = RNG.integers(0, 256, (6, 9, 3), dtype=np.uint8)
    Image.fromarray(colours).save(tmp_path / "b.png")
    Image.fromarray(colours).quantize(4).save(tmp_path / "c.png")  # a palette
    data = picture_folder(tmp_path)
    assert data.images.shape == (3, 3, 6, 9)
    assert torch.equal(data.images[0], pixels.expand(3, 6, 9))
    assert torch.equal(data.images[1], torch.from_numpy(colours).permute(2, 0, 1).float() / 255)


def test_small_pictures_keep_their_layout(tmp_path):
    """A height of three pixels is not taken for three channels."""
    Image.fromarray(RNG.integers(0, 256, (3, 9, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    assert picture_folder(tmp_path).images.shape == (1, 3, 3, 9)


def test_sizes_must_agree_or_be_given(tmp_path):
    grey(tmp_path / "a.png", (6, 9))
    grey(tmp_path / "b.png", (7, 9))
    with pytest.raises(ValueError, match=r"\(9, 7\) in b\.png and \(9, 6\) in a\.png"):
        picture_folder(tmp_path)
    assert picture_folder(tmp_path, size=(4, 5)).images.shape == (2, 1, 4, 5)


def test_bad_folders_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"pictures .* got none"):
        picture_folder(tmp_path)
    with pytest.raises(ValueError, match="folder: expected a folder of pictures"):
        picture_folder(tmp_path / "nowhere")
    grey(tmp_path / "a.png")
    grey(tmp_path / "cat" / "a.png")
    with pytest.raises(ValueError, match="1 pictures beside class folders such as 'cat'"):
        picture_folder(tmp_path)


def test_unreadable_pictures_are_named(tmp_path):
    grey(tmp_path / "a.png", (40, 40))
    whole = (tmp_path / "a.png").read_bytes()
    for data in (b"", b"no picture", whole[: len(whole) // 2]):
        (tmp_path / "a.png").write_bytes(data)
        with pytest.raises(ValueError, match=r"a\.png: expected a readable picture"):
            picture_folder(tmp_path)
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="8 bits per channel"):
        picture_folder(tmp_path)


def test_a_few_bytes_that_claim_a_huge_picture_are_refused(tmp_path):
    frame = b"," + bytes(4) + b"\x09\x00\x09\x00" + b"\x00\x08\x00;"
    size = (9481).to_bytes(2, "little") + (17737).to_bytes(2, "little")
    (tmp_path / "bomb.gif").write_bytes(b"GIF87a" + size + bytes(3) + frame)
    with pytest.raises(ValueError, match=r"bomb.gif.*claim 9481 x 17737 pixels"):
        picture_folder(tmp_path)


def test_formats_that_run_other_programs_are_not_tried(tmp_path):
    (tmp_path / "page.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\nshowpage\n"
    )
    with pytest.raises(ValueError, match=r"page.png: expected a readable picture"):
        picture_folder(tmp_path)


def test_pictures_stand_as_the_camera_was_held(tmp_path):
    picture = Image.fromarray(np.arange(24, dtype=np.uint8).reshape(4, 6))
    told = Image.Exif()
    told[274] = 6  # to be turned by a quarter, clockwise
    picture.save(tmp_path / "a.png", exif=told)
    expected = torch.arange(24).reshape(4, 6).rot90(-1) / 255
    torch.testing.assert_close(picture_folder(tmp_path).images[0, 0], expected)


def transparent(mode):
    """Left half black, right half transparent, over black, in one of the modes of PNG."""
    black, clear = {"RGBA": ((0, 0, 0, 255), (0, 0, 0, 0)), "LA": ((0, 255), (0, 0))}.get(
        mode, (0, 1)
    )
    picture = Image.new(mode, (4, 3), clear)
    if mode == "P":
        picture.putpalette([0] * 6)
    picture.paste(black, (0, 0, 2, 3))
    return picture, {} if mode in ("RGBA", "LA") else {"transparency": 1}


@pytest.mark.parametrize(
    ("mode", "channels"), [("RGBA", 3), ("LA", 1), ("P", 3), ("L", 1), ("1", 1)]
)
@pytest.mark.parametrize("size", [None, (6, 8)])
def test_what_is_transparent_shows_white(tmp_path, mode, channels, size):
    picture, options = transparent(mode)
    picture.save(tmp_path / "a.png", **options)
    images = picture_folder(tmp_path, size=size).images
    assert images.shape[1] == channels
    assert (images[..., 0].max(), images[..., -1].min()) == (0, 1)


def test_half_transparent_and_opaque_pixels(tmp_path):
    pixels = RNG.integers(0, 256, (6, 9, 4), dtype=np.uint8)
    pixels[:3, :, 3] = 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    images = picture_folder(tmp_path).images[0].permute(1, 2, 0).numpy()
    alpha = pixels[..., 3:] / 255
    expected = alpha * pixels[..., :3] / 255 + 1 - alpha
    np.testing.assert_array_equal(images[:3], pixels[:3, :, :3] / np.float32(255))
    np.testing.assert_allclose(images, expected, atol=1 / 255)


def frames(path, count):
    """A file with several pictures, the first of which is dark."""
    first, *others = [Image.new("L", (8, 8), 40 * i) for i in range(count)]
    kind = {"save_all": True, "append_images": others} if others else {}
    first.save(path, **kind)


@pytest.mark.parametrize("suffix", [".gif", ".png", ".tiff", ".webp"])
def test_of_several_frames_the_first_is_used_and_the_file_is_named(tmp_path, suffix):
    for name, count in (("a", 1), ("b", 3), ("c", 2)):
        frames(tmp_path / f"{name}{suffix}", count)
    with pytest.warns(RuntimeWarning, match=rf"the first is used: b{suffix}, c{suffix};"):
        found = picture_folder(tmp_path)
    assert found.images.max() == 0
    with pytest.warns(RuntimeWarning, match=rf"the first is used: b{suffix};"):
        PictureStream(tmp_path, (8, 8))[1]


def test_one_warning_for_many_files_with_frames(tmp_path):
    for number in range(9):
        frames(tmp_path / f"{number}.gif", 2)
    with pytest.warns(RuntimeWarning, match=r"4\.gif, \.\.\. \(9 files\)") as caught:
        picture_folder(tmp_path)
    assert len(caught) == 1


def test_the_photograph_of_a_telephone_is_one_picture(tmp_path, recwarn):
    first, preview = Image.new("RGB", (16, 16), "red"), Image.new("RGB", (8, 8), "blue")
    first.save(tmp_path / "a.jpg", "MPO", save_all=True, append_images=[preview])
    assert picture_folder(tmp_path).images.shape == (1, 3, 16, 16)
    assert not list(recwarn)
