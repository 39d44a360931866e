"""Readers of hostile files, each beside an independent one that reads the same bytes."""

import csv
import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from PIL import Image, ImageOps

from symmetries.analysis.stored_models import load_classifier
from symmetries.analysis.tables import read_table
from symmetries.auditing.onnx_check import moved
from symmetries.data import array_file, picture_folder
from symmetries.results import GeneratorResult, OrbitResult
from symmetries.sweeps import read_config
from symmetries.training.checkpoint import load_state

PICTURES = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
HELD: list[int] = []  # memory at the end of our own reader, before another one reads the same


class DiffersError(Exception):
    """Another reader makes something else of the same bytes."""


def same(found: np.ndarray, expected: np.ndarray, tolerance: float = 1e-6) -> None:
    """Raise unless two arrays agree, NaN with NaN."""
    if found.shape != expected.shape:
        raise DiffersError(f"shape {found.shape}, not {expected.shape}")
    scale = max(1.0, float(np.nanmax(np.abs(expected), initial=0.0)))
    if not np.allclose(found, expected, rtol=0, atol=tolerance * scale, equal_nan=True):
        raise DiffersError(f"off by {np.nanmax(np.abs(found - expected)):.3g}")


def model_file(path: Path) -> int:
    """A model file that nobody trusts: .pt2, .pt."""
    load_classifier(str(path), trust=False, device="cpu", images=PICTURES)
    return 0


def onnx_file(path: Path) -> int:
    """The measured model against ONNX Runtime, on moved pictures."""
    found = load_classifier(str(path), trust=False, device="cpu", images=PICTURES)
    x = torch.cat([moved(PICTURES), moved(PICTURES**2)])
    with torch.no_grad():
        ours = found.call(x).numpy()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    rows = given.shape[0] if isinstance(given.shape[0], int) else 1
    theirs = []
    for start in range(0, len(x), rows):
        part = x[start : start + rows].numpy()
        filled = np.concatenate([part, np.repeat(part[-1:], rows - len(part), 0)])
        theirs.append(session.run(None, {given.name: filled})[0][: len(part)])
    expected = np.concatenate(theirs).astype(np.float32)
    if (expected >= 0).all() and (abs(expected.sum(1) - 1) < 1e-3).all():
        expected = np.log(expected.clip(np.finfo(np.float32).tiny))
    same(ours, expected, 1e-3)
    return 0


def npz_file(path: Path) -> int:
    """Images against ``numpy.load``; returns the bytes of the arrays that are needed."""
    found = array_file(path)
    HELD.append(peak())
    with np.load(path, allow_pickle=False) as arrays:
        name = next(n for n in ("x_train", "train_images", "images") if n in arrays.files)
        images = arrays[name]
    expected = images.astype(np.float32) / (255 if images.dtype == np.uint8 else 1)
    same(
        found.images.numpy().reshape(-1),
        np.moveaxis(expected.reshape(len(images), *images.shape[1:3], -1), 3, 1).reshape(-1),
    )
    return max(images.nbytes, 4 * images.size)


def picture_file(path: Path) -> int:
    """A picture against Pillow."""
    found = picture_folder(path.parent).images[0].numpy()
    HELD.append(peak())
    with Image.open(path) as opened:
        opened.load()
        picture = ImageOps.exif_transpose(opened)
        if "A" in picture.mode or "transparency" in picture.info:
            full = picture.convert("RGBA")
            picture = Image.alpha_composite(Image.new("RGBA", full.size, "white"), full)
        mode = "L" if len(found) == 1 else "RGB"
        expected = np.asarray(picture.convert(mode), np.float32) / 255
    same(found, expected[None] if mode == "L" else np.moveaxis(expected, 2, 0), 1.01 / 255)
    return 8 * found.size  # as float32, and as the decoder holds a picture


def tensor_file(path: Path) -> int:
    """A safetensors file in a state whose hashes are right, against a plain parser."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    header = {"format": "symmetries-state", "version": 1, "meta": {}, "tensors_sha256": digest}
    header["tensors"] = path.name
    body = json.dumps(header, sort_keys=True)
    whole = {**header, "sha256": hashlib.sha256(body.encode()).hexdigest()}
    (path.parent / "model.json").write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n")
    found, _ = load_state(path.parent)
    size = struct.unpack("<Q", content[:8])[0]
    names = json.loads(content[8 : 8 + size])
    for name, tensor in found.items():
        kind, (first, last) = names[name]["dtype"], names[name]["data_offsets"]
        if kind in ("F32", "I64", "U8"):
            raw = content[8 + size + first : 8 + size + last]
            dtype = {"F32": "<f4", "I64": "<i8", "U8": "u1"}[kind]
            same(tensor.numpy(), np.frombuffer(raw, dtype).reshape(names[name]["shape"]))
    return 3 * len(content)


def json_file(path: Path) -> int:
    """A result, or a state's header; which of the two the name says."""
    if path.name == "model.json":
        load_classifier(str(path.parent), trust=False, device="cpu", images=PICTURES)
    else:
        kind = GeneratorResult if path.name == "generators.json" else OrbitResult
        found = kind.load(path)
        if found.data.count != json.loads(path.read_bytes())["data"]["count"]:
            raise DiffersError("another number of images")
    return 0


def toml_file(path: Path) -> int:
    """The file of a sweep."""
    read_config(path)
    return 0


def table_file(path: Path) -> int:
    """A table or trajectories against NumPy, or a plain parser of what stands between commas."""
    found = read_table(path, target=["energy"] if path.suffix == ".csv" else [])
    HELD.append(peak())
    if path.suffix == ".csv":
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        head, *body = [row for row in csv.reader(text.splitlines(keepends=True)) if row]
        table = np.array([[np.float64(cell) for cell in row] for row in body])
        last = [name.strip() for name in head].index("energy")
        expected, y = np.delete(table, last, 1), table[:, [last]]
    else:
        with np.load(path, allow_pickle=False) as arrays:
            if "trajectories" in arrays.files:
                states = arrays["trajectories"].astype(np.float64)
                expected = states[:, 2:-2].reshape(-1, states.shape[2])
                y = None
            else:
                expected = arrays["x"].astype(np.float64)
                y = arrays["y"].astype(np.float64) if "y" in arrays.files else None
    same(found.x.numpy(), expected, 0.0)
    if y is not None and found.y is not None:
        same(found.y.numpy(), y.reshape(len(y), -1), 0.0)
    return 2 * found.x.numpy().nbytes  # the velocities are as large


def peak() -> int:
    """The most memory that this process held since it was last asked to count."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


READERS: dict[str, Callable[[Path], int]] = {
    **{"pt2": model_file, "pt": model_file, "safetensors": tensor_file, "onnx": onnx_file},
    **{"npz": npz_file, "pictures": picture_file, "json": json_file, "toml": toml_file},
    "tables": table_file,
}
