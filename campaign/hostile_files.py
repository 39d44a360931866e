"""Files that want to run code, made by hand: each would leave a mark if it could.

The mark is a file: ``Path(mark).touch()`` in whatever way a format may be made to say it. Tests and
the campaign ``hostile`` give these files to the commands and look for the mark.
"""

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn


class Touch:
    """An object whose unpickling makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


class Network(nn.Module):
    """A small classifier of pictures 8 x 8 with three classes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.last = nn.Linear(64, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (N, 3)."""
        return self.last(x.flatten(1))


def program(path: Path) -> Path:
    """An honest file of ``torch.export``, for any number of pictures."""
    batch = torch.export.Dim("batch", min=1)
    example = (torch.rand(4, 1, 8, 8),)
    exported = torch.export.export(Network().eval(), example, dynamic_shapes={"x": {0: batch}})
    torch.export.save(exported, path)
    return path


def rewritten(path: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """A zip archive with its members changed: ``change(name, content)`` gives the new content."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, change(name, content))
    return path


def pickled_weight(path: Path, mark: Path) -> Path:
    """A ``.pt2`` file that says that one of its weights is a pickle."""

    def change(name: str, content: bytes) -> bytes:
        if name.endswith("model_weights_config.json"):
            return content.replace(b'"use_pickle": false', b'"use_pickle": true', 1)
        if name.endswith("weights/weight_0"):
            stream = io.BytesIO()
            torch.save(Touch(mark), stream)
            return stream.getvalue()
        return content

    return rewritten(program(path), change)


def spoken_size(path: Path, mark: Path) -> Path:
    """A ``.pt2`` file whose sizes are an expression, which sympy evaluates."""
    word = f"__import__('pathlib').Path({str(mark)!r}).touch() or Symbol('s77', positive=True)"

    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return content

        def replace(part: Any) -> Any:  # noqa: ANN401 - JSON
            if isinstance(part, dict):
                return {
                    key: word if key == "expr_str" else replace(value)
                    for key, value in part.items()
                }
            return [replace(value) for value in part] if isinstance(part, list) else part

        return json.dumps(replace(json.loads(content))).encode()

    return rewritten(program(path), change)


def pickled_module(path: Path, mark: Path) -> Path:
    """A file of ``torch.save`` that touches the mark when it is unpickled."""
    torch.save({"state": Touch(mark)}, path)
    return path


def plain_pickle(path: Path, mark: Path) -> Path:
    """A bare pickle."""
    path.write_bytes(pickle.dumps(Touch(mark)))
    return path


def script(path: Path) -> Path:
    """A TorchScript file; its code runs when it is loaded and called."""
    torch.jit.trace(Network().eval(), torch.rand(2, 1, 8, 8)).save(str(path))
    return path


def object_array(path: Path, mark: Path) -> Path:
    """A ``.npz`` file whose labels are objects."""
    labels = np.array([Touch(mark)] * 6, dtype=object)
    np.savez(path, images=np.random.default_rng(0).random((6, 8, 8)), labels=labels)
    return path


# Name of the file, and who makes it: model files that must not run anything.
MODELS: dict[str, Callable[[Path, Path], Path]] = {
    "weight.pt2": pickled_weight,
    "size.pt2": spoken_size,
    "module.pt": pickled_module,
    "plain.pt": plain_pickle,
    "module.pth": pickled_module,
}
