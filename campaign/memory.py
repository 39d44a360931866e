"""Training on a set larger than the memory that the process may have.

``python campaign/memory.py --gigabytes 12``: shards of random images are trained on by a process
whose address space is limited to what the library needs plus a little.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import environment, store

SHAPE = (64, 64)
ROOM = 400 * 2**20  # bytes beside what the imports take

WORKER = """
import json, resource, sys, time
from pathlib import Path
import torch
from torch import nn
from symmetries.data import stream
from symmetries.training import TrainConfig, train

def status(name):
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) * 1024

torch.set_num_threads(1)
data = stream(sys.argv[1])
limit = status("VmSize") + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
model = nn.Sequential(nn.Flatten(), nn.Linear(64 * 64, 16), nn.ReLU(), nn.Linear(16, 10))

def loss(model, batch, step):
    return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}

before, start = status("VmHWM"), time.perf_counter()
steps = int(sys.argv[3])
train(model, loss, data, TrainConfig(steps=steps, batch_size=256, progress=False, device="cpu"))
print(json.dumps({
    "examples": len(data), "steps": steps, "limit_bytes": limit,
    "resident_before": before, "resident_peak": status("VmHWM"),
    "examples_per_second": round(256 * steps / (time.perf_counter() - start)),
}))
"""


def main() -> None:
    """Write the set, train in a small process, store the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=12.0)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    started, rng = time.time(), np.random.default_rng(0)
    count = 2**17  # images of a shard: half a gigabyte
    with tempfile.TemporaryDirectory(prefix="shards-") as scratch:
        shards = max(1, round(options.gigabytes * 2**30 / (count * SHAPE[0] * SHAPE[1])))
        block = rng.integers(0, 256, (2**13, *SHAPE), dtype=np.uint8)
        for number in range(shards):
            path = Path(scratch) / f"images-{number:03d}.npy"
            array = np.lib.format.open_memmap(path, "w+", np.uint8, (count, *SHAPE))
            for start in range(0, count, len(block)):
                array[start : start + len(block)] = np.roll(block, number + start, 0)
            array.flush()
            del array
            np.save(path.with_name(f"labels-{number:03d}.npy"), rng.integers(0, 10, count))
        size = sum(path.stat().st_size for path in Path(scratch).iterdir())
        command = [sys.executable, "-c", WORKER, scratch, str(ROOM), str(options.steps)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
        if done.returncode:
            raise SystemExit(done.stderr[-3000:])
    numbers = {"set_bytes": size, "shards": shards, **json.loads(done.stdout)}
    print(numbers)
    store("memory", numbers, started)


if __name__ == "__main__":
    main()
