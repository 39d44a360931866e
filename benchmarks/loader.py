"""A set larger than the memory set aside for it: how busy the device stays while rows stream in.

A memory-mapped file of images (20 GB on a GPU machine, 64 MB elsewhere) trains a small
convolutional network through the training loop, once with the rows of all steps taken from the
file, and once with a few of them held on the device. The ratio of the two times is the share of
the time in which the device has work. Goal on one H200: 0.9.

    python benchmarks/loader.py
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.training import Step, TrainConfig, source, train

sys.path.insert(0, str(Path(__file__).parent))
from common import record

GPU = torch.cuda.is_available()
SIDE, BATCH = 64, 256
BYTES = 20_000_000_000 if GPU else 64_000_000
STEPS = 400 if GPU else 8


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


def milliseconds(data: tuple[Tensor, Tensor]) -> float:
    """Per step, in the second half of a run."""
    config = TrainConfig(STEPS, BATCH, log_every=STEPS // 4, progress=False)
    history = train(network(), loss, data, config)
    return 1e3 * (history.times[-1] - history.times[1]) / (history.step[-1] - history.step[1])


def make_file(path: Path, count: int) -> Tensor:
    """Random images on disk, mapped into memory."""
    block = np.random.default_rng(0).integers(0, 256, (1000, 3, SIDE, SIDE), dtype=np.uint8)
    with path.open("wb") as file:
        for _ in range(count // 1000):
            file.write(block.data)
    shape = (count // 1000 * 1000, 3, SIDE, SIDE)
    return torch.from_numpy(np.memmap(path, np.uint8, "r+", shape=shape))


def main() -> None:
    """Measure and record."""
    with tempfile.TemporaryDirectory() as folder:
        images = make_file(Path(folder) / "images.bin", BYTES // (3 * SIDE * SIDE))
        labels = torch.arange(len(images)) % 10
        few = images[:4096].clone(), labels[:4096].clone()
        held = milliseconds(few)
        share, source.DEVICE_SHARE = source.DEVICE_SHARE, 0.0  # as if nothing would fit
        try:
            streamed = milliseconds((images, labels))
        finally:
            source.DEVICE_SHARE = share
        del images
    row = {
        "GB": BYTES / 1e9,
        "images": len(labels),
        "held on the device (ms)": held,
        "streamed (ms)": streamed,
        "device busy": held / streamed,
    }
    print(row)
    record("loader-cuda" if GPU else "loader-cpu", [row])


if __name__ == "__main__":
    main()
