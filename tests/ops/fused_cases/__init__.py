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

#: Operations in CUDA C, which Triton's interpreter does not have.
IN_CUDA_C = {"warp", "adam"}

__all__ = ["CASES", "IN_CUDA_C", "PARTS", "Case", "run_case"]
