"""Random damage to checkpoints, saved models, results and published data files: is it found?

``python campaign/corruptions.py --each 200``. Damage is found if reading raises an error that
names the file; a value in place of an error would be a file silently used.
"""

import argparse
import gzip
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import seeds
from common import store

from symmetries.data import remote
from symmetries.data.idx import idx_set
from symmetries.results import OrbitResult
from symmetries.training import load_state, save_model
from symmetries.training.checkpoint import write_state

Read = Callable[[], object]


def flip(content: bytearray, chance: random.Random) -> None:
    """Change one bit."""
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def replace(content: bytearray, chance: random.Random) -> None:
    """Change one byte."""
    place = chance.randrange(len(content))
    content[place] = chance.choice([byte for byte in range(256) if byte != content[place]])


def zero(content: bytearray, chance: random.Random) -> None:
    """Lose a block, as a disk does."""
    start = chance.randrange(len(content))
    length = min(chance.choice([1, 16, 512, 4096]), len(content) - start)
    content[start : start + length] = bytes(length)


def swap(content: bytearray, chance: random.Random) -> None:
    """Exchange two pieces of the same length."""
    length = max(1, len(content) // 50)
    a, b = (chance.randrange(len(content) - length) for _ in range(2))
    piece = content[a : a + length]
    content[a : a + length], content[b : b + length] = content[b : b + length], piece


def cut(content: bytearray, chance: random.Random) -> None:
    """Lose the end."""
    del content[chance.randrange(len(content)) :]


DAMAGE = (flip, replace, zero, swap, cut)


def damage(path: Path, read: Read, times: int, chance: random.Random) -> dict[str, int]:
    """Damage a file in many ways; how often that was found, and the file named."""
    content = path.read_bytes()
    read()
    made, found = 0, 0
    while made < times:
        changed = bytearray(content)
        chance.choice(DAMAGE)(changed, chance)
        if bytes(changed) == content:
            continue
        path.write_bytes(changed)
        made += 1
        try:
            read()
        except ValueError as error:
            found += path.name in str(error) or path.stem in str(error)
    path.write_bytes(content)
    read()
    return {"made": made, "found": found}


def published(folder: Path) -> list[Path]:
    """Files in MNIST's layout whose SHA-256 the library is told, as it knows the real ones."""
    entries, paths = [], []
    for prefix, count in (("train", 30), ("t10k", 20)):
        for part, array in (
            ("images-idx3", seeds.numbers(count, 28, 28)),
            ("labels-idx1", seeds.numbers(count) % 10),
        ):
            path = folder / "mnist" / f"{prefix}-{part}-ubyte.gz"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(gzip.compress(seeds.idx(array), mtime=0))
            digest = remote.hashlib.sha256(path.read_bytes()).hexdigest()
            size = path.stat().st_size
            entries.append(remote.RemoteFile(f"mnist/{path.name}", (), digest, size))
            paths.append(path)
    remote.REMOTE["mnist"] = entries
    return paths


def main() -> None:
    """Damage, and store the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=200, help="times each file is damaged")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started, chance = time.time(), random.Random(options.seed)
    counts: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        save_model(folder, seeds.model(), {"inputs": 4, "classes": ["a", "b"]})
        state = {f"model.{name}": value for name, value in seeds.model().state_dict().items()}
        write_state(folder, "checkpoint", state, {"step": 100, "seconds": 1.5, "history": [0.5]})
        seeds.result().save(folder / "orbit.json")
        (model_tensors,) = folder.glob("model-*.safetensors")
        (tensors,) = folder.glob("checkpoint-*.safetensors")

        def checkpoint() -> object:
            return load_state(folder, "checkpoint")

        kinds: dict[str, tuple[Path, Read]] = {
            "checkpoint, JSON": (
                folder / "checkpoint.json",
                lambda: load_state(folder, "checkpoint"),
            ),
            "checkpoint, tensors": (tensors, lambda: load_state(folder, "checkpoint")),
            "saved model, JSON": (folder / "model.json", lambda: load_state(folder)),
            "saved model, tensors": (model_tensors, lambda: load_state(folder)),
            "result": (folder / "orbit.json", lambda: OrbitResult.load(folder / "orbit.json")),
        }
        for path in published(folder):
            split = "train" if path.name.startswith("train") else "test"
            kinds[f"published data, {path.name}"] = (
                path,
                lambda split=split: idx_set("mnist", split, folder),
            )
        for name, (path, read) in kinds.items():
            counts[name] = damage(path, read, options.each, chance)
            print(name, counts[name], flush=True)
    store("corruptions", {"files": counts}, started)


if __name__ == "__main__":
    main()
