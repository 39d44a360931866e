"""Flow and norm in CUDA C, which round, against float64: ``python flow_compiled.py`` on a GPU.

Flows of two to eight warps, one to six layers, one to several points under a context, and numbers
of points that fill their last block or do not; norms of every width that there is.
"""

import torch

from symmetries.distributions import flow_check
from symmetries.distributions.flow import ConditionalFlow
from symmetries.distributions.flow_kernels import shape_of
from symmetries.ops import norm_cuda
from symmetries.ops.flow_cuda import ROWS, suits

SHAPES = (  # dim, hidden, layers, bins, samples, dropout
    (5, 256, 6, 6, 1, 0.1),
    (5, 256, 6, 6, 1, 0.1),
    (2, 64, 3, 6, 2, 0.0),
    (3, 96, 1, 6, 3, 0.5),
    (6, 128, 4, 4, 1, 0.25),
    (4, 160, 2, 8, 5, 0.0),
    (7, 224, 5, 3, 1, 0.1),
)


def error(dim, hidden, layers, bins, samples, drop):
    """Largest relative error of the log-density and of all its gradients."""
    sizes = {"hidden": hidden, "layers": layers, "bins": bins, "dropout": drop}
    flow = ConditionalFlow((1.0,) * dim, 6, **sizes)
    shape = shape_of(flow.train(), samples)._replace(cuda=True)
    if not suits(shape, torch.device("cuda")):
        raise SystemExit("the flow in CUDA C is not used: is there a compiler?")
    rounded = torch.get_float32_matmul_precision() == "medium"
    return flow_check._largest_error(shape, torch.device("cuda"), rounded=rounded)


def norms():
    """Each width, with a bias and dropped units or without."""
    for width in norm_cuda._WIDTHS:
        for kind in (True, False):
            wrong = norm_cuda._error(width, kind, kind, torch.device("cuda"))
            print(f"norm in CUDA C, {width} {kind}: {wrong:.1e}", flush=True)  # noqa: T201
            if not wrong < 5e-3:
                raise SystemExit("too far off")


def flows(shapes=SHAPES, blocks=2):
    """Each shape, with both roundings, and blocks that are full or not."""
    for precision in ("high", "medium"):
        torch.set_float32_matmul_precision(precision)
        for i, shape in enumerate(shapes):
            flow_check.CONTEXTS = blocks * ROWS + (i % 2) * 5
            wrong = error(*shape)
            print(f"flow in CUDA C, {shape} {precision}: {wrong:.1e}", flush=True)  # noqa: T201
            if not wrong < 2e-2:
                raise SystemExit("too far off")


if __name__ == "__main__":
    norms()
    flows()
