"""Operations of invariant weights: resampled filters, means over orbits, full covariances."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from symmetries.groups.affine import Affine2
from symmetries.nn.variational import VariationalLinear
from symmetries.ops.expected_log_softmax import expected_log_softmax
from symmetries.ops.orbit_mean import orbit_mean
from symmetries.ops.resample_rows import resample_rows

from .checking import Case, function_case, with_parameters

GROUP = Affine2("affine")


def cases() -> Iterator[Case]:
    """All cases of this file."""
    yield from rows()
    yield from means()
    yield from covariances()
    yield from posteriors()
    yield function_case("expected_log_softmax", "20 examples, 10 classes", classes, outputs)


def normal(*shapes: tuple[int, ...], scale: float = 1.0):
    """Draws of these shapes."""

    def draw(generator: torch.Generator) -> list[Tensor]:
        return [scale * torch.randn(shape, generator=generator) for shape in shapes]

    return draw


def rows() -> Iterator[Case]:
    """Gather and scatter, shared and own tables, several channels, all kinds of maps."""
    small = [(2, 2, 1, 2, 4, 5, 5), (1, 1, 2, 2, 4, 4, 3), (1, 2, 1, 1, 3, 5, 2)]
    large = [(3, 8, 1, 1, 28, 28, 128), (2, 4, 3, 6, 32, 32, 300)]
    for sizes in small + large:
        runs, samples, channels, tables, height, width, pictures = sizes

        def inputs(generator: torch.Generator, sizes=sizes) -> list[Tensor]:
            runs, samples, _, tables, height, width, pictures = sizes
            eta = (torch.rand(runs, samples, 6, generator=generator) - 0.5) * 1.2
            eta[..., 3:5] *= 4.0 if pictures == 2 else 1.0  # strong zooms
            table = torch.randn(tables, height * width, pictures, generator=generator)
            return [table, GROUP.exp(eta.double())[:, :, :2]]

        for transpose in (False, True):

            def run(t: Tensor, m: Tensor, transpose=transpose, size=(height, width, channels)):
                return resample_rows(t, m, *size, transpose=transpose)

            name = f"{runs}x{samples}x{tables}x{pictures} of {channels}x{height}x{width}"
            name += ", transpose" * transpose
            yield function_case("resample_rows", name, run, inputs, compiled=sizes in large)


def means() -> Iterator[Case]:
    """Means over transformations, of dense and of transposed responses."""
    for which in ("cos", "relu"):
        for runs in (2, 1):
            inputs = normal((2, 2, 3, 6), (runs, 6), scale=2.0)
            dense = partial(_mean, which, False)
            yield function_case("orbit_mean", f"{which}, {runs} biases", dense, inputs)
            turned = partial(_mean, which, True)
            yield function_case("orbit_mean", f"{which}, {runs} biases, turned", turned, inputs)


def _mean(which: str, turned: bool, x: Tensor, bias: Tensor) -> Tensor:
    return orbit_mean(x.transpose(1, 2) if turned else x, bias, which, 0.7)


def covariances() -> Iterator[Case]:
    """Moments and KL of a full covariance: gradients to features, means, diagonals, factors."""

    def run(phi: Tensor, mean: Tensor, diagonal: Tensor, lower: Tensor) -> Tensor:
        layer = VariationalLinear(phi.shape[2], 2, runs=2, bias=False).to(phi)
        parts = {"mean": mean, "log_diagonal": diagonal, "lower": lower.tril(-1)}
        with_parameters(layer, **parts)
        return torch.cat((torch.stack(layer(phi)).flatten(), layer.kl()))

    # More than one tile of features, then of examples too.
    for batch, size in ((3, 70), (130, 20), (4, 130), (128, 1024), (300, 200)):
        shapes = (2, batch, size), (2, 2, size), (2, 2, size), (2, 2, size, size)
        name, large = (
            f"{batch} examples, {size} features",
            (batch, size) not in ((3, 70), (130, 20)),
        )
        inputs = normal(*shapes, scale=0.3)
        yield function_case("full_moments", name, run, inputs, compiled=large)


def posteriors() -> Iterator[Case]:
    """The KL, with a prior variance that is given or learned."""

    def run(learn: bool, mean: Tensor, log_diagonal: Tensor, root: Tensor) -> Tensor:
        layer = VariationalLinear(400, 3, runs=2, bias=False, learn_prior=learn).to(mean)
        with_parameters(layer, mean=mean, log_diagonal=log_diagonal)
        layer.prior_variance.fill_(0.7)
        return layer._kl(root.square())

    def inputs(generator: torch.Generator) -> list[Tensor]:
        parts = [torch.randn(2, 3, 400, generator=generator) * 0.3 for _ in range(2)]
        return [*parts, torch.tensor([2.0, 30.0])]

    for learn in (False, True):
        name = f"prior {'learned' if learn else 'given'}"
        yield function_case("gaussian_kl", name, partial(run, learn), inputs)


def classes(mean: Tensor, root: Tensor) -> Tensor:
    """Expected log-probabilities: gradients to means and variances."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(3, 20, 10, generator=generator, dtype=torch.float64).to(mean)
    target = torch.randint(10, (20,), generator=generator).to(mean.device)
    return expected_log_softmax(mean, root.square(), noise, target)


def outputs(generator: torch.Generator) -> list[Tensor]:
    """Means, and roots of variances."""
    mean, root = normal((2, 20, 10), (2, 20, 10))(generator)
    return [2 * mean, root.abs() + 0.1]
