"""The Triton kernels against torch's operations in float64; run with TRITON_INTERPRET=1.

On a machine without a GPU Triton's interpreter executes the same kernels on the CPU. The tests
call this file in a process of its own, as the interpreter is chosen when Triton is imported.
On a GPU, ``python tests/ops/interpreted.py`` checks the compiled kernels.
"""

import torch

from symmetries.actions.resample import warp, warp_shared
from symmetries.distributions.rational_spline import circular_spline, rational_quadratic
from symmetries.groups.affine import Affine2, affine_exp, affine_inverse, affine_product
from symmetries.groups.exponential import generators
from symmetries.nn.perceptron import gelu_norm, head
from symmetries.ops.available import usable

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = ((28, 28), (17, 40)) if DEVICE == "cuda" else ((5, 8),)


def error(ours, exact):
    """Relative error of float32 results against float64 ones."""
    return ((ours.double() - exact).norm() / exact.norm()).item()


def size(gradients):
    """Sum of squares, to be differentiated again."""
    return sum(gradient.square().sum() for gradient in gradients)


def compare(function, inputs, oracle=None):
    """Value, gradients, and gradient of the gradient: largest relative errors.

    Against the same function in float64, or an oracle that is independent of it.
    """
    fast = [x.float().to(DEVICE).requires_grad_() for x in inputs]
    slow = [x.double().to(DEVICE).requires_grad_() for x in inputs]
    if not usable(*fast):
        raise SystemExit("the kernels are not used: is Triton there, and TRITON_INTERPRET=1?")
    ours, exact = function(*fast), (oracle or function)(*slow)
    weight = torch.randn(exact.shape, dtype=torch.float64, generator=GENERATOR).to(DEVICE)
    first = torch.autograd.grad(ours, fast, weight.float(), retain_graph=True)
    first_exact = torch.autograd.grad(exact, slow, weight, create_graph=True)
    errors = [error(ours, exact)]
    errors += [error(a, b) for a, b in zip(first, first_exact, strict=True)]
    again = torch.autograd.grad(function(*fast), fast, weight.float(), create_graph=True)
    try:
        second_exact = torch.autograd.grad(size(first_exact), slow[-1])[0]
    except RuntimeError as missing:  # older versions of torch have none for grid_sample
        if "is not implemented" not in str(missing):
            raise
        return max(errors), 0.0
    second = torch.autograd.grad(size(again), fast[-1])[0]
    return max(errors), error(second, second_exact)


GENERATOR = torch.Generator().manual_seed(0)


def small_functions():
    """Matrices, hidden units and splines: name, function, inputs."""
    eta = 0.5 * torch.randn(4, 6, 6, generator=GENERATOR)
    a, b = affine_exp(eta[:2].double()), affine_exp(eta[2:].double())
    yield "product", affine_product, [a, b]
    yield "zoom, tied", Affine2("rotation", "zoom", "shift_x").exp, [eta[..., :3]]
    yield "family", Affine2("translation", "rotation", "scale").exp, [eta[..., :5]]
    yield "product, strided", lambda a, b: affine_product(a[:, 1:4], b[:, ::2]), [a, b]
    yield "product, one by many", lambda a, b: affine_product(a[:, :1], b), [a, b]
    yield "product, one", lambda a, b: affine_product(a[0, 0], b[0, 0]), [a, b]
    yield "inverse", affine_inverse, [a]
    yield "inverse, strided", lambda a: affine_inverse(a[:, ::2]), [a]
    z, bias = torch.randn(9, 40, generator=GENERATOR), torch.randn(40, generator=GENERATOR)
    gamma = 1 + 0.1 * torch.randn(40, generator=GENERATOR)

    mask = (torch.arange(360).view(9, 40) % 7 > 1).to(DEVICE, torch.bfloat16)

    def units(bias, beta, gamma, z, mask=None):
        norm = torch.nn.LayerNorm(40)
        del norm.weight, norm.bias
        norm.weight, norm.bias = gamma, beta  # tensors in the place of parameters
        return gelu_norm(z, norm, bias, mask, 0.7)

    vectors = [bias, bias.flip(0), gamma, z]
    yield "gelu norm", units, vectors
    yield "gelu norm, dropped", lambda *given: units(*given, mask), vectors
    yield "gelu norm, no bias", lambda b, g, z: units(None, b, g, z), [bias, gamma, z]
    inputs, weight = torch.randn(40, 24, generator=GENERATOR), torch.arange(120.0).view(5, 24).cos()

    def outputs(bias, weight, x):
        linear = torch.nn.Linear(24, 5)
        del linear.weight, linear.bias
        linear.weight, linear.bias = weight, bias
        return head(x, linear)

    yield "head", outputs, [torch.arange(5.0), weight, inputs]
    x = 3.5 * (2 * torch.rand(2, 60, generator=GENERATOR) - 1)
    for name, spline, rows in (("spline", rational_quadratic, 17), ("circle", circular_spline, 19)):
        parameters = torch.randn(rows, 2, 60, generator=GENERATOR)
        for inverse in (False, True):

            def run(x, p, spline=spline, inverse=inverse):
                return torch.stack(spline(x, p, 3.0, inverse=inverse))

            yield f"{name}, inverse {inverse}", run, [x, parameters]


def matrix_exp(eta):
    """The exponential of generators, by torch."""
    return torch.linalg.matrix_exp(torch.einsum("...i,ijk->...jk", eta, generators().to(eta)))


def main():
    """Check every mode and layout."""
    eta = torch.randn(3, 50, 6, generator=GENERATOR)
    first, second = compare(affine_exp, [eta])
    lines = [f"exp {first:.1e} {second:.1e}"]
    worst = [first, second]
    turned = torch.tensor([1.0, 1, 0, 1, 1, 1]) * eta / 4
    turned[..., 2] = torch.linspace(-30, 30, 150).reshape(3, 50)
    # Torch's form, which the gradient of the gradient takes, is not right for these.
    first, _ = compare(affine_exp, [turned], matrix_exp)
    lines.append(f"exp of turns {first:.1e}")
    worst.append(first)
    for name, function, inputs in small_functions():
        first, second = compare(function, inputs)
        lines.append(f"{name} {first:.1e} {second:.1e}")
        # A float32 spline loses digits next to its knots, torch's as much as ours.
        worst += [first / 10, second / 10] if "inverse " in name else [first, second]
    for mode in ("bilinear", "bicubic", "bspline"):
        for height, width in SIZES:
            images = torch.rand(3, 2, height, width, generator=GENERATOR)
            theta = affine_exp(0.4 * torch.randn(3, 2, 6, generator=GENERATOR).double())[..., :2, :]
            layouts = {
                "several": (warp, theta),
                "each": (warp, theta[:, 0]),
                "shared": (warp, theta[0, 0]),
                "shared several": (warp_shared, theta[0]),
            }
            for name, (function, maps) in layouts.items():

                def run(x, t, function=function, mode=mode):
                    return function(x, t, interpolation=mode, fill=0.25)

                first, second = compare(run, [images, maps])
                lines.append(f"{mode} {height}x{width} {name} {first:.1e} {second:.1e}")
                # Torch's form of the spline, which the second gradient uses, looks up between
                # taps: in float32 a look-up next to a knot may fall on its other side.
                worst += [first, second / 250 if mode == "bspline" else second]
    # Images that do not lie in memory row by row.
    first, second = compare(lambda x, t: warp(x.mT, t), [images, theta[:, 0]])
    lines.append(f"turned images {first:.1e} {second:.1e}")
    worst += [first, second]
    # A point far outside must neither overflow nor see anything but the background.
    far = torch.tensor([[1.0, 0.0, 1e9], [0.0, 1.0, -1e9]], device=DEVICE)
    outside = warp(torch.rand(2, 1, 8, 8, device=DEVICE), far, fill=0.5)
    lines.append(f"outside {(outside - 0.5).abs().max().item():.1e}")
    worst.append((outside - 0.5).abs().max().item())
    return lines, max(worst)


if __name__ == "__main__":
    report, worst = main()
    print("\n".join(report))  # noqa: T201
    if not worst < 2e-5:
        raise SystemExit(f"largest relative error {worst:.1e}, allowed 2e-5")
