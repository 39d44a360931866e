"""States on disk: whole or refused."""

import errno
import hashlib
import json
import random

import pytest
import torch
from torch import nn

from symmetries.training import CheckpointError, load_state, save_model
from symmetries.training import atomic_files as files_module
from symmetries.training.checkpoint import _render


def make_module():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    module.register_buffer("mask", torch.tensor([True, False]))
    return module


def test_round_trip_is_exact(tmp_path):
    module, meta = make_module(), {"b": [1, 2.5, None], "a": {"10": "x", "2": True}}
    path = save_model(tmp_path / "deep" / "folder", module, meta)
    state, back = load_state(tmp_path / "deep" / "folder")
    assert path.name == "model.json"
    assert back == meta
    assert state.keys() == module.state_dict().keys()
    for name, value in module.state_dict().items():
        assert torch.equal(state[name], value)
        assert state[name].dtype == value.dtype


def test_tied_and_strided_weights_are_saved(tmp_path):
    module = nn.Module()
    module.a = nn.Parameter(torch.arange(6.0).view(2, 3).t())
    module.b = module.a
    save_model(tmp_path, module, {})
    state, _ = load_state(tmp_path)
    assert torch.equal(state["a"], module.a)
    assert torch.equal(state["b"], module.a)


def test_whole_numbers_as_keys_come_back_as_json_has_them(tmp_path):
    save_model(tmp_path, make_module(), {2: "two", 10: "ten"})
    assert load_state(tmp_path)[1] == {"2": "two", "10": "ten"}


def test_saving_again_replaces_and_leaves_other_files(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    module = make_module()
    save_model(tmp_path, module, {"round": 1})
    with torch.no_grad():
        module[0].weight.add_(1)
    save_model(tmp_path, module, {"round": 2})
    state, meta = load_state(tmp_path)
    assert meta == {"round": 2}
    assert torch.equal(state["0.weight"], module[0].weight)
    names = sorted(path.suffix for path in tmp_path.iterdir())
    assert names == [".json", ".safetensors", ".txt"]


def test_any_changed_byte_is_found(tmp_path):
    save_model(tmp_path, make_module(), {"lr": 0.1, "steps": 1000})
    generator = random.Random(0)
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        for _ in range(150):
            changed = bytearray(content)
            place = generator.randrange(len(content))
            changed[place] ^= 1 << generator.randrange(8)
            path.write_bytes(changed)
            with pytest.raises(CheckpointError, match=r"model"):
                load_state(tmp_path)
        for cut in (0, 1, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:cut])
            with pytest.raises(CheckpointError):
                load_state(tmp_path)
        path.write_bytes(content)
    load_state(tmp_path)


def rewrite(tmp_path, **changes):
    path = tmp_path / "model.json"
    header = json.loads(path.read_text()) | changes
    header.pop("sha256")
    path.write_bytes(_render(header))


def test_newer_version_says_so(tmp_path):
    save_model(tmp_path, make_module(), {})
    rewrite(tmp_path, version=2)
    with pytest.raises(CheckpointError, match=r"version 2.*upgrade"):
        load_state(tmp_path)


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"format": "other", "version": 1}', "\x80"])
def test_foreign_json_is_refused(tmp_path, text):
    (tmp_path / "model.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"model\.json"):
        load_state(tmp_path)


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/x.safetensors", "x.pickle", ""])
def test_tensors_stay_in_their_folder(tmp_path, name):
    save_model(tmp_path, make_module(), {})
    rewrite(tmp_path, tensors=name)
    with pytest.raises(CheckpointError, match="outside"):
        load_state(tmp_path)


def test_pickle_is_never_loaded(tmp_path):
    save_model(tmp_path, make_module(), {})
    (path,) = tmp_path.glob("*.safetensors")
    torch.save({"weight": torch.zeros(2)}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    rewrite(tmp_path, tensors_sha256=digest)
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        load_state(tmp_path)


def test_nothing_there_says_so(tmp_path):
    with pytest.raises(CheckpointError, match="has anything been saved"):
        load_state(tmp_path / "nowhere")
    save_model(tmp_path, make_module(), {})
    next(tmp_path.glob("*.safetensors")).unlink()
    with pytest.raises(CheckpointError, match="safetensors: cannot read"):
        load_state(tmp_path)


@pytest.mark.parametrize("meta", [{"x": float("nan")}, {"x": torch.zeros(1)}, {"x": {1, 2}}])
def test_meta_must_be_plain(tmp_path, meta):
    with pytest.raises(ValueError, match="meta: expected plain data"):
        save_model(tmp_path, make_module(), meta)
    assert not list(tmp_path.iterdir())


def test_state_must_be_tensors(tmp_path):
    class Extra(nn.Module):
        def get_extra_state(self):
            return "text"

    with pytest.raises(ValueError, match="state '_extra_state': expected a tensor"):
        save_model(tmp_path, Extra(), {})


def test_full_disk_leaves_the_old_state(tmp_path, monkeypatch):
    save_model(tmp_path, make_module(), {"round": 1})
    module = make_module()
    with torch.no_grad():
        module[0].weight.add_(1)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "fsync", full)
        with pytest.raises(OSError, match=r"No space left on device.*intact"):
            save_model(tmp_path, module, {"round": 2})
    assert load_state(tmp_path)[1] == {"round": 1}
    assert not list(tmp_path.glob(".*")), "no temporary file is left"


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot write"):
        save_model(tmp_path / "file" / "folder", make_module(), {})
