"""Hostile files: hundreds of mutations of every format, and files made by hand to run code.

``python campaign/hostile.py --each 500``. A file must give what an independent reader (ONNX
Runtime, NumPy, Pillow, a plain parser) makes of the same bytes, or be refused in our words. Counted
are runs of foreign code (a mark that appears), crashes (a process that ends, or an error in foreign
words), answers that differ, and memory beyond twice the arrays that are needed.
"""

import argparse
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import hostile_files
import hostile_onnx
import mutations
import numpy as np
import onnx
import onnxruntime
import seeds
import torch
from common import store
from kills import child, ended
from PIL import Image, ImageOps

from symmetries.analysis.stored_models import load_classifier
from symmetries.auditing.onnx_check import moved
from symmetries.data import array_file, picture_folder
from symmetries.estimators import InvariantClassifier
from symmetries.results import OrbitResult
from symmetries.sweeps import read_config
from symmetries.training.checkpoint import CheckpointError, load_state

PICTURES = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
ROOM = 2**31  # bytes that a worker may take beyond what it has
SLACK = 48 * 2**20  # of memory: libraries, buffers, what Python keeps
SECONDS = 120  # a loaded machine takes a tenth of it for the largest picture that is allowed
TOML = b"""learner = "relaxed"
data = "digits"
measure = "accuracy"
trials = 3
images = 40
[settings]
steps = 1
[search]
lr = { low = 1e-4, high = 1e-1, log = true }
penalty = [0.0, 0.1]
"""


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
        found = OrbitResult.load(path)
        if found.data.count != json.loads(path.read_bytes())["data"]["count"]:
            raise DiffersError("another number of images")
    return 0


def toml_file(path: Path) -> int:
    """The file of a sweep."""
    read_config(path)
    return 0


def onnx_mutation(content: bytes, chance: random.Random) -> bytes:
    """Bytes, or an operator, a domain, an attribute, a name or a weight of the graph."""
    if chance.random() < 0.3:
        return mutations.of_bytes(content, chance)
    model = onnx.load_from_string(content)
    node = chance.choice(model.graph.node)
    kind = chance.randrange(6)
    if kind == 0:
        node.op_type = chance.choice(("Relu", "Abs", "Neg", "Sigmoid", "Softmax", "Celu", "Erf"))
    elif kind == 1:
        node.domain = chance.choice(("evil", "ai.onnx", "com.microsoft", "ai.onnx.ml"))
    elif kind == 2:
        node.name = chance.choice((*hostile_onnx.NODE_NAMES, "a.b", "", "\x1b[31m"))
    elif kind == 3 and node.attribute:
        part = chance.choice(node.attribute)
        part.i = chance.choice((-9, -1, 0, 1, 2, 10**9))
        part.f = chance.choice((0.0, -1.0, 1e30))
    elif kind == 4 and model.graph.initializer:
        weight = chance.choice(model.graph.initializer)
        weight.raw_data = mutations.of_bytes(weight.raw_data, chance)
    else:
        version = chance.choice((1, 7, 9, 11, 12, 13, 17, 20))
        model.opset_import[0].version = version
    return model.SerializeToString()


def starts(folder: Path, mark: Path) -> dict[str, list[tuple[str, bytes]]]:
    """The files that mutations begin with, by format: names and contents."""
    made: dict[str, list[tuple[str, bytes]]] = {}

    def add(kind: str, path: Path) -> None:
        made.setdefault(kind, []).append((path.name, path.read_bytes()))

    for name, make in hostile_files.MODELS.items():
        add("pt2" if name.endswith("pt2") else "pt", make(folder / name, mark))
    add("pt2", hostile_files.program(folder / "net.pt2"))
    add("pt", hostile_files.script(folder / "script.pt"))
    add("npz", hostile_files.object_array(folder / "objects.npz", mark))
    images = seeds.numbers(6, 9, 7)
    for compressed in (False, True):
        arrays = {"images": images, "labels": np.arange(6), "other": np.zeros(10**5)}
        (folder / "a.npz").write_bytes(seeds.npz(compressed, **arrays))
        add("npz", folder / "a.npz")
    for ending, kind in seeds.KINDS.items():
        for mode in ("L", "RGB", "P"):
            stream = io.BytesIO()
            picture = Image.fromarray(seeds.numbers(8, 8, 3)).convert(mode)
            (picture.convert("RGB") if kind in ("JPEG", "WEBP") else picture).save(stream, kind)
            made.setdefault("pictures", []).append((f"a.{ending}", stream.getvalue()))
    hostile_onnx.perceptron(folder / "plain.onnx")
    hostile_onnx.own_function(folder / "function.onnx")
    hostile_onnx.text_constant(folder / "text.onnx")
    hostile_onnx.bfloat16_weight(folder / "half.onnx")
    hostile_onnx.constant_logits(folder / "constant.onnx")
    for name in ("plain", "function", "text", "half", "constant"):
        add("onnx", folder / f"{name}.onnx")
    import safetensors.torch

    tensors = {"a": torch.rand(4, 3), "b": torch.arange(5), "c": torch.zeros(2, dtype=torch.uint8)}
    made["safetensors"] = [("model-0000000000000000.safetensors", safetensors.torch.save(tensors))]
    seeds.write(folder / "seeds")
    for path in sorted((folder / "seeds" / "result-json").iterdir()):
        made.setdefault("json", []).append(("orbit.json", path.read_bytes()))
    for path in sorted((folder / "seeds" / "checkpoint-json").iterdir()):
        made.setdefault("json", []).append(("model.json", path.read_bytes()))
    classifier = InvariantClassifier("rotation", features=16, steps=2, random_state=0)
    classifier.fit(np.random.default_rng(0).random((30, 64)), np.arange(30) % 3)
    made["json"].append(("model.json", classifier.save(folder / "classifier").read_bytes()))
    made["toml"] = [("a.toml", TOML)]
    return made


def resign(content: bytes) -> bytes:
    """A changed header with hashes that are right, so that what it says is looked at."""
    header = json.loads(content)
    if isinstance(header, dict) and header.get("format") == "symmetries-state":
        header.pop("sha256", None)
        body = json.dumps(header, sort_keys=True)
        header = {**header, "sha256": hashlib.sha256(body.encode()).hexdigest()}
        return (json.dumps(header, indent=1, sort_keys=True) + "\n").encode()
    return mutations.text(header)


def mutated(kind: str, content: bytes, chance: random.Random) -> bytes:
    """One mutation."""
    if kind == "onnx":
        return onnx_mutation(content, chance)
    if kind in ("pt2", "pt", "npz") and chance.random() < 0.7 and content[:2] == b"PK":
        return mutations.of_archive(content, chance)
    if kind == "json" and chance.random() < 0.7:
        return resign(mutations.text(mutations.of_json(json.loads(content), chance)))
    if kind == "safetensors" and chance.random() < 0.5:
        size = struct.unpack("<Q", content[:8])[0]
        names = mutations.text(mutations.of_json(json.loads(content[8 : 8 + size]), chance))
        return struct.pack("<Q", len(names)) + names + content[8 + size :]
    return mutations.of_bytes(content, chance)


READERS: dict[str, Callable[[Path], int]] = {
    **{"pt2": model_file, "pt": model_file, "safetensors": tensor_file, "onnx": onnx_file},
    **{"npz": npz_file, "pictures": picture_file, "json": json_file, "toml": toml_file},
}


def peak() -> int:
    """The most memory that this process held since it was last asked to count."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def judge(kind: str, path: Path, mark: Path) -> tuple[str, str, int, int]:
    """What came of one file: a word, what was said, memory taken, and bytes that were needed."""
    Path("/proc/self/clear_refs").write_text("5")
    before, needed = peak(), 0
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            needed = READERS[kind](path)
        word, said = "ok", ""
    except DiffersError as error:
        word, said = "differs", str(error)
    except (ValueError, OSError) as error:
        said = str(error)
        word = "refused" if ";" in said or isinstance(error, CheckpointError) else "crashed"
    except MemoryError as error:
        word, said = "crashed", f"MemoryError: {error}"
    except Exception as error:
        word, said = "crashed", f"{type(error).__name__}: {error}"
    signal.alarm(0)
    taken = (HELD.pop() if HELD else peak()) - before
    if mark.exists():
        mark.unlink()
        word = "ran code"
    return word, said, taken, needed


def work(kind: str, each: int, first: int, seed: int, folder: Path, log: Path) -> None:
    """Judge the mutations from ``first`` on, a line for each."""
    mark = folder / "mark"
    begin = starts(folder, mark)[kind]
    mark.unlink(missing_ok=True)
    size = 1024 * int(
        next(
            line.split()[1]
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("VmSize")
        )
    )
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    place = folder / "given"
    place.mkdir(exist_ok=True)
    with log.open("a") as lines:
        for number in range(first, each + len(begin)):
            chance = random.Random(f"{seed} {kind} {number}")
            name, content = begin[number % len(begin)]
            if number >= len(begin):  # the first ones are as they were made
                content = mutated(kind, content, chance)
            for old in place.iterdir():
                old.unlink()
            (place / name).write_bytes(content)
            if name == "model.json":
                for tensors in (folder / "classifier").glob("*.safetensors"):
                    shutil.copy(tensors, place)
            lines.write(json.dumps({"begun": number}) + "\n")
            lines.flush()
            word, said, taken, needed = judge(kind, place / name, mark)
            over = taken > 2 * needed + SLACK
            row = {"word": word, "said": said[:300], "over": over, "taken": taken}
            lines.write(json.dumps(row) + "\n")
            lines.flush()


def campaign(kind: str, each: int, seed: int, folder: Path) -> dict[str, Any]:
    """All mutations of one format; a worker that dies is a crash, and the next one goes on."""
    counts: Counter[str] = Counter()
    examples: list[str] = []
    log, largest, first = folder / "log", 0, 0
    log.touch()
    while True:
        sys.stdout.flush()
        task = partial(work, kind, each, first, seed, folder, log)
        code = ended(child(task), wait=True)
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        if code == 0:
            break
        begun = [row["begun"] for row in rows if "begun" in row]
        if "begun" not in (rows[-1] if rows else {}):
            raise SystemExit(f"{kind}: the worker failed by itself ({code})")
        with log.open("a") as lines:
            row = {"word": "crashed", "said": f"ended with {code}", "over": False, "taken": 0}
            lines.write(json.dumps(row) + "\n")
        first = begun[-1] + 1
    numbers = [row["begun"] for row in rows if "begun" in row]
    for number, row in zip(numbers, [row for row in rows if "word" in row], strict=True):
        counts[row["word"]] += 1
        counts["over memory"] += row["over"]
        largest = max(largest, row["taken"])
        if row["word"] in ("ran code", "crashed", "differs") or row["over"]:
            examples.append(f"{number}: {row['word']}: {row['said']}")
    return {
        "files": sum(counts[word] for word in ("ok", "refused", "ran code", "crashed", "differs")),
        **{word: counts[word] for word in ("ok", "refused", "ran code", "crashed", "differs")},
        "over_memory": counts["over memory"],
        "largest_megabytes": round(largest / 2**20, 1),
        "examples": examples[:12],
    }


def main() -> None:
    """Try every format, and store the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=500, help="mutations of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", nargs="+", choices=[*READERS], default=[*READERS])
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    started = time.time()
    numbers: dict[str, Any] = {"formats": {}}
    for kind in options.formats:
        with tempfile.TemporaryDirectory() as scratch:
            found = campaign(kind, options.each, options.seed, Path(scratch))
        numbers["formats"][kind] = found
        print(kind, json.dumps(found), flush=True)
    store("hostile", numbers, started)


if __name__ == "__main__":
    main()
