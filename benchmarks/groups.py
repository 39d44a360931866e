"""Operations of matrix groups against what one would write in torch, with and without gradient.

exp against ``torch.linalg.matrix_exp`` of the sum of generators, compose against ``@``, inverse
against ``torch.linalg.inv``, log against SciPy's ``logm`` (one matrix at a time, few of them), for
the affine group and for rigid motions. Target on two CPU cores: never slower, for any number of
elements. The gradient is that of the sum of squares. ``--processor-time``: on one thread, which a
busy machine disturbs less.

    python benchmarks/groups.py [--processor-time]
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from symmetries.groups.affine import Affine2
from symmetries.groups.se2 import SE2
from symmetries.ops.affine_exp import generators

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record, wanted_clock
from matrix_exp import forward_only, with_backward

SIZES = (1, 10, 100, 1_000, 10_000, 100_000)
MOST_BY_SCIPY = 100
Function = Callable[[Tensor], Tensor]


def exp_of_sum(dim: int) -> Function:
    """The exponential of a sum of generators by torch."""
    basis = generators(torch.float32)[:dim].reshape(dim, 9)
    return lambda eta: torch.linalg.matrix_exp((eta @ basis).reshape(-1, 3, 3))


def logm(matrices: Tensor) -> Tensor:
    """Logarithms by SciPy, without what it says about float32."""
    warnings.simplefilter("ignore")
    logs = [scipy.linalg.logm(matrix) for matrix in matrices.numpy()]
    return torch.from_numpy(np.stack(logs))


def operations(n: int) -> dict[tuple[str, str], tuple[Tensor, Function, Function]]:
    """What is measured: its argument, torch's way, ours."""
    found: dict[tuple[str, str], tuple[Tensor, Function, Function]] = {}
    for group in (Affine2(), SE2()):
        eta = 0.5 * torch.randn(n, group.dim)
        matrices, others = group.exp(eta), group.exp(0.5 * torch.randn(n, group.dim))
        name = type(group).__name__
        found[name, "exp"] = eta, exp_of_sum(group.dim), group.exp
        found[name, "inverse"] = matrices, torch.linalg.inv, group.inverse
        found[name, "compose"] = (
            matrices,
            lambda m, others=others: m @ others,
            lambda m, others=others, group=group: group.compose(m, others),
        )
        if n <= MOST_BY_SCIPY:
            found[name, "log"] = matrices, logm, group.log
    return found


def main() -> None:
    """Measure and record."""
    clock, clock_name = wanted_clock(__doc__)
    rows = []
    for n in SIZES:
        repeat = min(200, max(1, 4096 // n))
        for (group, name), (argument, theirs, ours) in operations(n).items():
            argument.requires_grad_()
            for what, run in (("forward", forward_only), ("with backward", with_backward)):
                if name == "log" and what == "with backward":
                    continue  # SciPy has none
                often = 1 if name == "log" else repeat
                calls = {
                    who: lambda f=f, run=run, x=argument, often=often: run(f, x, often)
                    for who, f in (("torch", theirs), ("ours", ours))
                }
                times = medians(interleaved(calls, 31 if n < SIZES[-1] else 7, clock))
                row = {"group": group, "operation": name, "n": n, "what": what}
                row |= {f"{who} (us)": 1e6 * t / often for who, t in times.items()}
                row |= {"ratio": times["torch"] / times["ours"], "clock": clock_name}
                rows.append(row)
                print(row, flush=True)
    record("groups-cpu", rows)


if __name__ == "__main__":
    main()
