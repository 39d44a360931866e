"""Where mutations of hostile files begin, by format, and how each format is changed."""

import hashlib
import io
import json
import random
import struct
from pathlib import Path

import hostile_files
import hostile_onnx
import mutations
import numpy as np
import onnx
import safetensors.torch
import seeds
import torch
from PIL import Image

import symmetries
from symmetries.estimators import InvariantClassifier

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


Files = list[tuple[str, bytes]]  # names and contents


def starts(kind: str, folder: Path, mark: Path) -> Files:
    """The files of a format that mutations begin with."""
    if kind in ("pt", "pt2"):
        return models(kind, folder, mark)
    if kind == "npz":
        return archives(folder, mark)
    made = {
        **{"pictures": pictures, "onnx": graphs, "safetensors": tensors, "json": states},
        **{"toml": lambda folder: [("a.toml", TOML)], "tables": lambda folder: tables()},
    }
    return made[kind](folder)


def read(*paths: Path) -> Files:
    """Names and contents of files."""
    return [(path.name, path.read_bytes()) for path in paths]


def models(kind: str, folder: Path, mark: Path) -> Files:
    """Programs of torch.export (pt2), or TorchScript and pickles (pt), hostile ones among them."""
    made = []
    for name, make in hostile_files.MODELS.items():
        if name.endswith("pt2") == (kind == "pt2"):
            made += read(make(folder / name, mark))
    own = hostile_files.program if kind == "pt2" else hostile_files.script
    return made + read(own(folder / ("net.pt2" if kind == "pt2" else "script.pt")))


def archives(folder: Path, mark: Path) -> Files:
    """Archives of arrays, one of them with objects."""
    made = read(hostile_files.object_array(folder / "objects.npz", mark))
    images = seeds.numbers(6, 9, 7)
    for compressed in (False, True):
        arrays = {"images": images, "labels": np.arange(6), "other": np.zeros(10**5)}
        made.append(("a.npz", seeds.npz(compressed, **arrays)))
    return made


def pictures(folder: Path) -> Files:
    """Pictures of every kind and mode."""
    made = []
    for ending, kind in seeds.KINDS.items():
        for mode in ("L", "RGB", "P"):
            stream = io.BytesIO()
            picture = Image.fromarray(seeds.numbers(8, 8, 3)).convert(mode)
            (picture.convert("RGB") if kind in ("JPEG", "WEBP") else picture).save(stream, kind)
            made.append((f"a.{ending}", stream.getvalue()))
    return made


def graphs(folder: Path) -> Files:
    """ONNX files, plain and odd."""
    hostile_onnx.perceptron(folder / "plain.onnx")
    hostile_onnx.own_function(folder / "function.onnx")
    hostile_onnx.text_constant(folder / "text.onnx")
    hostile_onnx.bfloat16_weight(folder / "half.onnx")
    hostile_onnx.constant_logits(folder / "constant.onnx")
    return read(*(folder / f"{n}.onnx" for n in ("plain", "function", "text", "half", "constant")))


def tensors(folder: Path) -> Files:
    """Weights of a stored state."""
    made = {"a": torch.rand(4, 3), "b": torch.arange(5), "c": torch.zeros(2, dtype=torch.uint8)}
    return [("model-0000000000000000.safetensors", safetensors.torch.save(made))]


def states(folder: Path) -> Files:
    """Results and the headers of stored states, that of a classifier among them."""
    seeds.write(folder / "seeds")
    results, headers = (
        sorted((folder / "seeds" / name).iterdir()) for name in ("result-json", "checkpoint-json")
    )
    made = [("orbit.json", path.read_bytes()) for path in results]
    made += [("model.json", path.read_bytes()) for path in headers]
    classifier = InvariantClassifier("rotation", features=16, steps=2, random_state=0)
    classifier.fit(np.random.default_rng(0).random((30, 64)), np.arange(30) % 3)
    x = np.random.default_rng(0).normal(size=(200, 2))
    found = symmetries.generators(x, (x**2).sum(1), fields="linear", degree=2)
    made += [("model.json", classifier.save(folder / "classifier").read_bytes())]
    return [*made, ("generators.json", found.save(folder / "generators.json").read_bytes())]


def tables() -> Files:
    """Tables and trajectories of ``symmetries generators``, in every spelling that it reads."""
    rng = np.random.default_rng(0)
    x, states = rng.normal(size=(30, 2)), rng.normal(size=(4, 9, 2))
    lines = ["a,b,energy", *(f"{a},{b},{a * a + b * b}" for a, b in x)]
    other = np.asfortranarray(x.astype(">f4"))
    made = [("a.csv", "\n".join(lines).encode()), ("b.csv", "\r\n".join(lines).encode("utf-8-sig"))]
    for packed in (False, True):
        made.append(("a.npz", seeds.npz(packed, x=x, y=(x**2).sum(1), more=np.zeros(10**5))))
        made.append(("b.npz", seeds.npz(packed, x=other, y=np.arange(30) % 3 == 0)))
        made.append(("c.npz", seeds.npz(packed, trajectories=states, x=x)))
    return made


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
    if kind in ("pt2", "pt", "npz", "tables") and chance.random() < 0.7 and content[:2] == b"PK":
        return mutations.of_archive(content, chance)
    if kind == "json" and chance.random() < 0.7:
        return resign(mutations.text(mutations.of_json(json.loads(content), chance)))
    if kind == "safetensors" and chance.random() < 0.5:
        size = struct.unpack("<Q", content[:8])[0]
        names = mutations.text(mutations.of_json(json.loads(content[8 : 8 + size]), chance))
        return struct.pack("<Q", len(names)) + names + content[8 + size :]
    return mutations.of_bytes(content, chance)
