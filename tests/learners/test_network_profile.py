"""The evidence along a width: where it is highest, how well that is known, and line searches."""

import json
import math
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from symmetries.learners.invariant_network.profile import WidthProfile, settled
from symmetries.learners.invariant_network.search import line_search

from .network_worker import fitted


def searched(value, points: int, bound: float = 3.0) -> WidthProfile:
    """The line search of a function of a width and of the number of an order."""
    return line_search(
        lambda widths, order: [(value(w, order), 0.0) for w in widths], "x", bound, points
    )


def test_a_line_search_leaves_a_local_optimum_and_stays_within_bounds():
    def two(width: float, order: int) -> float:
        return 1e3 * math.exp(-((width - 0.8) ** 2)) + 500 * math.exp(-4 * (width - 2.5) ** 2)

    assert searched(two, 4).best == pytest.approx(0.8, abs=0.05)
    assert searched(lambda width, order: width, 3).best == 3.0
    assert searched(lambda width, order: -width, 3).best == 0.0
    flat = searched(lambda width, order: 0.0, 3)
    assert flat.interval == (0.0, 3.0)
    assert not flat.told


def test_noise_of_candidates_widens_the_interval_but_a_common_shift_does_not():
    def noisy(width: float, order: int, size: float = 0.0) -> float:
        wiggle = size * math.sin(40 * width) if order else 0.0
        return -30 * (width - 1.1) ** 2 - 7 * order + wiggle

    shifted = searched(noisy, 7)
    assert shifted.noise == pytest.approx(0, abs=1e-9)
    low, high = shifted.interval
    assert low < 1.1 - 0.2 < 1.1 + 0.2 < high < 2
    assert shifted.told
    wide = searched(lambda width, order: noisy(width, order, 5.0), 7)
    assert wide.noise > 1
    assert wide.interval[0] < low < high < wide.interval[1]


def test_a_parabola_through_many_candidates_is_steadier_than_the_best_one():
    generator = torch.Generator().manual_seed(0)
    widths = [0.1 * i for i in range(32)]
    tops, bests = [], []
    for _ in range(50):
        noise = torch.randn(32, generator=generator).tolist()
        values = [-3 * (w - 1.5) ** 2 + e for w, e in zip(widths, noise, strict=True)]
        profile = WidthProfile("x", 3.1, widths, values, 1.0)
        tops.append(profile.best - 1.5)
        bests.append(widths[values.index(max(values))] - 1.5)
        assert profile.interval[0] < 1.5 < profile.interval[1]
    assert torch.tensor(tops).std() < 0.6 * torch.tensor(bests).std()


def test_two_optima_are_refined_and_the_higher_one_between_grid_points_wins():
    def two(width: float, order: int) -> float:
        return 20 * math.exp(-((width - 2.0) ** 2) / 0.08) + 40 * math.exp(
            -((width - 0.75) ** 2) / 0.05
        )

    assert max(two(0.5, 0), two(1.0, 0)) < two(2.0, 0)  # on the grid the lower one seems higher
    found = searched(two, 7)
    assert found.best == pytest.approx(0.75, abs=0.05)
    assert found.told


def test_optima_that_trainings_exchange_cannot_be_told_apart():
    def two(width: float, order: int) -> float:
        sides = (10.0, 14.0) if order else (12.0, 10.0)
        near = (math.exp(-((width - at) ** 2) / 0.1) for at in (0.5, 2.5))
        return sum(height * peak for height, peak in zip(sides, near, strict=True))

    found = searched(two, 7)
    assert found.noise > 1
    assert found.interval[0] < 0.5 < 2.5 < found.interval[1]
    assert not found.told


def test_what_was_extrapolated_differently_widens_the_interval():
    widths, values = [0.0, 1.0, 2.0, 3.0], [-30.0, 0.0, -12.0, -40.0]
    sure = WidthProfile("x", 3.0, widths, values, 0.0, [5.0, 5.0, 5.0, 5.0])
    assert sure.interval == WidthProfile("x", 3.0, widths, values).interval
    unsure = WidthProfile("x", 3.0, widths, values, 0.0, [5.0, 5.0, 27.0, 5.0])
    assert unsure.interval[1] > 2.0 > sure.interval[1]


def test_two_processes_search_and_learn_as_one(start_script, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    worker, file = Path(__file__).with_name("network_worker.py"), tmp_path / "found.json"
    started = [start_script(worker, port, rank, file) for rank in (0, 1)]
    said = [process.communicate(timeout=240)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    found = json.loads(file.read_text())
    assert found["values"] == pytest.approx(fitted(None).profiles[0].values, abs=1e-2)
    assert found["width"] == pytest.approx(
        fitted(None, search=0).network.box.free.tolist(), abs=1e-4
    )
    assert (tmp_path / "run" / "search.json").is_file()


def test_networks_that_have_not_converged_tell_no_width():
    def slow(width: float, order: int) -> float:
        return -800 - 220 * width if order == 0 else -500 - 20 * (width - 0.8) ** 2

    found = searched(slow, 7)
    assert found.best == 0.0
    assert not found.settled
    assert not found.told
    assert searched(lambda width, order: -30 * (width - 1.1) ** 2 + order, 7).told


def test_noise_alone_is_no_lack_of_convergence():
    generator = torch.Generator().manual_seed(1)
    at = [0.1 * i for i in range(8)]
    same = [-20 * (w - 0.4) ** 2 for w in at]
    alarms = 0
    for _ in range(200):
        noise = (8 * torch.randn(8, generator=generator)).tolist()
        alarms += not settled(at, same, [v + e for v, e in zip(same, noise, strict=True)])
    assert alarms < 0.1 * 200
    tilted = [v + 200 + 60 * w for v, w in zip(same, at, strict=True)]
    assert not settled(at, same, tilted)


def test_a_width_that_cannot_be_told_is_used_only_if_left_out_images_prefer_it():
    told = WidthProfile("x", 3.0, [0.0, 1.0, 2.0, 3.0], [-30.0, 0.0, -30.0, -60.0])
    assert told.told
    assert told.used == told.best
    flat = WidthProfile("x", 3.0, [0.0, 1.0, 2.0, 3.0], [-1.0, 0.0, -1.0, -2.0])
    assert not flat.told
    assert flat.used == 0.0
    assert replace(flat, gain=0.1, gain_error=0.02).used == flat.best
    assert replace(flat, gain=0.01, gain_error=0.02).used == 0.0
    assert replace(flat, gain=0.1, gain_error=0.02, gain_right=-0.01).used == 0.0


def test_a_width_is_used_if_the_evidence_excludes_none_and_left_out_images_agree():
    wide = WidthProfile("x", 3.0, [0.0, 1.0, 2.0, 3.0], [-9.0, 0.0, -1.0, -9.0])
    assert not wide.told
    assert wide.interval[0] > 0
    assert replace(wide, gain=0.01, gain_error=0.02).used == wide.best
    assert replace(wide, gain=0.01, gain_error=0.02, gain_right=-0.01).used == 0.0
    assert replace(wide, gain=-0.01, gain_error=0.02).used == 0.0
    assert replace(wide, gain=0.01, gain_error=0.02, settled=False).used == 0.0
    assert replace(wide, gain=0.01, gain_error=0.02, constant=1.0).used == 0.0


def test_the_whole_circle_is_used_where_it_cannot_be_told_from_a_bit_less():
    at = [0.0, 1.0, 2.0, 2.8, 2.9, 3.0]
    shift = WidthProfile("x", 3.0, at, [-90.0, -60.0, -30.0, -1.0, 0.0, -1.0])
    assert shift.told
    assert 2.8 < shift.best < 3.0
    assert shift.used == shift.best
    assert replace(shift, angle=True).used == 3.0
    less = replace(shift, angle=True, values=[-90.0, -60.0, -30.0, 0.0, -1.0, -9.0])
    assert less.told
    assert less.used == less.best < 2.9
    flat = replace(shift, angle=True, values=[-9.0, -1.0, -0.5, -0.1, 0.0, -1.0])
    assert not flat.told
    assert replace(flat, gain=1.0).used == flat.best
