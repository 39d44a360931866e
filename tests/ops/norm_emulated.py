"""The norm in CUDA C on a CPU, under a sanitizer; needs g++.

``python tests/ops/norm_emulated.py [address | thread]``: values and all gradients are compared
with torch in float64.
"""

import torch
from emulated_kernel import Emulated

from symmetries.ops import norm_cuda

if __name__ == "__main__":
    norm_cuda.cuda_kernel = Emulated
    norm_cuda._processors = lambda device: 3
    for width in norm_cuda._WIDTHS:
        for biased, dropped in ((True, True), (False, False)):
            error = norm_cuda._error(width, biased, dropped, torch.device("cpu"))
            print(width, biased, dropped, f"{error:.1e}", flush=True)  # noqa: T201
            if not error < 5e-3:
                raise SystemExit("too far off")
