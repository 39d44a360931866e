"""Kinds of layers chosen by the evidence: images as they are, and with scrambled pixels.

Networks of two layers, each dense or a convolution with the same inputs and outputs, and a linear
layer, on images of half the size (14 x 14 or 16 x 16 pixels). Scrambled images have their pixels
exchanged by one random permutation, so that neighbours say nothing about each other: dense layers
do not mind, convolutions do. All networks are compared by their Laplace evidence on the training
images (``symmetries.learners.invariant_network.choose_layers``).

    python benchmarks/network_layers.py --data mnist --folder MNIST --device cuda
"""

import argparse
import math
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.data import load
from symmetries.learners.invariant_network import InvariantNetworkConfig, choose_layers

sys.path.insert(0, str(Path(__file__).parent))
from common import record


def halved(images: Tensor) -> Tensor:
    """Images of half the size."""
    return F.avg_pool2d(images, 2)


def scrambled(images: Tensor) -> Tensor:
    """All images with their pixels in the same other order."""
    height, width = images.shape[2:]
    order = torch.randperm(height * width, generator=torch.Generator().manual_seed(0))
    return images.flatten(2)[:, :, order].unflatten(2, (height, width))


def main() -> None:
    """Measure and record, set by set."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--folder", help="of the data's files")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--examples", type=int, default=700)
    parser.add_argument("--channels", nargs="+", type=int, default=[8, 16])
    parser.add_argument("--kinds", nargs="+", default=["dense", "convolution"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds")
    given = parser.parse_args()
    data = load(given.data, "train", folder=given.folder)
    images, labels = halved(data.images[: given.examples]), data.labels[: given.examples]
    config = InvariantNetworkConfig().replace(
        steps=given.steps, batch_size=100, every=max(1, given.steps // 15), curvature_rows=1000
    )
    kind = "cuda" if given.device.startswith("cuda") else "cpu"
    rows = []
    ends, longest = time.perf_counter() + given.budget, 0.0
    for order in ("as they are", "scrambled"):
        began = time.perf_counter()
        if began + 1.2 * longest > ends:
            print(f"{order}: no time is left", flush=True)
            continue
        shown = scrambled(images) if order == "scrambled" else images
        found = choose_layers(
            (shown, labels), given.channels, given.kinds, config,
            seeds=given.seeds, device=given.device, progress=False,
        )  # fmt: skip
        longest = max(longest, time.perf_counter() - began)
        rows.append(
            {
                "data": given.data, "pixels": order, "examples": len(images),
                "steps": given.steps, "channels": given.channels, **found.to_dict(),
                "seconds": time.perf_counter() - began,
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
        record(f"network_layers-{given.data}-{kind}", rows)


if __name__ == "__main__":
    main()
