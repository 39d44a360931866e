"""The evidence of averaged networks against slow oracles, and widths that are known."""

import copy
import json
import math

import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.learners.invariant_network import (
    InvariantNetwork,
    InvariantNetworkConfig,
    LaplaceEvidence,
    candidates,
    jacobians,
    posterior,
    search,
    training,
)
from symmetries.learners.invariant_network import evidence as evidence_module
from symmetries.learners.invariant_network.candidates import trained_at
from symmetries.learners.invariant_network.convolutions import ConvolutionsAsProducts
from symmetries.learners.invariant_network.modules import reinitialise
from symmetries.learners.invariant_network.search import search_widths

GROUP = Affine2("rotation")
ACT = ImageAction(GROUP)
SHAPE, NOISE = (1, 6, 6), torch.tensor(0.3, dtype=torch.float64)
RUN = {"device": "cpu", "progress": False}


def pictures(count: int, seed: int = 0) -> torch.Tensor:
    """Smooth random images, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 1, 3, 3, generator=generator, dtype=torch.float64)
    return nn.functional.interpolate(coarse, SHAPE[1:], mode="bicubic").clamp(0, 1)


class Shared(nn.Module):
    """One layer that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(9, 9), nn.Linear(9, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        coarse = nn.functional.avg_pool2d(x, 2).flatten(1)
        return self.last(torch.tanh(self.inner(torch.tanh(self.inner(coarse)))))


class Attention(nn.Module):
    """Rows of the image as tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.mixing = nn.MultiheadAttention(6, 2, batch_first=True)
        self.norm, self.last = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x[:, 0]
        mixed, _ = self.mixing(tokens, tokens, tokens, need_weights=False)
        return self.last(self.norm(tokens + mixed).mean(1))


def convolutional() -> nn.Module:
    """Convolution, batch norm that has seen data, group norm and a linear layer."""
    norm = nn.BatchNorm2d(3)
    norm.running_mean.uniform_(-0.5, 0.5)
    norm.running_var.uniform_(0.5, 2.0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2), norm, nn.GELU(), nn.GroupNorm(1, 3), nn.Flatten(),
        nn.Linear(12, 3),
    )  # fmt: skip


def evidence_of(module: nn.Module, likelihood: str = "categorical") -> LaplaceEvidence:
    """With a precision of its own for each layer."""
    layers = dict.fromkeys(name.rpartition(".")[0] for name, _ in module.named_parameters())
    precision = {name: torch.tensor(0.5 + i) for i, name in enumerate(layers)}
    return LaplaceEvidence(module.double(), ACT, likelihood, precision, NOISE)


def oracle(evidence: LaplaceEvidence, x: torch.Tensor, y: torch.Tensor, eta: torch.Tensor) -> float:
    """Log evidence from the Hessian of each likelihood and the Jacobian of each mean, in loops."""
    module = evidence.module.eval()
    parameters = dict(module.named_parameters())
    delta = torch.cat([
        evidence.precision[name.rpartition(".")[0]].double().expand(p.numel())
        for name, p in parameters.items()
    ])  # fmt: skip
    theta = torch.cat([p.detach().flatten() for p in parameters.values()])
    hessian, total = delta.diag(), -0.5 * (delta * theta.square()).sum()
    total = total + 0.5 * delta.log().sum()

    def log_p(f: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if evidence.likelihood == "categorical":
            return f.log_softmax(0)[target]
        return torch.distributions.Normal(f, NOISE).log_prob(target).sum()

    for image, target in zip(x, y, strict=True):
        moved = torch.cat([ACT(GROUP.exp(one), image[None]) for one in eta])
        mean = torch.stack([module(one[None])[0] for one in moved]).mean(0)
        rows = [torch.autograd.grad(k, list(parameters.values()), retain_graph=True) for k in mean]
        jacobian = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])
        curvature = -torch.autograd.functional.hessian(
            lambda f, t=target: log_p(f, t), mean.detach()
        )
        hessian = hessian + jacobian.T @ curvature @ jacobian
        total = total + log_p(mean.detach(), target)
    return float(total - 0.5 * torch.linalg.slogdet(hessian)[1])


NETWORKS = {"convolutional": convolutional, "shared": Shared, "attention": Attention}


@pytest.mark.parametrize("likelihood", ["categorical", "gaussian"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_evidence_is_that_of_the_full_gauss_newton_matrix(name, likelihood):
    torch.manual_seed(0)
    evidence, x = evidence_of(NETWORKS[name](), likelihood), pictures(8)
    y = torch.arange(8) % 3 if likelihood == "categorical" else torch.randn(8, 3).double()
    eta = torch.tensor([[-0.9], [0.1], [0.7]]).double()
    found, truth = float(evidence.total(x, y, eta)), oracle(evidence, x, y, eta)
    assert found == pytest.approx(truth, rel=1e-9)
    rounded = LaplaceEvidence(
        evidence.module.float(), ACT, likelihood, evidence.precision, NOISE.float()
    )
    y = y if likelihood == "categorical" else y.float()
    assert float(rounded.total(x.float(), y, eta.float())) == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_slope_along_the_width_is_that_of_the_evidence(name):
    """The tangent's slope, with weights held, against differences of the slow evidence."""
    torch.manual_seed(1)
    evidence, x, y = evidence_of(NETWORKS[name]()), pictures(6, 1), torch.arange(6) % 3
    noise = torch.linspace(-1, 1, 5).double()[:, None]
    width = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    known = evidence.posterior(x, noise * width.detach())
    units = 18**0.5 * torch.eye(18).double().reshape(18, 6, 3)  # the mean over them is exact
    evidence.width_objective(x, y, noise * width, known, units).backward()
    step = 1e-4
    ends = [oracle(evidence, x, y, noise * (0.7 + sign * step)) for sign in (-1, 1)]
    assert float(width.grad) == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-4)


def test_a_posterior_of_some_examples_gives_a_lower_bound_that_tightens():
    torch.manual_seed(2)
    evidence, x, y = evidence_of(convolutional()), pictures(40, 2), torch.arange(40) % 3
    eta = torch.linspace(-1, 1, 4).double()[:, None]
    exact = float(evidence.total(x, y, eta))
    gaps = [
        exact - float(evidence.total(x, y, eta, evidence.posterior(x[:few], eta, 40)))
        for few in (4, 12, 40)
    ]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] == pytest.approx(0, abs=1e-8)
    mixed = evidence.sampled_posterior(x, eta, 3, 40, torch.Generator().manual_seed(0))
    assert 0 < exact - float(evidence.total(x, y, eta, mixed)) < gaps[1]
    assert len(mixed.rows) == 40
    every = evidence.sampled_posterior(x, eta, 3, 120, torch.Generator().manual_seed(0))
    assert float(every.log_det) == pytest.approx(float(evidence.posterior(x, eta).log_det))


def test_curvature_without_cross_terms_is_another():
    """Where all views are alike, the average's curvature is that of one view, and not 1 / S."""
    torch.manual_seed(3)
    evidence, x = evidence_of(convolutional()), pictures(5, 3)
    one, four = (torch.zeros(s, 1).double() for s in (1, 4))
    alone = evidence.posterior(x, one).log_det
    torch.testing.assert_close(evidence.posterior(x, four).log_det, alone)
    apart = [part / 4 for part in evidence.rows(x.repeat(4, 1, 1, 1), one)]
    dropped = posterior(apart, evidence.precisions().rsqrt()).log_det
    assert dropped < 0.8 * alone


def test_the_posterior_has_the_covariance_of_its_rows():
    generator = torch.Generator().manual_seed(0)
    rows, scale = torch.randn(3, 5, generator=generator), torch.rand(5, generator=generator) + 0.5
    found = posterior([rows], scale)
    covariance = torch.linalg.inv(torch.eye(5) + rows.T @ rows)
    kept = torch.eye(5) - covariance
    torch.testing.assert_close(found.retained().float(), kept.diagonal(), atol=1e-5, rtol=0)
    other = torch.randn(4, 5, generator=generator)
    expected = (other @ covariance @ other.T).trace()
    torch.testing.assert_close(found.trace(other).float(), expected, rtol=1e-4, atol=0)


def linear_evidence(features: torch.Tensor, y: torch.Tensor, delta: float, noise: float) -> float:
    """log N(y | 0, noise^2 I + phi phi^T / delta) of a linear model, summed over outputs."""
    phi = torch.cat((features, torch.ones(len(features), 1).double()), 1)
    covariance = noise**2 * torch.eye(len(phi)).double() + phi @ phi.T / delta
    normal = torch.distributions.MultivariateNormal(torch.zeros(len(phi)).double(), covariance)
    return float(normal.log_prob(y.T).sum())


def test_a_linear_model_has_its_exact_evidence():
    torch.manual_seed(4)
    x, y = pictures(12, 4), torch.randn(12, 2).double()
    eta, delta, noise = torch.linspace(-0.8, 0.8, 5).double()[:, None], 1.7, 0.4
    module = nn.Sequential(nn.Flatten(), nn.Linear(36, 2)).double()
    means = ACT.orbit(GROUP.exp(eta), x).mean(1)
    phi = torch.cat((means.flatten(1), torch.ones(12, 1).double()), 1)
    gram = phi.T @ phi / noise**2 + delta * torch.eye(37).double()
    best = torch.linalg.solve(gram, phi.T @ y / noise**2)
    with torch.no_grad():
        module[1].weight.copy_(best[:-1].T)
        module[1].bias.copy_(best[-1])
    precision = {"1": torch.tensor(delta, dtype=torch.float64)}
    evidence = LaplaceEvidence(module, ACT, "gaussian", precision, noise)
    truth = linear_evidence(means.flatten(1), y, delta, noise)
    assert float(evidence.total(x, y, eta)) == pytest.approx(truth, rel=1e-9)


def averaged_features() -> tuple[nn.Module, torch.Tensor, torch.Tensor, dict[float, float]]:
    """A linear layer on held random features; targets are averages over 45 degrees.

    The network, images, targets, and the exact evidence at many half-widths, in degrees.
    """
    x, outputs = pictures(80, 5), 4
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(36, 30), nn.Tanh(), nn.Linear(30, outputs))
    module[1].requires_grad_(False).weight.mul_(6.0)
    body = nn.Sequential(*module[:3]).double()
    noise = (torch.arange(16).double()[:, None] + 0.5) / 8 - 1

    def features(degrees: float) -> torch.Tensor:
        views = ACT.orbit(GROUP.exp(noise * math.radians(degrees)), x)
        return body(views.flatten(0, 1)).unflatten(0, (80, 16)).mean(1)

    generator = torch.Generator().manual_seed(5)
    truth = torch.randn(30, outputs, generator=generator).double()
    y = features(45.0) @ truth + 0.4 * torch.randn(80, outputs, generator=generator).double()
    settings = [(delta, sigma) for delta in (0.3, 1.0, 3.0) for sigma in (0.3, 0.4, 0.6, 0.9)]
    profile = {
        float(degrees): max(linear_evidence(features(degrees), y, *of) for of in settings)
        for degrees in range(0, 181, 9)
    }
    return module.float(), x.float(), y.float(), profile


def evenly_averaged(module: nn.Module, **changes: float) -> InvariantNetwork:
    """A learner without noise in its averages, and with all rows of the curvature."""
    config = InvariantNetworkConfig(likelihood="gaussian", samples=16, sampling="grid")
    config = config.replace(batch_size=80, lr=0.1, curvature_rows=320, **changes)
    return InvariantNetwork(copy.deepcopy(module), "rotation", SHAPE, config)


def test_gradients_find_the_nearest_optimum_of_the_exact_evidence():
    module, x, y, profile = averaged_features()
    assert max(profile, key=lambda degrees: profile[degrees]) == 45
    assert profile[126] > max(profile[99], profile[153])  # a local one
    for start, nearest in ((0.1, 45), (0.6, 126)):
        model = evenly_averaged(module, search=0, half_width=start, every=10, steps=700)
        model.fit((x, y), **RUN)
        found = math.degrees(model.network.box.half_width[0].item())
        assert found == pytest.approx(nearest, abs=5), start


def test_a_candidate_of_the_search_has_nearly_the_exact_evidence():
    module, x, y, profile = averaged_features()
    model = evenly_averaged(module, steps=500, every=20)
    trained = trained_at(model, torch.tensor([math.pi / 4]), x, y, RUN)
    assert profile[45] - 10 < float(trained.estimated_evidence(x, y)[0]) < profile[45] + 2
    assert model.network.box.half_width[0].item() == pytest.approx(0.1 * math.pi)  # left as it is


def test_frozen_weights_are_kept_and_all_others_are_drawn_anew():
    torch.manual_seed(0)
    frozen, attention = nn.Linear(4, 4), nn.MultiheadAttention(4, 2)
    frozen.requires_grad_(False)
    module = nn.ModuleDict({"frozen": frozen, "attention": attention, "norm": nn.LayerNorm(4)})
    module.tokens = nn.Parameter(torch.full((3,), 2.0))
    before = {name: value.clone() for name, value in module.named_parameters()}
    reinitialise(module, 1)
    after = dict(module.named_parameters())
    assert torch.equal(after["frozen.weight"], before["frozen.weight"])
    assert torch.equal(after["tokens"], before["tokens"])  # constants have no spread
    assert torch.equal(after["norm.weight"], torch.ones(4))
    change = after["attention.in_proj_weight"] - before["attention.in_proj_weight"]
    assert change.abs().max() > 0.1


def test_a_frozen_weight_beside_a_trained_bias_is_kept_when_a_candidate_is_repeated():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 4))
    module[0].weight.requires_grad_(False)
    module[2].weight.requires_grad_(False)
    before = {name: value.clone() for name, value in module.named_parameters()}
    reinitialise(module, 1)
    kept = {name for name, value in module.named_parameters() if torch.equal(value, before[name])}
    assert kept == {"0.weight", "2.weight"}


def test_weights_that_a_layer_does_not_reset_are_drawn_anew_when_a_candidate_is_repeated():
    class Mixed(nn.Linear):
        def __init__(self):
            super().__init__(36, 4)
            self.inner = nn.Parameter(torch.randn(4, 36))

        def forward(self, x):
            return super().forward(x) + x @ self.inner.T

    torch.manual_seed(0)
    module = Mixed()
    before = module.inner.detach().clone()
    reinitialise(module, 1)
    change = (module.inner.detach() - before).std()
    assert float(change) == pytest.approx(2**0.5 * float(before.std()), rel=0.3)


def test_one_parameter_is_averaged_over_midpoints():
    model = evenly_averaged(nn.Sequential(nn.Flatten(), nn.Linear(36, 4)), sampling="sobol")
    width = model.network.box.half_width.detach()
    torch.testing.assert_close(model.eta(4) / width, torch.tensor([[-3.0], [-1], [1], [3]]) / 4)
    model.network.box.set_half_width(torch.zeros(1))
    assert torch.equal(model.eta(4), torch.zeros(1, 1))


def test_a_repeated_candidate_starts_from_other_weights():
    model = evenly_averaged(nn.Sequential(nn.Flatten(), nn.Linear(36, 4)), steps=1, warmup=0.0)
    model.config = model.config.replace(lr=1e-6)
    x, y = pictures(80).float(), torch.zeros(80, 4)
    first, again, other = (
        trained_at(model, torch.tensor([1.0]), x, y, RUN, order).module[1].weight
        for order in (0, 0, 1)
    )
    assert torch.equal(first, again)
    torch.testing.assert_close(first, model.module[1].weight, atol=1e-5, rtol=0)
    assert (first - other).abs().max() > 0.01


def convolutional(branches: bool = False) -> nn.Module:
    """A small convolutional network with batch norm, which vmap can follow unless it branches."""

    class Branch(nn.Identity):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if float(x.sum()) > -1e9 else -x

    torch.manual_seed(0)
    last = Branch() if branches else nn.Identity()
    first = nn.Conv2d(1, 4, 3, stride=2, padding=(1, 0), bias=False)
    features = [first, nn.BatchNorm2d(4), nn.Tanh(), nn.Conv2d(4, 5, 2), nn.Flatten()]
    return nn.Sequential(*features, nn.Linear(10, 3), last)


@pytest.mark.parametrize("branches", [False, True])
def test_candidates_that_train_as_one_learn_what_each_learns_alone(monkeypatch, branches):
    x, y = pictures(30), torch.arange(30) % 3
    config = InvariantNetworkConfig(samples=3).replace(
        steps=8, batch_size=10, every=3, curvature_rows=45, lr=1e-2
    )
    model = InvariantNetwork(convolutional(branches), "rotation", SHAPE, config).double()
    widths, orders = torch.tensor([[0.3], [0.5], [2.0]]).double(), (0, 1)
    run = (widths, x, y, RUN)
    alone = [twin for o in orders for (twin,) in candidates.trained_each(model, *run, o)]
    monkeypatch.setattr(candidates, "_gains_together", lambda *_: True)
    products = []  # as on a GPU

    class Watched(ConvolutionsAsProducts):
        def _conv2d(self, *given, **options):
            products.append(torch._C._functorch.is_functorch_wrapped_tensor(given[1]))
            return super()._conv2d(*given, **options)

    monkeypatch.setattr(training, "convolutions_as_products", lambda _: Watched())
    every = [some for o in orders for some in candidates.trained_each(model, *run, o)]
    assert [len(some) for some in every] == ([1] * 6 if branches else [3, 3])
    together = [twin for some in every for twin in some]
    assert any(products)
    for one, other in zip(alone, together, strict=True):
        for name, value in one.state_dict().items():
            torch.testing.assert_close(other.state_dict()[name], value)
        assert torch.equal(one.network.box.half_width, other.network.box.half_width)


def test_rows_are_the_same_with_convolutions_as_products(monkeypatch):
    model = InvariantNetwork(convolutional(), "rotation", SHAPE, "quick").double()
    x, eta = pictures(6), torch.linspace(-1, 1, 3, dtype=torch.float64)[:, None]
    (expected,) = model.evidence().rows(x, eta)
    monkeypatch.setattr(jacobians, "convolutions_as_products", lambda _: ConvolutionsAsProducts())
    (rows,) = model.evidence().rows(x, eta)
    torch.testing.assert_close(rows, expected)


@pytest.mark.slow
def test_a_search_finds_the_optimum_of_the_exact_evidence_from_everywhere():
    module, x, y, _ = averaged_features()
    model = evenly_averaged(module, search=5, half_width=0.6, steps=800, every=20)
    model.fit((x, y), **RUN)
    assert math.degrees(model.network.box.half_width[0].item()) == pytest.approx(45, abs=5)


def test_an_interrupted_search_goes_on_with_its_candidates(tmp_path, monkeypatch):
    module, x, y, _ = averaged_features()
    model = evenly_averaged(module, steps=3, every=2, search=3)
    whole = search_widths(model, x, y, **RUN)
    asked = []

    def until_the_third(learner, width, *more):
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(width)
        return trained_at(learner, width, *more)

    monkeypatch.setattr(candidates, "trained_at", until_the_third)
    with pytest.raises(KeyboardInterrupt):
        search_widths(model, x, y, out=tmp_path, **RUN)
    monkeypatch.setattr(
        candidates,
        "trained_at",
        lambda *given: asked.append(0) or trained_at(*given),
    )
    assert search_widths(model, x, y, out=tmp_path, resume=True, **RUN) == whole
    seen, folds = len(whole[0].widths), 0 if whole[0].told else 2 * search.FOLDS
    assert len(asked) == seen + max(3, seen // 2) + folds  # the better half is repeated
    asked.clear()
    other = evenly_averaged(module, steps=3, every=2, search=3, prior_precision=2.0)
    search_widths(other, x, y, out=tmp_path, resume=True, **RUN)
    assert len(asked) > 3, "values of other settings were used"


def test_an_interrupted_search_trains_the_same_candidates_as_one(tmp_path, monkeypatch):
    """What is learned beside others depends on them by rounding: a part of them would differ."""
    learner, x, y = tiny_search()
    fit_together, counts = candidates.fit_together, []

    def counted(jobs):
        counts.append(len(jobs))
        return fit_together(jobs)

    monkeypatch.setattr(candidates, "_gains_together", lambda *_: True)
    monkeypatch.setattr(candidates, "fit_together", counted)
    whole = search_widths(learner, x, y, **RUN)
    expected, asked = counts.copy(), []
    estimated = InvariantNetwork.estimated_evidence

    def stopped(self, *given, **more):
        asked.append(0)
        if len(asked) == 2:  # in the middle of the first ones that train as one
            raise KeyboardInterrupt
        return estimated(self, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(InvariantNetwork, "estimated_evidence", stopped)
        with pytest.raises(KeyboardInterrupt):
            search_widths(learner, x, y, out=tmp_path, **RUN)
    counts.clear()
    assert search_widths(learner, x, y, out=tmp_path, resume=True, **RUN) == whole
    assert counts == expected
    assert expected[0] > 1


def tiny_search(group="rotation", fill=0.0):
    """A learner whose search takes a moment, and its images and labels."""
    torch.manual_seed(0)
    config = InvariantNetworkConfig(samples=2).replace(
        steps=1, batch_size=8, search=2, every=1, curvature_rows=4
    )
    module = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    learner = InvariantNetwork(module, ImageAction(Affine2(group), fill=fill), SHAPE, config)
    return learner, pictures(8).float(), torch.arange(8) % 2


@pytest.mark.parametrize(
    "change",
    [
        lambda found: [1],
        lambda found: {**found, "values": {key: ["NaN", 0.0] for key in found["values"]}},
        lambda found: {**found, "values": None},
        lambda found: {**found, "identity": {**found["identity"], "code": "of another version"}},
        lambda found: {**found, "identity": {**found["identity"], "threads": 99}},
    ],
)
def test_a_forged_or_foreign_search_is_not_used(tmp_path, change):
    learner, x, y = tiny_search()
    whole = search_widths(learner, x, y, out=tmp_path, **RUN)
    file = tmp_path / search.NAME
    found = json.loads(file.read_text())
    found["values"] = {key: [1e9, 0.0] for key in found["values"]}
    file.write_text(json.dumps(change(found)))
    assert search_widths(learner, x, y, out=tmp_path, resume=True, **RUN) == whole


def test_a_search_of_another_group_or_background_is_not_used(tmp_path):
    for group, fill in (("rotation", 0.0), ("rotation", 0.9), ("shear", 0.9)):
        learner, x, y = tiny_search(group, fill)
        whole = search_widths(learner, x, y, **RUN)
        assert search_widths(learner, x, y, out=tmp_path, resume=True, **RUN) == whole


def test_some_examples_stand_for_all_of_them():
    module, x, y, _ = averaged_features()
    model = evenly_averaged(module, steps=20, every=5, search=0)
    model.fit((x, y), **RUN)
    twice, again = torch.cat((x, x)), torch.cat((y, y))
    evidence, eta = model.evidence(), model.eta(16).detach()
    assert float(evidence.total(x, y, eta, count=160)) == pytest.approx(
        float(evidence.total(twice, again, eta)), rel=1e-4
    )


def test_extrapolated_bounds_come_close_to_the_evidence(monkeypatch):
    torch.manual_seed(0)
    x, y = pictures(300).float(), torch.arange(300) % 3
    module = nn.Sequential(nn.Flatten(), nn.Linear(36, 12), nn.Tanh(), nn.Linear(12, 3))
    config = InvariantNetworkConfig(samples=4, sampling="grid").replace(
        steps=150, batch_size=100, every=10, search=0, learn=False, curvature_rows=300
    )
    model = InvariantNetwork(module, "rotation", SHAPE, config)
    model.fit((x, y), **RUN)
    evidence, eta = model.evidence(), model.eta(4).detach()
    exact = float(evidence.total(x, y, eta))
    assert float(evidence.estimate(x, y, eta, 3, 90, torch.Generator())[0]) == exact
    monkeypatch.setitem(evidence_module.EXACT, "cpu", (0, 0))
    rows = 6 * round(float(model.effective_parameters))
    generators = [torch.Generator().manual_seed(seed) for seed in range(8)]
    found = [float(evidence.estimate(x, y, eta, 3, rows, g)[0]) for g in generators]
    bounds = [
        float(evidence.total(x, y, eta, evidence.sampled_posterior(x, eta, 3, rows, g)))
        for g in generators
    ]
    assert max(bounds) <= exact + 1e-2
    missed = abs(sum(found) / 8 - exact)
    assert missed < 0.5 * (exact - sum(bounds) / 8)
    whole = evidence.estimate(x, y, eta, 3, 900, torch.Generator())  # all rows: no extrapolation
    assert float(whole[0]) == pytest.approx(exact, abs=1e-2)
    assert float(whole[1]) == 0
    monkeypatch.setattr(evidence_module, "TRACED", 250)
    some = [float(evidence.estimate(x, y, eta, 3, rows, g)[0]) for g in generators]
    assert sum(some) / 8 == pytest.approx(sum(found) / 8, abs=2)


def test_batch_norm_trains_and_its_curvature_is_that_of_eval_mode():
    torch.manual_seed(0)
    x, y = pictures(24).float(), torch.arange(24) % 3
    config = InvariantNetworkConfig(samples=4).replace(curvature_rows=2, every=2, search=0)
    module = convolutional()
    before = module[1].running_mean.clone()
    model = InvariantNetwork(module, "rotation", SHAPE, config.replace(steps=6, batch_size=12))
    with pytest.warns(RuntimeWarning, match="curvature_rows: expected more than twice"):
        model.fit((x, y), **RUN)
    assert not torch.equal(module[1].running_mean, before)
    assert math.isfinite(model.summary((x, y)).log_evidence)
    assert math.isfinite(float(model.log_evidence))
