"""A set larger than the memory set aside for it: how busy the device stays while rows stream in.

A memory-mapped file of images (20 GB on a GPU machine, 64 MB elsewhere) trains a small
convolutional network through the training loop, with the rows of all steps taken from the file, and
with a few of them held on the device; the two take turns. The ratio of their times is the share of
the time in which the device has work. Goal on one H200: 0.9. The file was just written, so a
machine with memory enough reads it from there and not from its disk.

    python benchmarks/loader.py [--folder DISK]
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.training import Step, TrainConfig, batches, source, train

sys.path.insert(0, str(Path(__file__).parent))
from common import record

GPU = torch.cuda.is_available()
SIDE, BATCH = 64, 256
BYTES = 20_000_000_000 if GPU else 64_000_000
STEPS = 600 if GPU else 8
ROUNDS = 2 if GPU else 1
BLOCK = 1000  # images written at a time: random ones, the same block again and again
LONGEST = 14.0  # seconds of writing; a slow disk gets a smaller file, and the result says so


def network() -> nn.Module:
    """Four convolutions and a mean: a modest network, so that the loader has to be quick."""
    torch.manual_seed(0)
    width = 64 if GPU else 8
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate([(3, width), (width, width), (width, width), (width, width)]):
        layers += [nn.Conv2d(a, b, 3, stride=2 if i else 1, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
    """Cross-entropy of images stored as bytes."""
    logits = model(batch[0].float() / 255)
    return {"loss": F.cross_entropy(logits, batch[1])}


def milliseconds(data: tuple[Tensor, Tensor], resident: bool) -> float:
    """Per step, in the last three quarters of a run."""
    share = source.DEVICE_SHARE
    source.DEVICE_SHARE = share if resident else 0.0  # as if nothing would fit
    try:
        config = TrainConfig(STEPS, BATCH, progress=False).replace(log_every=STEPS // 4)
        history = train(network(), loss, data, config)
    finally:
        source.DEVICE_SHARE = share
    return 1e3 * (history.times[-1] - history.times[1]) / (history.step[-1] - history.step[1])


def make_file(path: Path, blocks: int) -> tuple[Tensor, float]:
    """Random images on disk, mapped into memory; and the seconds that writing took."""
    shape = (BLOCK, 3, SIDE, SIDE)
    block = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    began = time.perf_counter()
    with path.open("wb") as file, ThreadPoolExecutor(8) as pool:

        def write(i: int) -> bool:
            late = time.perf_counter() - began > LONGEST
            return not late and os.pwrite(file.fileno(), block.data, i * block.nbytes) > 0

        written = list(pool.map(write, range(blocks)))
    whole = written.index(False) if False in written else blocks
    seconds = time.perf_counter() - began
    mapped = np.memmap(path, np.uint8, "r+", shape=(whole * BLOCK, *shape[1:]))
    return torch.from_numpy(mapped), seconds


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the file goes; a temporary place")
    parser.add_argument("--most-seconds", type=float, default=1e9, help="begin no row after")
    options = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        images, writing = make_file(Path(folder) / "images.bin", BYTES // (BLOCK * 3 * SIDE * SIDE))
        print(f"wrote {images.nbytes / 1e9:.2f} GB in {writing:.1f} s", flush=True)
        labels = torch.arange(len(images)) % 10
        few = images[:4096].clone(), labels[:4096].clone()
        rows = []
        for threads in (batches.THREADS, 1):
            if time.perf_counter() - began > options.most_seconds:
                break
            kept, batches.THREADS = batches.THREADS, threads
            held, streamed = [], []
            for _ in range(ROUNDS):
                held.append(milliseconds(few, resident=True))
                streamed.append(milliseconds((images, labels), resident=False))
            batches.THREADS = kept
            ratio = statistics.median(a / b for a, b in zip(held, streamed, strict=True))
            row = {
                "GB": images.nbytes / 1e9,
                "images": len(labels),
                "threads that gather": threads,
                "held on the device (ms)": statistics.median(held),
                "streamed (ms)": statistics.median(streamed),
                "MB per step": BATCH * 3 * SIDE * SIDE / 1e6,
                "device busy": ratio,
            }
            rows.append(row)
            print(row, flush=True)
            if GPU:  # on a CPU all data are where the work is: a trial of the script, no more
                record("loader-cuda", rows)
        del images


if __name__ == "__main__":
    main()
