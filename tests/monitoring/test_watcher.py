"""Planted changes of a stream are found, named and measured."""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from PIL import Image

import symmetries
from symmetries.analysis import watching
from symmetries.analysis.inputs import share_of_copies
from symmetries.analysis.watching import batches, read_reference
from symmetries.data import ImageSet
from symmetries.monitoring import Watcher, naming, readers
from symmetries.monitoring.moves import WAYS, amount, moves_of
from symmetries.results import ChangedParameter


@pytest.fixture(scope="module", autouse=True)
def short_fits():
    """Shorter training, and responses of fewer pictures: of differences, which few tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "STEPS", 400)
        patch.setattr(naming, "LOOKED_AT", 100)
        yield


@pytest.fixture(scope="module")
def corners(hooks):
    """Drawn corners, which lean by up to 8 degrees: 800 of the reference, 600 of the stream."""
    pictures = torch.from_numpy(hooks(1400, 8, side=20)[0]).float()[:, None]
    return pictures[:800], pictures[800:]


@pytest.fixture(scope="module")
def fitted(corners):
    return Watcher.fit(corners[0], seed=1)


def again(watcher, tmp_path):
    """A watcher of the same reference, at the beginning of its stream."""
    watcher.save(tmp_path)
    return Watcher.load(tmp_path)


def turned(pictures, degrees):
    """Turned by Pillow with bicubic weights, not by the code that is tested."""
    return torch.stack(
        [
            torch.from_numpy(
                np.asarray(Image.fromarray(p[0].numpy()).rotate(degrees, Image.Resampling.BICUBIC))
            )
            for p in pictures
        ]
    )[:, None].clamp(0, 1)


CHANGES = {
    "rotation": (lambda x: turned(x, 8), "rotation", 8.0, 1.5),
    "rotation back": (lambda x: turned(x, -6), "rotation", -6.0, 1.5),
    "shift": (lambda x: x.roll(1, -1), "shift_x", 1.0, 0.5),
    "shift up": (lambda x: x.roll(-1, -2), "shift_y", 1.0, 0.5),
    "value": (lambda x: 0.8 * x, "value", 0.8, 0.05),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_planted_change_is_named_and_measured(fitted, corners, tmp_path, case):
    change, parameter, size, tolerance = CHANGES[case]
    watcher = again(fitted, tmp_path)
    assert not watcher.update(corners[1][:300]).alarm
    found = watcher.update(change(corners[1][300:]))
    assert found.alarm
    assert abs(found.since - 300) <= 10
    assert found.change.name == case.split()[0]
    value, low, high, _ = found.change.parameters[parameter]
    assert value == pytest.approx(size, abs=tolerance)
    assert low <= value <= high


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A watcher of 900 handwritten digits, stored, and the other digits."""
    x = symmetries.load("digits").images
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(3))]
    folder = tmp_path_factory.mktemp("digits")
    Watcher.fit(x[:900], seed=0).save(folder)
    return folder, x[900:]


def photographed(count, seed, turn=0.0, side=16):
    """Corners as a camera sees them that was turned itself: areas of pixels, nothing resampled."""
    rng = np.random.default_rng(seed)
    angle = np.deg2rad(rng.normal(turn, 8, (count, 1, 1)))
    length, arm = rng.uniform(0.35, 0.6, (count, 1, 1)), rng.uniform(0.2, 0.6, (count, 1, 1))
    thick = rng.uniform(0.08, 0.14, (count, 1, 1))
    axis = (np.arange(4 * side) * 2 + 1 - 4 * side) / (4 * side)
    x, y = axis[None, None], -axis[None, :, None]
    u, v = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    stem = np.hypot(u, np.clip(np.abs(v) - length, 0, None))
    other = np.hypot(v - length, np.clip(np.abs(u - arm / 2) - arm / 2, 0, None))
    fine = np.clip(0.5 + (thick - np.minimum(stem, other)) * 2 * side, 0, 1)
    pictures = fine.reshape(count, side, 4, side, 4).mean((2, 4))
    return torch.from_numpy(pictures).float()[:, None]


def test_a_camera_that_turned_resampled_nothing():
    """Software makes pictures less sharp as it turns them: such a turn was none of these."""
    watcher = Watcher.fit(photographed(800, 1), seed=3)
    found = watcher.update(photographed(500, 2, turn=-12))
    assert found.alarm
    assert found.change.name == "rotation"
    _, low, high, _ = found.change.parameters["rotation"]
    assert low <= -12 <= high


DECOYS = {
    "mirrored": lambda x: x.flip(-1),
    "upside down": lambda x: x.flip(-2),
    "noise": lambda x: (
        x + 0.1 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    ).clamp(0, 1),
    "negative": lambda x: 1 - x,
}


@pytest.mark.parametrize("case", DECOYS)
def test_another_change_is_not_called_a_motion(digits, case):
    folder, x = digits
    watcher = Watcher.load(folder)
    watcher.update(x[:300])
    found = watcher.update(DECOYS[case](x[300:800]))
    assert found.alarm
    assert found.change.name == "none of these"


@pytest.mark.parametrize("change", [lambda x: turned(x, 4), lambda x: 0.93 * x])
def test_a_small_change_is_seen_after_a_few_pictures(digits, change):
    """Scores see what a change does to sharpness, too: readings alone took 28 to 45 pictures."""
    folder, x = digits
    watcher = Watcher.load(folder)
    assert not watcher.update(x[:300]).alarm
    later = change(x[300:325])
    assert any(watcher.update(picture[None]).alarm for picture in later)


def test_all_pictures_held_out_tell_what_is_usual(corners, monkeypatch):
    """The error of their mean is one of every angle: it was that of 400 pictures at most."""
    monkeypatch.setattr(readers, "STEPS", 1)
    monkeypatch.setattr(naming, "GRID", 3)
    pictures = torch.cat(corners)
    responses = Watcher.fit(pictures, seed=2).responses
    assert responses.held_out == len(pictures) // 2 == 700
    assert float(responses.curves[:, :4, 1].abs().max()) < 1e-4  # no change, no response


def blank_curves():
    """The number of moves, their amounts (G,), and curves (W, K, G, F) without any response."""
    count, others = len(moves_of(1)), readers.COARSE**2 + readers.WHOLE
    curves = torch.zeros(len(WAYS), count, naming.GRID, count + others)
    return count, torch.linspace(-1, 1, naming.GRID), curves


def responses_of(curves):
    """Responses with these curves, and readings with a fifth of the spread of other features."""
    count, features = curves.shape[1], curves.shape[3]
    covariance = torch.tensor([0.04] * count + [1.0] * (features - count)).diag()
    return naming.Responses(moves_of(1), 28, torch.zeros(features), covariance, curves, 400)


def test_a_change_is_measured_by_readings_above_all():
    """Coarse pictures that differ by 8 % of their spread, as other pictures do, moved it by 2.8."""
    count, grid, curves = blank_curves()
    for k in range(count):
        curves[:, k, :, k] = grid
    curves[:, 0, :, count : -readers.WHOLE] = 0.5 * grid[:, None]
    responses = responses_of(curves)
    seen = curves[0, 0, 28].clone()  # 12 degrees
    seen[count : -readers.WHOLE] += 0.08
    change = responses.name(seen.expand(500, -1))
    assert change.name == "rotation"
    value, low, high, _ = change.parameters["rotation"]
    assert value == pytest.approx(12.0, abs=0.1)
    assert low < 12 < high
    assert high - low < 6  # 0.4 degrees for chance, 0.9 for cameras; all features say 13.9


def test_what_turning_leaves_in_pictures_is_no_turn_without_an_angle():
    """Pictures in all poses show no turn, but what makes them less sharp was called one."""
    count, grid, curves = blank_curves()
    curves[:, 0, :, count] = grid.abs()
    responses = responses_of(curves)
    change = responses.name(curves[0, 0, 5].expand(500, -1))
    assert (change.name, change.parameters) == ("none of these", {})


def test_an_amount_that_would_not_explain_the_change_is_in_no_interval():
    """The reading of one way to move pictures says nothing beyond 3 degrees."""
    count, grid, curves = blank_curves()
    for k in range(count):
        curves[:, k, :, k] = grid
        curves[:, k, :, count + k] = 5 * grid  # what else is seen of each change
    curves[1, 0, :, 0] = grid.clamp(-0.1, 0.1)
    responses = responses_of(curves)
    seen = curves[0, 0, 23].clone()  # 4.5 degrees
    value, low, high, _ = responses.name(seen.expand(500, -1)).parameters["rotation"]
    assert value == pytest.approx(4.5, abs=0.1)
    assert low is not None
    assert high is not None
    assert high < 9


@pytest.mark.parametrize("classes", [(0, 6), (1, 7), (4, 9), (3, 5, 8), (0,), (1,)])
def test_other_classes_are_not_called_a_motion(digits, classes):
    folder, _ = digits
    whole = symmetries.load("digits")
    chosen = torch.isin(whole.labels, torch.tensor(classes))
    found = Watcher.load(folder).update(whole.images[chosen])
    name = found.change.name if found.alarm else None
    assert name not in ("rotation", "shift", "zoom"), found.change


@pytest.mark.parametrize("degrees", [9, -9])
def test_turned_digits_are_called_that(digits, degrees):
    folder, x = digits
    found = Watcher.load(folder).update(turned(x[:500], degrees))
    assert found.change.name == "rotation"
    value, low, high, _ = found.change.parameters["rotation"]
    assert low <= degrees <= high
    assert value == pytest.approx(degrees, abs=2.5)


def test_a_change_larger_than_any_that_is_measured_has_an_open_interval(fitted, corners, tmp_path):
    found = again(fitted, tmp_path).update(0.63 * corners[1])
    assert found.change.name == "value"
    _, low, high, _ = found.change.parameters["value"]
    assert low is None
    assert high > 0.63


def test_a_stream_that_goes_on_as_before_gives_no_alarm(fitted, corners, tmp_path):
    found = again(fitted, tmp_path).update(corners[1])
    assert (found.alarm, found.since, found.change) == (False, None, None)


def test_noise_is_none_of_these(fitted, corners, tmp_path):
    generator = torch.Generator().manual_seed(0)
    noise = 0.2 * torch.randn(300, 1, 20, 20, generator=generator)
    watcher = again(fitted, tmp_path)
    watcher.update(corners[1][:300])
    found = watcher.update((corners[1][300:] + noise).clamp(0, 1))
    assert found.alarm
    assert found.change.name == "none of these"


def test_a_stored_watcher_goes_on_as_if_nothing_had_been(fitted, corners, tmp_path):
    whole, parts = again(fitted, tmp_path / "a"), again(fitted, tmp_path / "b")
    stream = turned(corners[1][:200], 8)
    expected = [whole.update(part) for part in stream.split(50)]
    for part, finding in zip(stream.split(50), expected, strict=True):
        assert parts.update(part) == finding
        parts.save(tmp_path / "b")
        parts = Watcher.load(tmp_path / "b")


def test_colours_turn_by_hue():
    generator = torch.Generator().manual_seed(0)
    colours = torch.tensor([[0.8, 0.2, 0.2], [0.7, 0.4, 0.1]])
    picked = colours[torch.randint(2, (700,), generator=generator)]
    x = picked[:, :, None, None] * (0.5 + 0.5 * torch.rand(700, 1, 8, 8, generator=generator))
    hue = symmetries.Colour("hue")
    turn = hue.exp(torch.full((200, 1), math.radians(20)))
    changed = symmetries.ImageAction(hue)(turn, x[500:])
    found = symmetries.watch(x[:500], iter(changed.split(20)))
    assert (found.alarm, found.name) == (True, "hue")
    assert found.parameters[0].amount == pytest.approx(20, abs=4)


def test_wrong_input_is_refused_by_name(fitted):
    with pytest.raises(ValueError, match="reference: expected at least 100 pictures"):
        Watcher.fit(torch.rand(20, 1, 8, 8))
    with pytest.raises(ValueError, match="stream: expected pictures"):
        fitted.update(torch.rand(2, 1, 8, 8))
    with pytest.raises(TypeError, match="stream: expected tensors"):
        list(batches(iter([1]), None, (1, 8, 8)))
    with pytest.raises(ValueError, match="alpha: expected"):
        Watcher.fit(torch.rand(120, 1, 8, 8), alpha=2.0)


@pytest.mark.parametrize("change", [lambda x: 255 * x, lambda x: 2 * x - 1, lambda x: x / 0])
def test_values_that_are_no_brightness_are_refused(fitted, corners, tmp_path, change):
    with pytest.raises(ValueError, match="stream: expected"):
        again(fitted, tmp_path).update(change(corners[1][:5]))


def test_no_pictures_are_no_news(fitted, corners, tmp_path):
    watcher = again(fitted, tmp_path)
    assert watcher.update(corners[1][:0]).number == 0
    assert watcher.update(corners[1][:5]) == watcher.update(corners[1][:0])


def test_a_model_in_single_precision_is_measured_on_a_reference_in_double(corners, monkeypatch):
    monkeypatch.setattr(readers, "STEPS", 2)
    monkeypatch.setattr(naming, "GRID", 3)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(400, 3))
    few = corners[0][:100]
    single, double = (Watcher.fit(x, model=model) for x in (few, few.double()))
    for kind, curve in single.losses.curves.items():
        assert torch.equal(double.losses.curves[kind], curve)


def test_a_reference_that_says_nothing_is_refused(corners):
    with pytest.raises(ValueError, match="data: expected images with some content"):
        symmetries.watch(torch.zeros(200, 1, 20, 20), iter(corners[1][:5]))
    with pytest.raises(ValueError, match="data: expected pictures of at least 8 x 8"):
        symmetries.watch(torch.rand(200, 1, 1, 30), iter(corners[1][:5]))
    with pytest.raises(ValueError, match="fill: expected a number from 0 to 1"):
        symmetries.watch(corners[0][:200], iter(corners[1][:5]), fill=3.0)


def test_copies_are_counted_without_a_second_copy_of_all_pictures():
    images = ImageSet(torch.rand(200, 1, 64, 64))
    tracemalloc.start()
    assert share_of_copies(images) == 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * images.images.nbytes


def test_copies_in_the_reference_bring_a_warning(corners):
    with pytest.warns(RuntimeWarning, match="75 % of the reference are copies"):
        read_reference(corners[0][:30].repeat(4, 1, 1, 1))


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(3.3, 10.9, "rotation is known to +-3.9 degrees only"), (6, 8, ""), (6, None, "")],
)
def test_what_is_not_known_well_is_said_in_words(low, high, words):
    part = ChangedParameter(name="rotation", amount=7.0, low=low, high=high, unit="degrees")
    assert watching._roughly(part).removeprefix("; ") == words


def test_amounts_have_the_units_of_the_reports():
    by_name = {move.name: move for move in moves_of(3)}
    assert amount(by_name["rotation"], 0.5, 20) == 15
    assert amount(by_name["zoom"], 0.0, 20) == 1
    assert "hue" not in {move.name for move in moves_of(1)}


def test_a_stream_that_is_sorted_by_class_is_warned_of():
    images = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with pytest.warns(RuntimeWarning, match="sorted by class"):
        batches((images, torch.tensor([0, 0, 1, 1])), None, (1, 8, 8))


def test_a_stream_of_another_shape_is_refused_before_anything_is_learned(monkeypatch):
    monkeypatch.delattr(Watcher, "fit")
    with pytest.raises(ValueError, match="stream: expected pictures"):
        symmetries.watch(torch.rand(120, 1, 12, 12), torch.rand(9, 3, 8, 8))
