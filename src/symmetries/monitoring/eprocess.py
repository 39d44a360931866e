"""Anytime-valid tests: conformal e-processes for a change that starts at an unknown time."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from symmetries._validation.checks import check_number, check_whole, invalid

SHIFTS = (0.5, 1.0, 2.0)  # of normal scores, upwards and downwards, that are betted on
FARTHEST = 8.0  # normal scores are cut off here
Floats = NDArray[np.float64]


def log_bets(p: Floats) -> Floats:
    r"""Logarithms (K, J) of bets on p-values (K,): on shifts of their normal scores.

    .. math:: b_\delta(p) = \exp(\delta z - \delta^2 / 2), \qquad z = \Phi^{-1}(1 - p)

    is the likelihood ratio of N(delta, 1) and N(0, 1). Cutting z off at both ends makes its mean
    smaller, not larger.
    """
    upper = torch.from_numpy(1 - np.asarray(p, np.float64)).clamp(1e-16, 1 - 1e-16)
    z = torch.special.ndtri(upper).clamp(-FARTHEST, FARTHEST).numpy()[:, None]
    shifts = np.array([sign * shift for shift in SHIFTS for sign in (1, -1)])
    return np.asarray(shifts * z - shifts**2 / 2)


class ExchangeabilityTest:
    r"""Anytime-valid test that a stream continues a reference, for several scores of its items.

    **What is tested.** Under the null hypothesis the items of the reference that was held out and
    those of the stream are exchangeable: no order of them is more likely than another. The bins of
    the scores are fixed before any of these items is seen.

    **Why the false alarm rate holds.** Fix one score. Let item n of the stream have the p-value

    .. math:: p_n = (\#\{i: s_i > s_n\} + U_n \#\{i: s_i = s_n\}) / (m + n)

    over the m items held out and the first n of the stream, itself included, with U uniform. Given
    the unordered set of these items, item n is each of them with equal probability, so that p_n is
    uniform; the earlier p-values are functions of the order of the others and have the same law
    whatever that set is. Hence :math:`p_1, p_2, \dots` are independent and uniform (Vovk, Gammerman
    and Shafer, *Algorithmic Learning in a Random World*, 2005). A bet b on [0, 1] with
    :math:`\int b = 1` has :math:`E\,b(p_n) = 1` given the past, so a product of bets is a
    nonnegative martingale. So is a mixture over bets and over the time s at which betting begins,

    .. math:: M_n = \frac1J \sum_j \sum_{s \le n} w_s \prod_{i=s}^n b_j(p_i) + \sum_{s > n} w_s,

    with weights that sum to 1, :math:`\sum_{s > n} w_s = 1 / (1 + \log(1 + n))`: they fall hardly
    faster than 1 / s, so that a late change needs little more evidence than an early one. As
    :math:`M_0 = 1`, by Ville's inequality the probability that M ever reaches K / alpha is at most
    alpha / K. With K scores, one for each kind of change, the probability that any of the K
    processes ever does is at most alpha. (Each is a martingale for its own past only, so they are
    not averaged.)

    Bets are on small, middling and large shifts of the scores, up and down (:func:`log_bets`).

    A change is dated by the bet that ever gained most without a break: ``since`` items came before
    it began to gain. Evidence fades while a change lasts, because items are compared with those of
    the stream, too; the date stays.

    The state has a size that does not grow: counts of the bins, and K x J numbers.

    Args:
        held_out: bins (m, K) of the scores of the reference items held out, whole numbers below
            ``bins``.
        bins: number of bins.
        alpha: largest probability of any false alarm, whenever one looks.
        seed: of the numbers U, which depend on it and on n only.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> test = ExchangeabilityTest(rng.integers(0, 32, (500, 1)), bins=32)
        >>> for _ in range(50):
        ...     test.update(np.array([30]))
        >>> test.alarm
        True
    """

    def __init__(
        self, held_out: NDArray[np.int64], bins: int, alpha: float = 0.01, seed: int = 0
    ) -> None:
        check_whole(bins, "bins", 2, 10_000)
        check_number(alpha, "alpha", 1e-9, 0.5)
        if held_out.ndim != 2 or not held_out.size:
            raise invalid("held_out", "bins (m, K)", f"shape {held_out.shape}", "give some items")
        scores = held_out.shape[1]
        self.alpha, self.seed, self.number = alpha, seed, 0
        self.counts = np.stack([np.bincount(held_out[:, k], minlength=bins) for k in range(scores)])
        bets = 2 * len(SHIFTS)
        self.log_wealth: Floats = np.full((scores, bets), -1e300)
        self.run: Floats = np.zeros((scores, bets))  # log-wealth since the best start
        self.start = np.zeros((scores, bets), np.int64)
        self.peak = np.zeros(scores)  # the largest log M so far
        self.best, self.since = 0.0, 0  # the largest run so far, and where it began

    def update(self, bins: NDArray[np.int64]) -> None:
        """Take the bins (K,) of the next item's scores."""
        bets = log_bets(self.p_values(bins))
        n = self.number
        start = math.log(_later(n - 1) - _later(n))
        self.log_wealth = bets + np.logaddexp(self.log_wealth, start)
        fresh = self.run <= 0
        self.start[fresh] = n - 1
        self.run = np.where(fresh, 0.0, self.run) + bets
        self.peak = np.maximum(self.peak, self.log_evidence)
        if self.run.max() > self.best:
            k, j = np.unravel_index(int(self.run.argmax()), self.run.shape)
            self.best, self.since = float(self.run[k, j]), int(self.start[k, j])

    def p_values(self, bins: NDArray[np.int64]) -> Floats:
        """Count the bins (K,) of the next item, and return its p-values (K,)."""
        each = np.arange(len(bins))
        self.counts[each, bins] += 1
        self.number += 1
        same = self.counts[each, bins]
        above = np.where(np.arange(self.counts.shape[1]) > bins[:, None], self.counts, 0).sum(1)
        uniform = np.random.default_rng((self.seed, self.number)).random(len(bins))
        return np.asarray((above + uniform * same) / self.counts.sum(1))

    @property
    def log_evidence(self) -> Floats:
        """Logarithm of M (K,), for each score: evidence against the null hypothesis."""
        mixed = np.logaddexp.reduce(self.log_wealth, 1) - math.log(self.log_wealth.shape[1])
        return np.asarray(np.logaddexp(mixed, math.log(_later(self.number))))

    @property
    def limit(self) -> float:
        """Logarithm of the evidence at which there is an alarm."""
        return math.log(len(self.counts) / self.alpha)

    @property
    def alarm(self) -> bool:
        """Whether the evidence of any score has ever reached the limit."""
        return bool((self.peak >= self.limit).any())

    def state(self) -> dict[str, Any]:
        """Plain data from which :meth:`restore` goes on, bit for bit."""
        arrays = ("counts", "log_wealth", "run", "start", "peak")
        numbers = {name: getattr(self, name).tolist() for name in arrays}
        how = {"alpha": self.alpha, "seed": self.seed, "shifts": list(SHIFTS)}
        run = {"best": self.best, "since": self.since}
        return {"number": self.number, **how, **numbers, **run}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> "ExchangeabilityTest":
        """The test whose :meth:`state` this is."""
        if state.get("shifts") != list(SHIFTS):
            remedy = "begin anew: evidence of other bets cannot be continued"
            raise invalid("state", f"bets on shifts {SHIFTS}", state.get("shifts"), remedy)
        test = cls.__new__(cls)
        check_whole(state["number"], "number", 0, 2**53)
        check_whole(state["seed"], "seed", 0, 2**63 - 1)
        check_number(state["alpha"], "alpha", 1e-9, 0.5)
        check_whole(state["since"], "since", 0, state["number"])
        test.number, test.alpha, test.seed = state["number"], state["alpha"], state["seed"]
        test.best, test.since = float(state["best"]), state["since"]
        for name in ("counts", "start"):
            setattr(test, name, np.array(state[name], np.int64))
        for name in ("log_wealth", "run", "peak"):
            setattr(test, name, np.array(state[name], np.float64))
        scores, bets = len(test.counts), 2 * len(SHIFTS)
        shapes = [part.shape for part in (test.log_wealth, test.run, test.start, test.peak)]
        fits = shapes == [(scores, bets)] * 3 + [(scores,)] and test.counts.ndim == 2
        fits = fits and test.counts.min() >= 0 and np.ptp(test.counts.sum(1)) == 0
        if not fits or (test.number == 0 and test.peak.any()):
            raise invalid("state", "counts and wealth of a test", "others", "begin anew")
        return test


def _later(n: int) -> float:
    """Share of the betting that begins after item n."""
    return 1 / (1 + math.log1p(n))
