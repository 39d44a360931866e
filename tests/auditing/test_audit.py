import copy

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.nn import functional as F

from symmetries.actions import ImageAction
from symmetries.actions.signals import SignalAction
from symmetries.auditing import (
    AuditResult,
    audit_model,
    distribution_invariance,
    drift_curve,
    layer_equivariance,
    logit_invariance,
    saliency_similarity,
)
from symmetries.estimators import InvariantClassifier
from symmetries.groups import (
    Affine2,
    Colour,
    Cyclic,
    CyclicShift,
    Dihedral,
    Flip,
    Product,
    Signal,
)
from symmetries.nn.relaxed_networks import RelaxedCNN, Symmetry


class Net(nn.Module):
    """Everything that could leave a trace: dropout, batch norm, one part in train mode."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4 * 36, 3)

    def forward(self, x):
        return self.head(self.drop(self.norm(self.conv(x)).relu()).flatten(1))


@pytest.fixture
def x():
    return torch.randn(24, 1, 6, 6, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def y():
    return torch.randint(3, (24,), generator=torch.Generator().manual_seed(2))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def test_audit_agrees_with_the_functions_and_comes_back_from_json(net, x, y, tmp_path):
    found = audit_model(net, (x, y), Cyclic(4), batch_size=10, progress=False)
    assert found.logit_invariance.mean == pytest.approx(
        logit_invariance(net, x, Cyclic(4)).mean, rel=1e-5
    )
    assert found.distribution_invariance.mean == pytest.approx(
        distribution_invariance(net, x, Cyclic(4)).mean, rel=1e-5
    )
    similarity = saliency_similarity(net, x, Cyclic(4), y)
    assert found.saliency_similarity.mean == pytest.approx(similarity.mean, rel=1e-5)
    assert found.saliency_similarity.low < similarity.mean < found.saliency_similarity.high
    with torch.no_grad():
        net.eval()
        right = (net(x).argmax(1) == y).float().mean()
    assert found.accuracy.mean == pytest.approx(float(right))
    assert (found.group, found.elements, found.exhaustive, found.classes) == ("c4", 3, True, 3)
    assert AuditResult.load(found.save(tmp_path / "audit.json")) == found


def test_audit_leaves_no_trace(net, x, y):
    net.train()
    net.head.eval()
    net(x).sum().backward()
    before = copy.deepcopy(net.state_dict())
    gradients = [p.grad.clone() for p in net.parameters()]
    random_state = torch.get_rng_state()
    audit_model(net, (x, y), Cyclic(4), progress=False)
    audit_model(net, (x, y), Affine2("rotation"), samples=2, progress=False)
    drift_curve(net, x, x.flip(0), y, Cyclic(4), betas=(0.0, 1.0))
    assert torch.equal(torch.get_rng_state(), random_state)
    assert (net.training, net.drop.training, net.head.training) == (True, True, False)
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), gradients, strict=True))
    assert all(torch.equal(a, before[name]) for name, a in net.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


def test_audit_works_without_gradients_and_without_a_module(x, y):
    weight = torch.randn(36, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = audit_model(lambda x: x.flatten(1) @ weight, (x, y), Flip("x"), progress=False)
    assert found.layers == ()
    assert found.sensitivity.mean == pytest.approx(
        float(torch.linalg.matrix_norm(weight, 2)), rel=1e-4
    )


def test_discretisation_is_nought_for_exact_actions_and_not_for_rotations(net, x, y):
    exact = audit_model(net, (x, y), CyclicShift("x", 3), progress=False)
    assert exact.logit_invariance.discretisation == 0
    assert exact.distribution_invariance.discretisation == pytest.approx(0, abs=1e-6)
    assert exact.saliency_similarity.discretisation == pytest.approx(1, abs=1e-5)
    turned = audit_model(net, (x, y), Cyclic(8), progress=False)
    assert turned.logit_invariance.discretisation > 1e-3
    assert turned.saliency_similarity.discretisation < 0.999


def test_the_grid_is_not_blamed_on_an_invariant_model(y):
    """A model of the norm is invariant on the plane; on pixels only resampling is left to see."""
    side = torch.linspace(-2, 2, 24)
    blob = torch.exp(-4 * (side[:, None] ** 2 + (side[None, :] - 0.5) ** 2))
    x = blob.expand(24, 1, 24, 24) * torch.linspace(1, 2, 24).reshape(-1, 1, 1, 1)

    def model(x):
        return x.square().mean((2, 3)) * torch.tensor([100.0, -100.0, 50.0])

    found = audit_model(model, (x, y), Affine2("rotation"), samples=8, progress=False)
    measure = found.logit_invariance
    assert measure.mean > 0
    assert measure.mean < 3 * measure.discretisation


def test_continuous_groups_are_sampled_and_say_so(net, x, y):
    found = audit_model(net, (x, y), Affine2("rotation"), samples=3, half_width=0.5, progress=False)
    assert (found.elements, found.exhaustive, found.group) == (3, False, "rotation")
    assert found.logit_invariance.standard_error > 0


def test_signals_and_points(y):
    torch.manual_seed(0)
    signals, points = torch.randn(24, 2, 20), torch.randn(24, 5, 2)
    model = nn.Sequential(nn.Flatten(), nn.Linear(40, 3))
    found = audit_model(model, (signals, y), Signal("shift"), samples=2, progress=False)
    assert found.elements == 2
    action = SignalAction(Signal("shift", "sign"))
    assert audit_model(model, (signals, y), action, samples=2, progress=False).group == "shift,sign"

    def invariant(x):
        return x.norm(dim=2).sum(1, keepdim=True) * torch.tensor([1.0, 2, 3])

    found = audit_model(invariant, (points, y), Affine2("rotation"), samples=4, progress=False)
    assert found.logit_invariance.mean < 1e-8


def test_layers_of_a_shift_equivariant_network(x):
    torch.manual_seed(0)

    def conv(i, o):
        return nn.Conv2d(i, o, 3, padding=1, padding_mode="circular")

    model = nn.Sequential(conv(1, 4), nn.ReLU(), conv(4, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    rows = {row.name: row for row in layer_equivariance(model, x, CyclicShift("x", 3))}
    assert all(rows[name].error < 1e-5 for name in "012")
    assert (rows["0"].law, rows["0"].shape) == ("equivariance", (4, 6, 6))
    assert rows["3"].error is None  # a single pixel cannot be shifted by thirds
    assert rows["4"].law == "invariance"
    assert rows["4"].error < 1e-5
    turned = {row.name: row for row in layer_equivariance(model, x, Cyclic(4))}
    assert turned["0"].error > 0.1
    assert turned["0"].discretisation == pytest.approx(0, abs=1e-6)


def test_layers_by_name_and_with_an_own_action(x):
    class Lift(nn.Module):
        """One filter in four orientations: channels move round when the image turns."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(1, 1, 3, 3))
            self.out = nn.Identity()

        def forward(self, x):
            filters = torch.cat([torch.rot90(self.weight, k, (2, 3)) for k in range(4)])
            return self.out(F.conv2d(x, filters, padding=1))

    def regular(element, h):
        return torch.rot90(h, int(element), (2, 3)).roll(int(element), 1)

    trivial = {"out": ImageAction(Cyclic(4))}
    (trivial,) = layer_equivariance(Lift(), x, Cyclic(4), layers=["out"], actions=trivial)
    (usual,) = layer_equivariance(Lift(), x, Cyclic(4), layers=["out"])
    assert (usual.law, usual.error < 1e-6) == ("regular", True)
    (row,) = layer_equivariance(Lift(), x, Cyclic(4), layers=["out"], actions={"out": regular})
    assert trivial.error > 0.1
    assert row.error < 1e-5
    with pytest.raises(ValueError, match="layers: expected names among out"):
        layer_equivariance(Lift(), x, Cyclic(4), layers=["in"])


def test_drift(x, y):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    second = torch.randn_like(x)
    curve = drift_curve(model, x, second, y, Cyclic(4), betas=(0.0, 0.25, 1.0), steps=5)
    assert [point.beta for point in curve] == [0.0, 0.25, 1.0]
    assert curve[0].accuracy_ratio == 1
    middle = 0.75 * x + 0.25 * second
    expected = distribution_invariance(model, middle, Cyclic(4))
    assert curve[1].distribution_invariance.mean == pytest.approx(expected.mean, rel=1e-4)
    right = (model(second).argmax(1) == y).float().mean() / (model(x).argmax(1) == y).float().mean()
    assert curve[2].accuracy_ratio == pytest.approx(float(right), rel=1e-5)
    with pytest.raises(ValueError, match="second: expected the shape of first"):
        drift_curve(model, x, second[:3], y, Cyclic(4))
    with pytest.raises(ValueError, match="betas"):
        drift_curve(model, x, second, y, Cyclic(4), betas=(0.0, 2.0))


BAD = {
    "probabilities": (lambda x: x.flatten(1)[:, :3].softmax(1), "logits, got probabilities"),
    "rank": (lambda x: x, r"logits of shape \(N, K\)"),
    "one output": (lambda x: x.flatten(1)[:, :1], r"logits of shape \(N, K\)"),
    "classes": (lambda x: x.flatten(1)[:, :3].argmax(1)[:, None].expand(-1, 3), "floating-point"),
    "NaN": (lambda x: x.flatten(1)[:, :3] * float("nan"), "finite values"),
    "tuple": (lambda x: (x, x), "one tensor of logits"),
    "random": (lambda x: F.dropout(x.flatten(1)[:, :3]), "same outputs when called twice"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize(
    "call",
    [
        lambda model, x, y: logit_invariance(model, x, Cyclic(4)),
        lambda model, x, y: distribution_invariance(model, x, Cyclic(4)),
        lambda model, x, y: saliency_similarity(model, x, Cyclic(4)),
    ],
)
def test_bad_models_are_named(name, call, x, y):
    model, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call(model, x, y)


@pytest.mark.parametrize("name", sorted(set(BAD) - {"probabilities", "one output", "rank"}))
def test_bad_models_are_named_by_audits(name, x, y):
    model, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        audit_model(model, (x, y), Cyclic(4), progress=False)


def test_log_probabilities_are_fine(x):
    assert logit_invariance(lambda x: x.flatten(1)[:, :3].log_softmax(1), x, Cyclic(4)).mean > 0


def test_bad_data(net, x, y):
    with pytest.raises(ValueError, match="x: expected finite values"):
        audit_model(net, (x / 0, y), Cyclic(4), progress=False)
    with pytest.raises(ValueError, match="y: expected 24 class numbers"):
        audit_model(net, (x, y[:3]), Cyclic(4), progress=False)
    with pytest.raises(ValueError, match="y: expected class numbers from 0 to 2"):
        audit_model(net, (x, y + 1), Cyclic(4), progress=False)
    with pytest.raises(ValueError, match="at least 2 examples"):
        audit_model(net, (x[:1], y[:1]), Cyclic(4), progress=False)
    with pytest.raises(TypeError, match="a pair"):
        audit_model(net, [x, y, y], Cyclic(4), progress=False)


def test_groups_that_cannot_act(net, x, y):
    for group in (Colour(), CyclicShift("x", 5)):
        with pytest.raises(ValueError, match="group: expected a group that acts on this data"):
            audit_model(net, (x, y), group, progress=False)
    flat = nn.Linear(36, 3)
    with pytest.raises(ValueError, match="a group that acts on this data"):
        audit_model(flat, (x.flatten(1), y), Cyclic(4), progress=False)
    with pytest.raises(TypeError, match="a Group or an Action"):
        audit_model(net, (x, y), 4, progress=False)
    with pytest.raises(ValueError, match="got 'turns'; did you mean rotation"):
        audit_model(net, (x, y), "turns", progress=False)


def test_names_of_groups_and_arrays(net, x, y):
    expected = audit_model(net, (x, y), Cyclic(4), progress=False)
    arrays = (x.double().numpy()[::-1][::-1], y.numpy().astype(np.uint8))
    for data in ((x, y), arrays, (x.numpy(), y.numpy())):
        found = audit_model(net, data, "c4", progress=False)
        assert timeless(found) == timeless(expected)


@pytest.mark.parametrize("dtype", ["f4", ">f4", ">f8", "f2", "g"])
def test_arrays_in_any_order_of_bytes_and_rows(net, x, y, dtype):
    images = x.half().float()  # the same numbers in all of these
    expected = audit_model(net, (images.flip(3), y), "c4", steps=5, progress=False)
    array = images.numpy().astype(dtype)[..., ::-1]
    labels = y.numpy().astype(">i4")[::-1][::-1]
    found = audit_model(net, (array, labels), "c4", steps=5, progress=False)
    assert timeless(found) == timeless(expected)


def test_arrays_are_float64_for_a_model_of_float64(net, x, y):
    net = net.double()
    expected = audit_model(net, (x.double(), y), "c4", steps=5, progress=False)
    for array in (x.double().numpy(), x.numpy()):
        found = audit_model(net, (array, y.numpy()), "c4", steps=5, progress=False)
        assert timeless(found) == timeless(expected)


@pytest.mark.parametrize("labels", [np.array(["a", "b"] * 12), np.array([1, "b"] * 12, object)])
def test_labels_that_are_no_numbers_are_refused_with_a_remedy(net, x, labels):
    remedy = r"use np.unique\(labels, return_inverse=True\)\[1\]$"
    message = f"^y: expected class numbers, got (text|an array of object); {remedy}"
    with pytest.raises(ValueError, match=message):
        audit_model(net, (x.numpy(), labels), "c4", progress=False)


@pytest.mark.parametrize(
    ("dtype", "remedy"),
    [
        ("uint8", r"use x.astype\('float32'\) / 255$"),
        ("int64", r"use x.astype\('float32'\) / 255 if they are bytes, x.astype"),
        ("object", r"use x.astype\('float32'\), with all examples of one shape"),
    ],
)
def test_inputs_that_are_no_floats_are_refused_with_a_remedy(net, y, dtype, remedy):
    images = np.zeros((24, 1, 6, 6), dtype)
    message = rf"^x: expected floats in \[0, 1\], got {dtype}; {remedy}"
    with pytest.raises(ValueError, match=message):
        audit_model(net, (images, y.numpy()), "c4", progress=False)


def timeless(result):
    return result.model_copy(update={"seconds": 0.0})


def test_estimators_are_told_apart_from_networks(x, y):
    classifier = InvariantClassifier(features=8, steps=3, samples=2, search=0)
    classifier.fit(x.numpy(), y.numpy())
    data = (x, y)
    with pytest.raises(TypeError, match=r"got InvariantClassifier; give .* model.module\(\)"):
        audit_model(classifier, data, "c4", progress=False)
    assert audit_model(classifier.module(), data, "c4", progress=False).classes == 3
    with pytest.raises(TypeError, match=r"got LogisticRegression; .* predict_proba, with"):
        audit_model(LogisticRegression(), data, "c4", progress=False)


def test_progress_goes_to_the_error_stream(net, x, y, capsys):
    audit_model(net, (x, y), Cyclic(4), progress=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("group", [Cyclic(4), Dihedral(4)])
def test_channels_that_stand_for_group_elements_change_places(group):
    torch.manual_seed(0)
    strict = RelaxedCNN(1, 3, Symmetry(group, "strict"), width=2, kernel_size=3).eval()
    rows = layer_equivariance(strict, torch.rand(4, 1, 12, 12), group)
    assert {row.law for row in rows} == {"regular", "invariance"}
    assert max(row.error for row in rows) < 1e-5

    class Fields(nn.Module):
        """The same with an axis of its own for the elements, and as a vector."""

        def __init__(self):
            super().__init__()
            self.maps, self.means, self.vector = nn.Identity(), nn.Identity(), nn.Identity()

        def forward(self, x):
            fields = strict.features[:2](x).unflatten(1, (2, group.order))
            return self.vector(self.means(self.maps(fields).mean((3, 4))).flatten(1))

    rows = layer_equivariance(Fields(), torch.rand(4, 1, 12, 12), group)
    rows = {row.name: (row.law, row.error < 1e-5) for row in rows}
    assert rows == dict.fromkeys(("maps", "means", "vector"), ("regular", True))


def test_relaxed_layers_have_their_relaxation_beside_the_error():
    torch.manual_seed(0)
    soft = RelaxedCNN(1, 3, Symmetry(Cyclic(4), "soft", {"rotation": 0.5}), width=2, kernel_size=3)
    with torch.no_grad():
        soft.features[4].relaxed_frequency.zero_()
    x = torch.rand(4, 1, 12, 12)
    found = {row.name: row for row in layer_equivariance(soft.eval(), x, Cyclic(4))}
    told = {name: row.relaxation for name, row in found.items() if row.relaxation}
    assert told == {f"features.{i}": {"rotation": r} for i, r in ((0, 0.5), (4, 0.0), (7, 0.5))}
    assert found["features.0"].error > 0.01
    assert found["features.1"].relaxation is None
    result = audit_model(soft, (x, torch.arange(4) % 3), Cyclic(4), progress=False)
    assert [row.relaxation for row in result.layers if row.name == "features.0"] == [
        {"rotation": 0.5}
    ]


def test_channels_of_a_plain_network_stay_in_place():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 4))
    rows = layer_equivariance(plain, torch.rand(4, 1, 12, 12), Cyclic(4))
    assert [row.law for row in rows] == ["equivariance", "equivariance", "invariance", "invariance"]


def test_intervals_of_shares_end_at_nought_and_one():
    x, y = torch.rand(20, 1, 4, 4), torch.zeros(20, dtype=torch.int64)
    y[0] = 1
    found = audit_model(lambda x: x[:, 0, 0, :2] + torch.tensor([9.0, 0.0]), (x, y), Cyclic(4))
    assert found.accuracy.mean == pytest.approx(0.95)
    assert 0.75 < found.accuracy.low < 0.8  # Wilson's interval for 19 of 20: 0.764 to 0.991
    assert 0.99 < found.accuracy.high < 0.995
    assert found.saliency_similarity.high <= 1
    assert found.logit_invariance.low >= 0


def test_a_model_that_answers_with_zeros_is_named():
    x, y = torch.zeros(6, 1, 4, 4), torch.arange(6) % 2
    x[:3, :, :, 0] = 1  # turned, these reach the corner that the model sees; the others do not
    x[:2, :, 3, 3] = 1

    def dead(x):
        return torch.relu(x[:, 0, 3, 3:] * torch.tensor([1.0, 2.0]))

    with pytest.raises(ValueError, match="only zeros for 1 of the images"):
        audit_model(dead, (x, y), Cyclic(4), progress=False)


@pytest.mark.parametrize("other", [Flip("x"), CyclicShift("x", 3)], ids=repr)
def test_factors_that_do_not_commute_are_undone_in_turn(net, x, y, other):
    group = Product(Cyclic(4), other)
    found = audit_model(net, (x, y), group, steps=5, progress=False)
    assert found.elements == 4 * other.order - 1
    assert found.logit_invariance.discretisation == 0
    assert found.saliency_similarity.discretisation == pytest.approx(1, abs=1e-5)
    assert {row.discretisation for row in found.layers if row.law == "equivariance"} == {0.0}

    def by_mean(x):
        return x.mean((1, 2, 3))[:, None] * torch.tensor([1.0, -1.0, 2.0])

    same = audit_model(by_mean, (x, y), group, steps=5, progress=False)
    assert same.saliency_similarity.mean == pytest.approx(1, abs=1e-5)


def test_colours_and_background_leave_maps_alone():
    x = torch.rand(8, 3, 6, 6, generator=torch.Generator().manual_seed(0))

    def grey(x):  # looks at one pixel, whatever the colours
        return x[:, :, 2, 3].mean(1)[:, None] * torch.tensor([1.0, -1.0])

    def one_pixel(model, x, y):
        maps = torch.zeros_like(x)
        maps[:, :, 2, 3] = 7.0
        return maps

    still = saliency_similarity(grey, x, Colour(), saliency=one_pixel, samples=3)
    assert still.mean == pytest.approx(1, abs=1e-6)

    def everywhere(model, x, y):
        return torch.ones_like(x)

    act = ImageAction(Affine2("translation"), fill=-50.0)
    assert saliency_similarity(grey, x, act, saliency=everywhere, half_width=0.3).mean > 0.8
    features = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Flatten(), nn.Linear(108, 2))
    (row,) = layer_equivariance(features, x, Colour(), layers=["0"])
    assert (row.law, row.error > 0) == ("invariance", True)


def test_the_error_of_a_layer_has_a_standard_error():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Flatten(), nn.Linear(72, 2))
    found = [
        layer_equivariance(net, torch.randn(20, 1, 6, 6), Affine2("rotation"), samples=2, seed=i)
        for i in range(60)
    ]
    for rows in zip(*found, strict=True):
        errors = torch.tensor([row.error for row in rows])
        stated = torch.tensor([row.standard_error for row in rows]).mean()
        assert 0.7 < float(stated / errors.std()) < 1.4
    whole = audit_model(
        net, (torch.randn(9, 1, 6, 6), torch.arange(9) % 2), Cyclic(4), progress=False
    )
    assert all(row.standard_error > 0 for row in whole.layers)


def test_accuracy_has_its_own_floor(net, x, y):
    exact = audit_model(net, (x, y), Cyclic(4), steps=5, progress=False)
    assert exact.accuracy_moved.discretisation == pytest.approx(exact.accuracy.mean)
    turned = audit_model(net, (x, y), Affine2("rotation"), steps=5, progress=False)
    assert 0 <= turned.accuracy_moved.discretisation <= 1


def test_layers_of_a_model_of_images_on_white():
    """The images have a background of 1, feature maps have one of 0."""
    torch.manual_seed(0)
    strict = RelaxedCNN(1, 3, Symmetry(Cyclic(8), "strict"), width=2, kernel_size=3).eval()

    class Fields(nn.Module):
        def __init__(self, fill):
            super().__init__()
            self.fill, self.maps = fill, nn.Identity()

        def forward(self, x):
            return self.maps(strict.features[:2](x - self.fill).unflatten(1, (2, 8))).flatten(1)

    x = torch.rand(4, 1, 12, 12)
    (black,) = layer_equivariance(Fields(0.0), x, Cyclic(8))
    (white,) = layer_equivariance(Fields(1.0), x + 1, ImageAction(Cyclic(8), fill=1.0))
    assert (white.law, black.law) == ("regular", "regular")
    assert white.error == pytest.approx(black.error, abs=1e-4)
