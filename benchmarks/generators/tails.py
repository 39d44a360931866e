"""How often does a violation in the tail of a distribution pass? Models that few points contradict.

|x|^2 in 2 or 3 standard normal coordinates, with a quadratic term beyond 2 or 2.5 standard
deviations along one axis (2.3 % and 0.6 % of the distribution), whose size is such that the true
defect of the rotations is 0.3, 1.1 or 3 times epsilon, by the definition on 20,000 points. Every
model is searched with 50 samples. The certificate is false if all rotations are certified though
the true defect is above epsilon.

Run with: python -m benchmarks.generators.tails
"""

import argparse
from collections.abc import Callable
from itertools import combinations

import torch
from benchmarks.generators.records import Clock, parallel, record
from benchmarks.generators.truth import true_defect
from torch import Tensor

import symmetries

EPSILON = 0.05
SIZES = (60, 400)
CASES = ((2, 2.0), (2, 2.5), (3, 2.0))  # coordinates, and where the term begins
DEFECTS = (0.3, 1.1, 3.0)  # times epsilon


def broken(size: float, border: float) -> Callable[[Tensor], Tensor]:
    """The model."""
    return lambda x: (x.square().sum(1) + size * (x[:, 0] - border).clamp_min(0) ** 2)[:, None]


def rotations(dim: int) -> Tensor:
    """The generators of so(dim), (k, dim + 1, dim + 1)."""
    pairs = tuple(combinations(range(dim), 2))
    found = torch.zeros(len(pairs), dim + 1, dim + 1, dtype=torch.float64)
    for matrix, (i, j) in zip(found, pairs, strict=True):
        matrix[i, j], matrix[j, i] = 1, -1
    return found


def calibrated(dim: int, border: float, defect: float) -> float:
    """The size of the term with which rotations have this defect."""
    size, turns = 1.0, rotations(dim)
    for _ in range(10):
        size *= defect / true_defect(broken(size, border), turns)
    return size


def one_run(dim: int, border: float, factor: float, count: int, seeds: int) -> dict[str, object]:
    """One model, and samples of one size."""
    model = broken(calibrated(dim, border, factor * EPSILON), border)
    certified = 0
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(1000 + seed)
        x = torch.randn(count, dim, generator=generator, dtype=torch.float64)
        found = symmetries.generators(x, model=model, fields="linear", epsilon=EPSILON, seed=seed)
        certified += found.dimension[0] >= dim * (dim - 1) // 2
    row: dict[str, object] = {"coordinates": dim, "beyond": border, "defect": factor}
    return row | {"points": count, "certified": certified}


def main() -> None:
    """Run all models and record them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--name", default="tails", help="of the file of results")
    given = parser.parse_args()
    clock, rows = Clock(), []
    cases = [
        (dim, border, factor, count, given.seeds)
        for dim, border in CASES
        for factor in DEFECTS
        for count in SIZES
    ]
    for row in parallel(one_run, cases, 1):
        rows.append(row)
    summary = {}
    for dim, border, factor in dict.fromkeys(case[:3] for case in cases):
        key = f"{dim} coordinates, beyond {border:g}, defect {factor:g} epsilon"
        there = {"coordinates": dim, "beyond": border, "defect": factor}
        counts = [str(row["certified"]) for row in rows if there.items() <= row.items()]
        summary[key] = f"certified {', '.join(counts)} of {given.seeds}"
    settings = {"epsilon": EPSILON, "level": 0.95, "points": list(SIZES)}
    record(given.name, summary, rows, clock, settings | {"seeds": f"0 to {given.seeds - 1}"})


if __name__ == "__main__":
    main()
