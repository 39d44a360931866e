"""Small valid files of every format that the readers know: what fuzzing and corruption start from.

``python campaign/seeds.py FOLDER`` writes them, a folder for each reader.
"""

import gzip
import io
import pickle
import struct
import sys
import tarfile
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from PIL import Image
from torch import nn

from symmetries.results import DataSummary, OrbitCurve, OrbitResult, RunInfo
from symmetries.training import save_model

CIFAR_NAMES = ["airplane", "automobile", "bird"]
KINDS = {"png": "PNG", "jpg": "JPEG", "bmp": "BMP", "gif": "GIF", "tif": "TIFF", "webp": "WEBP"}


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Random bytes."""
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    """An array of bytes as IDX."""
    head = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


def npy(array: np.ndarray) -> bytes:
    """An array as .npy."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(compressed: bool, **arrays: np.ndarray) -> bytes:
    """Arrays as .npz."""
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream.getvalue()


def cifar_python(count: int = 2) -> bytes:
    """A batch of CIFAR-10 in the python layout."""
    batch = {"data": numbers(count, 3072), "labels": [i % 3 for i in range(count)]}
    return pickle.dumps(batch, protocol=2)


def cifar_archive() -> bytes:
    """A small archive in the binary layout."""
    stream = io.BytesIO()
    rows = np.concatenate([numbers(1, 1) % 3, numbers(1, 3072)], 1).tobytes()
    members = {f"data_batch_{i}.bin": rows for i in range(1, 6)} | {"test_batch.bin": rows}
    members["batches.meta.txt"] = "\n".join(CIFAR_NAMES).encode()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def picture(kind: str, side: int = 9) -> bytes:
    """A picture of some kind."""
    stream = io.BytesIO()
    Image.fromarray(numbers(side, side, 3)).save(stream, format=KINDS[kind])
    return stream.getvalue()


def result() -> OrbitResult:
    """A result of ``symmetries orbit``."""
    curve = OrbitCurve(
        name="rotation",
        unit="degrees",
        values=(-180.0, 0.0, 180.0),
        change=(0.5, 0.0, 0.5),
        change_low=(0.4, 0.0, 0.4),
        change_high=(0.6, 0.0, 0.6),
        reach=(-90.0, 90.0),
    )
    run = RunInfo(
        command="symmetries orbit digits",
        seed=0,
        device="cpu",
        time=1.5,
        created="2026-01-01 00:00 UTC",
        versions={"symmetries": "0.1.0"},
    )
    data = DataSummary(name="digits", count=3, channels=1, height=8, width=8, classes=("a", "b"))
    return OrbitResult(
        group=("rotation",),
        data=data,
        neighbour_distance=0.25,
        transformations=(curve,),
        run=run,
    )


def model() -> nn.Module:
    """A small network."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))


def write(folder: Path) -> None:
    """Write the seeds of every reader, each into a folder of its own."""
    images, labels = numbers(3, 8, 8), np.arange(3)
    rows = np.concatenate([numbers(2, 1) % 3, numbers(2, 3072)], 1).tobytes()
    folder.mkdir(parents=True, exist_ok=True)
    result().save(folder / "result")
    save_model(folder / "model", model(), {"inputs": 4})
    seeds = {
        "idx": [idx(images), idx(numbers(5))],
        "idx-gz": [gzip.compress(idx(images), mtime=0)],
        "cifar-binary": [rows],
        "cifar-python": [cifar_python(), pickle.dumps({"data": 1, "labels": [1]}, 4)],
        "cifar-names": [pickle.dumps({"label_names": CIFAR_NAMES}, 2)],
        "cifar-archive": [cifar_archive()],
        "npy": [npy(images), npy(images / 255), npy(np.array(["text"]))],
        "npz": [npz(c, images=images, labels=labels) for c in (False, True)],
        "pictures": [bytes([i]) + picture(kind) for i, kind in enumerate(KINDS)],
        "result-json": [(folder / "result").read_bytes()],
        "checkpoint-json": [(folder / "model" / "model.json").read_bytes()],
        "safetensors": [safetensors.torch.save({"weight": torch.rand(2, 3)})],
    }
    for name, contents in seeds.items():
        (folder / name).mkdir(exist_ok=True)
        for number, content in enumerate(contents):
            (folder / name / f"seed-{number}").write_bytes(content)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
