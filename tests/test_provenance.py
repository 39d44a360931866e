"""What is stored beside a number."""

import hashlib
from pathlib import Path

import pytest
import torch

from symmetries._utils import provenance
from symmetries.analysis import provenance as summaries
from symmetries.data import ImageSet, as_image_set


def test_commit_of_this_checkout_or_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(provenance, "_CHECKOUT", tmp_path)
    monkeypatch.delenv(provenance.COMMIT_VARIABLE, raising=False)
    assert provenance.commit() is None
    assert provenance.provenance("cpu")["commit"] == "unknown"
    monkeypatch.setenv(provenance.COMMIT_VARIABLE, "0123abcd")
    assert provenance.commit() == "0123abcd"
    damaged = tmp_path / "damaged"
    (damaged / ".git").mkdir(parents=True)  # git fails there
    monkeypatch.setattr(provenance, "_CHECKOUT", damaged)
    assert provenance.commit() == "0123abcd"


@pytest.mark.parametrize(("changes", "found"), [(" M x", "abc+"), ("", "abc")])
def test_changed_files_are_marked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changes: str, found: str
) -> None:
    (tmp_path / ".git").mkdir()
    asked = []

    def git(folder: Path, *words: str) -> str:
        asked.append(folder)
        return "abc" if "HEAD" in words else changes

    monkeypatch.setattr(provenance, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(provenance, "_git", git)
    assert provenance.commit() == provenance.commit() == found
    assert asked == [tmp_path, tmp_path], "git was asked again"


def test_everything_is_named() -> None:
    found = provenance.provenance("cpu")
    assert list(found) == ["command", "commit", "date", "device", "threads", "torch", "python"]
    assert all(found.values())


def test_many_pixels_are_hashed_in_blocks(monkeypatch):
    """The definition by hand: digests of blocks of rows, one after the other."""
    images = torch.rand(10, 1, 4, 4)
    whole = summaries.data_hash(ImageSet(images))
    expected = hashlib.sha256(b"(10, 1, 4, 4)" + images.numpy().tobytes())
    assert whole == expected.hexdigest()
    monkeypatch.setattr(summaries, "LARGE", 100)
    monkeypatch.setattr(summaries, "BLOCK", 200)  # three images of 64 bytes
    blocks = [images[i : i + 3].numpy().tobytes() for i in range(0, 10, 3)]
    digests = b"".join(hashlib.sha256(block).digest() for block in blocks)
    expected = hashlib.sha256(b"(10, 1, 4, 4)" + digests)
    assert summaries.data_hash(ImageSet(images)) == expected.hexdigest()
    assert summaries.summary_in_background(ImageSet(images)).result().count == 10


def test_pictures_of_an_audit_stay_where_they_are():
    images = torch.rand(3, 1, 8, 8)
    assert as_image_set(images, in_place=True).images.data_ptr() == images.data_ptr()
    assert as_image_set((images, [0, 1, 0]), in_place=True).images.data_ptr() == images.data_ptr()
    assert as_image_set(images).images.data_ptr() != images.data_ptr()
    double = as_image_set(images.double(), in_place=True).images
    assert torch.equal(double, images)
    with pytest.raises(ValueError, match="values in"):
        as_image_set(images + 1, in_place=True)
