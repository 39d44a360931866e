"""Digests of models, so that a resumed run does not mix the outputs of two models."""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from symmetries.auditing.models import untouched


def model_digest(
    name: str, call: Callable[[Tensor], Tensor] | nn.Module, images: Tensor | None = None
) -> str:
    """Return the SHA-256 of everything that is known to determine a model's outputs.

    That is the bytes of its files (of ``module:callable``, of the Python file), the weights of a
    module, and the answers of a plain function, which may hold weights that cannot be read.

    Args:
        name: as a command takes it: a file, a folder, or ``module:callable``.
        call: the model.
        images: (N, C, H, W) to ask a plain function about.
    """
    digest = hashlib.sha256()
    for path in _files(name):
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    if isinstance(call, nn.Module):
        for key, value in call.state_dict().items():
            if isinstance(value, Tensor):
                digest.update(key.encode())
                _update(digest, value)
    elif images is not None:
        with untouched(call), torch.no_grad():
            _update(digest, call(images))
    return digest.hexdigest()


def _update(digest: "hashlib._Hash", value: Tensor) -> None:
    digest.update(f"{tuple(value.shape)} {value.dtype}".encode())
    plain = value.detach().cpu().contiguous().view(-1)
    digest.update(plain.view(torch.uint8).numpy().data if plain.numel() else b"")


def _files(name: str) -> list[Path]:
    path = Path(name).expanduser()
    if path.is_dir():
        return sorted(part for part in path.rglob("*") if part.is_file())
    if path.is_file():
        return [path]
    module = sys.modules.get(name.rpartition(":")[0])
    source = getattr(module, "__file__", None)
    return [Path(source)] if source else []
