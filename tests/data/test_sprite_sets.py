import hashlib
import math

import numpy as np
import pytest
import torch

from symmetries.data import dsprites, grid_factors, load, render, resampled_indices, sprites
from symmetries.data.sprite_sets import (
    FILE,
    GRID,
    ORIENTATIONS,
    POSITIONS,
    SCALES,
    even_indices,
    read_published,
)

MODULE = "symmetries.data.sprite_sets"


def test_the_published_grid():
    """Six scales, forty orientations, 32 x 32 positions; shape slowest and y fastest."""
    whole = grid_factors()
    assert len(whole) == 737_280
    np.testing.assert_allclose(SCALES, [0.5, 0.6, 0.7, 0.8, 0.9, 1.0], atol=1e-15)
    assert (len(ORIENTATIONS), ORIENTATIONS[0], ORIENTATIONS[-1]) == (40, 0.0, 2 * math.pi)
    assert (len(POSITIONS), POSITIONS[0], POSITIONS[-1]) == (32, 0.0, 1.0)
    assert np.bincount(whole.shape).tolist() == [245_760] * 3
    assert np.array_equal(whole.y[:32], POSITIONS)
    assert np.array_equal(whole.x[: 32 * 32 : 32], POSITIONS)
    assert np.array_equal(whole.orientation[: 40 * 1024 : 1024], ORIENTATIONS)
    assert np.array_equal(whole.scale[: 6 * 40_960 : 40_960], SCALES)
    with pytest.raises(ValueError, match="positions from 0 to 737279"):
        grid_factors(np.array([737_280]))


def test_resampling_of_paper_2():
    found = grid_factors(resampled_indices(30_000))
    square, ellipse, heart = (found.take(np.flatnonzero(found.shape == k)) for k in range(3))
    assert len(square) == len(ellipse) == len(heart) == 10_000

    assert set(heart.orientation) == {0.0}
    assert {round(v, 6) for v in heart.scale} == {0.9, 1.0}
    assert 0.1 <= heart.x.min() <= heart.x.max() <= 0.5
    low = heart.y < 0.5
    assert abs(low.mean() - 0.5) < 0.02
    assert heart.y[low].min() >= 0.1
    assert heart.y[low].max() <= 0.3
    assert heart.y[~low].min() >= 0.7
    assert heart.y[~low].max() <= 0.9

    assert len(set(square.orientation)) == 40
    assert {round(v, 6) for v in square.scale} == {0.6, 0.7, 0.8, 0.9, 1.0}
    for position in (square.x, square.y):
        assert position.min() >= 0.5
        assert position.max() <= 0.95
        assert abs(position.mean() - 0.725) < 0.01

    assert ellipse.orientation.max() <= math.pi / 2
    assert {round(v, 6) for v in ellipse.scale} == {0.5, 0.6, 0.7, 0.8}
    assert 0.1 <= ellipse.x.min() <= ellipse.x.max() <= 0.9
    assert 0.35 <= ellipse.y.min() <= ellipse.y.max() <= 0.65
    assert ellipse.x.std() == pytest.approx(0.197, abs=0.01)  # the second number is a deviation


def test_scale_follows_the_cut_normal():
    found = grid_factors(resampled_indices(60_000))
    scale = np.round(found.scale[found.shape == 0], 6)
    density = {s: math.exp(-(((s - 0.75) / 0.2) ** 2) / 2) for s in (0.6, 0.7, 0.8, 0.9, 1.0)}
    for value, weight in density.items():
        assert (scale == value).mean() == pytest.approx(weight / sum(density.values()), abs=0.01)


def test_default_sets():
    train, test = load("sprites"), load("sprites", "test")
    assert train.images.shape == (4096, 1, 32, 32)
    assert test.images.shape == (1024, 1, 32, 32)
    assert train.class_names == ("square", "ellipse", "heart")
    assert train.labels.bincount().min() > 1200
    paper = load("sprites-resampled", "test")
    assert paper.images.shape == (1024, 1, 64, 64)
    assert set(paper.images.unique().tolist()) == {0.0, 1.0}


def test_splits_share_no_sprite():
    train, test = (even_indices(split, 300_000, 0) for split in ("train", "test"))
    assert len(set(train)) == len(set(test)) == 300_000
    assert not set(train) & set(test)


def test_same_everywhere():
    images = sprites("train", 300).images
    levels = (images * 16).round().to(torch.uint8).numpy()
    assert hashlib.sha256(levels.tobytes()).hexdigest() == SPRITES
    binary = sprites("test", 300, 64, 1, resample=True).images.to(torch.uint8).numpy()
    assert hashlib.sha256(binary.tobytes()).hexdigest() == RESAMPLED


def test_seed_changes_the_draw():
    assert not torch.equal(sprites("train", 50).images, sprites("train", 50, seed=1).images)


def test_published_file_is_read_as_a_stream(tmp_path, monkeypatch):
    """A small grid in the published format; its metadata is a pickle and stays unread."""
    monkeypatch.setattr(f"{MODULE}.GRID", (3, 2, 2, 2, 2))
    monkeypatch.setattr(f"{MODULE}._AT_ONCE", 5)
    images = render(grid_factors())[:, 0].to(torch.uint8).numpy()
    meta = np.array({"author": "nobody"}, dtype=object)
    (tmp_path / "dsprites").mkdir()
    np.savez_compressed(tmp_path / "dsprites" / FILE, metadata=meta, imgs=images)
    chosen = np.array([7, 47, 0, 7])
    found = read_published(tmp_path / "dsprites" / FILE, chosen)
    assert torch.equal(found[:, 0], torch.from_numpy(images[chosen]).float())
    data = dsprites("train", tmp_path, count=20)
    assert data.images.shape == (20, 1, 64, 64)
    rendered = sprites("train", count=20, size=64, supersample=1)
    assert torch.equal(data.images, rendered.images)
    assert torch.equal(data.labels, rendered.labels)


def test_bad_published_files_are_named(tmp_path):
    path = tmp_path / FILE
    with pytest.raises(FileNotFoundError, match="google-deepmind/dsprites-dataset"):
        dsprites("train", tmp_path)
    images = np.ones((50, 64, 64), np.uint8)
    some = np.array([3])
    for entries, words in [
        ({"imgs": images[:3]}, r"\(N, 64, 64\) with N > 3"),
        ({"imgs": images[:, 1:]}, r"\(N, 64, 64\)"),
        ({"imgs": images.astype(np.int64)}, "int64"),
        ({"imgs": np.array([{}], dtype=object)}, "object arrays would run code"),
        ({"imgs": images * 2}, "zeros and ones"),
        ({"pictures": images}, "the published dSprites file"),
    ]:
        np.savez_compressed(path, **entries)
        with pytest.raises(ValueError, match=words):
            read_published(path, some)
    np.savez_compressed(path, imgs=np.random.default_rng(0).integers(0, 2, (50, 64, 64), np.uint8))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="the published dSprites file"):
        read_published(path, some)


@pytest.mark.parametrize("count", [0, -1, math.prod(GRID)])
def test_bad_counts_are_named(count):
    with pytest.raises(ValueError, match="count: expected"):
        sprites("train", count)


SPRITES = "eb6195d4add38e6274869e90ebb12c58382af90f21ef59e9a43ebdae5957b4b0"
RESAMPLED = "d4dc01431f28053343ccab6cc925c9408ffe19683024e781e6408816963c8f14"
