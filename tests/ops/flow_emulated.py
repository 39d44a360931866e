"""The flow in CUDA C on a CPU, under a sanitizer; needs g++.

``TRITON_INTERPRET=1 python tests/ops/flow_emulated.py [address | thread]``: values and all
gradients are compared with torch in float64.
"""

import torch
from emulated_kernel import Emulated

from symmetries.distributions import flow_check
from symmetries.distributions.flow import ConditionalFlow
from symmetries.distributions.flow_kernels import shape_of
from symmetries.ops import flow_cuda

# dim, hidden, layers, bins, samples, dropout, contexts
CASES = (
    (5, 64, 3, 6, 1, 0.1, 21),
    (5, 96, 4, 6, 2, 0.0, 11),
    (2, 64, 2, 4, 1, 0.0, 5),
    (6, 64, 1, 6, 1, 0.25, 16),
)

if __name__ == "__main__":
    flow_cuda.cuda_kernel = Emulated
    torch.manual_seed(0)
    for rounded in (False, True):
        for dim, hidden, layers, bins, samples, dropout, contexts in CASES:
            flow = ConditionalFlow(
                (1.0,) * dim, 8, layers=layers, bins=bins, hidden=hidden, base=(), dropout=dropout
            )
            shape = shape_of(flow, samples)._replace(cuda=True)
            flow_check.CONTEXTS = contexts
            error = flow_check._largest_error(shape, torch.device("cpu"), rounded=rounded)
            print(dim, hidden, layers, bins, samples, dropout, rounded, f"{error:.1e}", flush=True)  # noqa: T201
            if not error < (2e-2 if rounded else 1e-4):
                raise SystemExit("too far off")
