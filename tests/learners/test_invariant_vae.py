"""The invariant VAE: its bound against integrals, and planted rotations found."""

import math
import warnings

import pytest
import torch
from torch import nn

from symmetries.data import ImageSet
from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig
from symmetries.learners.invariant_vae.losses import beta, joint_loss, log_weights
from symmetries.learners.invariant_vae.networks import wound_log_prob
from symmetries.learners.invariant_vae.summary import warn_if_collapsed
from symmetries.learners.symmetry_model.summary import highest_density_width
from symmetries.nn.diagonal_gaussian import gaussian_log_prob
from symmetries.training import Step

SHAPE = (1, 8, 8)
TINY = InvariantVAEConfig().replace(
    latent=1,
    channels=(4,),
    strides=(2,),
    hidden=8,
    samples=2,
    noise=1.0,
    features=(8,),
    base=(8,),
    conditioner=8,
    sampled=False,
    views=1,
    initial_spread=0.3,
    steps=2,
    batch_size=4,
    warmup=0.5,
)
few_steps = pytest.mark.filterwarnings("ignore:reconstructions explain only:RuntimeWarning")


def smooth_images(n, channels=1, size=(8, 8)):
    """Random smooth pictures."""
    generator = torch.Generator().manual_seed(0)
    small = torch.rand(n, channels, 3, 3, generator=generator)
    return nn.functional.interpolate(small, size=size, mode="bicubic").clamp(0, 1)


def shaken(model):
    """The same model with every parameter moved, so that nothing is zero by construction."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in ("free_noise", "free_prototype_noise"):
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


def test_the_bound_is_the_integral_over_codes_and_transformations():
    model = shaken(InvariantVAE("rotation", SHAPE, TINY))
    x = smooth_images(3)
    z = torch.linspace(-6, 6, 61)
    eta = torch.linspace(-6, 6, 121)
    with torch.no_grad():
        prototypes = model.decode(z[:, None])
        moved = model.act.orbit(model.group.exp(eta[:, None]), prototypes)
        log_joint = gaussian_log_prob(x[:, None, None], moved, model.noise).sum((3, 4, 5))
        points = eta[None, :, None].expand(len(z), -1, 1)
        log_p = model.prior_eta.distribution.log_prob(points, model.prior_eta(z[:, None]))
        log_joint = log_joint + log_p + model.prior.log_prob(z[:, None])[:, None]
        step = math.log((z[1] - z[0]) * (eta[1] - eta[0]))
        exact = torch.logsumexp(log_joint.flatten(1), 1) + step
    generator = torch.Generator().manual_seed(0)
    few = torch.stack([model.bound(x, 1, generator) for _ in range(40)]).mean(0)
    many = model.bound(x, 12_000, generator)
    torch.testing.assert_close(many, exact, atol=0.1, rtol=0)
    assert bool((few < exact).all())


def test_the_density_goes_around_and_is_that_of_the_samples():
    """A wide q(eta | x) and p(eta | z): whole turns are added, so that they integrate to one."""
    model = shaken(InvariantVAE("rotation", SHAPE, TINY.replace(initial_spread=0.5)))
    x, z = smooth_images(2), torch.tensor([[0.3], [-0.5]])
    grid = (torch.arange(720) + 0.5) * (math.pi / 360) - math.pi
    points = grid[None, :, None].expand(2, -1, 1)
    q = model.posterior
    with torch.no_grad():
        context, centre = q(x)
        away = points - centre[:, None]
        density = wound_log_prob(q.distribution, away, context, q.windings).exp()
        alone = q.distribution.log_prob(away, context).exp()
        eta, log_q = q.sample(x, 4000, torch.Generator().manual_seed(0))
        again = wound_log_prob(q.distribution, eta - centre[:, None], context, q.windings)
        prior = model.prior_eta.log_prob(points, z).exp()
    torch.testing.assert_close(log_q, again)
    torch.testing.assert_close(density.mean(1) * 2 * math.pi, torch.ones(2), atol=5e-3, rtol=0)
    torch.testing.assert_close(prior.mean(1) * 2 * math.pi, torch.ones(2), atol=5e-3, rtol=0)
    assert float((alone.mean(1) * 2 * math.pi).max()) < 0.98
    around = torch.remainder(eta[..., 0] + math.pi, 2 * math.pi)
    bins = torch.floor(around / (math.pi / 4)).long().clamp(0, 7)
    for row, place in zip(density, bins, strict=True):
        share = torch.bincount(place, minlength=8) / 4000
        planned = row.view(8, 90).mean(1) * math.pi / 4
        torch.testing.assert_close(share, planned, atol=0.03, rtol=0)


@pytest.mark.parametrize(
    ("name", "turns"),
    [
        *((name, 5) for name in ("rotation", "rotation,zoom", "hue")),
        *((name, 1) for name in ("rotation,shift_x", "similarity", "se2", "affine", "d4")),
        ("rotation,scale_x,scale_y", 1),
    ],
)
def test_turns_are_added_only_where_they_are_the_same_transformation(name, turns):
    model = InvariantVAE(name, (3, 8, 8), "quick")
    windings = model.prior_eta.windings
    assert len(windings) == len(model.posterior.windings) == turns
    if turns > 1:
        eta = 0.3 * torch.linspace(0.5, 1, model.group.dim) * torch.tensor(model.bounds)
        x = torch.rand(1, 3, 8, 8)
        every = [model.act(model.group.exp(eta + turn)[None], x) for turn in windings]
        for moved in every[1:]:
            torch.testing.assert_close(moved, every[0], atol=1e-4, rtol=0)


def test_a_wide_q_counts_all_its_turns():
    """Above log p(x) otherwise: the density of samples, though wide, integrates to one."""
    model = shaken(InvariantVAE("rotation", SHAPE, TINY.replace(initial_spread=1.3)))
    x = smooth_images(1)
    with torch.no_grad():
        _, log_q = model.posterior.sample(x, 40_000, torch.Generator().manual_seed(0))
        spread = model.posterior.distribution.sample(model.posterior(x)[0], 4000).std()
    assert float(spread) > 3.0
    # The mean of 1 / q over its own samples is the length of the circle.
    torch.testing.assert_close(float((-log_q).exp().mean()), 2 * math.pi, atol=0.01, rtol=0)


@pytest.mark.parametrize("views", [1, 4])
def test_with_views_q_turns_with_the_image(views):
    model = shaken(InvariantVAE("rotation", SHAPE, TINY.replace(views=views)))
    x = smooth_images(6)
    with torch.no_grad():
        context, centre = model.posterior(x)
        turned, quarter = model.posterior(x.rot90(1, (2, 3)))
    off = torch.remainder(quarter - centre - math.pi / 2 + math.pi, 2 * math.pi) - math.pi
    unlike = float((turned - context).abs().max())
    if views == 4:
        assert float(off.abs().max()) < 1e-4
        assert unlike < 1e-4
        assert float(torch.cos(centre).std()) > 0.01  # and knows one image from another
    else:
        assert float(off.abs().min()) > 0.1
        assert unlike > 0.1


def test_a_finite_group_is_summed_and_sampled_prototypes_add_noise():
    """Quarter turns permute pixels, so noise on prototypes is noise on images: s^2 + sigma^2."""
    config = TINY.replace(sampled=True)
    model = shaken(InvariantVAE("c4", SHAPE, config))
    with torch.no_grad():
        model.free_prototype_noise.fill_(math.log(math.expm1(0.05)))
    x = smooth_images(3)
    z = torch.linspace(-6, 6, 201)
    with torch.no_grad():
        prototypes = model.decode(z[:, None])
        scale = (model.noise.square() + 0.05**2).sqrt()
        total = torch.zeros(3)
        log_p = model.log_prior(z[:, None])
        for g in range(4):
            fit = gaussian_log_prob(x[:, None], prototypes.rot90(g, (2, 3)), scale).sum((2, 3, 4))
            log_joint = fit + log_p[:, g] + model.prior.log_prob(z[:, None])
            total += (log_joint.exp() * (z[1] - z[0])).sum(1)
    found = model.bound(x, 3000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(found, total.log(), atol=0.1, rtol=0)


@pytest.mark.parametrize("group", ["rotation", "c4"])
def test_the_loss_is_minus_the_expected_log_weight(group):
    model = shaken(InvariantVAE(group, SHAPE, TINY))
    x = smooth_images(4)
    step = Step(total=1, seed=0, device=torch.device("cpu"))
    step.begin(1)  # the end of training, where beta is 1
    model.config = model.config.replace(samples=16)
    losses = torch.stack([joint_loss(model, x, step)["loss"].detach() for _ in range(80)])
    if group == "rotation":
        weights = log_weights(model, x, 2000, torch.Generator().manual_seed(0)).mean().detach()
    else:
        mean, scale = model.encode(x)
        weights = []
        for _ in range(80):
            z = mean + scale * torch.randn(mean.shape)
            q = model.log_posterior(x)
            moved = torch.stack([model.decode(z).rot90(g, (2, 3)) for g in range(4)], 1)
            fit = gaussian_log_prob(x[:, None], moved, model.noise).sum((2, 3, 4))
            each = (q.exp() * (fit + model.log_prior(z) - q)).sum(1)
            ratio = model.prior.log_prob(z) - gaussian_log_prob(z, mean, scale).sum(-1)
            weights.append((each + ratio).mean().detach())
        weights = torch.stack(weights).mean()
    assert -float(losses.mean()) == pytest.approx(float(weights), abs=0.25)


def test_beta_is_a_cosine_from_its_start_to_one():
    values = [float(beta(torch.tensor(p), 10.0)) for p in (0.0, 0.25, 1.0)]
    assert values == pytest.approx([10.0, 1 + 4.5 * (1 + math.sqrt(0.5)), 1.0])


def test_codes_do_not_know_the_transformation():
    model = shaken(InvariantVAE("c4", SHAPE, TINY.replace(latent=3)))
    x = smooth_images(5)
    mean, scale = model.encode(x)
    turned = model.encode(x.rot90(1, (2, 3)))
    torch.testing.assert_close(turned[0], mean)
    torch.testing.assert_close(turned[1], scale)
    # With continuous rotations up to resampling, and only if the encoder is fully invariant.
    round_picture = smooth_images(5) * _disc()
    gaps = {}
    for share in (1.0, 0.0):
        model = shaken(InvariantVAE("rotation", SHAPE, TINY.replace(latent=3, invariance=share)))
        mean = model.encode(round_picture, 128)[0]
        quarter = model.encode(round_picture.rot90(1, (2, 3)), 128)[0]
        gaps[share] = ((mean - quarter).square().mean() / mean.var(0).mean()).item()
    assert gaps[1.0] < 0.01 < 0.3 < gaps[0.0]


def _disc():
    axis = (torch.arange(8) + 0.5) / 4 - 1
    return torch.sigmoid(10 * (0.8 - (axis[:, None] ** 2 + axis**2).sqrt()))


def bars(n, most, seed):
    """Pictures of an L, each turned by its own angle within +-most degrees."""
    generator = torch.Generator().manual_seed(seed)
    turn = math.radians(most) * (2 * torch.rand(n, 1, 1, generator=generator) - 1)
    long = 0.5 + 0.1 * torch.rand(n, 1, 1, generator=generator)
    axis = (torch.arange(12) + 0.5) / 6 - 1
    y, x = -axis[:, None], axis[None]
    u = torch.cos(turn) * x + torch.sin(turn) * y + 0.15
    v = torch.cos(turn) * y - torch.sin(turn) * x + 0.2

    def bar(a, b, half_a, half_b):
        return torch.sigmoid(20 * (half_a - a.abs())) * torch.sigmoid(20 * (half_b - b.abs()))

    upright = bar(u, v - long / 2, 0.15, long / 2 + 0.12)
    return torch.maximum(upright, bar(u - 0.2, v, 0.35, 0.15))[:, None]


@pytest.fixture(scope="module")
def fitted():
    """Models of pictures that do not turn, that turn within +-60 degrees, and all around."""
    config = InvariantVAEConfig.preset("quick").replace(
        latent=2,
        channels=(8, 8),
        hidden=32,
        samples=3,
        noise=0.15,
        features=(64, 32),
        base=(16,),
        conditioner=16,
        steps=200,
        batch_size=32,
        lr=1e-2,
        warmup=0.1,
    )
    models = {}
    for most in (0, 60, 180):
        models[most] = InvariantVAE("rotation", (1, 12, 12), config)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # hardly any variance to explain
            models[most].fit(bars(400, most, 0), progress=False, device="cpu", log_every=50)
    return models


def width(samples):
    return math.degrees(float(highest_density_width(samples.flatten(), 2 * math.pi)))


def test_the_planted_range_is_found(fitted):
    found, prior = {}, {}
    for most in (0, 60, 180):
        generator = torch.Generator().manual_seed(0)
        x = bars(100, most, 1)
        found[most] = width(fitted[most].sample_eta(x, 16, generator))
        prior[most] = width(fitted[most].sample_prior_eta(x, 16, generator))
    assert found[60] == pytest.approx(108, rel=0.25)  # 90 % of 120 degrees
    assert found[180] == pytest.approx(324, rel=0.2)
    assert found[60] > 2 * found[0]
    assert prior[60] > 2 * prior[0]
    assert prior[60] == pytest.approx(found[60], rel=0.4)


def test_prototypes_of_turned_copies_agree_and_reconstructions_do_not(fitted):
    model = fitted[60]
    x = bars(40, 60, 1)
    prototypes = model.prototype(x)
    within = float(prototypes.var(0).mean() / x.var(0).mean())
    assert within < 0.1
    assert float(model.reconstruction_error(x).mean()) < 0.3 * float(x.var(0).mean())
    new, hats = model.sample(50, torch.Generator().manual_seed(0))
    assert new.shape == hats.shape == (50, 1, 12, 12)
    assert float((new - hats).square().mean()) > 0.1 * float(x.var(0).mean())


def test_noise_found_on_images_tightens_the_bound(fitted, tmp_path):
    fitted[60].save(tmp_path)
    model = InvariantVAE.load(tmp_path)
    x = bars(64, 60, 1)
    assert torch.equal(model.prototype(x), fitted[60].prototype(x))
    before = float(model.bound(x, 50, torch.Generator().manual_seed(0)).mean())
    model.fit_noise(bars(200, 60, 0), least=0.02)
    after = float(model.bound(x, 50, torch.Generator().manual_seed(0)).mean())
    assert after > before + 5
    assert float(model.noise.detach().min()) >= 0.02 - 1e-5


@few_steps
@pytest.mark.parametrize(
    ("group", "channels", "size"),
    [
        ("affine", 1, (8, 8)),
        ("rotation,translation,scale", 1, (9, 12)),
        ("zoom", 1, (8, 8)),
        ("hue", 3, (8, 8)),
        ("rotation,colour", 3, (10, 8)),
        ("se2", 2, (8, 8)),
        ("d4", 3, (8, 8)),
        ("t4", 1, (8, 8)),
    ],
)
def test_every_group_of_images_runs(group, channels, size):
    images = smooth_images(8, channels, size)
    model = InvariantVAE(group, (channels, *size), TINY.replace(sampled=True, learn_noise=True))
    model.fit(images, progress=False, device="cpu")
    x = images[:3]
    assert model.sample_eta(x, 4).shape == (3, 4, model.group.dim)
    assert model.sample_prior_eta(x, 4).shape == (3, 4, model.group.dim)
    assert model.prototype(x).shape == model.reconstruct(x).shape == x.shape
    assert torch.isfinite(model.bound(x, 4)).all()
    assert model.sample(2)[0].shape == (2, *x.shape[1:])


@few_steps
def test_the_simple_prior_stays_a_gaussian_and_the_independent_one_ignores_codes():
    simple = InvariantVAE("rotation", SHAPE, TINY.replace(flexible=False))
    simple.fit(smooth_images(8), progress=False, device="cpu")
    context = torch.randn(1, 1)
    eta = torch.linspace(-1, 1, 9)
    log_p = simple.prior_eta.distribution.log_prob(eta[None, :, None], context)[0]
    bends = log_p.diff().diff()  # of a Gaussian: all the same
    torch.testing.assert_close(bends, bends.mean().expand_as(bends), atol=1e-3, rtol=0)
    free = shaken(InvariantVAE("rotation", SHAPE, TINY.replace(conditional=False)))
    codes = torch.randn(5, 1)
    same = free.prior_eta.distribution.log_prob(torch.zeros(5, 1), free.prior_eta(codes))
    torch.testing.assert_close(same, same[:1].expand(5))


@few_steps
def test_a_finished_run_is_read_back(tmp_path):
    images = smooth_images(8)
    whole, again = InvariantVAE("rotation", SHAPE, TINY), InvariantVAE("rotation", SHAPE, TINY)
    whole.fit(images, progress=False, device="cpu", out=tmp_path)
    again.fit(images, progress=False, device="cpu", out=tmp_path, resume=True)
    for a, b in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


def test_collapse_is_said_with_the_remedy():
    model = InvariantVAE("rotation", SHAPE, TINY)
    with pytest.warns(RuntimeWarning, match="learners.symmetry_model does not have the problem"):
        warn_if_collapsed(model, smooth_images(8))


def test_noise_cannot_be_found_on_nothing_and_is_found_on_large_numbers():
    model = shaken(InvariantVAE("rotation", SHAPE, TINY))
    before = model.noise.clone()
    for bad, words in ((torch.rand(0, *SHAPE), "at least one image"), (None, "finite values")):
        images = torch.full((2, *SHAPE), math.nan) if bad is None else bad
        with pytest.raises(ValueError, match=words):
            model.fit_noise(images)
    assert torch.equal(model.noise, before)
    model.fit_noise(4000 * smooth_images(8))
    assert 100 < float(model.noise.detach().max()) < 1e4
    model.fit_noise(ImageSet(smooth_images(8)))
    assert float(model.noise.detach().max()) < 10


def test_bounds_are_those_of_evaluation_in_training_mode_too():
    model = shaken(InvariantVAE("rotation", SHAPE, TINY))
    x = smooth_images(3)
    expected = model.bound(x, 4, torch.Generator().manual_seed(0))
    model.train()
    found = model.bound(x, 4, torch.Generator().manual_seed(0))
    assert model.training
    assert model.encoder.training
    assert torch.equal(found, expected)


def test_bad_input():
    model = InvariantVAE("rotation", SHAPE, TINY)
    good = torch.rand(2, *SHAPE)
    with pytest.raises(ValueError, match="x: expected images of shape"):
        model.prototype(torch.rand(2, 3, 8, 8))
    with pytest.raises(ValueError, match="samples: expected a whole number of at least 1"):
        model.bound(good, 0)
    with pytest.raises(ValueError, match="finite values"):
        model.fit(good / 0, progress=False)
    with pytest.raises(ValueError, match="n: expected a whole number of at least 1"):
        model.sample(0)
    with pytest.raises(ValueError, match="no finite factor in a product"):
        InvariantVAE("rotation,flip_x", SHAPE, TINY)
    with pytest.raises(ValueError, match="bounds: expected names among rotation"):
        InvariantVAE("rotation", SHAPE, TINY, bounds={"zoom": 1.0})
    with pytest.raises(ValueError, match="bounds: expected 1 numbers for rotation, got 2"):
        InvariantVAE("rotation", SHAPE, TINY, bounds=(1.0, 2.0))
    for bad in (0.0, -1.0, math.nan, math.inf):
        for bounds in ({"rotation": bad}, [bad]):
            with pytest.raises(ValueError, match=r"bounds: expected a number in \(0, 3.142\]"):
                InvariantVAE("rotation", SHAPE, TINY, bounds=bounds)
    for bounds in (1.0, "a"):
        with pytest.raises(
            TypeError, match="bounds: expected a mapping by name, or one number each"
        ):
            InvariantVAE("rotation", SHAPE, TINY, bounds=bounds)
    with pytest.raises(ValueError, match="fill: expected a number"):
        InvariantVAE("rotation", SHAPE, TINY, fill=math.nan)
    with pytest.raises(ValueError, match=r"seed: expected a whole number of at least 0, got 2\.5"):
        InvariantVAE("rotation", SHAPE, TINY, seed=2.5)
    with pytest.raises(ValueError, match="n: expected a whole number"):
        model.sample_prior_eta(good, "a")
    for call in (model.sample, lambda n, g: model.bound(good, n, g)):
        with pytest.raises(TypeError, match=r"generator: expected a torch.Generator"):
            call(3, 3)
    with pytest.raises(ValueError, match=r"noise: expected at least least_noise = 0\.05"):
        InvariantVAEConfig().replace(noise=0.001, least_noise=0.05)
    with pytest.raises(ValueError, match=r"config: expected InvariantVAEConfig\(...\), or one of"):
        InvariantVAE("rotation", SHAPE, "huge")
    with pytest.raises(ValueError, match="invariance: expected a number from 0 to 1"):
        InvariantVAEConfig().replace(invariance=2.0)
    with pytest.raises(ValueError, match="views: expected"):
        TINY.replace(views=0)
    with pytest.raises(ValueError, match="beta: expected at least 1"):
        InvariantVAEConfig().replace(beta=0.5)
