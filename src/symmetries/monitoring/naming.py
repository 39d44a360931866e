"""The name and the size of a change, from the mean features before and after it."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.monitoring.moves import WAYS, Move, amount, apply, systematic_error
from symmetries.monitoring.readers import COARSE, ChangeReader

LOOKED_AT = 400  # pictures that are changed: responses are differences, which few pictures tell
GRID = 41  # amounts at which the response to a change is measured
EXPLAINED = 0.9  # share of the squared deviation that a named change explains, at least
# Error of the mean of another feature, as a share of its standard deviation: small to name a change
# and larger to measure it, which readings do best.
NAMING, MEASURING = 0.05, 0.2
FINER = {1: 16, 2: 4}  # times as many amounts are compared, by number of parameters
QUANTILE = 3.84  # of chi-squared with one degree of freedom, at 95 %

Amount = tuple[float, float | None, float | None, str]
Parts = tuple[Tensor, Tensor]  # the odd and the even part of a response


@dataclass(frozen=True)
class Change:
    """What happened to a stream.

    Args:
        name: "rotation", "shift", "zoom", "hue", "value", "blur" or "none of these".
        parameters: amount, lower and upper end of a 95 % interval, and unit, by parameter. An end
            is None where the interval reaches the largest amount that is looked for: the change may
            be larger.
        explained: share of the squared deviation of the mean features that the change explains.
    """

    name: str
    parameters: dict[str, Amount]
    explained: float


def grid_of(move: Move, size: int) -> Tensor:
    """Grid (G,) of amounts, as shares of the largest, at which responses are measured."""
    return torch.linspace(move.least, 1, size)


@dataclass(frozen=True)
class Responses:
    """Mean features of held-out pictures under each change alone, at a grid of amounts.

    Args:
        moves: the K changes.
        side: pixels of the longer side of the pictures.
        centre: mean features (F,) of the pictures as they are; the first K are the readings.
        covariance: of their features, (F, F).
        curves: mean features (W, K, G, F) of pictures changed in several ways, less the centre.
        held_out: number of pictures.
    """

    moves: tuple[Move, ...]
    side: int
    centre: Tensor
    covariance: Tensor
    curves: Tensor
    held_out: int

    @classmethod
    def measure(cls, reader: ChangeReader, x: Tensor) -> "Responses":
        """The responses of pictures (m, C, H, W) that the reader has not seen.

        All of them tell the centre, whose error is that of every amount.
        """
        moves, some = reader.moves, x[:LOOKED_AT]
        rows = []
        with torch.no_grad():
            features = torch.cat([reader.features(part) for part in x.split(LOOKED_AT)])
            for way in WAYS:
                for k, move in enumerate(moves):
                    for share in grid_of(move, GRID):
                        shares = torch.zeros(len(some), len(moves))
                        shares[:, k] = share
                        changed = apply(some, shares, moves, reader.fill, *way)
                        rows.append(reader.features(changed).mean(0))
        centre = features.mean(0)
        own = features[:LOOKED_AT].mean(0)
        curves = torch.stack(rows).view(len(WAYS), len(moves), GRID, -1) - own
        return cls(moves, max(x.shape[-2:]), centre, torch.cov(features.T), curves, len(x))

    def whitening(self, count: int, odd: float = NAMING) -> Tensor:
        """The matrix (F, F) that makes the error of a mean of ``count`` pictures' features white.

        It is that of a difference of two means, and a systematic one. Parts of pictures that are
        nearly always background have rare large values, which the covariance of a few hundred
        pictures does not know: they count as if they varied a quarter as much as others.
        """
        moves = len(self.moves)
        variance = self.covariance.diagonal()
        coarse = variance[moves : moves + COARSE**2]
        least = torch.zeros_like(variance)
        least[moves : moves + COARSE**2] = coarse.mean() / 16
        more = (least - variance).clamp(min=0)
        error = (self.covariance + more.diag()) * (1 / count + 1 / self.held_out)
        systematic = odd * (variance + more).sqrt() + 1e-6
        systematic[:moves] = torch.tensor([systematic_error(m, self.side) for m in self.moves])
        return torch.linalg.inv(torch.linalg.cholesky(error + systematic.square().diag()))

    def name(self, features: Tensor) -> Change:
        """The change that explains the mean of features (n, F) best, and its size.

        The squared Mahalanobis distance of the mean of the features from the response to each
        change is minimised over amounts. The change is named if that leaves little more than
        chance. A camera that turns does not resample, as we do: the part of a
        response that is the same for a change and its inverse may be there, in part or not at all.
        Shifts along both axes are one change, whose responses add.
        """
        seen, curves = self._whitened(features, NAMING)
        nothing = float(seen.square().sum())
        best: tuple[float, list[int], list[float]] = (math.inf, [], [])
        for kind in dict.fromkeys(move.kind for move in self.moves):
            own = [k for k, move in enumerate(self.moves) if move.kind == kind]
            every = [float(self._profiles(own, curve, seen)[0].min()) for curve in curves]
            if min(every) < best[0]:
                best = (min(every), own, every)
        chance = len(seen)  # expected of the distance from the truth

        def explained_by(distance: float) -> float:
            return 1 - max(0.0, distance - chance) / max(1.0, nothing - chance)

        explained = explained_by(best[0])
        if explained < EXPLAINED:
            return Change("none of these", {}, explained)
        # Each way that explains the change may be the right one: an interval holds those of all.
        order = sorted(range(len(best[2])), key=best[2].__getitem__)
        likely = [i for i in order if explained_by(best[2][i]) >= EXPLAINED]
        seen, curves = self._whitened(features, MEASURING)
        ways = [self._profiles(best[1], curves[i], seen) for i in likely]
        parts = {}
        for j, k in enumerate(best[1]):
            shares = _finer(curves[0, k], self.moves[k], len(best[1]))[1]
            parts[self.moves[k].name] = self._amounts(
                self.moves[k], shares, [way[j] for way in ways], chance
            )
        return Change(self.moves[best[1][0]].kind, parts, explained)

    def _whitened(self, features: Tensor, odd: float) -> tuple[Tensor, Tensor]:
        """Whitened: deviation (F,) of the mean of features (n, F), and curves (W, K, G, F)."""
        white = self.whitening(len(features), odd)
        seen = white @ (features.mean(0) - self.centre)
        return seen.double(), (self.curves @ white.T).double()

    def _profiles(self, own: list[int], curves: Tensor, seen: Tensor) -> list[Tensor]:
        """Least distances from the observed mean (F,), by amount of each move of one kind.

        Args:
            own: numbers of its moves, one or two.
            curves: whitened responses (K, G, F).
            seen: whitened mean.
        """
        parts = [_finer(curves[k], self.moves[k], len(own))[0] for k in own]
        if len(own) == 1:
            return [_distance(*parts[0], seen)]
        square = _pair_distance(parts[0], parts[1], seen)
        return [square.amin(1), square.amin(0)]

    def _amounts(self, move: Move, shares: Tensor, profiles: list[Tensor], chance: int) -> Amount:
        """The amount by the likeliest way, the first, and an interval, open at the largest amounts.

        The interval is wider by the systematic error on both sides: no number of pictures makes the
        reader's curves exact for a camera that it has not seen.
        """
        lows, highs, error = [], [], systematic_error(move, self.side)
        for profile in profiles:
            wider = max(1.0, float(profile.min()) / chance)  # errors that nothing explains
            inside = shares[profile <= profile.min() + QUANTILE * wider]
            lows.append(float(inside.min()) - error)
            highs.append(float(inside.max()) + error)
        nearest = float(shares[profiles[0].argmin()])
        ends = (nearest, max(move.least, min(lows)), min(1.0, max(highs)))
        best, low, high = (amount(move, end, self.side) for end in ends)
        opens = (move.least < 0 and ends[1] <= move.least, ends[2] >= 1)
        return best, None if opens[0] else low, None if opens[1] else high, move.unit


def _distance(odd: Tensor, even: Tensor, seen: Tensor) -> Tensor:
    """Squared distances (...) of an observed mean (K,) from odd + c even (..., K), c in [0, 1]."""
    rest = seen - odd
    factor = (rest * even).sum(-1) / even.square().sum(-1).clamp(min=1e-12)
    return (rest - factor.clamp(0, 1)[..., None] * even).square().sum(-1)


def _pair_distance(a: Parts, b: Parts, seen: Tensor) -> Tensor:
    """The same (G, G) for the sums of two responses, of which each is given as odd and even (G, F).

    Inner products of the sums are sums of inner products, which saves an axis of F.
    """
    rest = _products(seen - a[0], -b[0], seen - a[0], -b[0])
    even = _products(a[1], b[1], a[1], b[1]).clamp(min=1e-12)
    both = _products(seen - a[0], -b[0], a[1], b[1])
    factor = (both / even).clamp(0, 1)
    return (rest - 2 * factor * both + factor.square() * even).clamp(min=0)


def _products(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """Inner products (G, G) of a_i + b_j and c_i + d_j, for rows (G, F)."""
    return (a * c).sum(1)[:, None] + a @ d.T + (b @ c.T).T + (b * d).sum(1)[None]


def _finer(curve: Tensor, move: Move, axes: int) -> tuple[Parts, Tensor]:
    """The odd and the even part of a curve (G, K), and its shares, at many more amounts.

    The even part is the same for a change and its inverse: mostly what resampling does to pictures.
    There are fewer amounts where each of one axis is combined with each of another.
    """
    factor = FINER[axes]
    even = (curve + curve.flip(0)) / 2 if move.least < 0 else torch.zeros_like(curve)
    size = factor * (len(curve) - 1) + 1
    parts = [_interpolated(part.T[None], size)[0].T for part in (curve - even, even)]
    return (parts[0], parts[1]), _interpolated(grid_of(move, len(curve))[None, None], size)[0, 0]


def _interpolated(values: Tensor, size: int) -> Tensor:
    """Values (1, C, G) at ``size`` points, on lines between the given ones."""
    return torch.nn.functional.interpolate(values, size, mode="linear", align_corners=True)
