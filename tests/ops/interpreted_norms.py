"""Norms of fields by kernel against torch's operations in float64; run with TRITON_INTERPRET=1.

As ``interpreted.py``: a process of its own, or ``python tests/ops/interpreted_norms.py`` on a
GPU.
"""

import torch

from symmetries.groups import Cyclic
from symmetries.nn.gpool import FieldBatchNorm2d, FieldNorm2d
from symmetries.ops import recorded

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [((3, 12, 5, 6), 4), ((2, 8, 7, 7), 1), ((4, 24, 3, 3), 8)]
if DEVICE == "cuda":
    SHAPES.append(((64, 64, 32, 32), 4))


def compare(kind, shape, n):
    """Largest relative error of value, gradients and running averages."""
    fast = kind(shape[1] // n, Cyclic(n)).to(DEVICE)
    with torch.no_grad():
        for parameter in fast.parameters():
            parameter.normal_()
    slow = kind(shape[1] // n, Cyclic(n)).double().to(DEVICE)
    slow.load_state_dict(fast.state_dict())
    x, weight = (2 + torch.randn(shape)).to(DEVICE), torch.randn(shape).to(DEVICE)
    found = []
    for model, inputs in ((fast, x.clone()), (slow, x.double())):
        inputs.requires_grad_()
        with recorded() as seen:
            y = model(inputs)
        if seen != {"field_norm": model is fast}:
            raise SystemExit("the kernels are not used: is Triton there, and TRITON_INTERPRET=1?")
        gradients = torch.autograd.grad(y, [inputs, *model.parameters()], weight.to(y.dtype))
        found.append([y, *gradients, *model.buffers()])
    return max(((a.double() - b).norm() / b.norm()).item() for a, b in zip(*found, strict=True))


if __name__ == "__main__":
    torch.manual_seed(0)
    worst = 0.0
    for kind in (FieldNorm2d, FieldBatchNorm2d):
        for shape, n in SHAPES:
            error = compare(kind, shape, n)
            print(f"{kind.__name__} {shape} {error:.1e}")  # noqa: T201
            worst = max(worst, error)
    if not worst < 5e-6:
        raise SystemExit(f"largest relative error {worst:.1e}, allowed 5e-6")
