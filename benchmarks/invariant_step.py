"""Paper 0's training step on a CPU: one shared set of transformations on the cheaper side.

Interleaved in one run, ratios of medians: (a) every filter is warped by every transformation, (b)
every input is warped by its own copy of every matrix, and (c) ``InvariantLinear``. A step is the
forward and backward pass of the hidden layer (1,024 ReLU units, S = 32, 28 x 28 images), averaged
over transformations, with gradients to the filters and to the width. Targets on two cores: 7x (a)
and 1.4x (b) at batch 128, 1.9x the better of the two at batch 1,024. On a busy machine
``--processor-time`` counts the seconds that the process was given, and not those that passed.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/invariant_step.py
"""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.groups.affine import Affine2, affine_inverse
from symmetries.nn.invariant_linear import InvariantLinear

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record, wanted_clock

Respond = Callable[[InvariantLinear, Tensor, Tensor], Tensor]
BATCHES = (128, 1024)

UNITS, SAMPLES, SIDE = 1024, 32, 28
GROUP = Affine2("rotation")


def warp_filters(layer: InvariantLinear, images: Tensor, width: Tensor) -> Tensor:
    """(a) What a straightforward version does: S x 1,024 filters through ``grid_sample``."""
    theta = GROUP.exp(noise() * width)[:, :2].repeat_interleave(UNITS, 0)
    copies = layer.weight[0].repeat(SAMPLES, 1, 1, 1)
    grid = F.affine_grid(theta, list(copies.shape), align_corners=False)
    moved = F.grid_sample(copies, grid, align_corners=False).reshape(SAMPLES, UNITS, -1)
    return torch.einsum("bp,sup->sbu", images.flatten(1), moved)


def warp_inputs(layer: InvariantLinear, images: Tensor, width: Tensor) -> Tensor:
    """(b) What augmentation code does: S copies of each image, each with a matrix of its own."""
    theta = affine_inverse(GROUP.exp(noise() * width))[:, :2]
    batch = len(images)
    copies = images.repeat(SAMPLES, 1, 1, 1)
    matrices = theta.repeat_interleave(batch, 0)
    grid = F.affine_grid(matrices, list(copies.shape), align_corners=False)
    moved = F.grid_sample(copies, grid, align_corners=False).flatten(1)
    return (moved @ layer.weight[0].flatten(1).T).reshape(SAMPLES, batch, UNITS)


def ours(layer: InvariantLinear, images: Tensor, width: Tensor) -> Tensor:
    """(c) The library's layer, on the side it chooses."""
    return layer(images, GROUP.exp(noise() * width))


def noise() -> Tensor:
    """The transformations' noise, the same for all."""
    return torch.linspace(-1, 1, SAMPLES)[:, None]


def step(respond: Respond, layer: InvariantLinear, images: Tensor) -> None:
    """One forward and backward pass."""
    width = torch.tensor([1.0], requires_grad=True)
    layer.zero_grad()
    respond(layer, images, width).relu().mean(0).square().sum().backward()


def main() -> None:
    """Measure and record."""
    clock, _ = wanted_clock(__doc__)
    layer = InvariantLinear((1, SIDE, SIDE), UNITS, bias=False)
    rows = []
    for batch in BATCHES:
        images = torch.rand(batch, 1, SIDE, SIDE)
        calls = {
            f.__name__: lambda f=f, images=images: step(f, layer, images)
            for f in (warp_filters, warp_inputs, ours)
        }
        times = medians(interleaved(calls, rounds=5, clock=clock))
        gains = {name: times[name] / times["ours"] for name in ("warp_filters", "warp_inputs")}
        side = layer.chosen_side(batch)
        rows.append(
            {"batch": batch, "side": side, "clock": clock.__name__}
            | {"seconds": times, "gain": gains}
        )
        print(f"batch {batch} ({side}): {times} s; gains {gains}")
    record("invariant_step", rows)


if __name__ == "__main__":
    main()
