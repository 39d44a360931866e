"""Invariance learned by the ELBO: planted rotations are found, point estimates find none."""

import importlib
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.data import load
from symmetries.distributions.box import UniformBox
from symmetries.groups.affine import Affine2
from symmetries.groups.colour import Colour
from symmetries.learners.invariant_weights import (
    NaturalConfig,
    augerino_loss,
    elbo_loss,
    evaluate,
    fit_natural,
    images_of,
    log_likelihood,
    refitted_elbo,
    search_widths,
    width_interval,
    width_rows,
)
from symmetries.nn.invariant_model import InvariantModel, shallow_model
from symmetries.nn.natural_linear import NaturalLinear
from symmetries.nn.orbit_average import OrbitAverage
from symmetries.training import TrainConfig, load_state, train
from symmetries.training.resume import NonFiniteError

ROTATION = Affine2("rotation")
SETS = ("digits-rotated", "digits")
SHORT = NaturalConfig(steps=6, batch_size=64, samples=4, draws=2).replace(head_only=2)


def degrees(model):
    return [math.degrees(width) for width in model.half_width.detach().flatten().tolist()]


@pytest.fixture(scope="module")
def digits():
    return {name: load(name) for name in SETS}


@pytest.fixture(scope="module")
def small(digits):
    data = digits["digits-rotated"].subset(range(120))
    return data.images, data.labels


def small_model(**options):
    options = {"half_widths": (0.3,), "features": 24, "sigma": 0.5} | options
    return shallow_model((1, 8, 8), 10, ROTATION, **options)


def test_planted_rotations_are_recovered(monkeypatch):
    """The small version of the paper's tables: run.py --quick, three sets in one batch."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "papers" / "invariant-weights")
    fitting, jobs = (importlib.import_module(name) for name in ("fitting", "jobs"))
    (job,) = jobs.jobs("quick")
    found = fitting.train_job(job, None, torch.device("cpu"), 0)
    rotated, partially, upright = (math.degrees(r["half_width"]["rotation"]) for r in found["runs"])
    assert rotated > 165
    assert upright < min(partially, 135)
    accuracies = [run["accuracy"] for run in found["runs"]]
    assert all(a > floor for a, floor in zip(accuracies, (90, 90, 94), strict=True))


def test_a_point_estimate_learns_no_invariance(digits):
    """Section 4.1: without the integral over weights the width falls instead of growing."""
    data = digits["digits-rotated"]
    model = small_model(posterior="point", features=128, amplitude=7.0)
    config = TrainConfig(steps=300, batch_size=128, lr=0.02, device="cpu", progress=False)
    train(model, elbo_loss(len(data), samples=8), (data.images, data.labels), config)
    assert degrees(model)[0] < 10


def test_the_elbo_prefers_the_right_width(digits):
    """Fixed widths on fully rotated digits: the bound grows with the width."""
    data = digits["digits-rotated"]
    widths = [math.radians(angle) for angle in (5, 90, 175)]
    options = {"learn": False, "features": 96, "prior_variance": 50.0}
    model = small_model(half_widths=widths, **options)
    config = NaturalConfig(steps=40, batch_size=400, samples=8, draws=4)
    fit_natural(model, [data.images], data.labels, config)
    fit = evaluate(model, [data.images], data.labels, samples=16).log_likelihood
    elbo = fit - model.head.kl() / len(data)
    assert elbo[0] < elbo[1] < elbo[2]
    torch.testing.assert_close(model.half_width.flatten(), torch.tensor(widths))


@pytest.mark.parametrize("kind", ["fourier", "relu"])
def test_a_run_alone_gives_what_it_gives_among_others(small, kind):
    images, labels = small

    def fitted(widths, learn):
        model = small_model(half_widths=widths, learn=learn, kind=kind)
        looks = width_rows(fit_natural(model, [images], labels, SHORT))
        return model.half_width.detach(), model.head.kl(), looks

    both = fitted((0.3, 1.0), (True, False))
    for run, (width, flag) in enumerate(((0.3, True), (1.0, False))):
        alone = fitted((width,), flag)
        torch.testing.assert_close(both[0][run], alone[0][0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(both[1][run], alone[1][0], rtol=1e-4, atol=1e-4)
        last = (both[2][-1][run + 1], alone[2][-1][1])
        assert last[0] == pytest.approx(last[1], rel=1e-4)


@pytest.mark.parametrize("posterior", ["full", "diagonal"])
def test_runs_train_as_one_with_adam_too(small, posterior):
    config = TrainConfig(steps=5, batch_size=32, lr=0.01, device="cpu", progress=False)
    ends = []
    for widths in ((0.3, 1.0), (1.0,)):
        model = small_model(half_widths=widths, posterior=posterior, kind="relu", scale=0.1)
        train(model, elbo_loss(len(small[1]), samples=4, draws=2), small, config)
        ends.append(model)
    torch.testing.assert_close(ends[0].half_width[1], ends[1].half_width[0])
    torch.testing.assert_close(ends[0].head.mean[1], ends[1].head.mean[0])
    torch.testing.assert_close(ends[0].body.layer.weight[1], ends[1].body.layer.weight[0])


def test_the_loss_is_the_negative_elbo(small):
    """Whatever the objective is made of: likelihood by sampled weights, KL over N."""
    images, labels = small
    model = small_model(posterior="full", scale=0.5)
    phi = model.features(images, 4, "grid")
    outputs = model.head(phi)
    drawn = log_likelihood(model, *outputs, labels, 4000, torch.Generator().manual_seed(0)).mean()
    factor = model.head.lower[0] + torch.diag_embed(model.head.log_diagonal[0].exp())
    torch.manual_seed(1)
    posterior = torch.distributions.MultivariateNormal(model.head.mean[0], scale_tril=factor)
    weights = posterior.sample((4000,))
    rows = torch.cat((phi[0], torch.ones(len(labels), 1)), 1)
    logits = torch.einsum("bi,nci->nbc", rows, weights).log_softmax(-1)
    expected = logits[:, torch.arange(len(labels)), labels].mean()
    torch.testing.assert_close(drawn, expected, rtol=0.01, atol=0.01)


def test_logits_are_averaged_over_transformations(small):
    """Appendix A: W2 times averaged features is the average of W2 times features."""
    images, _ = small
    model = small_model(posterior="point")
    with torch.no_grad():
        model.head.mean.normal_(generator=torch.Generator().manual_seed(0))
    averaged, _ = model.head(model.features(images, 5, "grid"))
    eta = torch.linspace(-1, 1, 5)[:, None] * model.half_width[0]
    each = [model.head(model.body(images, ROTATION.exp(e)[None, None]))[0] for e in eta]
    torch.testing.assert_close(averaged, torch.stack(each).mean(0), rtol=1e-4, atol=1e-5)


def test_regression_learns_its_noise_and_the_expectation_is_closed():
    torch.manual_seed(0)
    images = torch.rand(300, 1, 6, 6)
    targets = images.flatten(1).mean(1, keepdim=True) * 10 + 0.1 * torch.randn(300, 1)
    options = {"features": 64, "sigma": 0.5, "prior_variance": 30.0, "task": "regression"}
    model = shallow_model((1, 6, 6), 1, ROTATION, **options)
    config = NaturalConfig(steps=80, batch_size=300, samples=8).replace(body_lr=0.1)
    fit_natural(model, [images], targets, config)
    found = evaluate(model, [images], targets)
    assert found.score.item() < 0.05
    assert 0.05 < model.log_noise.exp().item() < 0.3
    mean, variance, noise = found.mean[0], found.variance[0], model.log_noise.exp().detach()
    drawn = mean + variance.sqrt() * torch.randn(4000, 300, 1)
    expected = torch.distributions.Normal(drawn, noise).log_prob(targets).mean()
    torch.testing.assert_close(found.log_likelihood[0], expected, rtol=0.02, atol=0.02)


def test_deeper_networks_learn_a_width_with_a_natural_last_layer(small):
    images, labels = small
    torch.manual_seed(0)
    cnn = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 16), nn.Tanh())
    box = UniformBox(ROTATION, 0.3, constraint="reflect")
    body = OrbitAverage(cnn, box)
    model = InvariantModel(body, NaturalLinear(16, 10), [box])
    before = evaluate(model, [images], labels).score
    config = NaturalConfig(steps=60, batch_size=120, samples=4).replace(body_lr=0.02)
    fit_natural(model, [images], labels, config)
    assert evaluate(model, [images], labels).score > before + 0.4
    assert degrees(model)[0] != pytest.approx(math.degrees(0.3))


def test_runs_may_differ_in_how_widths_are_held():
    model = small_model(half_widths=(0.3, 0.5))
    group = model.group
    boxes = [UniformBox(group, 0.3), UniformBox(group, 0.5, constraint="tanh")]
    mixed = InvariantModel(model.body, model.head, boxes)
    torch.testing.assert_close(mixed.half_width, model.half_width)


def test_augerino_rewards_width(small):
    config = TrainConfig(steps=30, batch_size=64, lr=0.02, device="cpu", progress=False)
    widths = {}
    for strength in (0.0, 5.0):
        model = small_model(posterior="point")
        train(model, augerino_loss(strength, samples=2), small, config)
        widths[strength] = degrees(model)[0]
    assert widths[5.0] > widths[0.0] + 5
    both = small_model(posterior="point", half_widths=(0.3, 0.3))
    data = (torch.zeros_like(small[0]), *small)
    train(both, augerino_loss(5.0, samples=2, sets=[1, 0]), data, config)
    assert degrees(both)[0] == pytest.approx(widths[5.0], rel=1e-3)
    assert degrees(both)[1] > degrees(both)[0]


def test_widths_stay_within_pi(small):
    model = small_model(half_widths=(math.pi,))
    config = NaturalConfig(steps=12, batch_size=64, samples=4, draws=2, lr=1.0).replace(head_only=2)
    looks = width_rows(fit_natural(model, list(small[:1]), small[1], config))
    assert all(0 <= width <= math.pi + 1e-5 for _, width in looks)


def test_a_batch_is_the_sum_of_its_chunks():
    """Regression on a grid of transformations has no randomness: chunks change nothing."""
    generator = torch.Generator().manual_seed(0)
    images, targets = (torch.rand(90, *s, generator=generator) for s in ((1, 6, 6), (1,)))
    found = []
    for chunk in (90, 40):
        model = shallow_model((1, 6, 6), 1, ROTATION, features=16, sigma=0.5, task="regression")
        config = NaturalConfig(steps=5, batch_size=90, chunk=chunk, samples=4, sampling="grid")
        fit_natural(model, [images], targets, config.replace(head_only=1, lr=0.1))
        found.append((model.half_width, model.head.mean, model.log_noise))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_stopped_run_goes_on_to_the_same_end(small, tmp_path):
    images, labels = small

    def stop(step, fit):
        if step == 3:
            raise KeyboardInterrupt

    straight, resumed = small_model(), small_model()
    looks = width_rows(fit_natural(straight, [images], labels, SHORT))
    with pytest.raises(KeyboardInterrupt):
        fit_natural(small_model(), [images], labels, SHORT, out=tmp_path, on_step=stop)
    again = width_rows(fit_natural(resumed, [images], labels, SHORT, out=tmp_path, resume=True))
    assert again == looks
    for name, value in straight.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_a_run_that_diverges_keeps_its_last_good_checkpoint(small, tmp_path):
    model = small_model()

    def spoil(step, fit):
        if step == 2:
            model.head.precision.mul_(-1e6)

    options = {"out": tmp_path, "checkpoint_every": 1, "on_step": spoil}
    with pytest.raises(NonFiniteError, match="last good checkpoint"):
        fit_natural(model, [small[0]], small[1], SHORT, **options)
    kept, _ = load_state(tmp_path, "checkpoint")
    assert kept
    assert all(torch.isfinite(value).all() for value in kept.values())


def test_an_interval_holds_the_width_and_the_bound_falls_outside(small):
    """With the last layer fitted anew; wider than with the weights held, as they can adapt."""
    images, labels = small
    model = small_model(half_widths=(1.0,), learn=False, prior_variance=30.0)
    fit_natural(model, [images], labels, SHORT.replace(steps=20, batch_size=120, rate=0.5))
    low, high = width_interval(model, images, labels, 0, samples=8, drop=0.2)
    assert 0 <= low < 1.0 < high <= math.pi + 1e-6
    widths = (1.0, low, max(0.0, 2 * low - 1.0))
    here, end, beyond = (
        refitted_elbo(model, [images], labels, torch.tensor([[w]]), samples=8) for w in widths
    )
    assert end > here - 0.5
    assert beyond < end
    with pytest.raises(ValueError, match="expected a NaturalLinear"):
        refitted_elbo(small_model(posterior="full"), [images], labels, torch.ones(1, 1))


def test_few_random_transformations_pay_for_the_variance_of_their_average():
    """Against the closed form for a Gaussian likelihood: the price is the variance over S."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(60, 1, 8, 8, generator=generator)
    targets = torch.randn(60, 2, generator=generator)
    model = shallow_model((1, 8, 8), 2, ROTATION, features=24, task="regression", bias=False)
    width = torch.tensor([[2.0]])
    few, many = 4, 2000
    phi = torch.stack(
        [
            model.features_at(images, model.noise(many, "grid")[k : k + 1], width)[0]
            for k in range(many)
        ]
    )
    with torch.no_grad():
        for _ in range(3):  # a last layer that has learned something
            sums = model.head.sums(phi.mean(0)[None], targets[None], torch.ones(1, 60, 2))
            model.head.step(sums, 1.0)
        outputs, head = phi @ model.head.mean[0].T, model.head
        spread = outputs.var(0).sum()
        covariance = head.root[0].mT @ head.root[0]
        apart = phi - phi.mean(0)
        spread = spread + torch.einsum("snd,cde,sne->", apart, covariance, apart) / many
        options = {"steps": 0, "chunk": 2}
        even = refitted_elbo(model, [images], targets, width, samples=many, **options)
        noisy = [
            refitted_elbo(
                model, [images], targets, width, samples=few, sampling="random", seed=i, **options
            )
            for i in range(60)
        ]
    price = float(even - torch.cat(noisy).mean())
    assert price == pytest.approx(float(spread) / (2 * few), rel=0.1)
    with pytest.raises(ValueError, match="sampling"):
        refitted_elbo(model, [images], targets, width, sampling="often")


def test_a_search_with_few_random_transformations_finds_less(digits):
    data, found = digits["digits-rotated"].subset(range(300)), []
    for sampling in ("sobol", "random"):
        model = small_model()
        options = {"samples": 2, "steps": 4, "halvings": 1, "chunk": 50, "sampling": sampling}
        search_widths(model, [data.images], data.labels, **options)
        found += degrees(model)
    assert found[1] < found[0] - 20


@pytest.mark.parametrize("sectors", [2, 6])
def test_labels_of_the_pose_identify_a_width(digits, sectors):
    """In which of n sectors a 7 points: the narrower the sectors, the less f may be averaged."""
    data = digits["digits"]
    upright = data.images[data.labels == 7].repeat(3, 1, 1, 1)
    turns = torch.rand(len(upright), 1, generator=torch.Generator().manual_seed(0))
    images = ImageAction(ROTATION, fill=0.0)(ROTATION.exp(2 * math.pi * turns), upright)
    labels = (sectors * turns[:, 0]).long().clamp(0, sectors - 1)
    options = {"features": 48, "sigma": 0.5}
    grid = [math.radians(width) for width in range(0, 181, 15)]
    held = shallow_model((1, 8, 8), sectors, ROTATION, half_widths=grid, learn=False, **options)
    sets, width = [0] * len(grid), held.half_width.detach()
    bound = refitted_elbo(held, [images], labels, width, sets=sets, fresh=True, samples=64)
    best = 15 * int(bound.argmax())
    model = shallow_model((1, 8, 8), sectors, ROTATION, half_widths=(0.1, 3.0), **options)
    search_widths(model, [images], labels, sets=[0, 0])
    assert all(abs(found - best) <= 10 for found in degrees(model))
    assert 0 < best < 180 / sectors + 1


def test_every_start_ends_at_the_same_width_and_a_trained_last_layer(digits):
    """Fully rotated digits, the ordinary way: gradients, a search, the last layer anew."""
    data = digits["digits-rotated"].subset(range(500))
    starts, learn = (0.1, 1.5, 0.7), (True, True, False)
    model = small_model(half_widths=starts, learn=learn, features=64, prior_variance=50.0)
    config = NaturalConfig(24, batch_size=500, samples=8, draws=4, search=5).replace(rate=0.6)
    steps = []
    history = fit_natural(
        model, [data.images], data.labels, config, on_step=lambda step, fit: steps.append(step)
    )
    looks = width_rows(history)
    assert list(history.stages) == ["gradient", "searched"]
    first, second, fixed = degrees(model)
    assert first == pytest.approx(second, abs=8)
    assert first > 160
    assert fixed == pytest.approx(math.degrees(0.7), abs=1e-3)
    assert steps == list(range(24))
    assert [look[0] for look in looks] == sorted(look[0] for look in looks)
    assert looks[-1][1] == pytest.approx(math.radians(first), abs=1e-4)
    assert all(box.free.requires_grad == flag for box, flag in zip(model.boxes, learn, strict=True))
    elbo = evaluate(model, [data.images], data.labels).log_likelihood - model.head.kl() / 500
    assert elbo[0] > elbo[2] + 0.1
    assert elbo[0] == pytest.approx(elbo[1].item(), abs=0.05)


def test_a_search_goes_along_every_parameter(small):
    """Two parameters: the bound is never below that of the start, and heads other are named."""
    images, labels = small
    group = Affine2("rotation", "zoom")
    model = shallow_model((1, 8, 8), 10, group, half_widths=(0.3,), features=24, sigma=0.5)
    options = {"samples": 4, "draws": 4, "steps": 4}
    before = refitted_elbo(model, [images], labels, model.half_width, fresh=True, **options)
    best = search_widths(model, [images], labels, points=3, halvings=1, **options)
    assert best > before
    again = refitted_elbo(model, [images], labels, model.half_width, fresh=True, **options)
    torch.testing.assert_close(again, best)
    assert model.head.kl().item() == pytest.approx(0, abs=1e-3)
    with pytest.raises(ValueError, match="expected a NaturalLinear"):
        search_widths(small_model(posterior="full"), [images], labels)


def test_a_search_begins_with_the_parameter_that_helps_most():
    """From no width at all, on turned digits: the turns are found, though shifts come first."""
    data = load("digits-rotated", "train").subset(torch.arange(400))
    group = Affine2("shift_x", "rotation")
    model = shallow_model(
        (1, 8, 8), 10, group, half_widths=(0.0, 0.0), learn=(True, False), features=48, sigma=0.5
    )
    options = {"samples": 16, "draws": 4, "steps": 6, "points": 4, "halvings": 0, "sets": [0, 0]}
    best = search_widths(model, [data.images], data.labels, order="best", **options)
    shift, turn = model.half_width[0].tolist()
    assert turn > 2
    assert shift < 0.4
    assert model.half_width[1].tolist() == [0, 0]
    assert best[0] > best[1] + 40
    with pytest.raises(ValueError, match="order: expected one of 'best', 'given'"):
        search_widths(model, [data.images], data.labels, order="worst")


def test_a_search_tries_no_width_above_the_largest_that_is_given(small):
    """On turned digits the bound is best beyond 60 degrees: the search stops there, and at 0."""
    images, labels = small
    group = Affine2("rotation", "zoom")
    found = {}
    for most in (None, (math.radians(60), 0.0)):
        model = shallow_model((1, 8, 8), 10, group, half_widths=(0.0,), features=24, sigma=0.5)
        options = {"points": 3, "halvings": 1, "samples": 8, "draws": 4, "steps": 4}
        bound = search_widths(model, [images], labels, most=most, **options)
        found[most is None] = (*model.half_width[0].tolist(), float(bound))
    assert found[True][0] > math.radians(100)
    assert found[False][0] == pytest.approx(math.radians(60))
    assert found[False][1] == 0
    assert found[True][2] > found[False][2]
    for wrong, said in (((1.0,), "got 1 numbers"), ((1.0, -1.0), "most of zoom")):
        with pytest.raises(ValueError, match=said):
            search_widths(model, [images], labels, most=wrong)
    with pytest.raises(TypeError, match="most: expected one number for each of rotation, zoom"):
        search_widths(model, [images], labels, most=1.0)


def test_filters_rest_while_widths_are_learned(small):
    config = TrainConfig(steps=4, batch_size=64, lr=0.01, device="cpu", progress=False)
    model = small_model(kind="relu", posterior="full", scale=0.1)
    before, width = model.body.layer.weight.detach().clone(), model.half_width.detach().clone()
    moved = []

    def look(step, metrics):
        moved.append(not torch.equal(model.body.layer.weight, before))

    train(model, elbo_loss(120, samples=4, rest=0.5), small, config, on_step=look)
    assert moved == [False, False, True, True]
    assert not torch.equal(model.half_width, width)
    with pytest.raises(ValueError, match="rest: expected a share"):
        elbo_loss(120, rest=1.0)


def test_widths_that_run_away_are_told(small):
    model = small_model(constraint="none")
    with torch.no_grad():
        model.boxes[0].free.fill_(7.0)
    with pytest.warns(RuntimeWarning, match=r"half-width of rotation \(run 0\).* has diverged"):
        evaluate(model, [small[0]], small[1], samples=2)


def test_bad_arguments_are_named(small):
    with pytest.raises(ValueError, match="group: expected a group of the plane"):
        shallow_model((3, 8, 8), 10, Colour("hue"))
    with pytest.raises(ValueError, match="sets: expected for each run the number of its set"):
        images_of([torch.rand(2, 1, 4, 4)] * 2)
    with pytest.raises(ValueError, match=r"model.head: expected a NaturalLinear"):
        fit_natural(small_model(posterior="full"), [small[0]], small[1], SHORT)
    with pytest.raises(ValueError, match="search: expected a whole number of at least 2"):
        NaturalConfig(search=1)
    with pytest.raises(ValueError, match="boxes: expected 1"):
        InvariantModel(small_model().body, NaturalLinear(24, 10), [])
