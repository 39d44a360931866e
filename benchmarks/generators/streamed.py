"""A million points, streamed: time and memory for functions that are given, and for tables.

Models: |x|^2 + 0.1 |x|^4 of 5 and of 20 coordinates, whose symmetries are so(5) and so(20). Table:
the first of them with an error of 5 % of its size, fitted by polynomials. Models of 60 to 150
coordinates, among whose 3,600 to 22,500 linear fields an iterative solver looks for symmetries:
they depend on the radius of the first 4, 16 or 60 coordinates (6, 120 or 1,770 generators), and on
cubes and products of the others; four points for each unknown number (``--many``).

Run with: python -m benchmarks.generators.streamed
"""

import argparse
import resource
import time
from functools import partial

import torch
from benchmarks.generators.records import Clock, record
from torch import Tensor

import symmetries

CASES = {"model of 5": 5, "table of 5": 5, "model of 20": 20}
PARTLY = {  # coordinates, and those of the radius
    "so(4) of 60": (60, 4),
    "so(4) of 120": (120, 4),
    "so(16) of 120": (120, 16),
    "so(60) of 120": (120, 60),
    "so(4) of 150": (150, 4),
}


def function(x: Tensor) -> Tensor:
    """A function of the radius."""
    radius = x.square().sum(-1, keepdim=True)
    return radius + 0.1 * radius**2


def partly(x: Tensor, count: int) -> Tensor:
    """A function of the radius of the first coordinates, and of the others."""
    rest = x[:, count:]
    weights = torch.linspace(0.5, 2, rest.shape[1], dtype=x.dtype)
    chain = (rest[:, :-1] * rest[:, 1:]).sum(1)
    return x[:, :count].square().sum(1) + (rest**3 @ weights) / 3 + chain


def one_run(name: str, count: int) -> dict[str, object]:
    """One data set."""
    dim, turned = PARTLY[name] if name in PARTLY else (CASES[name], 0)
    generator = torch.Generator().manual_seed(0)
    count = 4 * dim**2 if turned else count
    x = torch.randn(count, dim, generator=generator, dtype=torch.float64)
    begun, started = time.process_time(), time.perf_counter()
    if name.startswith("table"):
        y = function(x)
        y = y + 0.05 * y.std() * torch.randn(count, 1, generator=generator, dtype=torch.float64)
        found = symmetries.generators(x, y, fields="linear")
    else:
        model = partial(partly, count=turned) if turned else function
        epsilon = 0.05 if turned else None
        found = symmetries.generators(x, model=model, fields="linear", epsilon=epsilon)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    row: dict[str, object] = {"case": name, "points": count, "answer": found.answer}
    row |= {"dimension": list(found.dimension), "seconds": round(time.perf_counter() - started, 1)}
    row["next defect"] = next((s.defect for s in found.spectrum[len(found.generators) :]), None)
    seconds = round(time.process_time() - begun, 1)
    return row | {"processor seconds": seconds, "peak GiB": round(peak, 2)}


def main() -> None:
    """Run all cases and record them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--many", action="store_true", help="coordinates, not points")
    parser.add_argument("--cases", nargs="+", help="some of them")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    clock, rows = Clock(), []
    for name in given.cases or (PARTLY if given.many else CASES):
        rows.append(one_run(name, given.points))
        summary = {
            row["case"]: f"{row['answer']}, {row['points']:,} points, {row['seconds']} s "
            f"({row['processor seconds']} s of processors), peak so far {row['peak GiB']} GiB"
            for row in rows
        }
        record(
            "many_coordinates" if given.many else "streamed",
            summary,
            rows,
            clock,
            {"seed": 0, "threads": given.threads},
        )


if __name__ == "__main__":
    main()
