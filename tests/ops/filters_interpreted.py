"""Filters of group convolutions by kernel against torch in float64; run with TRITON_INTERPRET=1.

As ``interpreted.py``: a process of its own, or ``python tests/ops/filters_interpreted.py`` on
a GPU.
"""

import copy
import os

import torch

from symmetries.groups import Cyclic, Dihedral
from symmetries.nn import fused_filters
from symmetries.nn.gconv import GroupConv2d, LiftingConv2d, RelaxedGroupConv2d
from symmetries.ops import available, filters

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
    "places": lambda: RelaxedGroupConv2d(
        2, 3, 3, padding=1, group=Cyclic(1), relax={"translation": 0.7}, **SMALL
    ),
    "places along a line": lambda: RelaxedGroupConv2d(
        3, 2, 5, group=Cyclic(1), relax={"shift_x": 0.3}, support="disk", bias=False
    ),
}


def unread(layer):
    """What filters, or the features of a place, do not depend on."""
    return {"kernel.output"} if layer.positional else set()


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
        parameters = [p for name, p in one.named_parameters() if name not in unread(one)]
        found.append([*made, *torch.autograd.grad(made, parameters, given)])
    launched = layer._fused((9, 9)) is not None and exact._fused((9, 9)) is None
    pairs = zip(*found, strict=True)
    worst = max(((a.double() - b).norm() / b.norm()).item() for a, b in pairs)
    return worst, launched


def second_gradients(name):
    """Largest relative error of the gradient of a gradient."""
    torch.manual_seed(0)
    layer = CASES[name]().to(DEVICE)
    found = []
    for one in (layer, copy.deepcopy(layer).double()):
        parameters = [p for n, p in one.named_parameters() if n != "bias"]
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
    fused_filters._TRIED.clear()
    used = CASES["strict"]().to(DEVICE)._fused((9, 9)) is not None
    filters.Filters.gradients = kept
    fused_filters._TRIED.clear()
    return not used


def a_switch_is_obeyed_later():
    """Kernels that a layer has used before are left alone where they are not wanted any more."""
    layer = CASES["strict"]().to(DEVICE)
    found = [layer.fused((9, 9)) is not None]
    for value in ("0", "1"):
        os.environ[available.VARIABLE] = value
        found.append(layer.fused((9, 9)) is not None)
    del os.environ[available.VARIABLE]
    return found == [True, False, True]


if __name__ == "__main__":
    if not a_switch_is_obeyed_later():
        raise SystemExit("kernels were used that had been turned off")
    if not broken_kernels_are_not_used():
        raise SystemExit("a wrong kernel was not noticed")
    worst = max(map(second_gradients, ("soft", "places")))
    for name in CASES:
        error, launched = compare(name)
        if not launched:
            raise SystemExit("the kernels are not used: is Triton there, and TRITON_INTERPRET=1?")
        print(f"{name} {error:.1e}")  # noqa: T201
        worst = max(worst, error)
    if not worst < 5e-6:
        raise SystemExit(f"largest relative error {worst:.1e}, allowed 5e-6")
