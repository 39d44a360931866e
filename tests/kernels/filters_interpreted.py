"""Filters of group convolutions by kernel against torch in float64; run with TRITON_INTERPRET=1.

As ``interpreted.py``: a process of its own, or ``python tests/kernels/filters_interpreted.py`` on
a GPU.
"""

import copy

import torch

from symmetries.groups import Cyclic, Dihedral
from symmetries.kernels import filters
from symmetries.nn import launched_bank
from symmetries.nn.gconv import GroupConv2d, LiftingConv2d, RelaxedGroupConv2d

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = {"hidden": 16, "features": 16}
CASES = {
    "strict": lambda: GroupConv2d(3, 5, 3, group=Cyclic(2), **SMALL),
    "disk": lambda: GroupConv2d(2, 3, 5, group=Cyclic(3), bias=False, **SMALL),
    "soft": lambda: RelaxedGroupConv2d(2, 3, 3, group=Cyclic(3), relax={"rotation": 0.7}, **SMALL),
    "flips": lambda: RelaxedGroupConv2d(
        2, 2, 3, group=Dihedral(2), relax={"rotation": 0.7, "flip": 0.3}, **SMALL
    ),
    "soft lifting": lambda: LiftingConv2d(
        3, 4, 3, group=Cyclic(4), mode="soft", relax={"rotation": 0.7}, learn=False, **SMALL
    ),
    "usual": lambda: RelaxedGroupConv2d(9, 8, 3, group=Cyclic(4)),
}


def compare(name):
    """Largest relative error of filters, bias and gradients, and whether the kernels were used."""
    torch.manual_seed(0)
    layer = CASES[name]().to(DEVICE)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    exact, found = copy.deepcopy(layer).double(), []
    for one in (layer, exact):
        made = [t for t in one.generate((9, 9)) if t is not None]
        given = [torch.linspace(-1, 2, t.numel()).to(t).view_as(t) for t in made]
        found.append([*made, *torch.autograd.grad(made, list(one.parameters()), given)])
    launched = layer._launched() is not None and exact._launched() is None
    pairs = zip(*found, strict=True)
    worst = max(((a.double() - b).norm() / b.norm()).item() for a, b in pairs)
    return worst, launched


def second_gradients():
    """Largest relative error of the gradient of a gradient."""
    torch.manual_seed(0)
    layer = CASES["soft"]().to(DEVICE)
    found = []
    for one in (layer, copy.deepcopy(layer).double()):
        parameters = list(one.parameters())[:-1]
        total = one.generate((9, 9)).weight.square().sum()
        first = torch.autograd.grad(total, parameters, create_graph=True, allow_unused=True)
        again = sum(g.square().sum() for g in first if g is not None)
        found.append(torch.autograd.grad(again, parameters, allow_unused=True))
    pairs = [p for p in zip(*found, strict=True) if p[0] is not None]
    return max(((a.double() - b).norm() / b.norm()).item() for a, b in pairs)


def broken_kernels_are_not_used():
    """A kernel that is wrong on a device is found out there."""
    kept = filters.Filters.gradients
    filters.Filters.gradients = lambda *given: [2 * part for part in kept(*given)]
    launched_bank._TRIED.clear()
    used = CASES["strict"]().to(DEVICE)._launched() is not None
    filters.Filters.gradients = kept
    launched_bank._TRIED.clear()
    return not used


if __name__ == "__main__":
    if not broken_kernels_are_not_used():
        raise SystemExit("a wrong kernel was not noticed")
    worst = second_gradients()
    for name in CASES:
        error, launched = compare(name)
        if not launched:
            raise SystemExit("the kernels are not used: is Triton there, and TRITON_INTERPRET=1?")
        print(f"{name} {error:.1e}")  # noqa: T201
        worst = max(worst, error)
    if not worst < 5e-6:
        raise SystemExit(f"largest relative error {worst:.1e}, allowed 5e-6")
