"""States on disk: tensors as safetensors and everything else as JSON, never pickle.

A state NAME consists of two files: ``NAME.json``, and a file of tensors whose name contains the
start of its SHA-256. The JSON names the tensors' file and is renamed into place last, so a crash
at any time leaves either the old pair or the new one. The JSON also holds the hash of the tensors
and of itself, so a changed byte anywhere is detected when the state is read.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from symmetries._validation.checks import as_folder, as_path, invalid, wrong_type
from symmetries.training.atomic_files import read_regular, write_atomic, writing

# What building a module from plain data that describes none raises.
UNFIT = (LookupError, AttributeError, TypeError, RuntimeError, ArithmeticError, MemoryError)
FORMAT = "symmetries-state"
VERSION = 1


class CheckpointError(ValueError):
    """A state that cannot be used: missing, corrupted, of another kind, or from a newer version."""


def save_model(folder: Path | str, module: nn.Module, meta: Mapping[str, Any]) -> Path:
    """Write a module's parameters and buffers, and the metadata needed to rebuild it.

    Args:
        folder: created if necessary; other files in it are not changed.
        module: module whose ``state_dict`` is written.
        meta: plain data for JSON (numbers, strings, lists, dicts).

    Returns:
        Path of the JSON file.

    Example:
        >>> import tempfile, torch
        >>> layer = nn.Linear(2, 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = save_model(folder, layer, {"inputs": 2})
        ...     state, meta = load_state(folder)
        >>> torch.equal(state["weight"], layer.weight), meta
        (True, {'inputs': 2})
    """
    return write_state(as_folder(folder), "model", module_state(module), meta)


def load_state(folder: Path | str, name: str = "model") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a state written by :func:`save_model`: tensors by name (on the CPU), and metadata.

    Raises:
        CheckpointError: if it is missing or corrupted, or has another or a newer format.
    """
    folder = as_path(folder, "folder")
    header = _read_header(folder / f"{name}.json")
    path = folder / str(header["tensors"])
    try:
        content = read_regular(path)
    except OSError as error:
        reason = f"cannot read ({error.strerror}); it belongs to {name}.json"
        raise CheckpointError(f"{path}: {reason}") from error
    if hashlib.sha256(content).hexdigest() != header["tensors_sha256"]:
        raise _changed(path)
    return parse_tensors(path, content), header["meta"]


def load_learner(
    folder: Path | str, learner: str, what: str
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a learner's saved model; the error for another learner's file names ``what``."""
    for name, word in (("learner", learner), ("what", what)):
        if not isinstance(word, str):
            raise wrong_type(name, "a string", word, "give one such as 'vae'")
    state, meta = load_state(folder)
    if meta.get("learner") != learner:
        got = f"a model of learner {meta.get('learner')!r}"
        expected = f"a saved {what} (learner {learner!r})"
        raise invalid(str(folder), expected, got, "give the folder of such a model")
    return state, meta


def parse_tensors(path: Path, content: bytes) -> dict[str, Tensor]:
    """Parse the bytes of a safetensors file; ``path`` is for error messages."""
    try:
        return safetensors.torch.load(content)
    except SafetensorError as error:
        raise CheckpointError(f"{path}: not a safetensors file ({error})") from error


@contextmanager
def rebuilding(folder: Path | str, what: str) -> Iterator[None]:
    """Turn the errors of building a module from a state that does not describe one into one line.

    Anybody can write a state whose hashes are right, so what is in it may still be anything.

    Args:
        folder: of the state, for the message.
        what: was expected, for the message.
    """
    try:
        yield
    except (*UNFIT, ValueError) as error:
        ours = isinstance(error, CheckpointError) or ": expected " in str(error)
        if ours and isinstance(error, ValueError):
            raise
        first = str(error).strip().splitlines()
        got = f"{type(error).__name__}: {first[0] if first else ''}"
        remedy = "read it with the version of symmetries that wrote it, or train it again"
        raise invalid(str(folder), f"{what} of this version", got, remedy) from error


def module_state(module: nn.Module) -> dict[str, Tensor]:
    """Return a module's ``state_dict``; raise an error if it holds anything but tensors."""
    if not isinstance(module, nn.Module):
        raise wrong_type("module", "an nn.Module", module, "give a module")
    state = module.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            remedy = "keep extra state in buffers, or in the metadata"
            raise invalid(f"state {name!r}", "a tensor", type(value).__name__, remedy)
    return dict(state)


def has_state(folder: Path, name: str) -> bool:
    """Return whether there is a state of that name."""
    return (folder / f"{name}.json").exists()


def write_state(
    folder: Path, name: str, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]
) -> Path:
    """Write a named state atomically.

    Args:
        folder: created if necessary.
        name: name of the state; letters, digits, "-" and "_".
        tensors: tensors by name, on any device.
        meta: plain data for JSON.

    Returns:
        Path of the JSON file.
    """
    # Copies with separate, contiguous memory: safetensors refuses views and tied weights.
    parts = {key: value.detach().cpu().clone().contiguous() for key, value in tensors.items()}
    content = safetensors.torch.save(parts)
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"{name}.json"
    tensor_path = folder / f"{name}-{digest[:16]}.safetensors"
    try:
        plain = json.loads(json.dumps(meta, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise invalid("meta", "plain data for JSON", error, "convert tensors and NaN") from error
    header = {
        "format": FORMAT,
        "version": VERSION,
        "tensors": tensor_path.name,
        "tensors_sha256": digest,
        "meta": plain,
    }
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomic(tensor_path, content)
    write_atomic(path, _render(header))
    _remove_others(folder, name, keep=tensor_path)
    return path


def remove_state(folder: Path, name: str) -> None:
    """Remove a named state, the JSON file first."""
    with writing(folder / f"{name}.json"):
        (folder / f"{name}.json").unlink(missing_ok=True)
        _remove_others(folder, name, keep=None)


def _remove_others(folder: Path, name: str, keep: Path | None) -> None:
    """Remove the tensors of earlier states, and temporary files left by crashes."""
    ours = re.compile(rf"{re.escape(name)}-[0-9a-f]{{16}}\.safetensors")
    temporary = re.compile(rf"\.{re.escape(name)}(-[0-9a-f]{{16}}\.safetensors|\.json)-.*\.tmp")
    for path in folder.iterdir():
        old = ours.fullmatch(path.name) and path != keep
        if old or temporary.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _render(header: Mapping[str, Any]) -> bytes:
    """Serialise a header in canonical form, with its own hash."""
    body = json.dumps(header, allow_nan=False, sort_keys=True)
    digest = hashlib.sha256(body.encode()).hexdigest()
    whole = {**header, "sha256": digest}
    return (json.dumps(whole, indent=1, allow_nan=False, sort_keys=True) + "\n").encode()


def _read_header(path: Path) -> dict[str, Any]:
    try:
        text = read_regular(path)
    except OSError as error:
        reason = f"cannot read ({error.strerror}); has anything been saved here?"
        raise CheckpointError(f"{path}: {reason}") from error
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not JSON, or it was changed ({error})") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise CheckpointError(f"{path}: not a state written by symmetries")
    version = header.get("version")
    if isinstance(version, int) and version > VERSION:
        raise CheckpointError(
            f"{path}: format version {version}, this symmetries reads up to {VERSION}; upgrade it"
        )
    header.pop("sha256", None)
    try:
        whole = _render(header) == text
    except ValueError:  # a corrupted byte made a number infinite
        whole = False
    if not whole:
        raise _changed(path)
    if set(header) != {"format", "version", "tensors", "tensors_sha256", "meta"}:
        raise CheckpointError(f"{path}: not a state written by symmetries (fields {set(header)})")
    if not isinstance(header["meta"], dict):
        raise CheckpointError(f"{path}: not a state written by symmetries (meta is no mapping)")
    if not re.fullmatch(r"[\w-]+\.safetensors", str(header["tensors"])):
        raise CheckpointError(f"{path}: names tensors outside its folder")
    return header


def _changed(path: Path) -> CheckpointError:
    return CheckpointError(
        f"{path}: its SHA-256 is not the recorded one, so it was changed or truncated; "
        "restore it from a copy, or remove the state and train again"
    )
