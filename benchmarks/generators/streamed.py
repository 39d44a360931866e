"""A million points: processor time and memory of `generators`, for models and for tables.

Models: |x|^2 + 0.1 |x|^4 of 5 and of 20 coordinates, whose symmetries are so(5) and so(20). Table:
the first of them with an error of 5 % of its size, fitted by polynomials.

Run with: python -m benchmarks.generators.streamed
"""

import argparse
import resource
import time

import torch
from benchmarks.generators.records import Clock, record
from torch import Tensor

import symmetries

CASES = {"model of 5": (5, False), "model of 20": (20, False), "table of 5": (5, True)}


def function(x: Tensor) -> Tensor:
    """A function of the radius."""
    radius = x.square().sum(-1, keepdim=True)
    return radius + 0.1 * radius**2


def one_run(name: str, count: int) -> dict[str, object]:
    """One data set."""
    dim, noisy = CASES[name]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, dim, generator=generator, dtype=torch.float64)
    begun = time.process_time()
    if noisy:
        y = function(x)
        y = y + 0.05 * y.std() * torch.randn(count, 1, generator=generator, dtype=torch.float64)
        found = symmetries.generators(x, y, fields="linear")
    else:
        found = symmetries.generators(x, model=function, fields="linear")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    row: dict[str, object] = {"case": name, "points": count, "answer": found.answer}
    seconds = round(time.process_time() - begun, 1)
    return row | {"processor seconds": seconds, "peak GiB": round(peak, 2)}


def main() -> None:
    """Run all cases and record them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    given = parser.parse_args()
    clock, rows = Clock(), []
    for name in given.cases:
        rows.append(one_run(name, given.points))
        summary = {
            row["case"]: f"{row['answer']}, {row['processor seconds']} s of one processor, "
            f"peak so far {row['peak GiB']} GiB"
            for row in rows
        }
        record("streamed", summary, rows, clock, {"points": given.points, "seed": 0})


if __name__ == "__main__":
    main()
