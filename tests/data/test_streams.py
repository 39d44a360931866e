"""Data that stays on disk: the same examples as in memory, and little memory."""

import pickle
import resource
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from symmetries.data import ArrayShards, array_file, mapped, picture_folder, stream
from symmetries.training import TrainConfig, train


def shards(folder, sizes=(5, 1, 4), shape=(8, 6), dtype=np.uint8, labels=True):
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    images = [rng.integers(0, 256, (n, *shape)).astype(dtype) for n in sizes]
    for number, part in enumerate(images):
        np.save(folder / f"images-{number:03d}.npy", part)
        if labels:
            np.save(folder / f"labels-{number:03d}.npy", np.arange(len(part)) % 3)
    return np.concatenate(images)


@pytest.mark.parametrize("shape", [(8, 6), (3, 8, 6), (8, 6, 3)])
def test_shards_hold_what_one_file_would(tmp_path, shape):
    whole = shards(tmp_path / "set", shape=shape)
    np.save(tmp_path / "whole.npy", whole)
    expected = array_file(tmp_path / "whole.npy").images
    found = stream(tmp_path / "set")
    assert len(found) == 10
    assert torch.equal(torch.stack([found[i][0] for i in range(10)]), expected)
    assert [int(found[i][1]) for i in range(10)] == [0, 1, 2, 0, 1, 0, 0, 1, 2, 0]
    assert torch.equal(found[-1][0], expected[9])
    with pytest.raises(IndexError, match="example 10 of 10"):
        found[10]
    again = pickle.loads(pickle.dumps(found))  # noqa: S301 - as loader processes get it
    assert torch.equal(again[6][0], expected[6])


def test_a_single_file_and_floats(tmp_path):
    images = np.random.default_rng(0).random((4, 5, 5)).astype(np.float64)
    np.save(tmp_path / "images.npy", images)
    (image,) = stream(tmp_path / "images.npy")[2]
    torch.testing.assert_close(image[0], torch.tensor(images[2], dtype=torch.float32))


def test_training_from_disk_is_training_from_memory(tmp_path):
    whole = torch.from_numpy(shards(tmp_path)).float()[:, None] / 255
    labels = torch.tensor([0, 1, 2, 0, 1, 0, 0, 1, 2, 0])

    def fit(data, workers):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))

        def loss(model, batch, step):
            return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}

        settings = {"progress": False, "device": "cpu", "workers": workers}
        train(model, loss, data, TrainConfig(steps=6, batch_size=4).replace(**settings))
        return model[1].weight

    expected = fit((whole, labels), 0)
    assert torch.equal(fit(stream(tmp_path), 0), expected)
    assert torch.equal(fit(stream(tmp_path), 1), expected)


def test_pictures_are_decoded_as_they_are_asked_for(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(2):
            pixels = rng.integers(0, 256, (9, 7, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
    found, expected = stream(tmp_path, size=(6, 4)), picture_folder(tmp_path, size=(6, 4))
    assert found.class_names == expected.class_names == ("cat", "dog")
    assert torch.equal(torch.stack([found[i][0] for i in range(4)]), expected.images)
    assert [int(found[i][1]) for i in range(4)] == [0, 0, 1, 1]
    assert stream(tmp_path, size=(6, 4), colour=False)[0][0].shape == (1, 6, 4)
    with pytest.raises(ValueError, match="size: expected a size for pictures"):
        stream(tmp_path)


def test_a_mapped_file_is_a_tensor(tmp_path):
    images = np.random.default_rng(0).random((4, 1, 5, 5)).astype(np.float32)
    np.save(tmp_path / "images.npy", images)
    assert torch.equal(mapped(tmp_path / "images.npy"), torch.from_numpy(images))
    np.save(tmp_path / "bytes.npy", np.zeros((4, 5, 5), np.uint8))
    with pytest.raises(ValueError, match="expected float32"):
        mapped(tmp_path / "bytes.npy")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda f: (f / "labels-001.npy").unlink(), "labels for all shards"),
        (lambda f: np.save(f / "labels-001.npy", np.arange(2)), "1 integers"),
        (lambda f: np.save(f / "labels-001.npy", np.zeros(1)), "1 integers"),
        (
            lambda f: np.save(f / "images-001.npy", np.zeros((1, 9, 6), np.uint8)),
            "save all shards with one dtype",
        ),
        (
            lambda f: np.save(f / "images-001.npy", np.zeros((1, 8, 6))),
            "save all shards with one dtype",
        ),
        (lambda f: np.save(f / "images-001.npy", np.array([{}])), "numbers"),
        (lambda f: np.save(f / "images-001.npy", np.zeros((0, 8, 6), np.uint8)), "at least one"),
        (lambda f: np.save(f / "images-000.npy", np.zeros((5, 8, 6), np.uint8).T), "C order"),
        (lambda f: cut(f / "images-002.npy"), "bytes of numbers"),
        (lambda f: (f / "images-002.npy").write_bytes(b"x"), "a numpy array"),
    ],
)
def test_bad_shards_are_named(tmp_path, spoil, words):
    shards(tmp_path)
    spoil(tmp_path)
    with pytest.raises(ValueError, match=words):
        stream(tmp_path)


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def test_other_bad_paths_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"path: expected a \.npy file or a folder"):
        stream(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="images: expected at least one file"):
        ArrayShards([])


def test_a_file_that_shrinks_is_noticed(tmp_path):
    shards(tmp_path, labels=False)
    found = stream(tmp_path)
    cut(tmp_path / "images-002.npy")
    with pytest.raises(ValueError, match="check whether the file is truncated"):
        found[9]


LIMITED = """
import resource, sys
from pathlib import Path
from symmetries.data.streams import stream
status = dict(l.split(":", 1) for l in Path("/proc/self/status").read_text().splitlines())
limit = int(status["VmSize"].split()[0]) * 1024 + 64 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
found = stream(sys.argv[1])
assert sum(p.stat().st_size for p in found.paths) > limit
print(float(sum(found[i][0].sum() for i in range(0, len(found), len(found) // 50))))
"""


def test_a_set_larger_than_the_address_space(tmp_path):
    shape = (2**20, 64, 64)  # 4 GiB a shard, of holes: they take no room on the disk
    for number in range(4):
        head = np.lib.format.header_data_from_array_1_0(np.zeros((1, 64, 64), np.uint8))
        with (tmp_path / f"images-{number}.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, head | {"shape": shape})
            file.truncate(file.tell() + 2**32)
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == 0.0
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
