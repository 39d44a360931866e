"""The proposal for transformations: exact where the model is linear, valid elsewhere."""

import math

import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.groups.colour import Colour
from symmetries.groups.names import parse_group
from symmetries.learners.vae import InvVAE, VAEConfig, proposal
from symmetries.learners.vae.proposal import Pairs, _factor, posterior, propose, set_noise, squares
from symmetries.nn.diagonal_gaussian import gaussian_log_prob

TINY = VAEConfig().replace(latent=2, channels=(4,), strides=(2,), hidden=8, steps=1, batch_size=4)
SIDE = 12


class Known(nn.Module):
    """A symmetry model that infers ``start``; p(eta | x_hat) = N(0, width^2)."""

    def __init__(self, group, start, width=0.5, shape=(1, SIDE, SIDE)):
        super().__init__()
        self.group, self.shape, self.bounds = group, shape, group.bounds
        self.act = ImageAction(group, interpolation="bspline")
        self.start, self.width = start, width
        self.generative = FixedPrior(width)
        self.placeholder = nn.Parameter(torch.zeros(()))

    def infer(self, x, refine=0):
        return self.start.expand(len(x), self.group.dim)

    def element(self, x, refine=0):
        return self.group.exp(self.infer(x))

    def prototype(self, x, refine=0):
        return self.act(self.group.inverse(self.element(x)), x)


class FixedPrior:
    """p(eta) = N(0, width^2), whatever the prototype."""

    around = ()

    def __init__(self, width):
        self.width, self.distribution = width, self

    def __call__(self, prototypes):
        return prototypes

    def log_prob(self, eta, context):
        return torch.distributions.Normal(0.0, self.width).log_prob(eta).sum(-1)


class LinearAction:
    """T_eta x = x + A eta: no group of images, but a model whose posterior is known."""

    def __init__(self, matrix):
        self.matrix = matrix

    def orbit(self, eta, images):
        return images[:, None] + (eta @ self.matrix.T).unflatten(-1, images.shape[1:])


class Same:
    """A group whose elements are their parameters."""

    dim, bounds, angles = 3, (1.0, 2.0, 0.5), (False, False, False)

    def exp(self, eta):
        return eta


def linear_pairs(noise=0.3):
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(64, 3, generator=generator) * torch.tensor([1.0, 0.1, 0.0])
    matrix[:, 1] += 0.2 * matrix[:, 0]  # the first two parameters do much the same
    model = InvVAE(Known(Affine2("shift_x", "shift_y", "rotation"), torch.zeros(3)), TINY)
    model.symmetry.group, model.symmetry.act = Same(), LinearAction(matrix)
    model.symmetry.bounds = Same.bounds
    model.noise = torch.full((1, 8, 8), noise)
    spread = torch.tensor([0.4, 0.2, 0.1])
    model.spread.copy_(spread)
    start = torch.randn(5, 3, generator=generator) * spread
    model.symmetry.generative = Centred(start, spread)
    means = torch.randn(5, 1, 8, 8, generator=generator)
    x = means + torch.randn(5, 1, 8, 8, generator=generator)
    return Pairs(model, x, means, False, None), start, matrix


class Centred(FixedPrior):
    """p(eta) = N(start, spread^2)."""

    def __init__(self, start, spread):
        super().__init__(spread)
        self.start = start

    def log_prob(self, eta, context):
        return gaussian_log_prob(eta, self.start, self.width).sum(-1)


def test_it_is_the_posterior_where_the_model_is_linear():
    pairs, start, matrix = linear_pairs()
    found = posterior(pairs, start)
    precision = matrix.T @ matrix / 0.3**2 + torch.diag(pairs.model.spread**-2)
    covariance = torch.linalg.inv(precision)
    left = (pairs.x - pairs.means).flatten(1) - start @ matrix.T
    centre = start + left @ matrix / 0.3**2 @ covariance
    torch.testing.assert_close(found.centre, centre, atol=1e-3, rtol=1e-3)
    exact = torch.distributions.MultivariateNormal(centre, covariance)
    generator = torch.Generator().manual_seed(1)
    weights = []
    for _ in range(50):
        eta = found.draw(generator)
        torch.testing.assert_close(found.log_prob(eta), exact.log_prob(eta), atol=0.02, rtol=0)
        weights.append(pairs.log_prob(eta) - found.log_prob(eta))
    assert float(torch.stack(weights).std(0).max()) < 0.02  # log p(x | prototype), whatever eta
    # One parameter does nothing: it stays where it was, as wide as it may be.
    torch.testing.assert_close(found.centre[:, 2], start[:, 2])
    torch.testing.assert_close(covariance[2, 2].sqrt(), pairs.model.spread[2])


def test_draws_have_the_density_that_is_said():
    pairs, start, _ = linear_pairs()
    rows = torch.arange(5).repeat_interleave(4000)
    pairs.model.symmetry.generative.start = start[rows]
    many = Pairs(pairs.model, pairs.x[rows], pairs.means[rows], False, None)
    eta, log_r = propose(many, start[rows], torch.Generator().manual_seed(0))
    # E_r[h / r] is 1 for a density h; here a wide one.
    wide = gaussian_log_prob(eta, start[rows], 0.8 * pairs.model.spread).sum(-1)
    ratio = (wide - log_r).exp().view(5, -1)
    torch.testing.assert_close(ratio.mean(1), torch.ones(5), atol=0.15, rtol=0)


def test_angles_go_around_once():
    """A picture that all angles leave as it is, and p(eta) uniform on the circle, many turns on."""
    group = Affine2("rotation")
    model = InvVAE(Known(group, torch.tensor([3.0])), TINY)
    model.symmetry.generative.log_prob = lambda eta, _: torch.full(
        (len(eta),), -math.log(2 * math.pi)
    )
    model.spread.fill_(math.pi)
    model.prototype_noise.fill_(1.0)
    x = torch.zeros(2000, 1, SIDE, SIDE)
    model.vae.decode = lambda z: torch.zeros(len(z), 1, SIDE, SIDE)
    pairs = Pairs(model, x, x, True, None)
    eta, log_r = propose(pairs, torch.full((2000, 1), 3.0), torch.Generator().manual_seed(0))
    assert float((eta - 3.0).abs().max()) <= math.pi + 1e-5
    weights = (pairs.log_prob(eta) - log_r + 0.5 * SIDE**2 * math.log(2 * math.pi)).exp()
    assert float(weights.mean()) == pytest.approx(1.0, abs=0.03)


def spot(more, side=28):
    """A round spot, brighter on the right."""
    y, x = torch.meshgrid(*[torch.linspace(-1, 1, side)] * 2, indexing="ij")
    return (torch.exp(-(x**2 + y**2) / 0.15) * (1 + more * x))[None, None]


def grid_likelihood(model, x, means, grid, cell):
    """Log p(x | prototype) of images (N, C, H, W), eta on a grid whose cells have that size."""
    of = [
        Pairs(
            model, one.expand(len(grid), *one.shape), means.expand(len(grid), *one.shape), True, 0
        )
        for one in x
    ]
    return torch.stack([torch.logsumexp(p.log_prob(grid), 0) for p in of]) + math.log(cell)


def test_steps_of_several_turns_do_not_lift_the_bound():
    """An almost round prototype says little about the angle: steps are long."""
    group = Affine2("rotation")
    model = InvVAE(Known(group, torch.tensor([1.0]), shape=(1, 28, 28)), TINY)
    model.symmetry.generative.log_prob = lambda eta, _: torch.full(
        (len(eta),), -math.log(2 * math.pi)
    )
    means = spot(0.02)
    model.vae.decode = lambda z: means.expand(len(z), 1, 28, 28)
    model.prototype_noise.fill_(0.05)
    model.spread.fill_(0.3 * math.pi)
    generator = torch.Generator().manual_seed(0)
    turns = group.exp(torch.linspace(-3, 3, 6)[:, None])
    x = model.symmetry.act(turns, spot(2.0).expand(6, 1, 28, 28))
    x = x + 0.05 * torch.randn(x.shape, generator=generator)
    grid = torch.linspace(-math.pi, math.pi, 1001)[:-1, None]
    with torch.no_grad():
        exact = grid_likelihood(model, x, means, grid, 2 * math.pi / 1000)
        pairs = Pairs(model, x, means.expand_as(x), True, None)
        start = torch.ones(6, 1)
        assert float((posterior(pairs, start, 32).centre - start).abs().max()) <= math.pi + 1e-5
        bounds = torch.stack([model.bound(x, 100, generator) for _ in range(3)]).mean(0)
    assert float((bounds - exact).max()) < 0.3
    assert float((bounds - exact).min()) > -0.3


def test_an_angle_that_goes_around_in_p_alone_has_one_turn():
    """Beside a shift a whole turn is another map: p is of the angles from -pi to pi."""
    group = Affine2("shift_x", "rotation")
    model = InvVAE(Known(group, torch.zeros(2)), TINY)
    model.symmetry.generative.around = (1,)
    model.spread.copy_(torch.tensor([0.1, 0.3 * math.pi]))
    model.prototype_noise.fill_(1.0)
    start = torch.tensor([1.0, 3.0]).expand(8000, 2)
    x = torch.zeros(8000, 1, SIDE, SIDE)
    pairs = Pairs(model, x, x, True, None)
    eta, log_r = propose(pairs, start, torch.Generator().manual_seed(0))
    assert float(eta[:, 1].abs().max()) <= math.pi + 1e-5
    # E_r[h / r] is 1 for a density h of one turn: normal about the start, wrapped.
    turns = [eta + torch.tensor([0.0, 2 * math.pi * turn]) for turn in (-1, 0, 1)]
    wide = [gaussian_log_prob(same, start, 0.8 * model.spread).sum(-1) for same in turns]
    ratio = (torch.stack(wide).logsumexp(0) - log_r).exp()
    assert float(ratio.mean()) == pytest.approx(1.0, abs=0.03)


def blobs(n, channels=1):
    generator = torch.Generator().manual_seed(0)
    small = torch.rand(n, channels, 4, 4, generator=generator)
    inner = nn.functional.interpolate(small, size=(SIDE - 4, SIDE - 4), mode="bicubic")
    return nn.functional.pad(inner.clamp(0, 1), (2, 2, 2, 2))


def planted(added=0.1, noise=0.03):
    """Prototypes moved by a known eta that is not quite the one inferred."""
    group = Affine2("shift_x", "shift_y", "rotation", "scale_x", "scale_y")
    eta = added * torch.tensor([0.3, -0.4, 0.8, 0.5, -0.5])
    model = InvVAE(Known(group, torch.zeros(5)), TINY)
    means = blobs(1)
    model.vae.decode = lambda z: means.expand(len(z), 1, SIDE, SIDE)
    with torch.no_grad():
        model.prototype_noise.copy_(noise * torch.linspace(0.8, 1.2, SIDE).expand(SIDE, SIDE))
    x = model.symmetry.act(group.exp(eta), means)
    generator = torch.Generator().manual_seed(0)
    return model, x + noise * torch.randn(6, 1, SIDE, SIDE, generator=generator), eta


def independent_bound(model, x, k, generator):
    """The bound with eta from N(f(x), spread^2), whatever the prototype."""
    start = model.symmetry.infer(x).repeat_interleave(k, 0)
    eta = start + model.spread * torch.randn(start.shape, generator=generator)
    means = model.vae.decode(torch.zeros(len(start), 2))
    pairs = Pairs(model, x.repeat_interleave(k, 0), means, True, None)
    log_r = gaussian_log_prob(eta, start, model.spread).sum(-1)
    weights = (pairs.log_prob(eta) - log_r).view(len(x), k)
    return torch.logsumexp(weights, 1) - math.log(k)


def test_it_finds_what_was_planted_and_bounds_are_tighter():
    model, x, eta = planted()
    model.spread.copy_(0.1 * torch.tensor(model.symmetry.bounds))
    pairs = Pairs(model, x, model.vae.decode(torch.zeros(6, 2)), True, None)
    found = posterior(pairs, torch.zeros(6, 5))
    assert float((found.centre - eta).abs().max()) < 0.3 * float(eta.abs().max())
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        tight = model.bound(x, 50, generator)
        many = model.bound(x, 600, generator)
        loose = []
        for share in (0.003, 0.01, 0.03, 0.1):
            model.spread.copy_(share * torch.tensor(model.symmetry.bounds))
            loose.append(float(independent_bound(model, x, 50, generator).mean()))
    assert float(tight.mean()) > max(loose) + 3
    torch.testing.assert_close(tight, many, atol=0.5, rtol=0)


@pytest.mark.parametrize("stretch", [0.5, 2.0])
def test_it_is_never_above_the_likelihood(stretch, monkeypatch):
    """One parameter, so that the integral over it can be done on a grid."""
    monkeypatch.setattr(proposal, "FIRST_STEPS", 8)  # true of any proposal
    group = Affine2("rotation")
    model = InvVAE(Known(group, torch.tensor([0.15])), TINY)
    means = blobs(1)
    model.vae.decode = lambda z: means.expand(len(z), 1, SIDE, SIDE)
    with torch.no_grad():
        model.prototype_noise.copy_(0.3 * torch.linspace(0.8, 1.2, SIDE).expand(SIDE, SIDE))
        model.spread.fill_(0.3)
        model.stretch.fill_(stretch)
    generator = torch.Generator().manual_seed(0)
    x = means + 0.3 * torch.randn(4, 1, SIDE, SIDE, generator=generator)
    grid = torch.linspace(-2.5, 2.5, 1001)
    pairs = [
        Pairs(model, one.expand(1001, 1, SIDE, SIDE), means.expand(1001, 1, SIDE, SIDE), True, None)
        for one in x
    ]
    exact = torch.stack([torch.logsumexp(p.log_prob(grid[:, None]), 0) for p in pairs]) + math.log(
        5 / 1000
    )
    # The bound is also over codes, which change nothing here.
    one = model.bound(x.repeat(300, 1, 1, 1), 1, generator).view(300, 4)
    assert bool((one.mean(0) < exact + 3 * one.std(0) / math.sqrt(300)).all())
    torch.testing.assert_close(model.bound(x, 1500, generator), exact, atol=0.15, rtol=0)


def test_steps_are_taken_only_where_the_fit_rises():
    model, x, _ = planted(added=0.1)
    model.spread.copy_(10.0 * torch.tensor(model.symmetry.bounds))
    start = torch.zeros(6, 5) + torch.tensor([0.5, 0.5, 2.0, 0.3, 0.3])  # far from what is there
    pairs = Pairs(model, x, model.vae.decode(torch.zeros(6, 2)), True, None)
    before = pairs.log_prob(start)
    found = posterior(pairs, start)
    after = pairs.log_prob(found.centre)
    assert bool((after >= before - 1e-3).all())
    assert bool(torch.isfinite(found.centre).all())
    assert bool(torch.isfinite(found.lower).all())


def test_rejected_steps_become_shorter():
    pairs, start, _ = linear_pairs()
    full = (posterior(pairs, start, 1).centre - start).norm(dim=1)

    def within(share):
        """p(eta) is nothing beyond a share of the first step."""
        far = share * full
        return lambda eta, _: torch.where((eta - start).norm(dim=1) <= far, 0.0, -1e6)

    pairs.model.symmetry.generative.log_prob = within(0.0)
    torch.testing.assert_close(posterior(pairs, start, 8).centre, start)
    pairs.model.symmetry.generative.log_prob = within(0.8)
    assert bool((posterior(pairs, start, 1).centre == start).all())
    moved = (posterior(pairs, start, 8).centre - start).norm(dim=1)
    assert bool(((moved > 0.05 * full) & (moved < 0.8 * full)).all())


def test_further_steps_stay_near_the_start():
    """Where p(eta) is flat, it is the spread that holds eta, at every step."""
    pairs, start, _ = linear_pairs()
    pairs.model.symmetry.generative.log_prob = lambda eta, _: torch.zeros(len(eta))
    one, many = (posterior(pairs, start, steps).centre for steps in (1, 6))
    torch.testing.assert_close(one, many, atol=2e-3, rtol=0)


@pytest.mark.parametrize("size", [0.0, 1.0, 1e12])
def test_matrices_that_cannot_be_inverted_have_a_factor(size):
    information = torch.full((2, 3, 3), size)  # of rank one
    unit, lower = _factor(information, torch.zeros(2, 1))
    assert bool(torch.isfinite(lower).all())
    assert bool((lower.diagonal(dim1=1, dim2=2) > 0).all())
    found = torch.linalg.inv(torch.diag_embed(unit)) @ lower
    if size == 1.0:
        torch.testing.assert_close(found @ found.mT, information + torch.eye(3), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "name", ["rotation", "affine", "se2", "hue", "rotation,hue", "translation", "similarity"]
)
def test_every_continuous_group_has_bounds(name):
    group = parse_group(name)
    colours = "hue" in name
    shape = (3 if colours else 1, SIDE, SIDE)
    model = InvVAE(Known(group, torch.zeros(group.dim), shape=shape), TINY)
    model.prototype_noise.fill_(0.1)
    model.noise.fill_(0.1)
    x = blobs(3, shape[0])
    generator = torch.Generator().manual_seed(0)
    bounds = model.bound(x, 4, generator)
    assert bounds.shape == (3,)
    assert bool(torch.isfinite(bounds).all())
    assert model.moves_pixels == (not colours)
    assert isinstance(group, Colour) == (name == "hue")


def test_the_noise_is_what_is_left_at_the_right_transformation():
    """Inferred parameters are off; what that leaves of the images is no noise."""
    model, few, _ = planted(added=0.1, noise=0.05)
    generator = torch.Generator().manual_seed(1)
    clean = model.symmetry.act(model.symmetry.group.exp(planted(added=0.1)[2]), blobs(1))
    x = clean + 0.05 * torch.randn(60, *few.shape[1:], generator=generator)
    set_noise(model, list(squares(model, x, settle=False)))
    inferred = float(model.prototype_noise.square().mean().sqrt())
    model.fit_noise(x)
    found = float(model.prototype_noise.square().mean().sqrt())
    assert inferred > 0.08
    assert found == pytest.approx(0.05, rel=0.1)


def test_double_precision_says_the_same():
    model, x, _ = planted()
    model.spread.copy_(0.1 * torch.tensor(model.symmetry.bounds))
    pairs = Pairs(model, x, blobs(1).expand_as(x), True, None)
    single = posterior(pairs, torch.zeros(6, 5))
    model.double()
    pairs = Pairs(model, x.double(), blobs(1).double().expand_as(x), True, None)
    double = posterior(pairs, torch.zeros(6, 5, dtype=torch.float64))
    torch.testing.assert_close(single.centre.double(), double.centre, atol=1e-3, rtol=0)
    wide = single.unit / double.unit
    torch.testing.assert_close(wide, torch.ones_like(wide), atol=0.02, rtol=0)
    assert double.draw(None).dtype == torch.float64
