"""The test that is valid whenever one looks."""

import json

import numpy as np
import pytest
from scipy import integrate, stats

from symmetries.monitoring import ExchangeabilityTest
from symmetries.monitoring.eprocess import SHIFTS, log_bets

BINS = 16


def binned(scores):
    edges = np.linspace(-2, 2, BINS - 1)
    return np.stack([np.searchsorted(edges, column) for column in scores.T], 1)


def run(rng, shift=0.0, change=0, length=150, held_out=60, alpha=0.2, factor=1.0):
    """A test of correlated scores, whose mean moves at some time; the time of the alarm."""
    mixing = np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 1.0]])
    scores = rng.normal(size=(held_out + length, 3)) @ mixing
    scores[held_out + change :] = scores[held_out + change :] * factor + [shift, 0, 0]
    test = ExchangeabilityTest(binned(scores[:held_out]), BINS, alpha, int(rng.integers(2**31)))
    for number, row in enumerate(binned(scores[held_out:])):
        test.update(row)
        if test.alarm:
            return test, number + 1
    return test, None


def test_false_alarms_are_as_rare_as_promised():
    """At a level of 20 %, so that a wrong test would be seen: 400 streams, looked at each time."""
    rng = np.random.default_rng(0)
    alarms = sum(run(rng, length=60)[1] is not None for _ in range(400))
    assert alarms <= 0.2 * 400 + 3 * (400 * 0.2 * 0.8) ** 0.5


def test_p_values_are_uniform_and_independent():
    rng = np.random.default_rng(1)
    found = []
    for seed in range(600):
        rows = binned(rng.normal(size=(26, 2)) @ np.array([[1.0, 0.7], [0.0, 0.7]]))
        test = ExchangeabilityTest(rows[:20], BINS, seed=seed)
        found.append([test.p_values(row) for row in rows[20:]])
    p = np.array(found)  # (streams, items, scores)
    for k in range(2):
        assert stats.kstest(p[:, :, k].ravel(), "uniform").pvalue > 0.001
        following = np.corrcoef(p[:, :, k].T)[np.triu_indices(6, 1)]
        assert np.abs(following).max() < 4.5 / 600**0.5


def test_bets_are_fair():
    """Every bet integrates to 1, so that its mean under the null hypothesis is 1."""
    for j in range(2 * len(SHIFTS)):
        mean = integrate.quad(lambda p, j=j: np.exp(log_bets(np.array([p]))[0, j]), 0, 1, limit=400)
        assert mean[0] == pytest.approx(1, abs=1e-4)
    assert np.isfinite(log_bets(np.array([0.0, 1.0]))).all()


def test_small_shifts_are_seen_soon():
    """By half a standard deviation, after 100 items; bets on powers of p saw 4 of 9."""
    rng = np.random.default_rng(5)
    found = [run(rng, 0.5, 100, 500, 500, alpha=0.01)[1] for _ in range(9)]
    assert 100 < np.median([501 if number is None else number for number in found]) < 240


def test_a_late_change_needs_little_more_evidence_than_an_early_one():
    """Of betting that begins at item 100,000: a share of 1 in 16 million, not 1 in 10 billion."""
    test = ExchangeabilityTest(np.arange(BINS)[:, None], BINS)
    test.number = 99_999
    test.counts += 10_000
    test.update(np.array([3]))
    bets = test.log_wealth[0] - log_bets(_p_value_of(test, 3))[0]
    assert np.allclose(bets, bets[0])
    assert -17.5 < bets[0] < -16


def _p_value_of(test, bin_):
    """The p-value of the latest item."""
    uniform = np.random.default_rng((test.seed, test.number)).random(1)
    above, same = test.counts[:, bin_ + 1 :].sum(1), test.counts[:, bin_]
    return (above + uniform * same) / test.counts.sum(1)


def test_a_state_of_other_bets_is_refused():
    state = ExchangeabilityTest(np.zeros((9, 1), np.int64), BINS).state()
    with pytest.raises(ValueError, match="state: expected bets on shifts"):
        ExchangeabilityTest.restore({**state, "shifts": [0.5]})
    state.pop("shifts")  # as versions before wrote it
    with pytest.raises(ValueError, match="begin anew"):
        ExchangeabilityTest.restore(state)


def test_dependent_items_break_the_promise_and_the_test_can_fail():
    """A stream that is not exchangeable with its reference gives alarms: the check has teeth."""
    rng = np.random.default_rng(2)
    assert sum(run(rng, shift=1.0)[1] is not None for _ in range(20)) >= 15


@pytest.mark.parametrize("shift", [1.5, -1.5])
def test_a_change_is_found_soon_and_its_time_told(shift):
    rng = np.random.default_rng(3)
    found = [run(rng, shift, 300, 500, 400, alpha=0.01) for _ in range(10)]
    delays = [number - 300 for _, number in found if number is not None]
    assert len(delays) == 10
    assert 0 < np.median(delays) < 60
    assert np.median([abs(test.since - 300) for test, _ in found]) <= 10


def test_the_time_of_a_change_stays_told_when_its_evidence_has_faded():
    """Items are compared with the stream, too, so that a change that lasts becomes the rule."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2200, 12))
    scores[200:, 0] += 0.8
    test = ExchangeabilityTest(binned(scores[:100]), BINS)
    for row in binned(scores[100:]):
        test.update(row)
    assert test.alarm
    assert test.run[0].max() < test.run[1:].max()  # by now a score that never changed leads
    assert abs(test.since - 100) <= 15


def test_the_state_goes_on_bit_for_bit():
    rng = np.random.default_rng(4)
    rows = binned(rng.normal(size=(90, 2)))
    whole = ExchangeabilityTest(rows[:30], BINS)
    half = ExchangeabilityTest(rows[:30], BINS)
    for row in rows[30:]:
        whole.update(row)
    for number, row in enumerate(rows[30:]):
        if number % 7 == 0:
            half = ExchangeabilityTest.restore(json.loads(json.dumps(half.state())))
        half.update(row)
    assert half.state() == whole.state()


def test_a_reference_without_items_is_refused():
    with pytest.raises(ValueError, match="held_out: expected bins"):
        ExchangeabilityTest(np.zeros((0, 2), np.int64), BINS)
