"""Densities fitted to the codes of images: new images, bounds, files."""

import copy
import math

import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.distributions.mixture import GaussianMixture
from symmetries.groups.finite import Cyclic
from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig
from symmetries.learners.vae import VAE, InvVAE, VAEConfig
from symmetries.nn.codes import draw_codes, fitted_prior
from symmetries.nn.diagonal_gaussian import gaussian_log_prob

SHAPE = (1, 8, 8)
TINY = VAEConfig().replace(
    latent=2,
    channels=(4, 8),
    strides=(2, 1),
    hidden=16,
    initial_noise=0.5,
    least_noise=0.05,
    steps=3,
    batch_size=8,
)
JOINT = InvariantVAEConfig.preset("quick").replace(
    latent=1,
    channels=(4,),
    strides=(2,),
    hidden=8,
    noise=1.0,
    sampled=False,
    steps=2,
    batch_size=4,
    warmup=0.5,
)
untrained = pytest.mark.filterwarnings("ignore::RuntimeWarning")


class TwoKinds(nn.Module):
    """An encoder of dark images to codes around (-3, 0), and of bright ones to (3, 1)."""

    def forward(self, x):
        bright = (x.mean((1, 2, 3)) > 0.5).float()[:, None]
        mean = torch.cat((6 * bright - 3, bright), 1)
        return torch.cat((mean, torch.full_like(mean, -1.5)), 1)  # scales of about 0.3


def two_kinds(n=300):
    """Dark images and bright ones."""
    return torch.cat((torch.full((n, *SHAPE), 0.1), torch.full((n, *SHAPE), 0.9)))


def coded():
    """A VAE with two kinds of codes, decoded to an image of the code's first number."""
    vae = VAE(SHAPE, TINY)
    vae.encoder = TwoKinds()
    vae.decode = lambda z: z[:, :1, None, None].expand(-1, *SHAPE)
    return vae


def shaken(model):
    """The same model with every parameter moved, so that nothing is zero by construction."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "noise" not in name:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


def two_gaussians(places, scale=0.4):
    """A mixture with these means, the second one twice as likely."""
    places = torch.tensor(places)
    mixture = GaussianMixture(*places.shape)
    mixture.weight.copy_(torch.tensor([1 / 3, 2 / 3]))
    mixture.mean.copy_(places)
    mixture.factor.mul_(scale)
    return mixture


def test_new_codes_are_of_both_kinds_and_not_between():
    vae = coded()
    vae.fit_codes(two_kinds())
    generator = torch.Generator().manual_seed(0)
    first = vae.sample(1000, generator, codes="fitted")[:, 0, 0, 0]
    assert float((first.abs() < 1.5).float().mean()) < 0.005
    assert float((first < 0).float().mean()) == pytest.approx(0.5, abs=0.06)
    by_prior = vae.sample(1000, generator)[:, 0, 0, 0]  # the default
    assert float((by_prior.abs() < 1.5).float().mean()) > 0.8


def test_codes_are_drawn_evenly_and_from_q(monkeypatch):
    monkeypatch.setattr("symmetries.nn.codes.MOST_CODES", 150)
    codes = draw_codes(coded(), two_kinds())
    assert codes.shape == (150, 2)
    mean, scale = (part[0] for part in coded().encode(two_kinds(1)))
    torch.testing.assert_close(codes[:75].mean(0), mean, atol=0.15, rtol=0)
    torch.testing.assert_close(codes[:75].std(0), scale, atol=0.1, rtol=0)


def test_with_the_fitted_prior_the_bound_is_the_integral_over_codes():
    vae = shaken(VAE(SHAPE, TINY))
    vae.codes = two_gaussians([[-1.0, 0.5], [1.5, 0.0]])
    x = torch.rand(3, *SHAPE, generator=torch.Generator().manual_seed(0))
    line = torch.linspace(-5, 5, 101)
    z = torch.cartesian_prod(line, line)
    with torch.no_grad():
        fit = gaussian_log_prob(x[:, None], vae.decode(z), vae.noise).sum((2, 3, 4))
        log_p = vae.codes.log_prob(z)
        exact = torch.logsumexp(fit + log_p, 1) + 2 * math.log(line[1] - line[0])
    generator = torch.Generator().manual_seed(0)
    by_prior = vae.bound(x, 3000, generator)
    with fitted_prior(vae):
        found = vae.bound(x, 20_000, generator)
        generator.manual_seed(1)
        new = vae.sample(5, generator)
    torch.testing.assert_close(new, vae.sample(5, generator.manual_seed(1), codes="fitted"))
    torch.testing.assert_close(found, exact, atol=0.05, rtol=0)
    assert float((by_prior - exact).abs().min()) > 0.1  # another model
    torch.testing.assert_close(vae.bound(x, 3000, generator.manual_seed(0)), by_prior)


def test_with_the_fitted_prior_the_joint_bound_is_the_sum_over_turns_and_the_integral():
    model = shaken(InvariantVAE("c4", SHAPE, JOINT))
    model.codes = two_gaussians([[-0.7], [0.8]])
    x = torch.rand(3, *SHAPE, generator=torch.Generator().manual_seed(0))
    z = torch.linspace(-5, 5, 201)[:, None]
    with torch.no_grad():
        moved = model.act.orbit(model.group.elements(x.device), model.decode(z))
        fit = gaussian_log_prob(x[:, None, None], moved, model.noise).sum((3, 4, 5))
        log_joint = fit + model.log_prior(z) + model.codes.log_prob(z)[:, None]
        exact = torch.logsumexp(log_joint.flatten(1), 1) + math.log(0.05)
    with fitted_prior(model):
        found = model.bound(x, 20_000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(found, exact, atol=0.05, rtol=0)


class Turned(nn.Module):
    """A symmetry model of quarter turns that finds every image upright, and turns none."""

    def __init__(self):
        super().__init__()
        self.group, self.shape, self.bounds = Cyclic(4), SHAPE, (1.0,)
        self.act = ImageAction(self.group)
        self.generative = lambda x: x
        self.generative.distribution = self
        self.placeholder = nn.Parameter(torch.zeros(()))

    def sample(self, context, n, generator=None):
        return torch.zeros(len(context), n, dtype=torch.int64)

    def element(self, x, refine=0):
        return torch.zeros(len(x), dtype=torch.int64)

    def prototype(self, x, refine=0):
        return x


def test_prototypes_are_of_fitted_codes():
    model = InvVAE(Turned(), TINY)
    model.vae = coded()
    model.fit_codes(two_kinds(), components=(2,))
    images, prototypes = model.sample(300, torch.Generator().manual_seed(0), codes="fitted")
    assert float(prototypes.abs().min()) > 1.5
    torch.testing.assert_close(images, prototypes)
    joint = InvariantVAE("c4", SHAPE, JOINT.replace(latent=2))
    joint.encoder = TwoKinds()
    joint.decode = lambda z: z[:, :1, None, None].expand(-1, *SHAPE)
    joint.fit_codes(two_kinds(), components=(2,))
    images, prototypes = joint.sample(300, torch.Generator().manual_seed(0), codes="fitted")
    assert float(prototypes.abs().min()) > 1.5
    assert images.shape == (300, *SHAPE)


@untrained
@pytest.mark.parametrize(
    "make", [lambda: VAE(SHAPE, TINY), lambda: InvariantVAE("c4", SHAPE, JOINT)]
)
def test_the_density_is_kept_in_files_and_forgotten_by_training(tmp_path, make):
    model = shaken(make())
    images = torch.rand(60, *SHAPE, generator=torch.Generator().manual_seed(0))
    model.save(tmp_path)
    assert type(model).load(tmp_path).codes is None
    fitted = model.fit_codes(images, components=(1, 2))
    model.save(tmp_path)
    loaded = type(model).load(tmp_path)
    z = torch.randn(7, model.config.network.latent)
    torch.testing.assert_close(loaded.codes.log_prob(z), fitted.log_prob(z))
    new = [m.sample(5, torch.Generator().manual_seed(0), "fitted") for m in (model, loaded)]
    torch.testing.assert_close(new[0], new[1])
    loaded.fit(images, progress=False, device="cpu")
    assert loaded.codes is None


def test_states_come_with_their_density_and_without():
    model, other = VAE((1, 8, 8), "quick"), VAE((1, 8, 8), "quick", seed=1)
    bare = {name: value.clone() for name, value in model.state_dict().items()}
    model.fit_codes(torch.rand(400, 1, 8, 8), (2,))
    other.load_state_dict(model.state_dict())
    z = torch.randn(5, model.config.network.latent)
    torch.testing.assert_close(other.codes.log_prob(z), model.codes.log_prob(z))
    within = torch.nn.ModuleDict({"vae": VAE((1, 8, 8), "quick")})
    within.load_state_dict({f"vae.{name}": value for name, value in model.state_dict().items()})
    assert len(within["vae"].codes.mean) == 2
    copied = copy.deepcopy(other)
    copied.load_state_dict(bare)
    assert copied.codes is None
    assert other.codes is not None


def test_bad_input():
    vae = VAE(SHAPE, TINY)
    with pytest.raises(ValueError, match=r"codes: .*got none; call fit_codes first"):
        vae.sample(3, codes="fitted")
    with pytest.raises(ValueError, match="codes: expected a model with a fitted density"):
        fitted_prior(vae).__enter__()
    with pytest.raises(ValueError, match="codes: expected one of"):
        vae.sample(3, codes="mixture")
    with pytest.raises(ValueError, match="images: expected at least 12 for codes of 2 numbers"):
        vae.fit_codes(torch.rand(4, *SHAPE))
    with pytest.raises(ValueError, match="images: expected images of shape"):
        vae.fit_codes(torch.rand(40, 3, 8, 8))
    with pytest.raises(ValueError, match="images: expected finite values"):
        vae.fit_codes(torch.full((40, *SHAPE), math.nan))
    vae.codes = GaussianMixture(2, 5)
    with pytest.raises(ValueError, match="z: expected codes of shape"):
        vae.sample(3, codes="fitted")
    with fitted_prior(vae), pytest.raises(ValueError, match=r"z: expected floats \(..., 5\)"):
        vae.bound(torch.rand(2, *SHAPE))
