"""The objectives, on inference functions whose answer is known."""

import math

import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.groups.circles import circular_parameters
from symmetries.groups.colour import Colour
from symmetries.groups.finite import Cyclic, Dihedral
from symmetries.groups.names import parse_group
from symmetries.groups.product import Product
from symmetries.learners.symmetry_model.config import SymmetryConfig
from symmetries.learners.symmetry_model.coordinates import content_centre
from symmetries.learners.symmetry_model.losses import (
    finite_inference_loss,
    generative_loss,
    idempotence_loss,
    lie_inference_loss,
)
from symmetries.learners.symmetry_model.moments import (
    STANDARD_SIZE,
    content_size,
    off_centre,
)
from symmetries.learners.symmetry_model.moves import moved_units
from symmetries.learners.symmetry_model.networks import (
    FiniteInference,
    Generative,
    LieInference,
)
from symmetries.learners.symmetry_model.quarter_turns import (
    distance_to_symmetry,
    turns_of,
    with_turns,
    without_turns,
)
from symmetries.learners.symmetry_model.widths import highest_density_width
from symmetries.training import Step

QUICK = SymmetryConfig.preset("quick").replace(
    sampled=False,
    samples=3,
    invertibility=0.0,
    idempotence=0.0,
    prototype_noise=0.0,
)
CPU = torch.device("cpu")


def blobs(n, side=32, channels=1):
    """Smooth pictures without symmetry: a large blob and a small one beside it."""
    axis = (torch.arange(side) + 0.5) / side * 2 - 1
    y, x = -axis[:, None], axis[None, :]
    generator = torch.Generator().manual_seed(0)
    pictures = []
    for _ in range(n):
        a, b = 0.1 * torch.randn(2, generator=generator)
        one = torch.exp(-((x - a) ** 2 + (y - b) ** 2) / 0.05)
        two = 0.7 * torch.exp(-((x - a - 0.3) ** 2 + (y - b - 0.1) ** 2) / 0.02)
        pictures.append(one + two)
    return torch.stack(pictures)[:, None].expand(n, channels, side, side).contiguous()


class Known(nn.Module):
    """An f of a test: gives parameters, and says so."""

    def positions(self, images, noise=None):
        return self(images, noise)

    def pair(self, eta):
        return list(self.group.exp_pair(eta))

    def positions_of(self, eta, element):
        return eta


class Oracle(Known):
    """Knows the random transformations: an equivariant f whose prototypes are known.

    As r is drawn before the network is asked, f(T_r x) = log(r e0) makes T_f^-1 T_r x = T_e0^-1 x.
    """

    def __init__(self, group, bounds, start, wrong=False):
        super().__init__()
        self.group, self.dim, self.wrong = group, group.dim, wrong
        self.register_buffer("bounds", torch.tensor(bounds))
        self.start = start
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images, noise=None):
        random = self.random.flatten(0, 1)
        start = self.group.exp(self.start.expand(len(random), -1))
        moved = self.group.exp(random)
        pair = (start, moved) if self.wrong else (moved, start)
        return self.scale * self.group.log(self.group.compose(*pair))


class KnownStep(Step):
    """A step whose uniform numbers the oracle sees."""

    def __init__(self, oracle, one_sided):
        super().__init__(10, 0, CPU)
        self.oracle, self.one_sided = oracle, one_sided

    def rand(self, *shape):
        numbers = super().rand(*shape)
        random = self.oracle.bounds * (2 * numbers - 1)
        if self.one_sided:
            random = nn.functional.pad(random, (0, 0, 0, 1))
        self.oracle.random = random
        return numbers


AFFINE = (Affine2(), (0.1, 0.1, 1.0, 0.1, 0.1, 0.1), (0.05, 0.1, 0.5, 0.1, -0.1, 0.05))
RIGID = (
    Affine2("rotation", "translation"),
    (0.1, 0.1, 1.5),
    (0.1, -0.05, 0.4),
)


@pytest.mark.parametrize("loss", ["symmetric", "one-sided"])
@pytest.mark.parametrize("case", [AFFINE, RIGID], ids=["affine", "rigid"])
def test_an_equivariant_function_has_no_loss(loss, case):
    """Not abelian groups, so any other order of composition fails."""
    group, bounds, start = case
    images = blobs(4)
    act = ImageAction(group, interpolation="bspline")
    config = QUICK.replace(loss=loss)
    values = {}
    for wrong in (False, True):
        oracle = Oracle(group, bounds, torch.tensor(start), wrong)
        step = KnownStep(oracle, loss == "one-sided")
        step.begin(0)
        with torch.no_grad():
            values[wrong] = lie_inference_loss(oracle, images, step, act, config)
    assert float(values[False]["agreement"]) < 1e-5
    assert float(values[False]["alignment"]) < 1e-8
    assert float(values[True]["agreement"]) > 100 * float(values[False]["agreement"])
    assert float(values[True]["alignment"]) > 1e-4


def test_colour_and_product_oracles_have_no_loss():
    images = blobs(3, channels=3) * torch.tensor([0.6, 0.3, 0.2])[:, None, None]
    for group, bounds in (
        (Colour(), (3.0, 0.1, 0.1)),
        (Product(Affine2("rotation"), Colour("hue")), (1.0, 3.0)),
    ):
        oracle = Oracle(group, bounds, torch.full((group.dim,), 0.1))
        step = KnownStep(oracle, False)
        step.begin(0)
        act = ImageAction(group, interpolation="bspline")
        terms = lie_inference_loss(oracle, images, step, act, QUICK)
        assert float(terms["agreement"]) < 1e-5
        assert float(terms["alignment"]) < 1e-8


def test_invertibility_as_printed_goes_away_from_the_prototype_first():
    group = Affine2("translation")
    act, lost = ImageAction(group), {}
    for first in ("inverse", "forward"):
        for shift in (0.9, -0.9):
            oracle = Oracle(group, (1e-6, 1e-6), torch.tensor((shift, 0.0)))
            step = KnownStep(oracle, False)
            step.begin(0)
            config = QUICK.replace(invertibility=1.0, invertibility_first=first)
            terms = lie_inference_loss(oracle, blobs(2), step, act, config)
            lost[first, shift] = float(terms["invertibility"])
    for shift in (0.9, -0.9):
        assert lost["forward", shift] == pytest.approx(lost["inverse", -shift], rel=1e-3)
    assert lost["inverse", 0.9] != pytest.approx(lost["inverse", -0.9], rel=0.1)


def test_invertibility_sees_what_leaves_the_frame():
    group = Affine2("translation")
    act = ImageAction(group)
    config = QUICK.replace(invertibility=1.0)
    lost = []
    for shift in (0.0, 3.0):  # 3: prototypes are out of the frame
        oracle = Oracle(group, (0.1, 0.1), torch.tensor((shift, 0.0)))
        step = KnownStep(oracle, False)
        step.begin(0)
        lost.append(float(lie_inference_loss(oracle, blobs(2), step, act, config)["invertibility"]))
    assert lost[0] < 1e-3
    assert lost[1] > 20 * lost[0]


@pytest.mark.parametrize("group", [Cyclic(4), Dihedral(4)], ids=repr)
@pytest.mark.parametrize("loss", ["symmetric", "one-sided"])
def test_finite_oracle_has_no_loss_and_a_wrong_one_does(group, loss):
    images = blobs(3, side=16)

    class Known(nn.Module):
        def __init__(self, shift):
            super().__init__()
            self.shift = shift
            self.dummy = nn.Parameter(torch.zeros(()))

        def forward(self, moved):
            # The element that best turns the first picture of the batch into this one.
            every = act.orbit(group.elements(), images.repeat_interleave(len(moved) // 3, 0))
            found = (every - moved[:, None]).square().sum((2, 3, 4)).argmin(1)
            wrong = torch.arange(len(found)) % 2 * self.shift
            found = group.compose(found, wrong)
            return torch.log(nn.functional.one_hot(found, group.order) + 1e-9) + self.dummy

    act = ImageAction(group)
    config = QUICK.replace(loss=loss)
    step = Step(10, 0, CPU)
    values = []
    for shift in (0, 1):
        step.begin(0)
        values.append(float(finite_inference_loss(Known(shift), images, step, act, config)["loss"]))
    assert values[0] < 1e-6
    assert values[1] > 1e-3


def test_finite_loss_is_the_expectation_over_samples():
    group = Dihedral(3)
    images = blobs(2, side=16)
    torch.manual_seed(0)
    net = FiniteInference((1, 16, 16), group.order, QUICK)
    nn.init.normal_(net.head.weight)
    act = ImageAction(group)
    step = Step(10, 0, CPU)
    step.begin(0)
    exact = float(finite_inference_loss(net, images, step, act, QUICK.replace(samples=1))["loss"])
    step.begin(0)
    r = (step.rand(2, 2) * group.order).long()
    q = net(act.orbit(r, images).flatten(0, 1)).exp().unflatten(0, (2, 2))
    total = 0.0
    for i in range(2):
        for g1 in range(group.order):
            for g2 in range(group.order):
                pair = torch.tensor(g1), torch.tensor(g2)
                h = group.compose(group.inverse(r[i, 1]), pair[1], group.inverse(pair[0]), r[i, 0])
                gap = (act(h, images[i : i + 1]) - images[i]).square().mean()
                total += float(q[i, 0, g1] * q[i, 1, g2] * gap) / 2
    assert exact == pytest.approx(total, rel=1e-4)


def test_generative_loss_learns():
    group = Affine2("rotation")
    act = ImageAction(group)
    torch.manual_seed(0)
    config = QUICK
    inference = LieInference((1, 16, 16), group, (math.pi,), config)
    net = Generative((1, 16, 16), group, (math.pi,), config)
    step = Step(10, 0, CPU)
    step.begin(0)
    terms = generative_loss(net, blobs(4, side=16), step, inference, act, config)
    assert set(terms) == {"loss", "nll"}
    assert float(terms["nll"]) == pytest.approx(math.log(2 * math.pi), abs=0.1)
    terms["loss"].backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())
    assert all(p.grad is None for p in inference.parameters())


def test_blur_fades_with_progress():
    group = Affine2("rotation")
    act = ImageAction(group)
    config = QUICK.replace(blur=3.0, blur_share=0.5)
    net = LieInference((1, 32, 32), group, (math.pi,), config)
    step = Step(10, 0, CPU)
    found = []
    for index in (0, 5):
        step.begin(index)
        found.append(float(lie_inference_loss(net, blobs(4), step, act, config)["agreement"]))
    plain = config.replace(blur=0.0)
    step.begin(5)
    unblurred = float(lie_inference_loss(net, blobs(4), step, act, plain)["agreement"])
    assert found[1] == pytest.approx(unblurred, rel=1e-5)
    step.begin(0)
    start = float(lie_inference_loss(net, blobs(4), step, act, plain)["agreement"])
    assert found[0] < 0.9 * start


class Watcher(Known):
    """An f that keeps what it is shown, and random versions that hardly move."""

    def __init__(self, group, order=None):
        super().__init__()
        self.group, self.dim, self.order = group, group.dim, order
        self.register_buffer("bounds", torch.full((group.dim,), 1e-7))
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, images, noise=None):
        self.seen = images
        if self.order:
            return self.scale + torch.zeros(len(images), self.order).log_softmax(-1)
        return self.scale * torch.ones(len(images), self.dim)


@pytest.mark.parametrize("finite", [False, True])
def test_affine_jitter_shows_f_other_orbits(finite):
    """Every image changed by a map of its own, anew at every step; not at all without."""
    group = Cyclic(4) if finite else Affine2("rotation", "translation")
    act, loss = ImageAction(group), finite_inference_loss if finite else lie_inference_loss
    net = Watcher(group, 4 if finite else None)
    x = blobs(4)
    step = Step(10, 0, CPU)
    seen = {}
    for jitter, index in ((0.0, 0), (0.3, 0), (0.3, 1)):
        step.begin(index)
        config = QUICK.replace(affine_jitter=jitter, loss="one-sided")
        loss(net, x, step, act, config)
        seen[jitter, index] = net.seen.unflatten(0, (4, -1))[:, -1]  # moved by nothing
    plain, first, second = seen.values()
    torch.testing.assert_close(plain, x, rtol=0, atol=1e-4)
    apart = (first - x).square().mean((1, 2, 3))
    assert float(apart.min()) > 1e-5
    assert float((first - second).square().mean()) > 1e-4
    assert 0.5 < float(first.sum() / x.sum()) < 2
    with pytest.raises(ValueError, match="affine_jitter"):
        QUICK.replace(affine_jitter=0.6)


class Recorder(nn.Module):
    """A generative network that keeps what it is asked."""

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "features", self)  # no module of itself
        object.__setattr__(self, "distribution", self)
        self.mean, self.scale = torch.zeros(()), torch.full((), 0.2)

    def units(self, prototypes):
        self.prototypes = prototypes
        return prototypes.flatten(1)

    def log_prob(self, eta, context):
        self.eta = eta
        return torch.zeros(len(eta))


@pytest.mark.parametrize("name", ["rotation,translation", "affine", "rotation,scale"])
def test_eta_leads_from_the_prototype_to_the_image(name):
    """Also where f is wrong: x = T_eta x_hat for every pair, if the family is closed."""
    group = parse_group(name)
    bounds = [0.3 if angle else 0.1 for angle in group.angles]
    torch.manual_seed(0)
    net = LieInference((1, 32, 32), group, bounds, QUICK.replace(angles="line"))
    torch.nn.init.normal_(net.head.weight, std=0.1)  # wrong, but within the frame
    images, seen = blobs(4), Recorder()
    act = ImageAction(group, interpolation="bspline")
    step = Step(10, 0, CPU)
    step.begin(0)
    generative_loss(seen, images, step, net, act, QUICK)
    every = images.repeat_interleave(QUICK.objective.samples, 0)
    if not group.closed:
        torch.testing.assert_close(seen.eta[:: QUICK.objective.samples], net(images))
        return
    plain = net(images).repeat_interleave(QUICK.objective.samples, 0)
    exact, inferred = (
        float((act(group.exp(eta), seen.prototypes) - every).square().mean().detach())
        for eta in (seen.eta, plain)
    )
    assert exact < 1e-3
    assert exact < 0.1 * inferred


def test_prototypes_are_those_of_images_that_were_moved():
    """Two resamplings, T_f^-1 (T_r x): in one, by T_f^-1 T_r, pixels would tell how far x goes."""
    group = Affine2("rotation")
    torch.manual_seed(0)
    net = LieInference((1, 16, 16), group, (math.pi,), QUICK.replace(angles="line"))
    torch.nn.init.normal_(net.head.weight, std=0.3)
    shown, units = [], net.features.units
    net.features.units = lambda x: (shown.append(x), units(x))[1]
    images, seen, act = (blobs(4, side=16) > 0.4).float(), Recorder(), ImageAction(group)
    step = Step(10, 0, CPU)
    step.begin(0)
    generative_loss(seen, images, step, net, act, QUICK)
    moved = shown[0].unflatten(0, (4, QUICK.objective.samples + 1))[:, 1:].flatten(0, 1)
    net.features.units = units
    twice = act(group.exp(-net(moved)), moved)
    # The angles of both calls agree up to rounding, which depends on the processor.
    torch.testing.assert_close(seen.prototypes, twice, rtol=0, atol=1e-3)
    once = act(group.exp(-seen.eta), images.repeat_interleave(QUICK.objective.samples, 0))
    assert float((seen.prototypes - once).square().mean().detach()) > 1e-3


def test_recoloured_corners_of_a_version_are_undone_with_it():
    """A perfect f on grey: prototypes of versions are the image again, corners and all."""
    group = Product(Affine2("rotation"), Colour("value"))
    act = ImageAction(group, fill=0.5)
    images = 0.5 + 0.4 * blobs(6, side=16, channels=3).clamp(0, 1)
    element = group.exp(torch.tensor([[0.6, -0.3], [1.0, 0.2], [-0.5, -0.2]]).repeat(2, 1))
    versions = act(element, images)
    seen = Recorder()
    moved_units(seen, act, tuple(part[:, None] for part in element), versions)
    corners = seen.prototypes[:, :, 0, 0]
    torch.testing.assert_close(corners, images[:, :, 0, 0], rtol=0, atol=1e-3)


def test_noise_on_prototypes_is_for_training_alone():
    group = Affine2("rotation")
    torch.manual_seed(0)
    net = LieInference((1, 32, 32), group, (math.pi,), QUICK)
    act, seen, step = ImageAction(group), Recorder(), Step(10, 0, CPU)
    shown = {}
    for noise, training in ((0.0, True), (0.5, True), (0.5, False)):
        step.begin(0)
        seen.train(training)
        config = QUICK.replace(prototype_noise=noise)
        generative_loss(seen, blobs(20), step, net, act, config)
        shown[noise, training] = seen.prototypes
    clean, noisy, looked_at = shown.values()
    assert looked_at.equal(clean)
    assert float((noisy - clean).std()) == pytest.approx(0.5 * 0.2, rel=0.02)  # of pixels' 0.2


def bar_and_square(side=24):
    """A bar and a square, both beside the middle."""
    pictures = torch.zeros(2, 1, side, side)
    pictures[0, 0, 8:10, 10:20] = 1.0
    pictures[1, 0, 6:12, 12:18] = 1.0
    return pictures


def test_turns_that_leave_a_picture_alone():
    """Half a turn of a bar, a quarter of a square, about their centres; none of a blob."""
    changed = turns_of(bar_and_square())[1]
    assert changed[0].tolist() == pytest.approx([0, 1.6, 0, 1.6], abs=1e-3)
    assert changed[1].tolist() == pytest.approx([0, 0, 0, 0], abs=1e-3)
    assert float(turns_of(blobs(3))[1][:, 1:].min()) > 0.05
    about_the_middle = turns_of(bar_and_square(), anywhere=False)[1]
    assert float(about_the_middle[:, 1:].min()) > 0.9


def test_a_symmetry_of_the_picture_is_no_distance():
    group = parse_group("rotation,translation")
    ell = torch.zeros(1, 1, 24, 24)
    ell[..., 4:16, 8:11] = ell[..., 13:16, 8:16] = 1.0
    x = torch.cat((bar_and_square(), ell))
    turns = turns_of(x)
    half, quarter = (turns[0][:, j].inverse() for j in (2, 1))
    gaps = torch.stack((half, quarter, torch.eye(3).expand(3, 3, 3)), 1)
    found = distance_to_symmetry(group, gaps, turns)
    assert found.shape == (3, 3)
    plain = group.distance_to_identity(gaps)
    assert found[0].tolist() == pytest.approx([0, float(distance_quarter(turns)), 0], abs=1e-3)
    assert found[1].tolist() == pytest.approx([0, 0, 0], abs=1e-3)
    torch.testing.assert_close(found[2], plain[2])  # a picture without symmetry
    both = Product(group, Colour())
    colours = torch.zeros(3, 3, 3)
    torch.testing.assert_close(distance_to_symmetry(both, (gaps, colours), turns), found)


def test_elements_less_the_turns_that_do_nothing():
    """What is left does the same to the picture, and is near to nothing where it can be."""
    group = parse_group("rotation,translation")
    x = bar_and_square()
    turns = turns_of(x)
    small = group.exp(torch.tensor([0.02, -0.01, 0.1]))
    gaps = torch.stack([h.inverse() @ small for h in turns[0].unbind(1)], 1)  # h_j s
    left = without_turns(group, gaps, turns)
    torch.testing.assert_close(left[1], small.expand(4, 3, 3), rtol=0, atol=1e-5)
    torch.testing.assert_close(left[0, ::2], small.expand(2, 3, 3), rtol=0, atol=1e-5)
    assert float(group.distance_to_identity(left[0, 1::2]).min()) > 0.1  # a quarter of a bar
    both = Product(group, Colour())
    again, colour = without_turns(both, (gaps, torch.ones(2, 4, 3)), turns)
    torch.testing.assert_close(again, left)
    assert torch.equal(colour, torch.ones(2, 4, 3))


def test_turns_that_do_nothing_get_their_share():
    """Freely within a quarter: the whole circle for a square, half of it for a bar."""
    group = parse_group("rotation,translation")
    angles = math.pi / 2 * torch.rand(2, 4096, generator=torch.Generator().manual_seed(0))
    samples = group.exp(nn.functional.pad(angles[..., None], (2, 0)))
    found = with_turns(group, samples, turns_of(bar_and_square()))
    turned = torch.remainder(torch.atan2(found[..., 1, 0], found[..., 0, 0]), 2 * math.pi)
    widths = highest_density_width(turned, 2 * math.pi)
    assert widths.tolist() == pytest.approx([0.9 * math.pi, 0.9 * 2 * math.pi], rel=0.06)
    squares = bar_and_square()[1:].expand(4, -1, -1, -1)
    act = ImageAction(group)
    same = act(found[1, :4], squares), act(samples[1, :4], squares)
    torch.testing.assert_close(*same, rtol=0, atol=1e-4)


def test_alignment_forgives_turns_where_asked():
    """An f that leaves a square where it is but for quarter turns."""
    group = parse_group("rotation,translation")
    oracle = Oracle(group, (0.05, 0.05, 3.14), torch.zeros(3))
    plain = oracle.forward

    def turned(images, noise=None):
        eta = plain(images, noise)
        wrapped = torch.remainder(eta[:, 2] + math.pi / 4, math.pi / 2) - math.pi / 4
        return torch.cat((eta[:, :2], wrapped[:, None]), 1)

    oracle.forward = turned
    x = bar_and_square()[1:]
    found = {}
    for turns in (False, True):
        step = KnownStep(oracle, one_sided=False)
        step.begin(0)
        config = QUICK.replace(turns=turns, samples=40)
        with torch.no_grad():
            terms = lie_inference_loss(oracle, x, step, ImageAction(group), config)
        found[turns] = float(terms["alignment"])
    assert found[True] < 0.2 * found[False]


def distance_quarter(turns):
    """Of a quarter turn of the first picture, where half a turn is free."""
    inverse = turns[0][0]
    quarter = inverse[1].inverse()
    return min(((h @ quarter - torch.eye(3)).square().sum() / 8) for h in (inverse[0], inverse[2]))


def test_distance_to_identity():
    turns, hues = Affine2("rotation"), Colour("hue")
    rotation = turns.exp(torch.tensor([[0.0], [math.pi / 2], [math.pi]]))
    found = turns.distance_to_identity(rotation)
    torch.testing.assert_close(found, torch.tensor([0.0, 0.5, 1.0]), rtol=0, atol=1e-6)
    # Three elements of three numbers each: colours, although a matrix has that shape too.
    hue = hues.exp(torch.tensor([[2 * math.pi], [math.pi], [0.0]]))
    found = hues.distance_to_identity(hue)
    torch.testing.assert_close(found, torch.tensor([0.0, 1.0, 0.0]), rtol=0, atol=1e-6)


def test_alignment_does_not_depend_on_the_prototype():
    """Prototypes of any size are as good: training must not prefer small ones."""
    group, bounds = Affine2("similarity"), (0.1, 0.1, 1.0, 0.1)
    act = ImageAction(group)
    found = []
    for zoom in (0.0, 0.5):
        oracle = Oracle(group, bounds, torch.tensor((0.0, 0.0, 0.0, zoom)), wrong=False)
        right = oracle.forward
        noise = 0.2 * torch.randn(
            4 * 2 * QUICK.objective.samples, 4, generator=torch.Generator().manual_seed(0)
        )

        def off(images, none=None, right=right, noise=noise):
            # A miss before the prototype: T_noise T_r T_start.
            return group.log(group.compose(group.exp(noise), group.exp(right(images))))

        oracle.forward = off
        step = KnownStep(oracle, False)
        step.begin(0)
        found.append(float(lie_inference_loss(oracle, blobs(4), step, act, QUICK)["alignment"]))
    assert found[0] > 1e-3
    assert found[1] == pytest.approx(found[0], rel=1e-3)


@pytest.mark.parametrize("moments", ["centre", "size"])
def test_with_moments_f_follows_shifts_and_zooms(moments):
    """f(T_s x) = T_s f(x) with random weights, for what the moments give."""
    group = Affine2("rotation", "translation", "scale_x", "scale_y")
    config = QUICK.replace(moments=moments)
    torch.manual_seed(0)
    net = LieInference((1, 32, 32), group, (0.25, 0.25, math.pi, 0.25, 0.25), config)
    nn.init.normal_(net.head.weight, std=0.02)
    act = ImageAction(group, interpolation="bspline")
    x = act(group.exp(torch.tensor([0.0, 0.0, 0.0, -0.4, -0.4])), blobs(4))  # far from the frame
    s = torch.zeros(4, 5)
    s[:, :2] = torch.tensor([[0.1, 0.0], [-0.15, 0.1], [0.0, 0.2], [0.05, -0.1]])
    if moments == "size":
        s[:, 3:] = torch.tensor([0.1, -0.1, 0.2, -0.15])[:, None]
    moved = group.exp(s)
    with torch.no_grad():
        gap = group.exp(net(act(moved, x))) - group.compose(moved, group.exp(net(x)))
        bare = QUICK.replace(moments="none")
        plain = LieInference((1, 32, 32), group, (0.25, 0.25, math.pi, 0.25, 0.25), bare)
        plain.load_state_dict(net.state_dict())
        without = group.exp(plain(act(moved, x))) - group.compose(moved, group.exp(plain(x)))
    # Up to resampling, which the plain f has as well.
    assert gap.abs().max() < 0.3 * without.abs().max()
    assert gap[:, :2, 2].abs().max() < 0.02
    assert without[:, :2, 2].abs().max() > 0.1


def test_moments_need_both_shifts():
    """Elsewhere f is the plain one."""
    config = QUICK.replace(moments="size")
    assert not LieInference((1, 16, 16), Affine2("rotation"), (math.pi,), config).centred
    both = LieInference((1, 16, 16), Affine2("translation"), (0.25, 0.25), config)
    assert both.centred
    assert both.sized  # how large a picture is does not matter here
    assert both.sizes == ()
    one_scale = LieInference((1, 16, 16), Affine2("translation", "scale_x"), (0.25,) * 3, config)
    assert one_scale.centred
    assert not one_scale.sized
    zoomed = Affine2("similarity")
    assert LieInference((1, 16, 16), zoomed, (0.25, 0.25, math.pi, 0.25), config).sizes == (3,)


@pytest.mark.parametrize("name", ["affine", "similarity", "rotation,translation", "rotation"])
def test_generator_shifts_give_the_predicted_position(name):
    group = parse_group(name)
    torch.manual_seed(0)
    wanted = torch.randn(50, group.dim, dtype=torch.float64) * 0.4
    if "rotation" in group.names:
        wanted[:, group.names.index("rotation")] *= 5
    eta = group.generator_shifts(wanted)
    if "shift_x" not in group.names:
        assert torch.equal(eta, wanted)
        return
    torch.testing.assert_close(group.exp(eta)[:, :2, 2], wanted[:, :2], rtol=1e-6, atol=1e-8)
    assert torch.equal(eta[:, 2:], wanted[:, 2:])


@pytest.mark.parametrize("moments", ["none", "size"])
@pytest.mark.parametrize("name", ["rotation,translation,scale", "affine", "rotation,hue"])
def test_elements_of_positions_are_those_of_the_parameters(name, moments):
    group = parse_group(name)
    bounds = [math.pi if angle else 0.2 for angle in group.angles]
    torch.manual_seed(0)
    net = LieInference((3, 16, 16), group, bounds, QUICK.replace(moments=moments))
    nn.init.normal_(net.head.weight, std=0.1)
    images = blobs(4, 16, 3)
    with torch.no_grad():
        positions, eta = net.positions(images), net(images)
        for found, expected in zip(net.pair(positions), (eta, -eta), strict=True):
            torch.testing.assert_close(found, group.exp(expected), rtol=1e-4, atol=1e-5)
        again = net.positions_of(eta, group.exp(eta))
    torch.testing.assert_close(again, positions, rtol=1e-4, atol=1e-5)


def test_which_angles_close_up():
    whole = math.pi
    assert circular_parameters(Colour(), (whole, 1, 1), "exact") == (True, False, False)
    assert circular_parameters(Affine2("rotation"), (whole,), "exact") == (True,)
    assert circular_parameters(Affine2("rotation"), (1.0,), "exact") == (False,)
    rigid = Affine2("rotation", "translation")
    assert circular_parameters(rigid, (1, 1, whole), "exact") == (False,) * 3
    assert circular_parameters(rigid, (1, 1, whole), "all") == (False, False, True)
    assert circular_parameters(rigid, (1, 1, whole), "none") == (False,) * 3
    both = Product(Affine2("rotation"), Colour("hue", "value"))
    assert circular_parameters(both, (whole, whole, 1), "exact") == (True, True, False)


@pytest.mark.parametrize("names", [("rotation", "translation"), ("affine",)])
def test_pinned_prototypes_have_their_centre_in_the_middle(names):
    group = Affine2(*names)
    config = QUICK.replace(moments="centre", pinned=True, widths=(16,))
    bounds = [0.3, 0.3, math.pi, *[0.2] * (group.dim - 3)]
    net = LieInference((1, 32, 32), group, bounds, config)
    nn.init.normal_(net.head.weight, std=0.2)
    images, act = blobs(6), ImageAction(group)
    with torch.no_grad():
        inside = act(group.inverse(net.pair(net.positions(images))[0]), images)
        free = LieInference((1, 32, 32), group, bounds, config.replace(pinned=False))
        free.load_state_dict(net.state_dict())
        beside = act(group.inverse(free.pair(free.positions(images))[0]), images)
    assert content_centre(inside).abs().max() < 0.01
    assert content_centre(beside).abs().max() > 0.05


def test_pinned_needs_moments():
    with pytest.raises(ValueError, match="pinned: expected with moments"):
        QUICK.replace(moments="none", pinned=True)


class CentreOfMass(Known):
    """An equivariant f for shifts: prototypes have their centre of mass in the middle."""

    dim, group = 2, Affine2("translation")

    def __init__(self):
        super().__init__()
        self.register_buffer("bounds", torch.tensor([0.5, 0.5]))

    def forward(self, images, noise=None):
        side = images.shape[-1]
        axis = (torch.arange(side) + 0.5) / side * 2 - 1
        mass = images.sum(1) / images.sum((1, 2, 3))[:, None, None]
        return torch.stack(((mass.sum(1) * axis).sum(1), -(mass.sum(2) * axis).sum(1)), -1)


class ShiftedAnswers(CentreOfMass):
    """The same with prototypes beside the middle."""

    def __init__(self, shift):
        super().__init__()
        self.shift = shift

    def forward(self, images, noise=None):
        return super().forward(images) - self.shift


def test_f_settles_at_its_prototypes_and_nowhere_else():
    net, group = CentreOfMass(), Affine2("translation")
    act = ImageAction(group)
    images = blobs(6)
    step = Step(10, 0, CPU)
    step.begin(0)
    there = group.exp(-net(images))
    elsewhere = group.exp(-net(images) + 0.2)
    for form, far in (("squares", 5e-3), ("norm", 0.4)):
        config = QUICK.replace(idempotence_form=form)
        assert float(idempotence_loss(net, images, step, act, there, config)) < 1e-4
        assert float(idempotence_loss(net, images, step, act, elsewhere, config)) > far


def test_idempotence_in_squares_and_as_a_norm():
    """A miss by 0.2 in both shifts, of bounds of 0.5, and none in others."""
    net, group = ShiftedAnswers(0.2), Affine2("translation")
    images = blobs(6)
    there = group.exp(-CentreOfMass()(images))
    found = {}
    for form in ("squares", "norm"):
        step = Step(10, 0, CPU)
        step.begin(0)
        config = QUICK.replace(idempotence_form=form, idempotence_range=0.1)
        found[form] = float(idempotence_loss(net, images, step, ImageAction(group), there, config))
    assert found["squares"] == pytest.approx(0.1 * 2 * 0.4**2, rel=1e-3)
    assert found["norm"] == pytest.approx(2**0.5 * 0.4 - 0.01, rel=1e-3)


@pytest.mark.parametrize(("start", "shares"), [(0.0, (0.0, 0.5)), (0.25, (0.0, 1 / 3))])
def test_idempotence_grows_from_nothing(start, shares):
    config = QUICK.replace(idempotence=1.0, idempotence_start=start)
    net, act = CentreOfMass(), ImageAction(Affine2("translation"))
    for index, share in zip((0, 5), shares, strict=True):
        step = Step(10, 0, CPU)
        step.begin(index)
        terms = lie_inference_loss(net, blobs(4), step, act, config)
        weight = config.objective.alignment * (1 - index / 10)
        extra = float(terms["loss"] - terms["agreement"] - weight * terms["alignment"])
        assert extra == pytest.approx(share * float(terms["idempotence"]), abs=1e-6)


def test_prototypes_are_pulled_to_the_middle_at_one_size():
    images = blobs(5)
    centre = content_centre(images)
    size = content_size(images, centre)
    group = Affine2("affine")
    there = group.exp(torch.cat((-centre, torch.zeros(5, 4)), 1))
    zoom = (STANDARD_SIZE / size).log()
    larger = group.exp(torch.nn.functional.pad(zoom[:, None].expand(5, 2), (3, 1)))
    shear = group.exp(torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.4]))
    both = (shear @ larger @ there)[:, None]  # a shear keeps the area
    assert off_centre(images, both, 0.0, sized=True).abs().max() < 1e-6
    moved = group.exp(torch.tensor([0.3, 0.0, 0.0, 0.0, 0.0, 0.0])) @ both
    far = off_centre(images, moved, 0.0, sized=True)
    assert torch.allclose(far, torch.full((5, 1), 0.09), atol=1e-5)
    assert torch.allclose(
        off_centre(images, (larger @ there)[:, None], 0.0, sized=False),
        torch.zeros(5, 1),
        atol=1e-6,
    )
    smaller = off_centre(images, there[:, None], 0.0, sized=True)
    assert torch.allclose(smaller[:, 0], zoom.square(), atol=1e-5)


def test_centring_moves_prototypes_and_its_weight_counts():
    """Equivariant functions have nothing else to lose: this term says where prototypes go."""
    act = ImageAction(Affine2("translation"))
    terms = []
    for shift in (0.0, 0.3):
        found = []
        for weight in (0.0, 2.0):
            config = QUICK.replace(alignment=0.0, centring=weight)
            step = Step(10, 0, CPU)
            step.begin(0)
            found.append(lie_inference_loss(ShiftedAnswers(shift), blobs(4), step, act, config))
        plain, pulled = found
        assert "centring" not in plain
        expected = float(plain["loss"] + 2 * pulled["centring"])
        assert float(pulled["loss"]) == pytest.approx(expected, rel=1e-5)
        terms.append(float(pulled["centring"]))
    assert terms[0] < 0.01
    assert terms[1] == pytest.approx(0.18, rel=0.15)
