"""Kernels of the invariant layer against torch's operations; run with TRITON_INTERPRET=1.

On a GPU, ``python tests/ops/orbit_interpreted.py`` checks the compiled kernels.
"""

from contextlib import nullcontext

import torch

from symmetries.groups.affine import Affine2
from symmetries.learners.invariant_weights.objectives import _bound
from symmetries.nn.feature_maps import orbit_mean
from symmetries.nn.invariant_linear import _product
from symmetries.nn.resampling import resample
from symmetries.nn.variational import VariationalLinear
from symmetries.ops.available import usable
from symmetries.ops.expected_log_softmax import KernelClasses
from symmetries.training.triangular import TriangularAdam, is_triangular

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GENERATOR = torch.Generator().manual_seed(0)
LARGE = DEVICE == "cuda"
GROUP = Affine2("affine")
KINDS = (torch.float32, torch.float64)


def count_with_tensors():
    """Let the interpreter loop from one number of a kernel to another, which numpy 2 prevents."""
    import triton.runtime.interpreter as interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patched


if DEVICE == "cpu":
    count_with_tensors()


def error(ours, exact):
    """Relative error of float32 results against float64 ones."""
    return ((ours.double() - exact).norm() / exact.norm().clamp_min(1e-12)).item()


def compare(name, function, *inputs):
    """Value and gradients: the largest relative error must be that of float32."""
    fast = [x.float().to(DEVICE).requires_grad_() for x in inputs]
    slow = [x.double().to(DEVICE).requires_grad_() for x in inputs]
    if not usable(*fast):
        raise SystemExit("the kernels are not used: is Triton there, and TRITON_INTERPRET=1?")
    ours, exact = function(*fast), function(*slow)
    weight = torch.randn(exact.shape, dtype=torch.float64, generator=GENERATOR).to(DEVICE)
    first = torch.autograd.grad(ours, fast, weight.float())
    second = torch.autograd.grad(exact, slow, weight)
    errors = [error(a, b) for a, b in zip((ours, *first), (exact, *second), strict=True)]
    if not max(errors) < 2e-5:
        raise SystemExit(f"{name}: errors {errors}")


def rows():
    """Gather and scatter, shared and own tables, several channels, all kinds of maps."""
    cases = [(2, 2, 1, 2, 4, 5, 5), (1, 1, 2, 2, 4, 4, 3), (1, 2, 1, 1, 3, 5, 2)]
    if LARGE:
        cases += [(3, 8, 1, 1, 28, 28, 128), (2, 4, 3, 6, 32, 32, 300)]
    for runs, samples, channels, tables, height, width, pictures in cases:
        eta = (torch.rand(runs, samples, 6, generator=GENERATOR) - 0.5) * 1.2
        eta[..., 3:5] *= 4.0 if pictures == 2 else 1.0  # strong zooms
        theta = GROUP.exp(eta.double())[:, :, :2]
        table = torch.randn(tables, height * width, pictures, generator=GENERATOR)
        for transpose in (False, True):

            def run(t, m, transpose=transpose, c=channels, h=height, w=width):
                return resample(t, m, h, w, c, transpose=transpose)

            compare(f"rows {(runs, samples, channels)} transpose {transpose}", run, table, theta)


def averages():
    """Means over transformations, of dense and of transposed responses."""
    responses = torch.randn(2, 2, 3, 6, generator=GENERATOR) * 3
    for function in ("cos", "relu"):
        for bias in (torch.randn(2, 6, generator=GENERATOR), torch.randn(1, 6)):
            compare(function, lambda x, b, f=function: orbit_mean(x, b, f, 0.7), responses, bias)

            def turned(x, b, f=function):
                return orbit_mean(x.transpose(1, 2), b, f)

            compare(f"{function}, transposed", turned, responses, bias)


def covariance():
    """Moments and KL of a full covariance: gradients to features, means, diagonals and factors."""

    def run(phi, mean, diagonal, lower):
        layer = VariationalLinear(phi.shape[2], 2, runs=2, bias=False).to(phi)
        del layer.mean, layer.lower, layer.log_diagonal
        layer.mean, layer.log_diagonal, layer.lower = (
            mean,
            diagonal,
            lower.tril(-1),
        )  # no parameters
        moments = torch.stack(layer(phi)).flatten()
        return torch.cat((moments, layer.kl()))

    sizes = [(3, 70), (130, 20)] if not LARGE else [(4, 130), (128, 1024), (300, 200)]
    for batch, size in sizes:  # more than one tile of features, then of examples too
        parts = (2, batch, size), (2, 2, size), (2, 2, size), (2, 2, size, size)
        compare("covariance", run, *(0.3 * torch.randn(*p, generator=GENERATOR) for p in parts))


def posteriors():
    """The KL, with a prior variance that is given or learned."""
    parts = [torch.randn(2, 3, 400, generator=GENERATOR) * 0.3 for _ in range(2)]
    for learn in (False, True):

        def run(mean, log_diagonal, root, learn=learn):
            layer = VariationalLinear(400, 3, runs=2, bias=False, learn_prior=learn).to(mean)
            del layer.mean, layer.log_diagonal
            layer.mean, layer.log_diagonal = mean, log_diagonal
            layer.prior_variance.fill_(0.7)
            return layer._kl(root.square())

        compare(f"KL, learned prior {learn}", run, *parts, torch.tensor([2.0, 30.0]))


def classes():
    """Expected log-probabilities: gradients to means and variances."""
    noise = torch.randn(3, 20, 10, generator=GENERATOR, dtype=torch.float64).to(DEVICE)
    target = torch.randint(10, (20,), generator=GENERATOR).to(DEVICE)

    def run(mean, root):
        variance = root.square()
        if mean.dtype == torch.float32:
            return KernelClasses.apply(mean, variance, noise.float(), target)
        log_p = (mean + variance.sqrt() * noise[:, None]).log_softmax(-1)
        index = target[None, None, :, None].expand(3, 2, 20, 1)
        return log_p.gather(-1, index)[..., 0].mean(0)

    parts = [torch.randn(2, 20, 10, generator=GENERATOR) for _ in range(2)]
    compare("classes", run, 2 * parts[0], parts[1].abs() + 0.1)


def bounds():
    """The loss of several runs and its parts; only the loss has a gradient."""
    parts = [torch.randn(*shape, generator=GENERATOR) for shape in ((3,), (3, 700))]
    compare("bound", lambda kl, fit: _bound(kl, fit, 50)["loss"], *parts)
    ours, exact = (_bound(*(p.to(DEVICE, kind) for p in parts), 50) for kind in KINDS)
    if list(ours) != list(exact) or not max(error(ours[k], exact[k]) for k in ours) < 2e-5:
        raise SystemExit(f"bound: {ours}, {exact}")


def triangles():
    """Adam below the diagonal, against torch's on a matrix whose gradient is zero elsewhere."""
    size = 130 if LARGE else 5
    start = torch.randn(2, 3, size, size, generator=GENERATOR).tril(-1).to(DEVICE)
    ends = []
    for kind in (TriangularAdam, torch.optim.Adam):
        weight = torch.nn.Parameter(start.clone())
        weight.triangular = True
        if not is_triangular(weight):
            raise SystemExit("triangular Adam is not used")
        other = torch.nn.Parameter(torch.ones(3, device=DEVICE))
        optimizer = kind([weight, other], lr=0.1)
        for turn in range(4):

            def gradients(turn=turn, optimizer=optimizer, weight=weight, other=other):
                optimizer.zero_grad()
                loss = ((weight - turn).tril(-1) ** 2).sum() + (other - turn).square().sum()
                loss.backward()
                return loss

            if turn % 2 and optimizer.step(gradients) is None:
                raise SystemExit("a step by a closure has no loss")
            if turn % 2 == 0:
                gradients()
                optimizer.step()
        state = optimizer.state_dict()["state"]
        ends.append([weight, other, *(state[0][k] for k in ("step", "exp_avg", "exp_avg_sq"))])
    for ours, exact in zip(*ends, strict=True):
        torch.testing.assert_close(ours.cpu(), exact.cpu(), rtol=1e-4, atol=1e-5)


def _halve(parameter):
    parameter.grad.mul_(0.5)


def products():
    """Adam by gradients that are never written, against torch's; a second use, and a given one."""
    size, batch = (200, 150) if LARGE else (20, 5)
    phi = torch.randn(2, 2, batch, size, generator=GENERATOR).to(DEVICE)
    hooks = ("with a hook", "with a later hook")
    for uses in ("once", "twice", "and its kl", *hooks, "frozen", "looked at"):
        ends = []
        for kind in (TriangularAdam, torch.optim.Adam):
            layer = VariationalLinear(size, 2, runs=2, bias=False, scale=0.3).to(DEVICE)
            layer = layer.double() if kind is torch.optim.Adam else layer
            optimizer = kind(layer.parameters(), lr=torch.tensor(0.01, device=DEVICE))
            if uses == "with a hook":
                layer.lower.register_hook(lambda slope: 0.5 * slope)
            if uses == "with a later hook":
                layer.lower.register_post_accumulate_grad_hook(_halve)
            layer.lower.requires_grad_(uses != "frozen")
            for turn in phi.to(layer.mean)[: 2 if uses == "once" else 1]:
                optimizer.zero_grad()
                turn = turn.clone().requires_grad_()
                with optimizer.products() if kind is TriangularAdam else nullcontext([]) as made:
                    _, variance, kl = layer.moments_and_kl(turn)
                    loss = (variance.log().sum() + 0.1 * kl.sum()) / 10
                    loss = loss + layer.kl().sum() if uses == "and its kl" else loss
                    loss = loss + layer(turn.flip(1))[1].sqrt().sum() if uses == "twice" else loss
                    if uses == "looked at":
                        torch.autograd.grad(loss, turn, retain_graph=True)
                    for products in made:
                        products.clear()
                    loss.backward()
                written = uses in ("and its kl", *hooks)
                if kind is TriangularAdam and (layer.lower.grad is not None) != written:
                    raise SystemExit(f"products, {uses}: who has the gradient?")
                optimizer.step()
            state = optimizer.state.get(layer.lower, {})
            moments = [state[name] for name in ("exp_avg", "exp_avg_sq") if name in state]
            ends.append([layer.lower, layer.log_diagonal, *moments])
        for ours, exact in zip(*ends, strict=True):
            if not error(ours, exact) < 2e-4:  # a gradient near 0 is moved by its sign
                raise SystemExit(f"products, {uses}: {error(ours, exact)}")


def several():
    """Products of several runs: gradients as torch's, and lying as what they belong to."""
    for a, b in (((1, 4, 3), (2, 3, 5)), ((2, 4, 3), (1, 3, 5))):
        parts = [torch.randn(*shape, generator=GENERATOR) for shape in (a, b)]
        compare("several", _product, *parts)
        turned = [part.mT.contiguous() for part in parts]
        compare("several, turned", lambda x, y: _product(x.mT, y.mT), *turned)


if __name__ == "__main__":
    torch.set_float32_matmul_precision("highest")
    rows()
    averages()
    covariance()
    posteriors()
    classes()
    bounds()
    triangles()
    products()
    several()
