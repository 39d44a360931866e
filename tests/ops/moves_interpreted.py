"""Random transformations, masks of dropout and a mean by kernel; run with TRITON_INTERPRET=1.

As ``interpreted.py``: a process of its own, or ``python tests/ops/moves_interpreted.py`` on a
GPU.
"""

import torch

from symmetries.groups.affine import Affine2
from symmetries.learners.symmetry_model.moves import undone_moves
from symmetries.ops.available import usable
from symmetries.ops.dropout import draw_kept
from symmetries.ops.moves import composed
from symmetries.ops.side_streams import left_by_dropout
from symmetries.ops.sums import KernelNegativeMean

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
FAMILIES = (("shift_x", "shift_y", "rotation", "scale_x", "scale_y"), ("zoom", "rotation"), ())


def error(ours, exact):
    """Relative error of float32 results against float64 ones."""
    return ((ours.double() - exact).norm() / exact.norm()).item()


def moves():
    """Matrices, and products with an exponential, of contiguous and other parts."""
    for names in FAMILIES:
        group = Affine2(*names)
        unit = torch.rand(7, 3, group.dim, device=DEVICE)
        bounds = torch.linspace(0.4, 1.2, group.dim, device=DEVICE)
        if not usable(unit, bounds):
            raise SystemExit("the kernels are not used: is Triton there, and TRITON_INTERPRET=1?")
        back = undone_moves(group, bounds, unit)
        exact = undone_moves(group, bounds.double(), unit.double())
        yield f"moves {names}", error(back, exact)
        eta = torch.randn(7, 4, group.dim, device=DEVICE)
        made = composed(back[:, 1:], eta[:, 1:], group.columns)
        yield f"composed {names}", error(made, exact[:, 1:] @ group.exp(eta[:, 1:].double()))


def masks():
    """How far shares are from p, in standard deviations over 1e5; and whether seeds matter."""
    seeds = [torch.tensor([seed], device=DEVICE) for seed in (3, 3, 4, 2**62)]
    found = [draw_kept(seed, ((300, 40), (77, 33)), 0.1) for seed in seeds]
    for mask in found[0] + found[3]:
        if not bool(((mask == 0) | (mask == 1)).all()):
            raise SystemExit("a mask has other numbers than 0 and 1")
        share = 1 - mask.float().mean().item()
        yield "mask", 1e-6 * abs(share - 0.1) / (0.09 / mask.numel()) ** 0.5
    flat = [torch.cat([mask.flatten() for mask in masks]).double() for masks in found]
    if not torch.equal(flat[0], flat[1]) or torch.equal(flat[0], flat[2]):
        raise SystemExit("masks do not follow their seeds")
    together = torch.corrcoef(torch.stack((flat[0][:-1], flat[0][1:], flat[2][1:], flat[3][1:])))
    yield "correlation", 1e-6 * together.fill_diagonal_(0).abs().max().item() * len(flat[0]) ** 0.5
    sizes, found = [(50, 64, 0.3), (8, 9, 0.6), (20, 80, 0.3)], []
    for _ in range(2):
        torch.manual_seed(0)
        found.append(left_by_dropout(sizes, DEVICE))
    for (rows, columns, share), one, two in zip(sizes, *found, strict=True):
        if not torch.equal(one, two):
            raise SystemExit("masks do not follow torch's seed")
        if one.shape != (rows, columns) or abs(1 - one.float().mean().item() - share) > 0.2:
            raise SystemExit("masks are not in their order")


def mean():
    """Value, gradient and second gradient."""
    x = torch.randn(2600, device=DEVICE).requires_grad_()
    made = KernelNegativeMean.apply(x)
    (gradient,) = torch.autograd.grad(made * made, x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.square().sum(), x)
    exact = x.detach().double().requires_grad_()
    value = -exact.mean()
    (first,) = torch.autograd.grad(value * value, exact, create_graph=True)
    (again,) = torch.autograd.grad(first.square().sum(), exact)
    yield "mean", abs(made.item() - value.item())
    yield "its gradients", max(error(gradient, first.detach()), error(second, again))


if __name__ == "__main__":
    torch.manual_seed(0)
    worst = 0.0
    for part in (moves, masks, mean):
        for name, off in part():
            print(f"{name} {off:.1e}")  # noqa: T201
            worst = max(worst, off)
    if not worst < 5e-6:
        raise SystemExit(f"largest error {worst:.1e}, allowed 5e-6")
