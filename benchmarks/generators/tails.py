"""Violations of a symmetry that few points have reached, and how often it is still certified.

Models |x|^2 have a quadratic term beyond some standard deviations along one axis, whose true defect
is a multiple of epsilon. Rotations are certified falsely from 1 on, and rightly below. Violations
are looked for a tenth farther out than the data; "within the data" is without that.

Run with: python -m benchmarks.generators.tails
"""

import argparse
from collections.abc import Callable

import torch
from benchmarks.generators.records import Clock, parallel, record
from benchmarks.generators.truth import true_defect
from torch import Tensor

from symmetries.lie import certify_function, search, split_halves

EPSILON, LEVEL = 0.05, 0.95
WAYS = ("certified", "within the data")
CASES = (  # where the term begins, points, true defects in units of epsilon
    *((2.0, count, times) for count in (400, 2000) for times in (0.3, 1.1, 3.0)),
    *((2.5, 400, times) for times in (1.1, 3.0)),
)


def model(size: float, edge: float) -> Callable[[Tensor], Tensor]:
    """A function of the radius, but for a term of some size beyond an edge."""
    return lambda x: (x.square().sum(1) + size * (x[:, 0] - edge).clamp_min(0) ** 2)[:, None]


def size_of(edge: float, defect: float) -> float:
    """The size of the term with which rotations have a true defect."""
    turns = torch.zeros(3, 4, 4, dtype=torch.float64)
    for turn, (i, j) in zip(turns, ((0, 1), (0, 2), (1, 2)), strict=True):
        turn[i, j], turn[j, i] = 1, -1
    size = 1.0
    for _ in range(12):
        size *= defect / true_defect(model(size, edge), turns)
    return size


def one(edge: float, count: int, times: float, size: float, seed: int) -> dict[str, object]:
    """Whether all rotations are certified."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    units = torch.arange(count)
    halves = split_halves(units, seed)
    found = search(model(size, edge), x, "linear", first=halves[0])
    given = (found, units, halves, EPSILON, LEVEL)
    within = certify_function(*given, farther=False).least == 3
    row = {"edge": edge, "points": count, "defect over epsilon": times, "seed": seed}
    return {**row, **dict(zip(WAYS, (certify_function(*given).least == 3, within), strict=True))}


def main() -> None:
    """All cases, and a record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    clock = Clock()
    sizes = {(edge, times): size_of(edge, times * EPSILON) for edge, _, times in CASES}
    tasks = [(*case, sizes[case[0], case[2]], s) for case in CASES for s in range(given.seeds)]
    rows = list(parallel(one, tasks, given.workers))
    summary = {}
    for edge, count, times in CASES:
        case = (edge, count, times)
        names = ("edge", "points", "defect over epsilon")
        own = [row for row in rows if tuple(row[name] for name in names) == case]
        all_in, within = (sum(bool(row[key]) for row in own) for key in WAYS)
        text = f"{all_in} of {len(own)} certified; {within} if looked for within the data"
        summary[f"beyond {edge:g}, {count} points, {times:g} epsilon"] = text
    settings = {"epsilon": EPSILON, "level": LEVEL, "seeds": f"0 to {given.seeds - 1}"}
    record("tails", summary, rows, clock, settings)


if __name__ == "__main__":
    main()
