"""Kernels for several models at once against one model at a time; run with TRITON_INTERPRET=1.

On a GPU, ``python tests/ops/folded_interpreted.py`` checks the compiled kernels.
"""

import sys

import torch
from torch import nn

from symmetries.actions.resample import warp, warp_shared
from symmetries.distributions.rational_spline import circular_spline, rational_quadratic
from symmetries.groups.affine import affine_inverse, affine_product
from symmetries.groups.exponential import affine_exp
from symmetries.nn.perceptron import hidden_units
from symmetries.ops import vmap_rules as folding

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MODELS = 2


class Layer(nn.Module):
    """LN(gelu(W x + b))."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 5, device=DEVICE)
        self.norm = nn.LayerNorm(5, device=DEVICE)

    def forward(self, x):
        return hidden_units(x, self.linear, self.norm)


LAYER = Layer()
NAMES = [name for name, _ in LAYER.named_parameters()]


def layer(x, *weights):
    """The layer of one model."""
    return torch.func.functional_call(LAYER, dict(zip(NAMES, weights, strict=True)), (x,))


def cases():
    """What, its function, and its arguments for each model."""

    def normal(*shape):
        return torch.randn(MODELS, *shape, device=DEVICE)

    theta = 0.3 * normal(2, 2, 3)
    yield "warp", warp, (normal(2, 2, 4, 3), theta)
    yield (
        "warp, bicubic",
        lambda x, t: warp(x, t, interpolation="bicubic", fill=0.5),
        (
            normal(2, 1, 3, 3),
            theta,
        ),
    )
    yield "warp, shared maps", warp_shared, (normal(2, 1, 3, 3), theta[:, :1])
    yield "exponential", affine_exp, (0.3 * normal(4, 6),)
    matrices = affine_exp(0.3 * normal(4, 6))
    yield "inverse", affine_inverse, (matrices,)
    yield "product", affine_product, (matrices, matrices[:, :1])
    yield "spline", lambda x, p: rational_quadratic(x, p, 3.0)[0], (normal(2, 5), normal(8, 2, 5))
    yield (
        "slope",
        lambda x, p: rational_quadratic(x, p, 3.0, inverse=True)[1],
        (
            normal(5),
            normal(8, 5),
        ),
    )
    yield "circle", lambda x, p: circular_spline(x, p, 3.0)[0], (normal(5), normal(10, 5))
    yield "layer", layer, (normal(3, 4), normal(5, 4), normal(5), normal(5), normal(5))


def relative(one, other):
    """Largest difference by the largest number."""
    return float((one - other).abs().max() / other.abs().max().clamp_min(1e-6))


def main():
    """Compare values and gradients."""
    torch.manual_seed(0)
    calls = []
    apply = folding._Folded.vmap

    def counted(info, *rest):
        calls.append(info.batch_size)
        return apply(info, *rest)

    folding._Folded.vmap = staticmethod(counted)
    for what, function, arguments in cases():
        calls.clear()
        arguments = [part.detach().requires_grad_() for part in arguments]
        together = torch.vmap(function)(*arguments)
        if calls != [MODELS]:
            raise SystemExit(f"{what}: folded {len(calls)} times, expected once")
        alone = torch.stack([function(*(part[r] for part in arguments)) for r in range(MODELS)])
        weight = torch.randn_like(alone)
        gradients = [torch.autograd.grad(out, arguments, weight) for out in (together, alone)]
        pairs = [(together, alone), *zip(*gradients, strict=True)]
        error = max(relative(a.detach(), b.detach()) for a, b in pairs)
        sys.stdout.write(f"{what}: {error:.1e}\n")
        if not error < 1e-4:
            raise SystemExit(f"{what}: {error} off")


if __name__ == "__main__":
    main()
