"""Every reader of files as a function of bytes: what fuzzing and Hypothesis throw bytes at.

Whatever bytes come, a reader gives a value or raises ``ValueError`` with a message that helps.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from symmetries.data import array_file, read_idx
from symmetries.data.cifar_files import _LAYOUTS, _binary, _class_names, _from_archive, _python
from symmetries.data.pictures import picture_folder
from symmetries.results import OrbitResult
from symmetries.training.checkpoint import CheckpointError, load_state, parse_tensors

Image.init()
np.seterr(all="ignore")
BINARY, PYTHON = _LAYOUTS["cifar10"]
HERE = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))


def _file(name: str, data: bytes) -> Path:
    path = HERE / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def _archive(data: bytes) -> None:
    names = {*BINARY.train, BINARY.names}
    found = _from_archive(_file("cifar-10-binary.tar.gz", data), BINARY, names)
    if not set(found) <= names:
        raise RuntimeError(f"an archive gave {set(found) - names}")


def _picture(data: bytes) -> None:
    kinds = ("png", "jpg", "bmp", "gif", "tif", "webp", "ppm")
    for old in (HERE / "pictures").glob("*"):
        old.unlink()
    kind = kinds[data[0] % len(kinds)] if data else "png"
    _file(f"pictures/picture.{kind}", data[1:])
    picture_folder(HERE / "pictures")


def _checkpoint(data: bytes) -> None:
    _file("model.json", data)
    load_state(HERE)


TARGETS: dict[str, Callable[[bytes], object]] = {
    "idx": lambda data: read_idx(_file("images-idx3-ubyte", data)),
    "idx-gz": lambda data: read_idx(_file("images-idx3-ubyte.gz", data)),
    "cifar-binary": lambda data: _binary(data, Path("data_batch_1.bin"), BINARY),
    "cifar-python": lambda data: _python(data, Path("data_batch_1"), PYTHON),
    "cifar-names": lambda data: _class_names(data, Path("batches.meta"), PYTHON),
    "cifar-archive": _archive,
    "npy": lambda data: array_file(_file("images.npy", data)),
    "npz": lambda data: array_file(_file("images.npz", data)),
    "pictures": _picture,
    "result-json": lambda data: OrbitResult.load(_file("orbit.json", data)),
    "checkpoint-json": _checkpoint,
    "safetensors": lambda data: parse_tensors(Path("model.safetensors"), data),
}


def run(target: Callable[[bytes], object]) -> Callable[[bytes], None]:
    """A fuzz target: refusing with a message is fine, everything else passes through."""

    def one_input(data: bytes) -> None:
        try:
            target(data)
        except CheckpointError as error:
            if not str(error):
                raise RuntimeError("a refusal without words") from error
        except ValueError as error:
            if ";" not in str(error):
                raise RuntimeError(f"a refusal without help: {error}") from error

    return one_input
