"""What stands in nobody's way: no labels, any classifier's output, a range, a sub-sample."""

import math
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from symmetries import audit
from symmetries.auditing import audit_model
from symmetries.auditing.answers import read_logits
from symmetries.auditing.elements import make_moves
from symmetries.auditing.saliency import SalientPixels, area, smooth_large
from symmetries.auditing.summarise import estimate_share
from symmetries.auditing.timing import expected_seconds, in_words
from symmetries.groups import Affine2, Cyclic
from symmetries.groups.ranges import parse_range, shown_range
from symmetries.report.audit_words import weakest_words


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.Tanh(), nn.Linear(16, 3)).double()


@pytest.fixture
def x():
    return torch.rand(20, 1, 6, 6, generator=torch.Generator().manual_seed(1)).double()


@pytest.fixture
def y():
    return torch.arange(20) % 3


def quick(model, data, group="c4", **options):
    options = {"steps": 5, "layers": (), "progress": False} | options
    return audit_model(model, data, group, **options)


def by_hand(net, x):
    """Agreement, margin and its change, one picture and one turn after the other."""
    same, changes, margins = [], [], []
    for image in x:
        logits = net(image[None])[0].detach().numpy()
        order = np.argsort(logits)[::-1]
        margins.append(logits[order[0]] - logits[order[1]])
        for k in (1, 2, 3):
            turned = net(torch.rot90(image, k, (1, 2))[None])[0].detach().numpy()
            same.append(turned.argmax() == order[0])
            changes.append(abs(turned[order[0]] - turned[order[1]] - margins[-1]))
    return np.mean(same), np.mean(margins), np.mean(changes) / np.mean(margins)


def test_labels_are_needed_for_accuracy_only(net, x, y):
    without, with_labels = quick(net, x), quick(net, (x, y))
    assert without.accuracy is None
    assert without.accuracy_moved is None
    assert with_labels.accuracy is not None
    for name in ("agreement", "logit_invariance", "distribution_invariance", "margin_change"):
        assert getattr(without, name) == getattr(with_labels, name)
    explained = net(x).argmax(1)  # without labels saliency explains the predicted class
    assert quick(net, (x, explained)).saliency_curve == without.saliency_curve
    assert quick(net, x.numpy()).agreement == without.agreement


def test_agreement_and_margin_against_a_loop(net, x):
    found = quick(net, x)
    same, margin, change = by_hand(net, x)
    assert found.agreement.mean == pytest.approx(same)
    assert found.margin == pytest.approx(margin)
    assert found.margin_change.mean == pytest.approx(change)


def test_a_planted_share_of_predictions_changes():
    """A quarter of the pictures has its mark where only one of four turns puts it back."""
    x = torch.zeros(16, 1, 4, 4)
    x[:4, 0, 0, 0] = 1  # these are class 1 as they are, class 0 in all other poses
    model = lambda x: torch.stack((torch.full((len(x),), 0.5), x[:, 0, 0, 0]), 1)  # noqa: E731
    found = quick(model, x)
    assert found.agreement.mean == pytest.approx(1 - 4 / 16)
    assert found.agreement.low < 0.75 < found.agreement.high


def test_the_interval_of_a_share_is_wilsons():
    for p in (0.0, 0.3, 1.0):
        values = (torch.arange(50) < 50 * p).double()
        found = estimate_share(values)
        z, n = 1.959963984540054, 50
        for end, sign in ((found.low, -1), (found.high, 1)):  # roots of (p - e)^2 = z^2 e(1-e)/n
            assert (p - end) ** 2 == pytest.approx(z * z * end * (1 - end) / n, abs=1e-12)
            assert sign * (end - p) >= -1e-12


def test_a_model_that_always_says_the_same(x):
    """Agreement of 1 means nothing then, and the result says so."""
    constant = lambda x: torch.tensor([[0.0, 1.0]]).expand(len(x), 2) + 0 * x.sum()  # noqa: E731
    found = quick(constant, x)
    assert found.agreement.mean == 1
    assert any("same class for all" in note for note in found.notes)
    silent = quick(lambda x: ["" for _ in x], x)
    assert any("all the same" in note for note in silent.notes)
    assert not quick(lambda x: x.flatten(1)[:, :3], x).notes


def test_softmax_is_taken_apart(net, x, y):
    ends = nn.Sequential(net, nn.Softmax(1))
    found, logs = quick(ends, (x, y)), quick(nn.Sequential(net, nn.LogSoftmax(1)), (x, y))
    assert (found.output, logs.output) == ("probabilities", "logits")
    assert "logarithms are taken" in found.notes[0]
    assert not logs.notes
    for name in ("logit_invariance", "distribution_invariance", "sensitivity", "saliency_area"):
        assert getattr(found, name).mean == pytest.approx(getattr(logs, name).mean, rel=1e-6)
    layers = quick(ends, (x, y), layers=None).layers
    assert [row.name for row in layers] == ["0.0", "0.1", "0.2", "0.3", "1"]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda logits: SimpleNamespace(logits=logits, loss=None),
        lambda logits: {"logits": logits},
        lambda logits: (logits,),
    ],
)
def test_objects_with_logits(net, x, wrap):
    bare = quick(lambda x: net(x), x)
    assert quick(lambda x: wrap(net(x)), x).saliency_curve == bare.saliency_curve


def test_one_logit_has_the_errors_of_a_bernoulli(net, x):
    def one(x):
        return net(x)[:, :1]

    found = quick(one, (x, torch.arange(20) % 2), "flip_x")
    z, moved = one(x)[:, 0].detach(), one(x.flip(3))[:, 0].detach()
    p, q = z.sigmoid(), moved.sigmoid()
    kl = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    assert found.classes == 2
    assert found.distribution_invariance.mean == pytest.approx(float(kl.mean()))
    assert found.logit_invariance.mean == pytest.approx(float((z - moved).square().mean() / 2))
    assert found.agreement.mean == pytest.approx(float(((z > 0) == (moved > 0)).double().mean()))
    probabilities = quick(lambda x: one(x).sigmoid(), x, "flip_x", output="probabilities")
    assert probabilities.distribution_invariance.mean == pytest.approx(float(kl.mean()))
    flat = quick(lambda x: one(x)[:, 0], x, "flip_x", output="logits")
    assert flat.logit_invariance == found.logit_invariance


def test_one_number_is_asked_about(net, x):
    with pytest.raises(ValueError, match='output="scalar" for a number such as an energy'):
        quick(lambda x: net(x)[:, :1], x)
    with pytest.raises(ValueError, match="all of them in"):
        quick(lambda x: net(x)[:, :1].sigmoid(), (x, torch.arange(20) % 2))
    with pytest.raises(ValueError, match="output: expected probabilities"):
        read_logits(net, x, output="probabilities")


def test_a_range_is_kept_and_recorded(x):
    seen = []

    def spy(x):
        seen.append(x)
        return x.flatten(1)[:, :3]

    found = quick(spy, x, "rotation", range="rotation=10", gradients=False, samples=200)
    (row,) = found.range
    assert (row.name, row.low, row.high, row.unit) == ("rotation", -10.0, 10.0, "degrees")
    whole = quick(lambda x: x.flatten(1)[:, :3], x, "rotation", samples=200, gradients=False)
    assert whole.range[0].high == 180
    assert found.logit_invariance.mean < 0.2 * whole.logit_invariance.mean
    assert quick(spy, x, gradients=False).range == ()
    with pytest.raises(ValueError, match="range: expected one of range and half_width"):
        quick(spy, x, "rotation", range="rotation=10", half_width=1.0)
    with pytest.raises(ValueError, match="all elements of a finite group"):
        quick(spy, x, "c4", range="rotation=10")


def test_ranges_as_people_write_them():
    group = Affine2("translation", "rotation", "zoom")
    widths = dict(
        zip(group.names, parse_range(group, "shift=3px,rotation=90,zoom=1.5", 24), strict=True)
    )
    assert widths == pytest.approx(
        {"shift_x": 0.25, "shift_y": 0.25, "rotation": math.pi / 2, "zoom": math.log(1.5)}
    )
    mapping = parse_range(group, {"shift_x": "10%", "rotation": "0.1rad"}, 24)
    assert mapping[:3] == pytest.approx((0.2, 1.0, 0.1))  # a tenth of the side, 2 half-images long
    rows = shown_range(group, mapping, 24)
    assert rows[0] == ("shift_x", pytest.approx(-2.4), pytest.approx(2.4), "pixels")
    for bad in ("rotation", "rotation=ten", "rotation=270", "zoom=0.5", "shift=10deg", "tilt=3"):
        with pytest.raises(ValueError, match="range: expected"):
            parse_range(group, bad, 24)
    with pytest.raises(TypeError, match="range: expected text or a mapping"):
        parse_range(group, 3.0)


def test_a_sub_sample_is_spread_and_said(net, x, y):
    all_of_them, some = quick(net, (x, y)), quick(net, (x, y), closely=5)
    assert (all_of_them.closely, some.closely) == (20, 5)
    assert some.logit_invariance == all_of_them.logit_invariance
    rows = torch.arange(5) * 4
    picked = quick(net, (x[rows], y[rows]))
    assert some.saliency_similarity.mean == pytest.approx(picked.saliency_similarity.mean)
    assert some.sensitivity == picked.sensitivity
    in_batches = quick(net, (x, y), closely=5, batch_size=3)
    assert in_batches.saliency_area.mean == pytest.approx(some.saliency_area.mean)
    turned = quick(net, (x, y), "rotation", closely=5)
    back = turned.accuracy_moved.discretisation
    assert back is not None
    assert turned.accuracy_moved.discretisation <= 1


def test_the_curve_has_the_paper_as_a_point(net, x):
    found = quick(net, x)
    last = found.saliency_curve[-1]
    assert last.threshold == 0.9
    if last.similarity is not None:
        assert last.similarity.mean == pytest.approx(found.saliency_similarity.mean)
    loose = quick(lambda x: x.flatten(1) @ torch.ones(36, 3).double(), x + 1)  # all pixels alike
    assert loose.saliency_curve[-1].pixels >= 2
    assert loose.saliency_curve[-1].similarity.mean == pytest.approx(loose.saliency_similarity.mean)


def test_too_little_is_not_measured(x):
    """One pixel decides: nothing but it is salient, and its similarity is left open."""
    corner = lambda x: torch.stack((x[:, 0, 0, 0], 1 - x[:, 0, 0, 0]), 1)  # noqa: E731
    found = quick(corner, x)
    assert [point.similarity for point in found.saliency_curve[1:]] == [None] * 9
    assert found.saliency_curve[-1].pixels == 1


def test_the_area_against_a_sum():
    similar = torch.rand(4, 10, dtype=torch.float64)
    expected = [(sum(row[1:-1]) + (row[0] + row[-1]) / 2) / 9 for row in similar.tolist()]
    assert area(similar).tolist() == pytest.approx(expected)


def test_large_maps_are_smoothed_alike_in_every_pose():
    maps = torch.rand(1, 2, 84, 84, dtype=torch.float64)
    smoothed = smooth_large(maps)
    torch.testing.assert_close(smooth_large(maps.rot90(1, (2, 3))), smoothed.rot90(1, (2, 3)))
    assert smoothed.std() < 0.2 * maps.std()
    assert float(smoothed.sum()) == pytest.approx(float(maps.sum()))
    assert smooth_large(maps[..., :20]).shape == (1, 2, 84, 20)
    small = maps[..., :28, :28]
    assert smooth_large(small) is small
    pixels = SalientPixels().pixels(torch.ones(1, 3, 8, 8))
    assert pixels[0].tolist() == [64] * 10  # any channel counts once


def test_the_expected_time_is_of_the_right_size():
    class Slow(nn.Module):
        def forward(self, x):
            for _ in range(40):
                x = (x @ x.mT).tanh()
            return x.flatten(1)[:, :3]

    x = torch.rand(40, 1, 64, 64)
    ratios = []
    for _ in range(3):  # others may use this machine
        expected = expected_seconds(
            Slow(), x, make_moves(Cyclic(4), x), closely=40, steps=4, gradients=False, layers=0
        )
        found = quick(Slow(), x, gradients=False)
        assert expected.looks == 0
        ratios.append(expected.outputs / found.seconds)
    assert any(0.2 < ratio < 5 for ratio in ratios)
    assert (in_words(0.01), in_words(61), in_words(600)) == ("1 s", "61 s", "10 min")


@pytest.mark.parametrize(("pause", "most"), [(0.0, 64), (0.1, 4)])
def test_small_models_are_timed_in_batches_and_slow_ones_on_few_examples(pause, most):
    """The time of a pass of few examples is that of calls, which batches share."""
    seen = []

    def model(x):
        seen.append(len(x))
        time.sleep(pause)
        return x.flatten(1)[:, :3]

    x = torch.rand(100, 1, 8, 8)
    options = {"closely": 10, "steps": 2, "gradients": False, "layers": 0}
    expected_seconds(model, x, make_moves(Cyclic(4), x), **options)
    assert max(seen) == most


def test_functions_of_arrays(net, x, y):
    weight = np.random.default_rng(0).normal(size=(36, 3))

    def on_numpy(a):
        assert isinstance(a, np.ndarray)
        return a.reshape(len(a), -1).dot(weight)

    found = quick(on_numpy, (x, y))
    same = quick(lambda x: x.flatten(1) @ torch.tensor(weight), (x, y))
    assert found.logit_invariance.mean == pytest.approx(same.logit_invariance.mean)
    assert found.saliency_area is None
    assert any("NumPy arrays" in note for note in found.notes)
    embedded = quick(lambda a: np.fft.fft2(a).real, x, output="embedding")
    assert embedded.measures["cosine"].mean < 1


def test_rows_by_class_against_a_loop(net, x, y):
    """Agreement, accuracies and what predictions become, class by class."""
    found = quick(net, (x, y))
    predict = lambda x: net(x).argmax(1).tolist()  # noqa: E731
    still = predict(x)
    moved = [predict(x.rot90(k, (2, 3))) for k in (1, 2, 3)]
    for label in range(3):
        mine = [i for i in range(20) if int(y[i]) == label]
        pairs = [(still[i], turn[i]) for i in mine for turn in moved]
        (row,) = [row for row in found.by_class if row.label == label]
        assert row.examples == len(mine)
        assert row.agreement == pytest.approx(np.mean([a == b for a, b in pairs]))
        assert row.accuracy == pytest.approx(np.mean([still[i] == label for i in mine]))
        assert row.accuracy_moved == pytest.approx(np.mean([b == label for _, b in pairs]))
        changed = [b for a, b in pairs if a != b]
        if changed:
            assert changed.count(row.becomes) == max(changed.count(b) for b in changed)
            assert row.becomes_share == pytest.approx(changed.count(row.becomes) / len(pairs))
        assert row.low <= row.agreement <= row.high
    unlabelled = quick(net, x)
    assert [row.label for row in unlabelled.by_class] == sorted(set(still))
    assert unlabelled.by_class[0].accuracy is None


def test_a_planted_class_is_the_weakest():
    """A six is a nine upside down, and nothing else changes."""
    x = torch.zeros(12, 1, 4, 4)
    x[:4, 0, 0, 0], x[4:, 0, 1:3, 1:3] = 1, 1  # a corner that turns, and a centre that does not
    corners = lambda x: torch.stack(  # noqa: E731
        (x[:, 0, 0, 0], x[:, 0, 3, 3], x[:, 0, 1, 1] * 2, 0.1 + 0 * x[:, 0, 0, 0]), 1
    )
    found = quick(corners, x, "c2")
    rows = {row.label: row for row in found.by_class}
    assert (rows[0].agreement, rows[0].becomes, rows[0].becomes_share) == (0, 1, 1)
    assert (rows[2].agreement, rows[2].becomes) == (1, None)
    assert weakest_words(found).startswith("Weakest class: 0, 0 %")
    assert "100 % become 1" in weakest_words(found)


def test_remedies_for_what_newcomers_give():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    images = torch.rand(6, 1, 8, 8)
    with pytest.raises(ValueError, match=r"images: expected values in .* normalize= .imagenet"):
        audit(net, images * 4 - 2, "c4", progress=False)
    with pytest.raises(ValueError, match=r"give it in float32 .model.float"):
        audit(net.double(), images, "c4", progress=False)
    net.float()
    with pytest.raises(ValueError, match=r"y: expected class numbers .* output=.embedding"):
        audit(net, (images, [0, 1, 2, 3, 4, 5]), "c4", progress=False, fast=True)
    with pytest.raises(ValueError, match='got tuple of 2; choose one: output="0:KIND"'):
        audit(lambda x: (net(x), x), images, "c4", progress=False, fast=True)
    never = lambda x: -100 * nn.functional.one_hot((x[:, 0, 0, 0] > 0.5).long(), 2).float()  # noqa: E731
    truth = (images[:, 0, 0, 0] > 0.5).long()
    found = audit(
        never, (images.repeat(9, 1, 1, 1), truth.repeat(9)), "c4", progress=False, fast=True
    )
    assert any("worse than guessing" in note for note in found.notes)


def test_shifts_of_signals_are_not_those_of_pictures():
    x = torch.rand(4, 1, 8, 8)
    message = r"group: expected a group that acts on images, got Signal.*translation"
    with pytest.raises(ValueError, match=message):
        audit_model(lambda x: x.flatten(1)[:, :3], x, "shift", progress=False)


def test_ranges_that_move_nothing_or_everything_away_are_refused():
    net, x = nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), torch.rand(4, 1, 8, 8)
    for group, how, said in (
        ("rotation", "rotation=0", "a parameter that moves"),
        ("rotation", "rotation=1000", "degrees from 0 to 180"),
        ("translation", "shift=9px", "at most 100%"),
        ("rotation", "rotatoin=5", "did you mean rotation"),
    ):
        with pytest.raises(ValueError, match=said):
            audit_model(net, x, group, range=how, progress=False)


def test_outputs_that_depend_on_the_batch_are_noted():
    net, x = nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), torch.rand(6, 1, 8, 8)
    together = lambda x: net(x) - net(x).mean(0)  # noqa: E731
    notes = [
        " ".join(audit_model(one, x, "c4", gradients=False, progress=False).notes)
        for one in (together, net)
    ]
    assert [("depends on the others" in note) for note in notes] == [True, False]
