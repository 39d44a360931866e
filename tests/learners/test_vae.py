"""VAEs: bounds against exact likelihoods, and what symmetry models add."""

import copy
import math

import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.data import digits
from symmetries.groups.affine import Affine2
from symmetries.groups.colour import Colour
from symmetries.groups.finite import Cyclic
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.learners.vae import VAE, InvVAE, VAEConfig
from symmetries.learners.vae.model import elbo_loss, warn_if_collapsed
from symmetries.learners.vae.proposal import mean_back, set_noise, squares
from symmetries.nn.autoencoder import ConvDecoder, ConvEncoder
from symmetries.nn.codes import fitted_prior
from symmetries.nn.diagonal_gaussian import gaussian_kl, gaussian_log_prob, importance_bound
from symmetries.training import Recipe, Step

SHAPE = (1, 8, 8)
TINY = VAEConfig().replace(
    latent=3,
    channels=(4, 8),
    strides=(2, 1),
    hidden=16,
    initial_noise=0.3,
    least_noise=0.05,
    steps=3,
    batch_size=8,
)
few_steps = pytest.mark.filterwarnings("ignore:the codes say nothing:RuntimeWarning")


class LinearDecoder(nn.Module):
    """x = W z + b."""

    def __init__(self, weight, bias):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, z):
        return (z @ self.weight.T + self.bias).unflatten(1, SHAPE)


class LinearEncoder(nn.Module):
    """The exact posterior of a linear-Gaussian model, mean shifted and scale stretched."""

    def __init__(self, weight, bias, noise, shift=0.0, stretch=1.0):
        super().__init__()
        self.precision = 1 + weight.square().sum(0) / noise**2  # columns of W are orthogonal
        self.weight, self.bias, self.noise = weight, bias, noise
        self.shift, self.stretch = shift, stretch

    def forward(self, x):
        mean = (x.flatten(1) - self.bias) @ self.weight / self.noise**2 / self.precision
        scale = (self.stretch / self.precision.sqrt()).expand_as(mean)
        free = torch.log(torch.expm1(scale)) - math.log(math.expm1(1.0))
        return torch.cat((mean + self.shift, free), 1)


def linear_model(shift, stretch, noise=0.4):
    """A VAE whose likelihood is known, and that likelihood."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(64, 3, generator=generator)).Q
    weight = basis * torch.tensor([2.0, 1.0, 0.5])
    bias = torch.rand(64, generator=generator)
    vae = VAE(SHAPE, TINY)
    vae.decoder = LinearDecoder(weight, bias)
    vae.encoder = LinearEncoder(weight, bias, noise, shift, stretch)
    with torch.no_grad():
        vae.free_noise.fill_(math.log(math.expm1(noise - TINY.least_noise)))
    covariance = weight @ weight.T + noise**2 * torch.eye(64)
    exact = torch.distributions.MultivariateNormal(bias, covariance)
    return vae, exact


def test_the_bound_is_exact_where_the_posterior_is():
    vae, exact = linear_model(shift=0.0, stretch=1.0)
    x = exact.sample((5,)).unflatten(1, SHAPE)
    found = vae.bound(x, 3, torch.Generator().manual_seed(0))
    torch.testing.assert_close(found, exact.log_prob(x.flatten(1)), atol=2e-3, rtol=0)


def test_the_bound_rises_to_the_likelihood_with_the_samples():
    vae, exact = linear_model(shift=0.15, stretch=1.2)
    torch.manual_seed(0)
    x = exact.sample((40,)).unflatten(1, SHAPE)
    likelihood = exact.log_prob(x.flatten(1)).mean()
    generator = torch.Generator().manual_seed(0)
    gaps = []
    for k, repeats in ((1, 50), (10, 20), (300, 2)):
        values = [vae.bound(x, k, generator).mean() for _ in range(repeats)]
        gaps.append(float(likelihood - torch.stack(values).mean()))
    assert gaps[0] > 0.3
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2]
    assert abs(gaps[2]) < 0.02


def test_the_loss_is_minus_the_bound_of_one_sample():
    vae, exact = linear_model(shift=0.15, stretch=1.2)
    torch.manual_seed(0)
    x = exact.sample((20,)).unflatten(1, SHAPE)
    step = Step(total=1, seed=0, device=torch.device("cpu"))
    step.begin(1)  # the end of training: the KL counts in full
    losses = [elbo_loss(vae, x, step)["loss"].detach() for _ in range(200)]
    bounds = [vae.bound(x, 1).mean() for _ in range(200)]
    assert -float(torch.stack(losses).mean()) == pytest.approx(
        float(torch.stack(bounds).mean()), abs=0.05
    )


def test_the_noise_is_set_to_its_optimum():
    vae, exact = linear_model(shift=0.0, stretch=1.0)
    torch.manual_seed(0)
    x = exact.sample((4000,)).unflatten(1, SHAPE)
    with torch.no_grad():
        vae.free_noise.fill_(1.0)
    vae.fit_noise(x)
    # Codes are exact, and samples of them add what the posterior is wide.
    assert float(vae.noise.detach().mean()) == pytest.approx(0.4, rel=0.05)
    vae.config = TINY.replace(initial_noise=1.0, least_noise=0.9)
    vae.fit_noise(x)
    assert float(vae.noise.detach().min()) == pytest.approx(0.9, abs=1e-3)


def test_gaussians_against_torch():
    torch.manual_seed(0)
    mean, scale = torch.randn(4, 3), torch.rand(4, 3) + 0.1
    prior_mean, prior_scale = torch.randn(3), torch.rand(3) + 0.1
    q = torch.distributions.Normal(mean, scale)
    p = torch.distributions.Normal(prior_mean, prior_scale)
    torch.testing.assert_close(
        gaussian_kl(mean, scale, prior_mean, prior_scale),
        torch.distributions.kl_divergence(q, p).sum(-1),
    )
    narrow = gaussian_kl(torch.zeros(1), torch.tensor([1e-23]), torch.zeros(1), torch.ones(1))
    assert narrow.item() == pytest.approx(-0.5 - math.log(1e-23))
    x = torch.randn(4, 3)
    torch.testing.assert_close(gaussian_log_prob(x, mean, scale), q.log_prob(x))
    assert float(importance_bound(torch.tensor([0.0, math.log(3.0)]))) == pytest.approx(math.log(2))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 12), (2, 11, 7)])
@pytest.mark.parametrize("strides", [(2, 2), (2, 1), (1, 3)])
def test_networks_keep_the_shape(shape, strides):
    options = {"channels": (4, 6), "strides": strides, "hidden": 8}
    codes = ConvEncoder(shape, 10, **options)(torch.rand(2, *shape))
    assert codes.shape == (2, 10)
    assert float(codes.detach().abs().max()) == 0  # the standard normal at the start
    assert ConvDecoder(shape, 5, **options)(codes[:, :5]).shape == (2, *shape)


@pytest.fixture(scope="module")
def fitted():
    """A VAE of digits."""
    vae = VAE(SHAPE, "quick")
    history = vae.fit(digits("train"), progress=False, device="cpu")
    return vae, history


def test_a_fitted_vae_explains_and_draws_digits(fitted):
    vae, history = fitted
    x = digits("test").images
    assert history["loss"][-1] < history["loss"][1]
    assert float(vae.reconstruction_error(x).mean()) < 0.4 * float(x.var(0).mean())
    generator = torch.Generator().manual_seed(0)
    one, many = (float(vae.bound(x, k, generator).mean()) for k in (1, 100))
    assert many > one + 0.5
    new = vae.sample(200, generator)
    # New digits are nearer to real ones than shuffled pixels are.
    train = digits("train").images.flatten(1)
    shuffled = x[:200].flatten(1)[:, torch.randperm(64, generator=generator)]
    assert torch.cdist(new.flatten(1), train).amin(1).mean() < 0.6 * float(
        torch.cdist(shuffled, train).amin(1).mean()
    )


def test_saved_and_loaded_it_is_the_same(fitted, tmp_path):
    vae, _ = fitted
    vae.save(tmp_path)
    again = VAE.load(tmp_path)
    x = digits("test").images[:4]
    assert again.config == vae.config
    assert torch.equal(again.reconstruct(x), vae.reconstruct(x))


@few_steps
def test_large_numbers_have_large_noise_and_nothing_has_none(fitted):
    images = digits("train").images[:64]
    vae = VAE(SHAPE, TINY)
    with pytest.warns(RuntimeWarning, match="divide by 255"):
        vae.fit(4095 * images, progress=False, device="cpu")
    assert bool(vae.noise.isfinite().all())
    assert bool(vae.bound(4095 * images[:2], 5).isfinite().all())
    before = vae.noise.clone()
    with pytest.raises(ValueError, match="images: expected at least one image, got none"):
        vae.fit_noise(images[:0])
    with pytest.raises(ValueError, match="images: expected finite values"):
        vae.fit_noise(images / 0)
    assert torch.equal(vae.noise, before)
    vae.fit_noise(digits("train"))
    assert bool(vae.noise.mean() < before.mean())


def test_what_needs_its_own_prior_says_so(fitted, tmp_path):
    vae, _ = copy.deepcopy(fitted)
    vae.fit_codes(digits("train"), [2])
    with pytest.raises(ValueError, match="images: expected at least 36 for codes of 8 numbers"):
        vae.fit_codes(digits("train").images[:3])
    with fitted_prior(vae):
        for call in (vae.save, lambda _: vae.fit(digits("train"), progress=False)):
            with pytest.raises(ValueError, match="prior: expected the model's own"):
                call(tmp_path)
    assert vae.codes is not None
    vae.save(tmp_path)
    assert VAE.load(tmp_path).codes is not None


@few_steps
def test_a_finished_run_is_read_back(tmp_path):
    images = digits("train").images[:64]
    whole, again = VAE(SHAPE, TINY), VAE(SHAPE, TINY, seed=0)
    whole.fit(images, progress=False, device="cpu", out=tmp_path)
    assert (tmp_path / "metrics.csv").exists()
    again.fit(images, progress=False, device="cpu", out=tmp_path, resume=True)
    for a, b in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


def test_bad_arguments():
    with pytest.raises(ValueError, match="seed: expected a whole number of at least 0, got 'a'"):
        VAE(SHAPE, TINY, seed="a")
    with pytest.raises(TypeError, match=r"generator: expected a torch.Generator"):
        VAE(SHAPE, TINY).sample(3, 3)
    with pytest.raises(TypeError, match="symmetry: expected a symmetry model, got str"):
        InvVAE("rotation", TINY)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device: expected a device of this machine"):
            VAE(SHAPE, TINY).fit(torch.rand(8, *SHAPE), device="cuda", progress=False)


def test_bad_input():
    vae = VAE(SHAPE, TINY)
    with pytest.raises(ValueError, match="x: expected images of shape"):
        vae.bound(torch.rand(2, 3, 8, 8))
    with pytest.raises(ValueError, match="samples: expected a whole number of at least 1"):
        vae.bound(torch.rand(2, *SHAPE), 0)
    with pytest.raises(ValueError, match="finite values"):
        vae.fit(torch.full((4, *SHAPE), math.nan), progress=False)
    with pytest.raises(ValueError, match="n: expected a whole number of at least 1"):
        vae.sample(0)
    with pytest.raises(ValueError, match=r"config: expected VAEConfig\(...\), or one of"):
        VAE(SHAPE, "huge")
    with pytest.raises(ValueError, match="initial_noise: expected more than least_noise"):
        VAEConfig().replace(initial_noise=0.01)
    with pytest.raises(ValueError, match="z: expected codes of shape"):
        vae.decode(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="strides: expected a stride for each"):
        ConvEncoder(SHAPE, 2, channels=(4,), strides=(2, 2))


def test_collapse_is_said_with_the_remedy():
    vae = VAE(SHAPE, TINY)  # codes are the prior's for every image
    with pytest.warns(RuntimeWarning, match="codes say nothing about the images"):
        warn_if_collapsed(vae, torch.rand(8, *SHAPE))


class Turning(nn.Module):
    """A symmetry model that knows: eta is what it is told, p(eta | x_hat) is a fixed Gaussian."""

    def __init__(self, group, spread=0.5):
        super().__init__()
        self.group, self.shape = group, SHAPE
        self.bounds = group.bounds
        self.act = ImageAction(group)
        self.generative = FixedPrior(spread) if isinstance(group, Affine2) else FixedChoice()
        self.placeholder = nn.Parameter(torch.zeros(()))

    def infer(self, x, refine=0):
        return torch.full((len(x), 1), 0.2)

    def element(self, x, refine=0):
        if isinstance(self.group, Cyclic):
            return torch.ones(len(x), dtype=torch.int64)
        return self.group.exp(self.infer(x))

    def prototype(self, x, refine=0):
        return self.act(self.group.inverse(self.element(x)), x)


class FixedPrior:
    """p(eta) = N(0, spread^2)."""

    around = ()

    def __init__(self, spread):
        self.spread = spread
        self.distribution = self

    def __call__(self, prototypes):
        return prototypes

    def log_prob(self, eta, context):
        return torch.distributions.Normal(0.0, self.spread).log_prob(eta).sum(-1)

    def sample(self, context, n, generator):
        return self.spread * torch.randn(len(context), n, 1, generator=generator)


class FixedChoice:
    """p(g) over the four quarter turns."""

    log_p = torch.tensor([0.1, 0.5, 0.3, 0.1]).log()

    def __init__(self):
        self.distribution = self

    def __call__(self, prototypes):
        return prototypes

    def log_probs(self, context):
        return self.log_p.expand(len(context), 4)

    def sample(self, context, n, generator):
        p = self.log_p.exp().expand(len(context), 4)
        return torch.multinomial(p, n, replacement=True, generator=generator)


def smooth_images(n):
    """Random smooth pictures."""
    generator = torch.Generator().manual_seed(0)
    small = torch.rand(n, 1, 3, 3, generator=generator)
    return nn.functional.interpolate(small, size=(8, 8), mode="bicubic")


def one_code_model(group):
    """InvVAE with a code of one number, so that the integral can be done on a grid."""
    config = VAEConfig().replace(
        latent=1, channels=(4,), strides=(2,), hidden=8, steps=1, batch_size=4
    )
    model = InvVAE(Turning(group), config)
    with torch.no_grad():
        model.noise.copy_(torch.linspace(0.8, 1.2, 64).view(SHAPE))
        model.prototype_noise.copy_(torch.linspace(1.4, 0.7, 64).view(SHAPE))
        model.spread.fill_(0.8)
        model.stretch.fill_(4.0)  # these prototypes are rough, and their noise is large
    return model


@pytest.mark.parametrize("noise", ["image", "prototype"])
def test_the_bound_on_images_is_the_integral_over_codes_and_transformations(noise):
    model = one_code_model(Affine2("rotation"))
    x = smooth_images(3)
    z = torch.linspace(-6, 6, 121)
    eta = torch.linspace(-2.5, 2.5, 201)
    with torch.no_grad():
        prototypes = model.vae.decode(z[:, None])
        moved = model.symmetry.act.orbit(model.symmetry.group.exp(eta[:, None]), prototypes)
        scale = model.noise
        if noise == "prototype":
            variance = model.prototype_noise.square()[None]
            act = ImageAction(model.symmetry.group, padding="border")
            scale = act.orbit(model.symmetry.group.exp(eta[:, None]), variance)[0].sqrt()
        log_joint = gaussian_log_prob(x[:, None, None], moved, scale).sum((3, 4, 5))
        log_joint = log_joint + model.vae.prior.log_prob(z[:, None])[:, None]
        log_joint = log_joint + torch.distributions.Normal(0.0, 0.5).log_prob(eta)
        step = math.log((z[1] - z[0]) * (eta[1] - eta[0]))
        exact = torch.logsumexp(log_joint.flatten(1), 1) + step
    generator = torch.Generator().manual_seed(0)
    one = model.bound(x.repeat(100, 1, 1, 1), 1, generator, noise).view(100, 3).mean(0)
    many = model.bound(x, 10_000, generator, noise)
    torch.testing.assert_close(many, exact, atol=0.1, rtol=0)
    assert bool((one < exact).all())


def test_the_bound_sums_over_a_finite_group():
    model = one_code_model(Cyclic(4))
    x = smooth_images(3)
    z = torch.linspace(-6, 6, 401)
    with torch.no_grad():
        prototypes = model.vae.decode(z[:, None])
        total = torch.zeros(3)
        for g, log_p in enumerate(FixedChoice.log_p):
            moved = prototypes.rot90(g, (2, 3))
            scale = model.prototype_noise.rot90(g, (1, 2))
            log_joint = gaussian_log_prob(x[:, None], moved, scale).sum((2, 3, 4))
            log_joint = log_joint + model.vae.prior.log_prob(z[:, None]) + log_p
            total += (log_joint.exp() * (z[1] - z[0])).sum(1)
    found = model.bound(x, 3000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(found, total.log(), atol=0.08, rtol=0)


@few_steps
def test_the_vae_of_prototypes_never_sees_an_image():
    model = InvVAE(Turning(Cyclic(4)), TINY)
    x = smooth_images(32)
    upright = model.prototype(x)
    torch.testing.assert_close(upright, x.rot90(-1, (2, 3)))
    model.fit(x, progress=False, device="cpu")
    plain = VAE(SHAPE, TINY)
    plain.fit(upright, progress=False, device="cpu")
    for a, b in zip(model.vae.parameters(), plain.parameters(), strict=True):
        assert torch.equal(a, b)
    generator = torch.Generator().manual_seed(0)
    mine = model.prototype_bound(x, 5, torch.Generator().manual_seed(0))
    torch.testing.assert_close(mine, plain.bound(upright, 5, generator))
    torch.testing.assert_close(
        model.reconstruct(x), model.reconstruct(x, "prototype").rot90(1, (2, 3))
    )
    error = model.reconstruction_error(x)
    torch.testing.assert_close(error, model.reconstruction_error(x, "prototype"))
    z, _ = model.vae.draw(upright, 50)
    with torch.no_grad():
        again = model.vae.decode(z.flatten(0, 1)).rot90(1, (2, 3)).unflatten(0, (32, 50))
    expected = (again - x[:, None]).square().mean((0, 1)).sqrt()
    assert float((model.noise / expected).log().abs().mean()) < 0.25  # one draw for each image
    upright_noise = model.noise.rot90(-1, (1, 2))
    torch.testing.assert_close(model.prototype_noise, upright_noise, rtol=1e-4, atol=1e-5)


def test_noise_of_prototypes_is_found_on_the_images_it_is_given():
    model, plain = InvVAE(Turning(Cyclic(4)), TINY), VAE(SHAPE, TINY)
    x = smooth_images(32) * torch.linspace(0.2, 3, 8)  # not alike
    model.fit_noise(x)
    plain.fit_noise(model.prototype(x))
    torch.testing.assert_close(model.vae.noise, plain.noise)
    assert float(plain.noise.detach().std()) > 0.1


def test_new_images_are_moved_prototypes():
    model = InvVAE(Turning(Cyclic(4)), TINY)
    images, prototypes = model.sample(400, torch.Generator().manual_seed(0))
    turns = torch.stack([prototypes.rot90(g, (2, 3)) for g in range(4)], 1)
    which = (turns - images[:, None]).abs().amax((2, 3, 4)).argmin(1)
    shares = torch.bincount(which, minlength=4) / 400
    torch.testing.assert_close(shares, FixedChoice.log_p.exp(), atol=0.08, rtol=0)


def test_noise_that_moves_with_prototypes_describes_turned_images_better():
    """Prototypes with noise in one half, turned by known angles: that half turns with them."""
    model = one_code_model(Affine2("rotation"))
    generator = torch.Generator().manual_seed(0)
    eta = math.pi * (2 * torch.rand(400, 1, generator=generator) - 1)
    model.symmetry.infer = lambda x, refine=0: eta[: len(x)]
    truth = torch.full(SHAPE, 0.05)
    truth[..., 4:] = 0.5
    model.vae.decode = lambda z: torch.zeros(len(z), *SHAPE)
    noisy = truth * torch.randn(400, *SHAPE, generator=generator)
    x = model.symmetry.act(model.symmetry.group.exp(eta), noisy)
    found = list(squares(model, x, settle=False))
    set_noise(model, found)
    parts = [(at, part / model.scale(at, True).square()) for at, part in found]
    ratio = mean_back(model, parts)
    assert float((ratio - 1).abs().mean()) < 0.1  # nothing makes the images likelier
    left, right = model.prototype_noise[..., :3].mean(), model.prototype_noise[..., 5:].mean()
    assert float(right) > 3 * float(left)
    assert float((model.noise[..., :3].mean() / model.noise[..., 5:].mean()).log().abs()) < 0.2
    model.spread.fill_(0.02)
    fixed, moving = (
        float(model.bound(x, 20, generator, noise).mean()) for noise in ("image", "prototype")
    )
    assert moving > fixed + 10


def test_a_mean_over_frames_counts_pixels_by_how_much_of_them_is_seen():
    model = one_code_model(Affine2("rotation"))
    element = model.symmetry.group.exp(torch.tensor([[0.6]]))
    whole = ImageAction(Affine2("rotation"))(
        model.symmetry.group.inverse(element), torch.ones(1, *SHAPE)
    )[0]
    assert bool(((whole > 0) & (whole < 0.9)).any())  # corners are seen in part
    mean = mean_back(model, [(element, torch.full((1, *SHAPE), 3.0))])
    torch.testing.assert_close(mean, 3.0 * (whole > 0))


def test_noise_does_not_move_with_colours():
    model = InvVAE(Turning(Affine2("rotation")), TINY)
    model.symmetry.group = Colour("hue")
    assert not model.moves_pixels
    with pytest.raises(ValueError, match="noise: expected 'image' for"):
        model.bound(torch.rand(2, *SHAPE), 2, noise="prototype")
    with pytest.raises(ValueError, match="samples: expected a whole number of at least 1"):
        model.bound(torch.rand(2, *SHAPE), 0)


def test_refinement_needs_a_closed_group():
    symmetry = Turning(Affine2("rotation", "scale"))
    with pytest.raises(ValueError, match="is not closed"):
        InvVAE(symmetry, TINY, refine=1)


@few_steps
@pytest.mark.filterwarnings("ignore:too few images:RuntimeWarning")
def test_a_saved_invvae_bounds_as_before(tmp_path):
    images = digits("train").images[:100]
    config = SymmetryConfig.preset("quick").replace(
        inference=Recipe(steps=4, batch_size=32),
        generative=Recipe(steps=4, batch_size=32),
    )
    symmetry = SymmetryModel("rotation", SHAPE, config)
    symmetry.fit(images, progress=False, device="cpu")
    model = InvVAE(symmetry, TINY, refine=1, seed=3)
    model.fit(images, progress=False, device="cpu")
    model.fit_codes(images, [2])
    model.save(tmp_path / "vae")
    symmetry.save(tmp_path / "symmetry")
    again = InvVAE.load(tmp_path / "vae", SymmetryModel.load(tmp_path / "symmetry"))
    x = images[:3]
    expected = model.bound(x, 5, torch.Generator().manual_seed(0))
    for name in ("noise", "prototype_noise", "spread", "stretch", "refine"):
        assert torch.equal(
            torch.as_tensor(getattr(again, name)), torch.as_tensor(getattr(model, name))
        )
    assert again.vae.codes is not None
    assert torch.equal(again.bound(x, 5, torch.Generator().manual_seed(0)), expected)
    model.train()  # dropout of p(eta | prototype), which bounds are without
    assert torch.equal(model.bound(x, 5, torch.Generator().manual_seed(0)), expected)
    assert model.symmetry.training
    with pytest.raises(ValueError, match="symmetry: expected one of images of shape"):
        InvVAE.load(tmp_path / "vae", SymmetryModel("rotation", (1, 9, 9), config))
    with pytest.raises(ValueError, match="expected a saved VAE"):
        VAE.load(tmp_path / "vae")
