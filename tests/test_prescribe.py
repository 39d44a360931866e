"""``symmetries.prescribe``: planted truths, what labels forbid, and code of four libraries."""

import dataclasses
import itertools
import math

import pytest
import torch
from torch import nn

import symmetries
from symmetries.analysis import label_conflicts, prescribe_trials, prescribing, quick_networks
from symmetries.analysis.augmentation_code import code_for
from symmetries.analysis.augmentation_laws import (
    MIXED,
    MOVES,
    SHEAR,
    Augmentation,
    Law,
    draw,
    fixed,
    moved,
)
from symmetries.analysis.label_conflicts import find_conflicts, limits_of
from symmetries.analysis.light_moves import KINDS, relit
from symmetries.analysis.network_trials import Change, Size, Trial
from symmetries.analysis.prescribe_results import cautions, model_curves
from symmetries.analysis.prescribe_trials import Task, is_confirmed, points, try_policies
from symmetries.analysis.quick_networks import SIZES, train, unmoved_networks
from symmetries.analysis.stacked_networks import StackedTraining
from symmetries.analysis.stored_models import Loaded
from symmetries.data import ImageSet
from symmetries.results import (
    Conflict,
    DataSummary,
    Estimate,
    Histogram,
    PrescribeResult,
    SymmetryResult,
    Transformation,
)

LAW = Law(rotation=40, shift=0.1, zoom=1.3, flip_x=0.5, erase=0.2, mix=0.5)
TINY = Size(200, 48, 2)


def arrows(count, spread, seed, directions=(0, 90, 180, 270)):
    """Arrows in so many directions, turned by up to ``spread`` degrees; their classes."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % len(directions)
    arrow = torch.zeros(1, 1, 16, 16)
    arrow[..., 7:9, 2:12] = 1.0
    for k in range(4):
        arrow[..., 4 + k, 9 + k : 11 + k] = arrow[..., 11 - k, 9 + k : 11 + k] = 1.0
    angle = torch.tensor(directions).float()[labels]
    angle = angle + spread * (2 * torch.rand(count, generator=generator) - 1)
    rows = torch.cat([fixed("rotation", float(a)) for a in angle])
    images = moved(arrow.expand(count, -1, -1, -1), rows, 0.0)
    images = images * (0.6 + 0.4 * torch.rand(count, 1, 1, 1, generator=generator))
    names = tuple(str(d) for d in directions)
    return ImageSet(images, labels, class_names=names, name="arrows")


def conflicts_of(data):
    seen = unmoved_networks(data.images, data.labels, data.classes, TINY, 0)
    return find_conflicts(*seen, data.class_names, 0.0)


def test_pictures_that_are_moved_ahead_are_the_same():
    """Those of 3 steps at once, and of the 1 that is left, as those of each step."""
    data = arrows(60, 10, seed=0)
    trial = Trial(data.images, data.labels, [LAW] * 4, 0.0, Size(7, 16, 2), 0)
    found = []
    for ahead in (1, 3):
        training = quick_networks._Training(trial, ahead)
        for done in range(7):
            training.prepare(done)
            training.step()
        found.append(torch.nn.utils.parameters_to_vector(training.net.parameters()))
    assert torch.allclose(*found, rtol=0, atol=1e-5)


def test_networks_that_train_as_one_are_those_that_train_alone():
    """Trials that differ in pictures, laws, fills, changes and seeds; moved 4 steps ahead."""
    data = arrows(60, 10, seed=0)
    few = Trial(data.images[:40], data.labels[:40], [LAW] * 4, None, Size(10, 16, 2), 1)
    own = {"images": data.images, "labels": data.labels}
    darker = Change(lambda count, generator: torch.ones(count, 1), lambda x, rows: x / 2)
    trials = [dataclasses.replace(few, **own, fill=0.0, seed=2), few]
    trials += [dataclasses.replace(few, **own, laws=[Law()] * 4)]
    trials += [dataclasses.replace(few, **own, change=darker, seed=2), trials[0]]
    stacked = quick_networks._alone(StackedTraining(trials, ahead=4))
    for trial, net in zip(trials, stacked, strict=True):
        (alone,) = quick_networks._alone(quick_networks._Training(trial))
        assert not torch.equal(next(net.parameters()), next(trial.network().parameters()))
        for a, b in zip(net.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_what_trains_as_one_is_alike(monkeypatch):
    monkeypatch.setattr(quick_networks, "STACKED", 2)
    x, y = torch.rand(8, 1, 12, 12), torch.arange(8) % 2
    one = Trial(x, y, [Law()] * 2, 0.0, Size(2, 8, 2), 0)
    wide = dataclasses.replace(one, images=torch.rand(8, 1, 12, 16))
    three = dataclasses.replace(one, laws=[Law()] * 3)
    deep = dataclasses.replace(one, size=Size(2, 8, 2, "resnet"))
    trials = [one, wide, one, deep, one, three, deep]
    assert quick_networks._stacks(trials) == [[0, 4], [2], [1], [3], [5], [6]]


def test_first_weights_follow_the_seed():
    trial = Trial(torch.rand(8, 1, 12, 12), torch.arange(8) % 2, [Law()] * 2, 0.0, Size(2, 8, 2), 0)
    first, again, other = (
        torch.nn.utils.parameters_to_vector(
            dataclasses.replace(trial, seed=s).network().parameters()
        )
        for s in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert float((first - other).abs().max()) > 0.1


def test_arrows_meet_at_a_quarter_turn():
    data = arrows(240, 8, 0)
    found = conflicts_of(data)
    pairs = {(c.first, c.second): c.amount for c in found if c.name == "rotation"}
    assert set(pairs) == set(itertools.combinations(data.class_names, 2))
    assert abs(pairs["0", "90"] - 90) <= 15
    assert abs(pairs["0", "180"] - 180) <= 15
    for name in data.class_names:
        limits = limits_of(found, name)
        assert limits["mix"] * SHEAR <= math.tan(math.radians(limits["rotation"])) + 1e-6
        assert 20 <= limits["rotation"] < 45  # never into the next class
    mirrored = {(c.first, c.second) for c in found if c.name == "flip_x"}
    assert mirrored == {("0", "180")}
    assert limits_of(found, "0")["flip_x"] == 0.0
    assert limits_of(found, "90")["flip_x"] == 0.5


def test_turned_pictures_are_turned_less_far_by_as_much_as_they_are_turned():
    """Two directions, half a turn apart, turned by up to 35 degrees: 72 more would mix them up."""
    data = arrows(240, 35, 2, directions=(0, 180))
    seen = unmoved_networks(data.images, data.labels, data.classes, TINY, 0)
    without = limits_of(find_conflicts(*seen, data.class_names, 0.0), "0")["rotation"]
    found = find_conflicts(*seen, data.class_names, 0.0, {"rotation": 35.0})
    limit = limits_of(found, "0")["rotation"]
    assert 35 + without > 90  # what is known of the pictures alone
    assert 20 <= limit < 90 - 35


def test_turns_that_nearly_meet_bring_a_warning_unless_poses_are_known():
    facts = {"name": "rotation", "first": "6", "second": "9", "share": 1.0}
    conflict = Conflict.model_validate({**facts, "amount": 165.0, "limit": 66.0})
    x, labels = torch.rand(40, 1, 8, 8), torch.arange(40) % 2
    data = ImageSet(x, labels, class_names=("6", "9"), name="d")
    limits = [limits_of((conflict,), name) for name in ("6", "9")]
    task = Task(data, x, labels, ("6", "9"), 0.0, (conflict,), limits, TINY, 0, lambda text: None)
    gain = Estimate.normal(5.0, 0.1)

    def warnings_of(task, far):
        return [t for t in cautions(task, {"rotation": far}, gain, 0.9) if "discover" in t]

    (text,) = warnings_of(task, 180.0)
    assert "6 and 9" in text
    assert "leave 16 degrees between" in text
    assert warnings_of(task, 30.0) == []
    assert warnings_of(dataclasses.replace(task, poses_known=True), 180.0) == []


def test_classes_that_never_meet_have_no_limit():
    data = arrows(160, 8, 1, directions=(0,))
    ring = torch.zeros(16, 16)
    axis = torch.arange(16) - 7.5
    radius = torch.hypot(axis[:, None], axis[None])
    ring[(radius < 6) & (radius > 4)] = 1.0
    rings = ring.expand(160, 1, 16, 16) * (0.6 + 0.4 * torch.rand(160, 1, 1, 1))
    both = ImageSet(
        torch.cat((data.images, rings)),
        torch.arange(320) // 160,
        class_names=("arrow", "ring"),
    )
    assert [c for c in conflicts_of(both) if c.name in ("rotation", "flip_x")] == []


@pytest.fixture(scope="module")
def prescribed():
    """Few shapes, in any direction in the data: turning them must help."""
    patch = pytest.MonkeyPatch()
    patch.setitem(SIZES, "quick", TINY)
    patch.setattr(prescribing, "BASES", ({"rotation": 30.0}, {"rotation": 180.0}))
    patch.setattr(prescribing, "ADDED", ())
    generator = torch.Generator().manual_seed(5)
    letters = torch.zeros(3, 16, 16)
    letters[:, 3:13, 4:6] = 1.0  # a stem
    letters[0, 3:5, 4:12] = letters[0, 7:9, 4:9] = 1.0  # F
    letters[1, 11:13, 4:12] = 1.0  # L
    letters[2, 3:5, 4:12] = letters[2, 11:13, 4:12] = 1.0  # C
    labels = torch.arange(96) % 3
    angles = 360 * torch.rand(96, generator=generator)
    rows = torch.cat([fixed("rotation", float(a)) for a in angles])
    images = moved(letters[labels][:, None], rows, 0.0)
    noise = 0.4 * torch.randn(images.shape, generator=generator)
    images = (images + noise.abs()).clamp(0, 1)
    data = ImageSet(images, labels, class_names=("F", "L", "C"), name="letters")
    net = nn.Sequential(nn.Flatten(), nn.Linear(256, 3))
    result = symmetries.prescribe(data, model=net, preset="quick", device="cpu", progress=False)
    patch.undo()
    return result


def test_turns_are_prescribed_where_they_occur_and_their_gain_is_predicted(prescribed):
    (move,) = prescribed.moves
    assert (move.name, move.unit) == ("rotation", "degrees")
    assert move.amount == 180
    assert prescribed.gain.low > 3
    assert prescribed.robustness.mean > 3
    assert {one.name for one in prescribed.curves} == {*MOVES[:-1], "light"}


def test_the_page_shows_the_edges_and_the_file_is_read_again(prescribed, tmp_path):
    page = prescribed.to_html()
    assert "At the edges" in page
    assert "RandomAffine(180" in page
    again = PrescribeResult.load(prescribed.save(tmp_path / "prescribe.json"))
    assert again == prescribed
    assert "What was tried" in again.to_html()


def test_laws_keep_to_their_ranges_and_to_the_limits_of_classes():
    laws = [LAW, LAW.within({"rotation": 5.0, "flip_x": 0.0})]
    classes = torch.arange(4000) % 2
    rows = draw(laws, classes, torch.Generator().manual_seed(0))
    angle, across, up, size, flip, *rest = rows.unbind(-1)
    shear_x, shear_y, kind, amount, side, left, top = rest
    for own, most in ((0, 40), (1, 5)):
        assert math.degrees(float(angle[classes == own].abs().max())) == pytest.approx(
            most, rel=0.02
        )
    assert float(across.abs().max()) <= 0.1 >= float(up.abs().max())
    assert float(size.min()) >= 1 / 1.3
    assert float(size.max()) <= 1.3
    assert float(flip[classes == 0].mean()) == pytest.approx(0.5, abs=0.05)
    assert float(flip[classes == 1].max()) == 0
    assert 0.4 < float((side > 0).float().mean()) < 0.6
    assert float(side.square().max()) == pytest.approx(0.2, abs=0.01)
    assert float((left + side).max()) <= 1 >= float((top + side).max())
    sheared = (shear_x != 0).float() + (shear_y != 0).float()
    assert float((sheared + (kind >= 0).float()).max()) == 1  # one of them at most
    assert float(shear_x.abs().max()) == pytest.approx(0.5 * SHEAR, rel=0.02)
    share = (len(MIXED) - 3) / len(MIXED)
    assert float((kind >= 0).float().mean()) == pytest.approx(share, abs=0.03)
    assert float(amount.abs().max()) <= 0.5


def test_moves_are_those_of_the_library():
    x = torch.rand(1, 1, 16, 16)
    group = symmetries.Affine2("rotation")
    act = symmetries.ImageAction(group)
    expected = act(group.exp(torch.tensor([math.radians(30.0)])), x)
    torch.testing.assert_close(moved(x, fixed("rotation", 30.0), 0.0), expected)
    assert torch.allclose(moved(x, fixed("flip_x", 0.5), 0.0), x.flip(-1), atol=1e-5)
    right = moved(x, fixed("shift", 1 / 16), 0.0)
    torch.testing.assert_close(right[..., 1:], x[..., :-1], atol=1e-5, rtol=1e-4)


def picture():
    """A smooth colour picture with a dark frame."""
    axis = torch.linspace(-1, 1, 24)
    bumps = [
        torch.exp(-(((axis[None] - a) / 0.3) ** 2) - ((axis[:, None] - b) / 0.2) ** 2)
        for a, b in ((0.2, -0.1), (-0.3, 0.2), (0.0, 0.3))
    ]
    return torch.stack(bumps)[None]


def executed(library, law=LAW, fill=0.0):
    space = {}
    text = code_for(library, {"a": law, "b": law.within({"rotation": 5.0})}, fill, (24, 24))
    exec(compile(text, library, "exec"), space)  # noqa: S102
    return space


@pytest.mark.parametrize("library", ["symmetries", "torchvision", "albumentations", "kornia"])
@pytest.mark.parametrize("fill", [None, 0.0, 0.25])
def test_code_is_python_with_a_safe_transform_and_one_for_limited_classes(library, fill):
    text = code_for(library, {"a": LAW, "b": LAW.within({"rotation": 5.0})}, fill, (24, 24))
    compile(text, library, "exec")
    assert text.count("by_class = {") == 1
    assert "'b':" in text
    assert "'a':" not in text  # it goes as far as others
    alone = code_for(library, {"a": LAW, "b": LAW}, fill, (24, 24))
    assert "by_class" not in alone


def test_our_own_code_runs():
    space = executed("symmetries")
    assert isinstance(space["others"], Augmentation)
    assert space["others"].law == LAW
    assert space["transform"].law.rotation == 5.0
    assert space["transform"](picture()).shape == (1, 3, 24, 24)


def test_kornia_moves_as_we_do_by_its_own_parameters():
    pytest.importorskip("kornia")
    torch.manual_seed(0)
    affine = executed("kornia")["others"][1]
    x = picture().repeat(8, 1, 1, 1)
    found = affine(x)
    drawn = affine._params
    shift = drawn["translations"] / 24
    rows = torch.stack(
        (
            -torch.deg2rad(drawn["angle"]),  # clockwise
            shift[:, 0],
            -shift[:, 1],
            drawn["scale"][:, 0],
        ),
        -1,
    )
    rows = torch.cat((rows, fixed("zoom", 1.0, 8)[:, 4:]), 1)
    assert float(drawn["angle"].abs().max()) > 10
    torch.testing.assert_close(found, moved(x, rows, 0.0), atol=0.03, rtol=0)


def test_kornia_erases_as_we_do_by_its_own_parameters():
    pytest.importorskip("kornia")
    torch.manual_seed(0)
    erase = executed("kornia", fill=0.25)["others"][3]
    x = picture().repeat(16, 1, 1, 1)
    found, drawn = erase(x), erase._params
    chosen = drawn["batch_prob"].bool()
    rows = fixed("zoom", 1.0, 16)
    for place, name in ((9, "widths"), (10, "xs"), (11, "ys")):
        rows[chosen, place] = drawn[name].float()[chosen] / 24
    assert 0 < int(chosen.sum()) < 16
    torch.testing.assert_close(found, moved(x, rows, 0.25), atol=1e-5, rtol=0)


def test_kornia_changes_light_as_we_do():
    kornia = pytest.importorskip("kornia")
    x = (255 * picture().repeat(4, 1, 1, 1)).round() / 255
    for amount in (-0.6, 0.4):
        theirs = {
            "brightness": kornia.enhance.adjust_brightness_accumulative(x, 1 + amount),
            "contrast": kornia.enhance.adjust_contrast_with_mean_subtraction(x, 1 + amount),
            "saturation": kornia.enhance.adjust_saturation_with_gray_subtraction(x, 1 + amount),
            "sharpness": kornia.enhance.sharpness(x, 1 + amount),
            "solarize": kornia.enhance.solarize(x, 1 - abs(amount)),
            "equalize": kornia.enhance.equalize(x),
        }
        for name, expected in theirs.items():
            kind, size = torch.full((4,), float(KINDS.index(name))), torch.full((4,), amount)
            torch.testing.assert_close(relit(x, kind, size), expected, atol=6e-3, rtol=0, msg=name)
    stretched = relit(0.2 + x / 2, torch.full((4,), float(KINDS.index("autocontrast"))), size)
    assert (float(stretched.min()), float(stretched.max())) == (0.0, 1.0)
    few = relit(x, torch.full((4,), float(KINDS.index("posterize"))), torch.ones(4))
    assert len(few.unique()) == 4  # two bits


def test_torchvision_moves_as_we_do_by_its_own_parameters():
    pytest.importorskip("torchvision")
    torch.manual_seed(0)
    affine = executed("torchvision")["others"].transforms[1]
    for _ in range(8):
        x = picture()
        drawn = affine.make_params([x])
        found = affine.transform(x, drawn)
        turn, (across, down) = -math.radians(drawn["angle"]), drawn["translate"]
        rows = torch.tensor([[turn, across / 24, -down / 24, drawn["scale"]]])
        rows = torch.cat((rows, fixed("zoom", 1.0)[:, 4:]), 1)
        torch.testing.assert_close(found, moved(x, rows, 0.0), atol=0.03, rtol=0)


def test_albumentations_moves_as_we_do_by_its_own_parameters():
    pytest.importorskip("albumentations")
    affine = executed("albumentations")["others"].transforms[1]
    x = picture()
    pixels = x[0].permute(1, 2, 0).contiguous().numpy()
    for _ in range(8):
        drawn = affine.get_params_dependent_on_data({"shape": pixels.shape}, {"image": pixels})
        keep = {k: v for k, v in drawn.items() if k != "shape"}
        found = torch.from_numpy(affine.apply(pixels, shape=pixels.shape, **keep)).permute(2, 0, 1)
        turn = math.radians(float(drawn["rotate"]))
        middle = torch.tensor([11.5, 11.5, 1.0], dtype=torch.float64)
        across, down = (torch.as_tensor(drawn["matrix"]) @ middle - middle)[:2] / 24
        rows = torch.tensor([[turn, across, -down, float(drawn["scale"]["x"])]])
        rows = torch.cat((rows, fixed("zoom", 1.0)[:, 4:]), 1)
        torch.testing.assert_close(found[None], moved(x, rows, 0.0), atol=0.06, rtol=0)


def test_the_error_of_a_gain_covers_networks_and_pictures():
    same = points(torch.tensor([[1.0, 0.0] * 50, [1.0, 0.0] * 50]))
    assert same.standard_error == pytest.approx(5.03, abs=0.02)
    apart = points(torch.tensor([[1.0] * 100, [0.0] * 100]))
    assert apart.standard_error == pytest.approx(50, abs=0.1)


def test_what_is_not_more_likely_or_clearly_less_right_is_not_confirmed():
    none = torch.zeros(2, 2, 2, 100)  # repeats, still and moved, right and likely, pictures

    def confirmed(right, likely):
        chosen = none.clone()
        chosen[:, 0, 0, :50], chosen[:, 0, 1] = right, likely
        return is_confirmed(torch.stack((none, chosen)))

    assert confirmed(1.0, 0.5)
    assert confirmed(0.0, 0.5)
    assert not confirmed(1.0, -0.5)
    assert not confirmed(-1.0, 0.5)


def test_moves_that_no_class_may_do_are_neither_tried_nor_prescribed(monkeypatch):
    tried_laws = []

    def scores(pixels, labels, policies, *rest):
        tried_laws.extend(policies)
        found = torch.rand(1, 1, 2, 2, 40).repeat(len(policies), 1, 1, 1, 1)
        found += torch.tensor([law[0].shift for law in policies]).view(-1, 1, 1, 1, 1)
        return found

    monkeypatch.setattr(prescribe_trials, "held_out_scores", scores)
    limits = [label_conflicts.FURTHEST | {"mix": 0.0, "flip_x": 0.0}] * 2
    task = Task(None, None, None, ("a", "b"), 0.0, (), limits, TINY, 0, lambda text: None)
    bases = ({"mix": 1.0}, {"shift": 0.1, "mix": 1.0})
    found, best = try_policies(task, bases, ({"flip_x": 0.5},))
    assert best == {"shift": 0.1}
    assert [one.amounts for one in found] == [{"shift": 0.1}]
    assert len(tried_laws) == 2


@pytest.mark.parametrize("best", [{}, {"shift": 0.1}])
def test_the_number_of_networks_is_that_of_all_trainings(best, monkeypatch):
    monkeypatch.setitem(SIZES, "quick", Size(2, 8, 2))
    monkeypatch.setattr(prescribing, "BASES", ({"shift": 0.1}, {"rotation": 20.0}))
    monkeypatch.setattr(prescribing, "ADDED", ())
    monkeypatch.setattr(prescribing, "try_policies", lambda *how: (try_policies(*how)[0], best))
    count, own = [], quick_networks.train
    monkeypatch.setattr(quick_networks, "train", lambda t: count.extend(t) or own(t))
    data = (torch.rand(96, 1, 8, 8), torch.arange(96) % 2)
    with pytest.warns(RuntimeWarning):
        found = symmetries.prescribe(data, preset="quick", device="cpu", progress=False)
    assert found.networks == len(count)


def test_brightness_within_what_is_prescribed_is_that_of_the_mix_that_holds_it():
    x = torch.cat((torch.full((60, 1, 12, 12), 0.3), torch.full((60, 1, 12, 12), 0.7)))
    data = ImageSet(x, torch.arange(120) // 60, class_names=("dark", "light"))
    limits = [label_conflicts.FURTHEST] * 2
    task = Task(data, x, data.labels, data.class_names, 0.0, (), limits, TINY, 0, lambda text: None)

    def brighter(images):
        mean = images.mean((1, 2, 3))
        return torch.stack((0.5 - mean, mean - 0.5), 1)

    def within(chosen):
        curves = {one.name: one for one in model_curves(task, Loaded(brighter), chosen)}
        return curves["light"].within, curves["rotation"].within

    assert within({}) == (1.0, 1.0)
    light, turned = within({"mix": 1.0})
    assert light < 1 == turned


def test_curves_of_a_model_are_of_all_classes_where_pictures_are_sorted_by_class():
    x, labels = torch.rand(1200, 1, 12, 12), torch.arange(1200) // 600
    data = ImageSet(x, labels, class_names=("a", "b"))
    limits = [label_conflicts.FURTHEST] * 2
    task = Task(data, x, labels, ("a", "b"), 0.0, (), limits, TINY, 0, lambda text: None)
    first = Loaded(lambda images: torch.tensor([[1.0, 0.0]]).expand(len(images), -1))
    for curve in model_curves(task, first, {}):
        assert 0.4 < curve.within < 0.6
        assert all(0.4 < share < 0.6 for share in curve.accuracy)


def test_what_occurs_is_tried_too(tmp_path):
    assert prescribing.occurring(None) == ()
    data = DataSummary(name="d", count=9, height=20, width=10, channels=1)

    def occurring(**facts):
        none = Histogram(edges=(), density=())
        part = Transformation(**{"verdict": "partial", "noise_floor": 1, "histogram": none} | facts)
        return prescribing.occurring(
            SymmetryResult.model_construct(data=data, transformations=(part,))
        )

    turn = {"name": "rotation", "unit": "degrees", "width90": 36}
    assert occurring(**turn) == ({"rotation": 20.0, "mix": 1.0},)
    assert occurring(**turn, poses=4) == ()  # quarter turns are no small turns
    assert occurring(**turn | {"verdict": "absent"}) == ()
    shift = {"name": "shift_x", "unit": "pixels", "width90": 3.6}
    assert occurring(**shift) == ({"shift": 0.1, "mix": 1.0},)
    with pytest.raises((ValueError, OSError)):
        prescribing.occurring(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    ("data", "change", "message"),
    [
        (torch.rand(100, 1, 8, 8), {}, "expected labelled images"),
        ((torch.rand(40, 1, 8, 8), torch.arange(40) % 2), {}, "data: expected at least 80"),
        ((torch.rand(90, 1, 8, 8), torch.zeros(90).long()), {}, "of 2 classes, got 90 of 1"),
        ((torch.rand(90, 1, 8, 8), (torch.arange(90) > 86).long()), {}, "8 pictures of each class"),
        ((torch.rand(90, 1, 8, 8), torch.arange(90)), {}, "0, 1, 2, 3, 4 and 85 others"),
        ((torch.rand(90, 1, 8, 8), torch.arange(90) % 2), {"preset": "paper"}, "preset: expected"),
        ((torch.rand(90, 1, 8, 8), torch.arange(90) % 2), {"fill": 3.0}, "fill: expected"),
    ],
)
def test_bad_input_is_refused_by_name(data, change, message):
    with pytest.raises(ValueError, match=message):
        symmetries.prescribe(data, device="cpu", progress=False, **change)


def test_networks_see_the_same_pictures_whatever_the_law():
    x, y = torch.rand(40, 1, 12, 12), torch.arange(40) % 2
    size = Size(2, 8, 2)
    laws = ([Law()] * 2, [Law(shift=1e-9)] * 2)
    one, two = train([Trial(x, y, law, 0.0, size, 3) for law in laws])
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)


def test_many_pictures_are_seen_as_often_as_few():
    """60 times each, as long as that takes no more than four times the steps."""
    size = Size(800, 64, 3)
    assert size.long_enough(300) == size  # 256 times
    assert size.long_enough(1250) == size  # 61 times
    for count in (2000, 5000):
        longer = size.long_enough(count)
        assert 60 <= longer.seen(count) < 60.1
        assert dataclasses.replace(longer, steps=800) == size
    assert size.seen(5000) < 16
    assert size.long_enough(10**6).steps == 3200


def test_trials_are_longer_with_many_pictures_and_what_is_too_short_is_said(monkeypatch):
    """96 pictures, half of them in a training of at least 4 steps of 16: 1.3 times each."""
    monkeypatch.setattr(prescribing, "BASES", ({"shift": 0.1},))
    monkeypatch.setattr(prescribing, "ADDED", ())
    sizes, own = [], quick_networks.train
    monkeypatch.setattr(
        quick_networks, "train", lambda t: sizes.extend(one.size for one in t) or own(t)
    )
    data = (torch.rand(96, 1, 8, 8), torch.arange(96) % 2)

    def steps(size):
        monkeypatch.setitem(SIZES, "quick", size)
        sizes.clear()
        with pytest.warns(RuntimeWarning) as caught:
            symmetries.prescribe(data, preset="quick", device="cpu", progress=False)
        said = [str(one.message) for one in caught if "each picture" in str(one.message)]
        return {one.steps for one in sizes}, said

    made, said = steps(Size(4, 16, 2))
    assert made == {4, 16}  # 4 of what labels forbid, 16 of all trials
    assert "seen each picture 5 times" in said[0]
    made, said = steps(Size(50, 16, 2))
    assert made == {50, 180}
    assert not said


def test_copies_and_networks_that_guess_bring_warnings(monkeypatch):
    monkeypatch.setitem(SIZES, "quick", Size(6, 16, 2))
    monkeypatch.setattr(prescribing, "BASES", ({"shift": 0.1},))
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(96, 1, 8, 8, generator=generator)
    labels = torch.randint(2, (96,), generator=generator)
    with pytest.warns(RuntimeWarning, match="guessing on"):
        symmetries.prescribe((x, labels), preset="quick", device="cpu", progress=False)
    copies = x[:48].repeat(2, 1, 1, 1), labels[:48].repeat(2)
    with pytest.warns(RuntimeWarning, match="50 % of the pictures are copies"):
        symmetries.prescribe(copies, preset="quick", device="cpu", progress=False)


def test_classes_meet_where_they_meet_first():
    sizes = (15.0, 30.0, 45.0, 60.0, 75.0)
    assert label_conflicts._meeting(torch.tensor([0.0, 0.4, 0.5, 0.1, 1.0]), sizes) == 45.0
    assert label_conflicts._meeting(torch.tensor([0.0, 0.9, 1.0, 0.9, 0.2]), sizes) == 45.0
    assert label_conflicts._meeting(torch.tensor([0.0, 0.0, 0.0, 0.4, 1.0]), sizes) == 75.0


def test_classes_that_light_makes_alike_keep_their_other_limits():
    light = {
        "name": "light",
        "first": "a",
        "second": "b",
        "amount": 0.4,
        "share": 1.0,
        "limit": 0.1,
    }
    turn = {**light, "name": "rotation", "amount": 50.0, "limit": 20.0}
    assert label_conflicts._conflict("light", "a", "b", 0.4, 1.0, 0.0).limit == 0.0
    limits = limits_of(tuple(map(Conflict.model_validate, (light, turn))), "a")
    assert (limits["mix"], limits["rotation"]) == (0.0, 20.0)
