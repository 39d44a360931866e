"""``symmetries.wrap``: a frozen model behind a canonicaliser, against planted truths."""

import math

import onnxruntime
import pytest
import torch
from torch import nn

import symmetries
from symmetries.analysis import wrap_files, wrapping
from symmetries.analysis.canonicalised import CanonicalisedModel, within_range
from symmetries.analysis.wrap_results import cautions
from symmetries.analysis.wrap_rules import Scores, choose_rule, draw_moves, moved_pictures, paired
from symmetries.analysis.wrapping import split_reference, widths_of
from symmetries.data import ImageSet
from symmetries.groups import as_group
from symmetries.learners.orbit_posterior import OrbitConfig, OrbitPosterior, Training
from symmetries.learners.orbit_posterior.pose_reader import Middle, PoseReader
from symmetries.learners.orbit_posterior.views import View
from symmetries.results import ClassEffect, WrapResult

GLYPHS = {
    "F": ("#####", "#    ", "#    ", "###  ", "#    ", "#    ", "#    "),
    "L": ("#    ", "#    ", "#    ", "#    ", "#    ", "#    ", "#####"),
    "T": ("#####", "  #  ", "  #  ", "  #  ", "  #  ", "  #  ", "  #  "),
    "6": (" ### ", "#    ", "#    ", "#### ", "#   #", "#   #", " ### "),
}
QUICK = OrbitConfig.preset("quick").replace(training=Training(steps=300, batch_size=64, rounds=1))


def letters(count, seed):
    """Upright letters at a random place, of random strength."""
    generator = torch.Generator().manual_seed(seed)
    images, labels = torch.zeros(count, 1, 16, 16), torch.arange(count) % len(GLYPHS)
    for image, label in zip(images[:, 0], labels, strict=True):
        rows = list(GLYPHS.values())[label]
        glyph = torch.tensor([[c == "#" for c in row] for row in rows]).float()
        y, x = torch.randint(-1, 2, (2,), generator=generator).tolist()
        ink = 0.6 + 0.4 * torch.rand(7, 5, generator=generator)
        image[4 + y : 11 + y, 5 + x : 10 + x] = glyph * ink
    return ImageSet(images, labels, class_names=tuple(GLYPHS), name="letters")


def linear_classifier(data):
    """Least squares on pixels."""
    x = torch.cat((data.images.flatten(1), torch.ones(len(data), 1)), 1)
    y = nn.functional.one_hot(data.labels).float()
    weight = torch.linalg.solve(x.T @ x + 0.1 * torch.eye(x.shape[1]), x.T @ y)
    layer = nn.Linear(256, y.shape[1])
    layer.weight.data, layer.bias.data = 5 * weight[:-1].T.contiguous(), 5 * weight[-1]
    return nn.Sequential(nn.Flatten(), layer)


@pytest.fixture(scope="module")
def wrapped(tmp_path_factory):
    """A linear classifier of upright letters, wrapped for all angles, and its files."""
    folder = tmp_path_factory.mktemp("wrapped")
    net = linear_classifier(letters(400, 1))
    held = letters(160, 2)
    result = symmetries.wrap(
        net,
        letters(400, 0),
        held_out=held,
        views=2,
        preset=QUICK,
        export=folder,
        device="cpu",
        progress=False,
    )
    return result, net, folder


def turned(images, seed=3):
    """Pictures turned by random angles, made by another path than the module's."""
    group = as_group("rotation")
    angle = 2 * math.pi * torch.rand(len(images), 1, generator=torch.Generator().manual_seed(seed))
    return symmetries.ImageAction(group, interpolation="bicubic")(group.exp(angle), images)


@pytest.mark.parametrize("labels", [torch.arange(1200) // 400, torch.arange(1200) % 2])
def test_held_out_pictures_are_of_all_classes_in_whatever_order_they_come(labels, monkeypatch):
    monkeypatch.setattr(wrapping, "MOST_HELD_OUT", 600)
    given = ImageSet(torch.rand(1200, 1, 8, 8), labels)
    held = wrapping.split_reference(given, (given.images, labels), {}, 0)[1]
    assert len(held) == 600
    for half in (held.labels[::2], held.labels[1::2]):  # one decides, one is measured on
        assert half.bincount().min() > 60


def test_accuracy_on_turned_pictures_is_restored(wrapped):
    result, net, _ = wrapped
    test = letters(200, 9)
    x = turned(test.images)
    bare, seen = (m(x).argmax(1) == test.labels for m in (net, result.fitted))
    still = result.fitted(test.images).argmax(1) == test.labels
    assert bare.float().mean() < 0.6
    assert seen.float().mean() > 0.9
    assert still.float().mean() == 1.0
    assert result.moved.gain.low > 20
    assert result.untouched.gain.mean >= -result.limit
    assert result.pose_error < 10
    assert result.score == "accuracy"
    assert (result.chosen_on, result.measured_on) == (80, 80)


def test_the_page_and_the_file_show_the_same(wrapped, tmp_path):
    result, _, _ = wrapped
    path = result.save(tmp_path / "wrap.json")
    again = WrapResult.load(path)
    assert again == result
    assert again.fitted is None
    page = result.to_html()
    assert "What the model sees" in page
    assert "wrapped.onnx" in page
    assert "What the model sees" not in again.to_html()


def test_files_give_what_the_module_gives(wrapped):
    result, _, folder = wrapped
    x = turned(letters(30, 11).images, seed=5)
    program = torch.export.load(folder / "wrapped.pt2").module()
    session = onnxruntime.InferenceSession(str(folder / "wrapped.onnx"))
    for count in (1, 30):
        expected = result.fitted(x[:count])
        torch.testing.assert_close(program(x[:count]), expected, rtol=1e-4, atol=1e-4)
        found = torch.from_numpy(session.run(None, {"images": x[:count].numpy()})[0])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert [file.name for file in result.files] == ["wrapped.pt2", "wrapped.onnx"]
    assert all(file.difference <= 1e-3 * file.scale for file in result.files)


def test_a_file_that_differs_is_removed_and_refused(tmp_path):
    path, x = tmp_path / "wrapped.pt2", torch.rand(4, 1, 8, 8)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="expected what the module gives"):
        wrap_files._compared(path, lambda x: x.sum((1, 2, 3)) + 0.1, x, x.sum((1, 2, 3)))
    assert not path.exists()


def random_module(model, kind, group="c4", shape=(1, 16, 16), threshold=-math.inf, views=1):
    """A canonicaliser with random weights: it moves every picture somewhere."""
    posterior = OrbitPosterior(group, shape, QUICK, reach={"shift_x": 0.2, "shift_y": 0.2})
    generator = torch.Generator().manual_seed(0)
    for weight in posterior.parameters():
        weight.data += 0.3 * torch.randn(weight.shape, generator=generator)
    return CanonicalisedModel(model, posterior, kind, threshold=threshold, views=views)


def box_of_content(x):
    """The box around what is bright, x1, y1, x2, y2 and a score, and a row of zeros."""
    across, down = (x[:, 0].amax(axis) > 0.5 for axis in (1, 2))
    side = torch.arange(x.shape[-1])
    ends = []
    for found in (across, down):
        ends.append(
            (torch.where(found, side, 99).amin(1), torch.where(found, side, -1).amax(1) + 1)
        )
    (x1, x2), (y1, y2) = ends
    box = torch.stack((x1, y1, x2, y2, torch.full_like(x1, 7)), -1).float()
    return torch.stack((box, torch.zeros_like(box)), 1)


def centre_of_content(x):
    """The centre of mass (N, 1, 2) in pixels, x first."""
    weight = x[:, 0] / x[:, 0].sum((1, 2), keepdim=True)
    side = torch.arange(x.shape[-1]).float()
    return torch.stack(((weight.sum(1) * side).sum(1), (weight.sum(2) * side).sum(1)), -1)[:, None]


@pytest.mark.parametrize(
    ("kind", "model", "group", "tolerance"),
    [
        ("boxes", box_of_content, "c4", 1e-3),
        ("boxes", box_of_content, "d4", 1e-3),
        ("points", centre_of_content, "rotation", 0.1),
        ("points", centre_of_content, "rotation,translation", 0.1),
        ("map", lambda x: x, "c4", 1e-4),
        ("map", lambda x: x[:, 0], "d4", 1e-4),
        ("scalar", lambda x: x.sum((1, 2, 3)), "c4", 1e-3),
    ],
)
def test_answers_of_an_equivariant_model_come_back_to_their_place(kind, model, group, tolerance):
    # Whatever the pose that is read, such a model must answer as without a wrapper.
    x = torch.zeros(12, 1, 16, 16)
    x[:, :, 5:8, 6:12] = 1.0
    module = random_module(model, kind, group)
    u, _, _ = module.reader(x + 0.01 * torch.rand(x.shape))
    assert float((u != 0).float().mean()) > 0.5  # most are moved
    torch.testing.assert_close(module(x), model(x), rtol=0, atol=tolerance)


def test_pictures_that_are_not_moved_are_untouched_to_the_bit():
    net = nn.Sequential(nn.Flatten(), nn.Linear(256, 3))
    x = torch.rand(20, 1, 16, 16)
    module = random_module(net, "logits", "rotation", threshold=0.0)
    ratio = module.reader(x)[2]
    module.threshold = float(ratio.median())
    still = ratio <= module.threshold
    assert 0 < int(still.sum()) < 20
    assert torch.equal(module(x)[still], net(x)[still])
    module.threshold = None
    assert torch.equal(module(x), net(x))


def test_values_outside_of_the_unit_interval_are_kept():
    # Quarter turns permute pixels: standardised pictures keep all of their values.
    x = 4 * torch.rand(8, 1, 16, 16) - 2
    module = random_module(lambda x: x.flatten(1), "embedding", "c4")
    moved = moved_pictures(module, x, torch.ones(8, 1))
    for found in (module(x), moved.flatten(1)):
        assert not torch.equal(found, x.flatten(1))
        expected = x.flatten(1).sort(1).values
        torch.testing.assert_close(found.sort(1).values, expected, rtol=0, atol=1e-3)


def test_views_are_weighted_by_their_probabilities():
    net = nn.Sequential(nn.Flatten(), nn.Linear(256, 3))
    x = torch.rand(6, 1, 16, 16)
    module = random_module(net, "logits", "c4", views=4)
    u, weight, _ = module.reader(x)
    assert torch.equal(u[..., 0].sort(-1).values, torch.arange(4.0).expand(6, 4))
    turns = [torch.rot90(x, -k, (2, 3)) for k in range(4)]
    each = torch.stack([net(turn).softmax(-1) for turn in turns], 1)
    mean = (each.gather(1, u.long().expand(-1, -1, 3)) * weight[..., None]).sum(1)
    torch.testing.assert_close(module(x).softmax(-1), mean, rtol=1e-4, atol=1e-5)


def test_pictures_of_another_size_are_refused():
    module = random_module(nn.Flatten(), "logits", "c4")
    with pytest.raises(ValueError, match="expected"):
        module(torch.rand(2, 1, 8, 8))


def test_probabilities_stay_probabilities():
    net = nn.Sequential(nn.Flatten(), nn.Linear(256, 3), nn.LogSoftmax(-1))
    found = random_module(net, "probabilities", "c4", views=2)(torch.rand(5, 1, 16, 16))
    torch.testing.assert_close(found.sum(-1), torch.ones(5))


@pytest.mark.parametrize("group", ["zoom", "rotation,translation"])
def test_plain_views_are_views_without_random_numbers(group):
    halved = QUICK.replace(views=QUICK.views.replace(edges=QUICK.views.edges / 2))  # as wrap has it
    posterior = OrbitPosterior(group, (1, 16, 16), halved)
    reader = PoseReader(posterior)
    plain, x = reader.view, torch.rand(3, 1, 16, 16)
    view = View(plain.action, plain.chart, (1, 16, 16), plain.frame, plain.config, 0.0, 1.0)
    u = posterior.chart.identity(3)
    torch.testing.assert_close(
        plain(x, u, Middle(x))[1], view(x, u, Middle(x))[1], rtol=0, atol=1e-4
    )


def test_limits_keep_angles_within_a_range():
    posterior = random_module(torch.sum, "scalar", "rotation").reader
    posterior.limits = {"rotation": math.radians(30)}
    u = posterior(torch.rand(40, 1, 16, 16))[0]
    assert float(u.abs().max()) <= math.radians(36)


def test_moves_go_as_far_as_they_are_told():
    chart = random_module(torch.sum, "scalar", "rotation").chart
    s = draw_moves(chart, {"rotation": 0.5}, 500, 0)
    assert 0.45 < float(s.abs().max()) <= 0.5
    assert widths_of(as_group("rotation"), "rotation=45", 16) == {"rotation": math.radians(45)}


def scores(ratio, bare, mode):
    parts = [torch.tensor(values, dtype=torch.float64) for values in (ratio, bare, mode)]
    return Scores(parts[0], parts[1], parts[2], None, torch.zeros(len(ratio), 1))


def test_the_rule_is_the_best_that_costs_little():
    # Below 1.5 nats moving is wrong for pictures as they are; moved ones have 5 nats.
    still = scores([0.0, 0.7, 1.2, 0.1] * 50, [1.0] * 200, [1.0, 0.0, 0.0, 1.0] * 50)
    moved = scores([5.0, 2.5, 1.8, 0.2] * 50, [0.0] * 200, [1.0] * 200)
    best, every = choose_rule(still, moved)
    assert (best.rule, best.threshold) == ("mode", 1.5)
    assert [one.allowed for one in every[:5]] == [True, False, False, False, True]
    assert choose_rule(still, moved, limit=60.0)[0].threshold == 0.0  # all that are moved are right
    hopeless = scores([9.0] * 200, [1.0] * 200, [0.0] * 200)
    assert choose_rule(hopeless, moved)[0].rule == "unmoved"


def test_no_difference_still_has_an_interval():
    found = paired(torch.zeros(100))
    assert (found.mean, found.low, found.high) == (0.0, -3.7, 3.7)


def test_classes_whose_pose_carries_meaning_are_named(wrapped):
    result, _, _ = wrapped

    class Found:
        labelled, limit, held = True, result.limit, letters(40, 0)
        chosen = result.candidates[1]

    row = ClassEffect(name="6", examples=100, untouched=(1.0, 0.99), moved=(0.3, 0.5))
    texts = cautions(Found, result.untouched, result.moved, (row,))
    assert any("(6: 50 of 99 %)" in text for text in texts)
    worse = row.model_copy(update={"moved": (0.9, 0.5)})
    assert (
        "worse than by the bare model"
        in cautions(Found, result.untouched, result.moved, (worse,))[0]
    )
    guessing = result.untouched.bare.model_copy(update={"mean": 0.1})
    wrong = result.untouched.model_copy(update={"bare": guessing})
    assert "are labels, order of classes" in cautions(Found, wrong, result.moved, ())[0]


def test_pictures_move_as_the_image_action_moves_them():
    module = random_module(torch.sum, "scalar", "rotation")
    x, s = torch.rand(5, 1, 16, 16), torch.linspace(-3, 3, 5)[:, None]
    group = as_group("rotation")
    act = symmetries.ImageAction(group, interpolation="bicubic")
    expected = within_range(act(group.exp(s), x), x, torch.zeros(1, 1, 1))
    torch.testing.assert_close(moved_pictures(module, x, s)[s[:, 0] != 0], expected[s[:, 0] != 0])
    assert torch.equal(moved_pictures(module, x, 0 * s), x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": "shift"}, "group"),
        ({"views": 0}, "views"),
        ({"limit": -1.0}, "limit"),
        ({"output": "vector"}, "output: expected an answer that can be moved back"),
        ({"output": "boxes", "views": 3}, "views: expected 1 for boxes"),
        ({"reference": letters(120, 0)}, "reference: expected at least 40 held-out pictures"),
        ({"held_out": torch.rand(50, 1, 8, 8)}, "held_out: expected pictures of the reference"),
        ({"preset": "paper"}, "preset: expected quick or default"),
        ({"range": "rotation=400"}, "range"),
        ({"fill": 3.0}, "fill: expected a number from 0 to 1"),
    ],
)
def test_bad_input_is_refused_by_name(change, message):
    given = {"model": lambda x: x.flatten(1)[:, :4], "reference": letters(220, 0), **change}
    if change.get("output") == "boxes":
        given["model"] = lambda x: x.flatten(1)[:, :8].unflatten(1, (2, 4))
    with pytest.raises((ValueError, TypeError), match=message):
        symmetries.wrap(**given, device="cpu", progress=False)


def test_both_halves_of_held_out_pictures_have_all_classes():
    """Every other picture decides: classes that take turns may not part the classes."""
    images = letters(80, seed=0)
    _, held = split_reference(images, images, {}, seed=0)
    assert set(held.labels[::2].tolist()) == set(held.labels[1::2].tolist())
