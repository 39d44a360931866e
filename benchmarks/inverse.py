"""The inverse of affine maps against torch.linalg.inv, alone and with its gradient.

Target on two CPU cores: never slower. The floor is the time to move the numbers: 9 in and 9 out,
with backward 18 in and 9 out more. ``--processor-time``: on one thread, which a busy machine
disturbs less.

    python benchmarks/inverse.py [--processor-time]
"""

import sys
from pathlib import Path

import torch

from symmetries.groups.affine import affine_exp, affine_inverse

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record, seconds_to_move, wanted_clock
from matrix_exp import forward_only, with_backward

SIZES = (1, 32, 256, 1024, 2048, 8192, 65536)


def main() -> None:
    """Measure and record."""
    clock, clock_name = wanted_clock(__doc__)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = []
    for n in SIZES:
        matrices = affine_exp(0.5 * torch.randn(n, 6, device=device)).detach().requires_grad_()
        repeat = min(200, max(1, 4096 // n))
        for what, run in (("forward", forward_only), ("with backward", with_backward)):
            functions = {"torch": torch.linalg.inv, "ours": affine_inverse}
            calls = {
                name: lambda f=f, run=run, m=matrices, repeat=repeat: run(f, m, repeat)
                for name, f in functions.items()
            }
            times = medians(interleaved(calls, 31 if n < 65536 else 11, clock))
            row = {"n": n, "what": what}
            row |= {f"{name} (us)": 1e6 * t / repeat for name, t in times.items()}
            numbers = 18 if what == "forward" else 45
            row["floor (us)"] = 1e6 * seconds_to_move(4 * numbers * n, device)
            row["torch over ours"] = times["torch"] / times["ours"]
            row["clock"] = clock_name
            rows.append(row)
            print(row)
    record(f"inverse-{device}", rows)


if __name__ == "__main__":
    main()
