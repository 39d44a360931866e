"""Position-dependent convolutions by kernel against torch in float64; run with TRITON_INTERPRET=1.

As ``interpreted.py``: a process of its own, or ``python tests/ops/neighbours_interpreted.py``
on a GPU.
"""

import torch

from symmetries.ops import recorded
from symmetries.ops.position_conv import Geometry, position_conv2d
from symmetries.ops.triton import gathered_conv, neighbours

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CASES = [  # images, fields in, fields out, height, width, kernel, padding, hidden
    (2, 3, 5, 6, 7, 3, 1, 16),
    (1, 70, 2, 5, 4, 4, 2, 32),
    (3, 4, 3, 6, 7, 5, 0, 32),
]
if DEVICE == "cuda":
    CASES.append((16, 64, 64, 32, 32, 5, 2, 32))


def compare(images, fields_in, fields_out, height, width, k, padding, hidden):
    """Largest relative error of value and gradients."""
    g = Geometry(fields_in, fields_out, 1, 1, k, 1, padding)
    places = (height + 2 * padding - k + 1) * (width + 2 * padding - k + 1)
    x = torch.randn(images, fields_in, height, width, device=DEVICE)
    phi = torch.randn(places, k * k, 1, hidden, device=DEVICE)
    output = torch.randn(fields_out, fields_in, hidden, device=DEVICE)
    bias = torch.randn(fields_out, device=DEVICE)
    with recorded() as seen:
        position_conv2d(x, phi, output, bias, g, "factored")
    if not (seen["position_conv"] and gathered_conv.is_right(x, phi)):
        raise SystemExit("the kernels are not used: is Triton there, and TRITON_INTERPRET=1?")
    found = []
    for dtype in (torch.float32, torch.float64):
        inputs = [t.to(dtype).requires_grad_() for t in (x, phi, output, bias)]
        y = position_conv2d(*inputs, g, "factored")
        weight = torch.linspace(-1, 1, y.numel(), device=DEVICE, dtype=dtype).view_as(y)
        found.append([y, *torch.autograd.grad(y, inputs, weight)])
    return max(((a.double() - b).norm() / b.norm()).item() for a, b in zip(*found, strict=True))


def broken_kernels_are_not_used():
    """A kernel that is wrong on a device is found out there."""
    kept, neighbours.correlate = neighbours.correlate, lambda x, *_: torch.ones_like(_[1])
    x, phi = torch.randn(2, 6, 5, 5, device=DEVICE), torch.randn(25, 9, 1, 16, device=DEVICE)
    used = gathered_conv.is_right(x, phi)
    neighbours.correlate = kept
    return not used


if __name__ == "__main__":
    torch.manual_seed(0)
    if not broken_kernels_are_not_used():
        raise SystemExit("a wrong kernel was not noticed")
    worst = 0.0
    for case in CASES:
        error = compare(*case)
        print(f"{case} {error:.1e}")  # noqa: T201
        worst = max(worst, error)
    if not worst < 5e-6:
        raise SystemExit(f"largest relative error {worst:.1e}, allowed 5e-6")
