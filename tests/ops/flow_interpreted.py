"""Log-density of a flow by kernels against torch's operations; run with TRITON_INTERPRET=1.

On a GPU, ``python tests/ops/flow_interpreted.py`` checks the compiled kernels.
"""

import copy
import sys

import torch

from symmetries.distributions.flow import ConditionalFlow
from symmetries.ops.spline_flow import spline_flow_log_prob

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LARGE = DEVICE == "cuda"


def error(ours, exact):
    """Relative error of float32 results against float64 ones."""
    return ((ours.double() - exact).norm() / exact.norm().clamp_min(1e-12)).item()


def results(flow, dtype, eta, context, mask, weight, kernel):
    """Values, gradients to points, context and weights, and one second gradient."""
    eta, context = (x.to(DEVICE, dtype).requires_grad_() for x in (eta, context))
    points = eta.flatten(0, 1).T.contiguous().T  # whose copies need a gradient too
    if kernel:
        out = spline_flow_log_prob(flow, points, context)
        if out is None:
            raise SystemExit("the kernels are not used: is Triton there, and TRITON_INTERPRET=1?")
    else:
        projected = torch.nn.functional.linear(context, flow.project.weight)
        parts = flow.parts_of(projected, len(points) // len(context))
        out = flow.density(mask, points, parts, flow.base(context))
    inputs = [eta, context, *flow.parameters()]
    weight = weight.to(DEVICE, dtype)
    first = torch.autograd.grad(out, inputs, weight, retain_graph=True)
    again = torch.autograd.grad(out, eta, weight, create_graph=True)[0]
    second = torch.autograd.grad(again.square().sum(), context)[0]
    return [out, *first, second]


def compare(dim, hidden, layers, n, samples, drop, spread=0.3):
    """Relative errors, of the kernels and of torch's float32, of values and all gradients.

    Weights are drawn around their starts with a spread that does not grow with the width: steeper
    splines, one after another, lose all digits of float32, torch's as much as these.
    """
    torch.manual_seed(dim)
    bounds = [0.5 + i for i in range(dim)]
    slow = ConditionalFlow(bounds, 6, hidden=hidden, layers=layers, base=(8,), dropout=drop)
    with torch.no_grad():
        for parameter in slow.parameters():
            inputs = parameter.shape[-1] if parameter.ndim > 1 else 1
            scale = spread * min(1.0, (16 / inputs) ** 0.5)
            parameter.add_(scale * torch.randn_like(parameter))
    slow = slow.double().to(DEVICE)
    fast = copy.deepcopy(slow).float()
    eta = torch.tensor(bounds) * 0.6 * torch.randn(n, samples, dim)
    context, weight = torch.randn(n, 6), torch.randn(n * samples)
    mask = None
    if drop:  # what the kernels' function will draw
        torch.manual_seed(7)
        ones = torch.ones(n * samples, layers * hidden, dtype=torch.bfloat16, device=DEVICE)
        mask = (torch.nn.functional.dropout(ones, drop) != 0) / (1 - drop)
        torch.manual_seed(7)
    ours = results(fast, torch.float32, eta, context, None, weight, True)
    theirs = results(fast, torch.float32, eta, context, mask, weight, False)
    mask = None if mask is None else mask.double()
    exact = results(slow, torch.float64, eta, context, mask, weight, False)
    return [[error(a, b) for a, b in zip(found, exact, strict=True)] for found in (ours, theirs)]


if __name__ == "__main__":
    torch.set_float32_matmul_precision("highest")
    cases = [(2, 8, 3, 6, 1, 0.0), (5, 12, 4, 8, 2, 0.25), (3, 16, 1, 5, 1, 0.5)]
    if LARGE:
        cases += [(5, 256, 6, 2560, 1, 0.1), (6, 200, 5, 700, 3, 0.0)]
    for case in [cases[int(i)] for i in sys.argv[1:]] or cases:  # several processes are faster
        ours, theirs = compare(*case)
        print(f"{case} {max(ours):.1e}, torch {max(theirs):.1e}")  # noqa: T201
        for place, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            # The last one is a second gradient, of torch's operations either way.
            if not a < 5 * b + (2e-2 if place == len(ours) - 1 else 1e-4):
                raise SystemExit(f"{case}, result {place}: error {a:.1e}, torch's {b:.1e}")
