"""How much of a kernel's space a soft layer uses at the start, by what the absolute element gives.

A kernel is linear in the features phi of its samples. Per input element, how many directions do
they span (the exponential of the entropy of their spectrum), and what share of the kernels is
constant over the taps? Means over ten draws of the layer that the CIFAR network has, small.

    python papers/relaxed-equivariance/kernel_start.py --out kernel_start.json
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from symmetries.groups import Cyclic
from symmetries.nn import fourier
from symmetries.nn.gconv import GroupConv2d
from symmetries.training.atomic_files import write_atomic

SHARES = (0.5, 0.2, 0.1, 0.02)
OMEGA = 1.0


@contextmanager
def start(share: float, pairs: bool) -> Iterator[None]:
    """Soft kernels that start with another share of their variance from the absolute element."""
    kept = fourier.SHARE, fourier.KernelFunction.pair_units
    fourier.SHARE = share
    if not pairs:
        fourier.KernelFunction.pair_units = lambda _: None
    try:
        yield
    finally:
        fourier.SHARE, fourier.KernelFunction.pair_units = kept


@torch.no_grad()
def measured(mode: str, seed: int) -> tuple[float, float]:
    """Directions per input element, and the share of the kernels that is constant over taps."""
    relax = {"rotation": OMEGA} if mode == "soft" else None
    generator = torch.Generator().manual_seed(seed)
    layer = GroupConv2d(8, 8, 5, group=Cyclic(4), mode=mode, relax=relax, generator=generator)
    relative = layer.kernel.project_relative(layer.relative, layer.frequency)
    if mode == "soft":
        angle = layer.absolute[:, None, 2:]  # after the two shifts
        relative = relative + layer.kernel.project_absolute(angle, layer.relaxed_frequency)[None]
    phi = layer.kernel.finish(relative)[:, 0].flatten(0, 1)  # the samples of one input element
    power = torch.linalg.svdvals(phi).square()
    power = power / power.sum()
    weight = layer.sampled((9, 9)).weight
    constant = weight.mean((2, 3)).square().mean() / weight.square().mean()
    return float(torch.exp(-torch.xlogy(power, power).sum())), float(constant)


def row(mode: str, share: float | None, pairs: bool | None) -> dict[str, Any]:
    """The means over ten draws."""
    with start(share or fourier.SHARE, bool(pairs)):
        found = [measured(mode, seed) for seed in range(10)]
    dimensions, constant = (round(mean(values), 3) for values in zip(*found, strict=True))
    names = {"mode": mode, "share": share, "pairs": pairs}
    return {**names, "dimensions": dimensions, "constant": constant}


def main(words: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """All of it, a few seconds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(words)
    rows = [row("strict", None, None)]
    rows += [row("soft", share, pairs) for share in SHARES for pairs in (False, True)]
    for line in rows:
        print(line, flush=True)
    if arguments.out is not None:
        write_atomic(arguments.out, (json.dumps({"rows": rows}, indent=1) + "\n").encode())
    return rows


if __name__ == "__main__":
    main()
