import numpy as np
import pytest

from symmetries.data.derived import Draws


def test_streams_are_fixed_by_seed_and_name():
    one = Draws(0, "a").uniform(100)
    assert np.array_equal(one, Draws(0, "a").uniform(100))
    assert not np.array_equal(one, Draws(1, "a").uniform(100))
    assert not np.array_equal(one, Draws(0, "b").uniform(100))


def test_uniform_agrees_with_numpys_own_doubles():
    """An oracle: numpy's Generator makes its doubles from the same bits in the same way."""
    ours = Draws(3, "x").uniform(1000)
    bits = np.random.PCG64(np.random.SeedSequence([3, ord("x")]))
    assert np.array_equal(ours, np.random.Generator(bits).random(1000))


def test_distributions():
    draws = Draws(0, "distributions")
    values = draws.uniform(20_000, -2, 4)
    assert values.min() >= -2
    assert values.max() < 4
    assert abs(values.mean() - 1) < 0.05
    assert sorted(draws.permutation(50)) == list(range(50))
    counts = np.bincount(draws.integers(20_000, 4), minlength=4)
    assert np.abs(counts / 20_000 - 0.25).max() < 0.02
    chosen = np.bincount(draws.choice(np.array([0.0, 1.0, 0.0, 3.0, 0.0]), 20_000), minlength=5)
    assert chosen[[0, 2, 4]].sum() == 0
    assert abs(chosen[3] / 20_000 - 0.75) < 0.02


@pytest.mark.parametrize("seed", [-1, 0.5, None])
def test_bad_seed_is_named(seed):
    with pytest.raises(ValueError, match="seed: expected"):
        Draws(seed, "a")


def test_weights_without_weight_are_refused():
    with pytest.raises(ValueError, match="weights: expected"):
        Draws(0, "a").choice(np.zeros(3), 1)
