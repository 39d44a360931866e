"""Files take the memory of the arrays that are needed, or are refused before they take any."""

import json

import numpy as np
import pytest
from PIL import Image

# Runs a command and prints the memory that it took beyond that of the imports.
MEASURED = """
import json, resource, sys
import torch, symmetries.data, symmetries.analysis.inputs, symmetries.cli.runs
from symmetries.cli import app
torch.ones(1000, 1000).mean()
def resident():
    return 1024 * int([l for l in open("/proc/self/status") if l.startswith("VmHWM")][0].split()[1])
open("/proc/self/clear_refs", "w").write("5")
before = resident()
try:
    app()
finally:
    open("peak", "w").write(json.dumps(resident() - before))
"""
LIMITED = """
import resource
import torch, symmetries.data, symmetries.analysis.inputs, symmetries.cli.runs
from symmetries.cli import app
size = 1024 * int([l for l in open("/proc/self/status") if l.startswith("VmSize")][0].split()[1])
resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
app()
"""


def peak(spawn, tmp_path, *words):
    process = spawn(*words, code=MEASURED)
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 0, said
    return json.loads((tmp_path / "peak").read_text())


@pytest.mark.parametrize("kind", ["uint8", "float64"])
def test_unrelated_arrays_are_not_read(spawn, tmp_path, kind):
    images = np.zeros((4000, 64, 64), kind)
    images[0, 0, 0] = 1
    others = {f"other_{i}": np.zeros(10**8, np.uint8) for i in range(4)}
    np.savez_compressed(tmp_path / "a.npz", images=images, **others)
    needed = max(images.nbytes, 4 * images.size)
    assert peak(spawn, tmp_path, "data", "describe", "a.npz") < 2 * needed


def test_pictures_take_less_than_twice_their_arrays(spawn, tmp_path):
    for i in range(24):
        picture = np.zeros((1024, 1024), bool)
        picture[i] = True
        Image.fromarray(picture).save(tmp_path / f"{i}.png")
    needed = 4 * 24 * 1024 * 1024
    assert peak(spawn, tmp_path, "data", "describe", ".") < 2 * needed


@pytest.mark.parametrize("kind", ["npz", "pictures", "npy", "resize"])
def test_what_does_not_fit_is_refused_before_it_is_read(spawn, tmp_path, kind):
    words = ["data", "describe", {"npz": "a.npz", "npy": "a.npy", "resize": "a.npy"}.get(kind, ".")]
    if kind == "npz":
        np.savez_compressed(tmp_path / "a.npz", images=np.zeros((20, 2048, 2048), np.uint8))
    elif kind == "npy":
        np.save(tmp_path / "a.npy", np.zeros((20, 2048, 2048), np.uint8))
    elif kind == "resize":
        np.save(tmp_path / "a.npy", np.random.default_rng(0).random((20, 8, 8)))
        words += ["--resize", "3000"]
    else:
        for i in range(20):
            Image.fromarray(np.eye(2048, dtype=bool)).save(tmp_path / f"{i}.png")
    process = spawn(*words, code=LIMITED.replace("ROOM", str(380 * 2**20)))
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 3, said
    assert "expected data that fits into memory" in said
    assert "please report" not in said


def test_a_header_of_a_npy_file_is_short(tmp_path, run):
    """One that claims gigabytes, in a few bytes that deflate makes of them."""
    import zipfile

    length = 2**28
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        header = b"\x93NUMPY\x02\x00" + length.to_bytes(4, "little") + b" " * length
        archive.writestr("images.npy", header)
    result = run("data", "describe", "a.npz")
    assert result.exit_code == 3


def test_two_members_of_one_name_are_refused(tmp_path, run):
    """NumPy takes the last one; who takes the first reads other data from the same file."""
    import warnings
    import zipfile

    np.savez(tmp_path / "a.npz", images=np.zeros((4, 8, 8), np.uint8))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("images.npy", b"no array")
    result = run("data", "describe", "a.npz")
    assert result.exit_code == 3
    assert "twice" in result.stderr


@pytest.mark.parametrize("kind", ["many labels", "long names"])
def test_labels_are_refused_by_their_header(run, tmp_path, monkeypatch, kind):
    """A file of 100 KB made the reader hold 10^8 labels, and refuse them afterwards."""
    from symmetries.data import arrays

    labels = (
        np.zeros((4, 2**24), np.uint8) if kind == "many labels" else np.array(["a" * 2**20] * 4)
    )
    np.savez_compressed(tmp_path / "a.npz", images=np.eye(8)[None].repeat(4, 0), labels=labels)
    monkeypatch.setattr(arrays, "_read_array", lambda *_, **__: pytest.fail("it was read"))
    refused = run("data", "describe", "a.npz")
    assert refused.exit_code == 3, refused.output
    assert "'labels'" in refused.output
