"""Small files in the published formats, written on the spot."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest


def idx_bytes(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)


def write_idx(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = idx_bytes(array) + array.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def write_mnist(folder: Path, count=40, seed=0):
    """A folder in MNIST's layout with ``count`` train and ``count`` / 2 test images."""
    rng = np.random.default_rng(seed)
    for prefix, n in (("train", count), ("t10k", count // 2)):
        images = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", images)
        labels = (np.arange(n) % 10).astype(np.uint8)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", labels)
    return images, labels


@pytest.fixture
def no_folder(monkeypatch, tmp_path):
    """No data folder named anywhere, and an empty cache."""
    monkeypatch.delenv("SYMMETRIES_DATA", raising=False)
    monkeypatch.setattr("symmetries.data.base.cache_folder", lambda: tmp_path / "cache")
