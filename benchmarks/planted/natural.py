"""Measure how handwriting and clothes vary by themselves, without any method of the benchmark.

    python -m benchmarks.planted.natural --data DIR

Rotation: pictures of a class are turned, by brute force over a grid of angles, to agree best with
the mean of their class, and the mean is taken again (congealing, Learned-Miller 2006). Shift: the
centre of mass. Numbers are standard deviations within a class, averaged over classes by their
squares; they stand in ``contents.py``.
"""

import argparse
import math

import numpy as np
import torch
from benchmarks.planted.contents import CONTENTS
from benchmarks.planted.glyphs import ink_moments
from benchmarks.planted.planting import moved_pictures, seeded
from torch import Tensor

COUNT = 700
SIZE = 24
ANGLES = torch.arange(-40, 41, 2)
ROUNDS = 5


def main() -> None:
    """Print the standard deviations of the three sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    folder = parser.parse_args().data
    for name in ("digits", "mnist", "fashion"):
        kind = CONTENTS[name]
        source = kind.make(COUNT, SIZE, seeded("natural", name), folder)
        if source.labels is None:
            raise ValueError(f"{name}: expected labels, got none; use a set with classes")
        at = torch.arange(COUNT)
        versions = torch.stack(
            [
                moved_pictures(source, at, kind, SIZE, {"rotation": turn.expand(COUNT)})
                for turn in torch.deg2rad(ANGLES.float())
            ],
            1,
        )
        still = versions[:, len(ANGLES) // 2, 0]
        centres = torch.from_numpy(np.stack([ink_moments(picture)[0] for picture in still]))
        turn = spread(congeal(versions, source.labels), source.labels)
        x, y = (spread(centres[:, axis], source.labels) for axis in (0, 1))
        print(f"{name}: rotation {math.degrees(turn):.1f} degrees, shifts {x:.3f}, {y:.3f}")


def congeal(versions: Tensor, labels: Tensor) -> Tensor:
    """Angles (N,) in radians of pictures, found from their turned versions (N, A, C, H, W)."""
    flat = versions.flatten(2)
    flat = flat / flat.norm(dim=2, keepdim=True)
    best = torch.full((len(flat),), len(ANGLES) // 2)
    for _ in range(ROUNDS):
        aligned = flat[torch.arange(len(flat)), best]
        for label in labels.unique():
            members = labels == label
            mean = aligned[members].mean(0)
            best[members] = (flat[members] @ mean).argmax(1)
    return -torch.deg2rad(ANGLES[best].float())


def spread(values: Tensor, labels: Tensor) -> float:
    """Root of the mean square deviation from the class's mean."""
    total = torch.zeros(len(values))
    for label in labels.unique():
        members = labels == label
        total[members] = (values[members] - values[members].mean()).float().square()
    return float(total.mean().sqrt())


if __name__ == "__main__":
    main()
