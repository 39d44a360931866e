"""Every fused operation with its oracle, shapes and tolerances.

The same cases run in Triton's interpreter (in CI), as CUDA C on a processor under a sanitizer, and
compiled on a GPU: see ``tests/ops/gpu.py``.
"""

from . import convolutions, networks, optimisers, plane, weights
from .checking import Case, run_case

#: Cases in the parts that run in processes of their own.
PARTS: dict[str, list[Case]] = {
    module.__name__.rpartition(".")[2]: list(module.cases())
    for module in (plane, networks, weights, convolutions, optimisers)
}
CASES = [case for part in PARTS.values() for case in part]
#: Operations of processors, which tests of their own check.
ELSEWHERE = {"amx_linear"}

__all__ = ["CASES", "ELSEWHERE", "PARTS", "Case", "run_case"]
