"""The affine exponential against torch.linalg.matrix_exp, alone and with its gradient.

Targets on two CPU cores, with the gradient, in one run: plain torch at least 3x at N = 1,024 and
6x at 65,536, not slower at 32; compiled at least 8x and 25x. Compiled for each size on its own
(dynamic=False); one compilation for all sizes is slower. The floor is the time to move the numbers:
6 in and 9 out, with backward 15 in and 6 out more. ``--processor-time``: on one thread, which a
busy machine disturbs less.

    python benchmarks/matrix_exp.py [--no-compile] [--processor-time]
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from symmetries.ops.affine_exp import affine_exp, generators

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record, seconds_to_move

SIZES = (32, 256, 1024, 8192, 65536)
TARGETS = {32: (1.0, 1.0), 1024: (3.0, 8.0), 65536: (6.0, 25.0)}  # plain, compiled


def with_torch(eta: Tensor) -> Tensor:
    """What a user would write: the sum of the generators, and torch's exponential."""
    algebra = (eta @ generators(eta.dtype).to(eta.device).reshape(6, 9)).reshape(-1, 3, 3)
    return torch.linalg.matrix_exp(algebra)


def forward_only(function: Callable[[Tensor], Tensor], eta: Tensor, repeat: int) -> None:
    """The value."""
    with torch.no_grad():
        for _ in range(repeat):
            function(eta)


def with_backward(function: Callable[[Tensor], Tensor], eta: Tensor, repeat: int) -> None:
    """The value and the gradient of the sum of squares."""
    for _ in range(repeat):
        torch.autograd.grad(function(eta).square().sum(), eta)


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--processor-time", action="store_true", help="not wall time, one thread")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.processor_time else time.perf_counter
    if arguments.processor_time:
        torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    functions = {"matrix_exp": with_torch, "ours": affine_exp}
    rows = []
    for n in SIZES:
        if not arguments.no_compile:
            torch.compiler.reset()  # or it gives up after eight versions of one function
            functions["ours, compiled"] = torch.compile(affine_exp, dynamic=False)
        eta = torch.randn(n, 6, device=device, requires_grad=True)
        repeat = max(1, 4096 // n)
        for what, run in (("forward", forward_only), ("with backward", with_backward)):
            calls = {
                name: lambda f=f, run=run, eta=eta, repeat=repeat: run(f, eta, repeat)
                for name, f in functions.items()
            }
            times = medians(interleaved(calls, 31 if n < 65536 else 11, clock))
            row = {"n": n, "what": what, "clock": clock.__name__}
            row |= {f"{name} (us)": 1e6 * t / repeat for name, t in times.items()}
            numbers = 15 if what == "forward" else 36
            row["floor (us)"] = 1e6 * seconds_to_move(4 * numbers * n, device)
            ratios = {name: times["matrix_exp"] / t for name, t in times.items() if "ours" in name}
            row |= {f"{name} (ratio)": ratio for name, ratio in ratios.items()}
            if what == "with backward" and n in TARGETS and device == "cpu":
                row["target"] = dict(zip(ratios, TARGETS[n], strict=False))
            rows.append(row)
            print(row)
    record(f"matrix_exp-{device}", rows)


if __name__ == "__main__":
    main()
