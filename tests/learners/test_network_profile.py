"""The evidence along a width: where it is highest, how well that is known, and line searches."""

import math

import pytest
import torch

from symmetries.learners.invariant_network.profile import WidthProfile
from symmetries.learners.invariant_network.search import line_search


def test_a_line_search_leaves_a_local_optimum_and_stays_within_bounds():
    def two(width: float, order: int) -> float:
        return 1e3 * math.exp(-((width - 0.8) ** 2)) + 500 * math.exp(-4 * (width - 2.5) ** 2)

    assert line_search(two, "x", 3.0, 4).best == pytest.approx(0.8, abs=0.05)
    assert line_search(lambda width, order: width, "x", 3.0, 3).best == 3.0
    assert line_search(lambda width, order: -width, "x", 3.0, 3).best == 0.0
    flat = line_search(lambda width, order: 0.0, "x", 3.0, 3)
    assert flat.interval == (0.0, 3.0)
    assert not flat.told


def test_noise_of_candidates_widens_the_interval_but_a_common_shift_does_not():
    def noisy(width: float, order: int, size: float = 0.0) -> float:
        wiggle = size * math.sin(40 * width) if order else 0.0
        return -30 * (width - 1.1) ** 2 - 7 * order + wiggle

    shifted = line_search(noisy, "x", 3.0, 7)
    assert shifted.noise == pytest.approx(0, abs=1e-9)
    low, high = shifted.interval
    assert low < 1.1 - 0.2 < 1.1 + 0.2 < high < 2
    assert shifted.told
    wide = line_search(lambda width, order: noisy(width, order, 5.0), "x", 3.0, 7)
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
