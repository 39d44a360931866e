import gzip
import hashlib
import struct
import tracemalloc

import numpy as np
import pytest
import torch

from symmetries.data import fashion_mnist, load, mnist, read_idx
from symmetries.data.remote import REMOTE, RemoteFile

from .conftest import idx_bytes, write_idx, write_mnist


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("shape", [(7,), (3, 4, 5)])
def test_round_trip(tmp_path, suffix, shape):
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    path = tmp_path / f"array{suffix}"
    write_idx(path, array)
    assert np.array_equal(read_idx(path), array)


@pytest.mark.parametrize("place", [".", "mnist", "MNIST/raw", "MNIST"])
def test_found_in_the_usual_places(tmp_path, place):
    images, labels = write_mnist(tmp_path / place)
    data = mnist("test", tmp_path)
    assert data.images.shape == (20, 1, 28, 28)
    assert torch.equal(data.images, torch.from_numpy(images)[:, None].float() / 255)
    assert data.labels.tolist() == labels.tolist()
    assert data.class_names == tuple("0123456789")
    assert len(mnist("train", tmp_path)) == 40


def test_folder_from_the_environment(tmp_path, monkeypatch):
    write_mnist(tmp_path / "fashion-mnist")
    monkeypatch.setenv("SYMMETRIES_DATA", str(tmp_path))
    data = load("fashion-mnist", "test")
    assert data.name == "fashion-mnist"
    assert data.class_names[9] == "Ankle boot"


def test_missing_files_say_where_and_how(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        mnist("train", tmp_path)
    message = str(caught.value)
    assert str(tmp_path / "mnist") in message
    assert "SYMMETRIES_DATA" in message
    assert "symmetries data fetch mnist" in message


def test_one_set_is_not_taken_for_the_other(tmp_path, monkeypatch):
    """Both have the same file names: the known hash of the labels tells them apart."""
    write_mnist(tmp_path)
    known = hashlib.sha256((tmp_path / "t10k-labels-idx1-ubyte.gz").read_bytes()).hexdigest()
    monkeypatch.setitem(REMOTE, "mnist", [RemoteFile("mnist/x", (), known)])
    assert len(mnist("test", tmp_path)) == 20
    with pytest.raises(ValueError, match="those of mnist"):
        fashion_mnist("test", tmp_path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_lying_header_is_refused_before_allocation(tmp_path, suffix):
    path = tmp_path / f"huge{suffix}"
    head = b"\0\0\x08\x03" + struct.pack(">3I", 2**20, 2**20, 2**20)  # 2**60 bytes
    path.write_bytes(gzip.compress(head) if suffix else head)
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"claims {2**60} bytes"):
        read_idx(path)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def damaged():
    array = np.arange(200, dtype=np.uint8).reshape(2, 10, 10)
    good = idx_bytes(array) + array.tobytes()
    packed = gzip.compress(good)
    wrong_sum = bytearray(packed)
    wrong_sum[-6] ^= 255  # in the checksum
    return {
        "empty": (b"", "plain"),
        "cut header": (good[:9], "plain"),
        "cut body": (good[:-1], "plain"),
        "more than promised": (good + b"x", "plain"),
        "other type": (b"\0\0\x0d\x03" + good[4:], "plain"),
        "no axis": (b"\0\0\x08\0", "plain"),
        "no image": (b"\0\0\x08\x03" + struct.pack(">3I", 0, 28, 28), "plain"),
        "other file": (b"PNG and so on", "plain"),
        "cut gzip": (packed[:-20], "gz"),
        "not gzip": (good, "gz"),
        "wrong checksum": (bytes(wrong_sum), "gz"),
    }


@pytest.mark.parametrize("kind", damaged())
def test_damaged_files_are_named(tmp_path, kind):
    data, suffix = damaged()[kind]
    path = tmp_path / f"file.{suffix}"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="expected") as caught:
        read_idx(path, 3)
    assert str(path) in str(caught.value)


def test_every_cut_is_noticed(tmp_path):
    array = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)
    whole = gzip.compress(idx_bytes(array) + array.tobytes())
    path = tmp_path / "cut.gz"
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=r"cut\.gz"):
            read_idx(path)


def test_labels_must_match_images(tmp_path):
    write_mnist(tmp_path)
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.zeros(19, np.uint8))
    with pytest.raises(ValueError, match="one label for each of 20 images, got 19"):
        mnist("test", tmp_path)


def test_swapped_files_are_named(tmp_path):
    write_mnist(tmp_path)
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", np.zeros(20, np.uint8))
    with pytest.raises(ValueError, match="3 axes, got 1"):
        mnist("test", tmp_path)


def test_unknown_split_is_named(tmp_path):
    with pytest.raises(ValueError, match="split: expected one of 'test', 'train'"):
        mnist("valid", tmp_path)
