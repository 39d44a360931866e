"""Kernels in CUDA C against float64, small enough for a memory checker: warps, or flow and norm.

    compute-sanitizer --tool memcheck --error-exitcode 9 python tests/ops/sanitized.py [flow]

Warps are of every mode, size and wildness. Maps that zoom out by more than two, where a kernel once
read behind its shared memory, are among them. Needs a GPU.
"""

import sys

import flow_compiled
import torch

from symmetries.actions.resample import warp
from symmetries.groups.affine import affine_exp

SHAPES = ((37, 1, 28), (9, 3, 64), (11, 3, 32), (5, 1, 16), (3, 1, 8), (2, 3, 96))


def errors(shape, mode, spread):
    """Relative errors of values and of the gradient to the images."""
    n, channels, side = shape
    generator = torch.Generator("cuda").manual_seed(1)
    images = torch.rand(n, channels, side, side, device="cuda", generator=generator)
    eta = spread * torch.randn(n, 6, device="cuda", generator=generator)
    theta = affine_exp(eta.double())[:, :2].float()
    found = []
    for kind in (torch.float32, torch.float64):
        inputs = [images.to(kind).requires_grad_(), theta.to(kind).contiguous().requires_grad_()]
        out = warp(*inputs, interpolation=mode)
        weight = torch.linspace(-1, 1, out.numel(), dtype=kind, device="cuda").view_as(out)
        found.append((out, torch.autograd.grad(out, inputs, weight)[0]))
    pairs = zip(*found, strict=True)
    return [float((a.double() - b).norm() / (b.norm() + 1e-9)) for a, b in pairs]


def warps():
    """All of them."""
    for shape in SHAPES:
        for mode in ("bilinear", "bicubic", "bspline"):
            for spread in (0.3, 1.5):
                found = errors(shape, mode, spread)
                report = " ".join(f"{error:.1e}" for error in found)
                print(shape, mode, spread, report, flush=True)  # noqa: T201
                if not max(found) < 4e-3:  # far outside, float32 has few digits of a place
                    raise SystemExit("wrong")


if __name__ == "__main__":
    if "flow" in sys.argv:
        flow_compiled.norms()
        flow_compiled.flows(flow_compiled.SHAPES[:5], blocks=1)
    else:
        warps()
