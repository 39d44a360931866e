"""The name and the size of a change, from the mean features before and after it."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.monitoring.moves import PLANAR, WAYS, Move, amount, apply, systematic_error
from symmetries.monitoring.readers import COARSE, WHOLE, ChangeReader

LOOKED_AT = 400  # pictures that are changed: responses are differences, which few pictures tell
GRID = 41  # amounts at which the response to a change is measured
EXPLAINED = 0.9  # share of the squared deviation that a named change explains, at least
ODD = 0.05  # error of the mean of a feature that is no reading, as a share of its spread
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
class Fit:
    """How well a kind of change, made in one way, explains the mean of the features.

    Args:
        distance: the least squared distance.
        share: of the even part of the response there.
        by_amount: least squared distances (G,), for each move of the kind.
    """

    distance: float
    share: float
    by_amount: list[Tensor]


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

    def whitening(self, count: int) -> Tensor:
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
        systematic = ODD * (variance + more).sqrt() + 1e-6
        sharpness = (len(variance) - moves - COARSE**2) // WHOLE  # a feature for each channel
        systematic[-sharpness:] = variance[-sharpness:].sqrt() + 1e-6
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
        white = self.whitening(len(features))
        seen = (white @ (features.mean(0) - self.centre)).double()
        curves = (self.curves @ white.T).double()
        nothing = float(seen.square().sum())
        best: tuple[float, list[int], list[Fit]] = (math.inf, [], [])
        for kind in dict.fromkeys(move.kind for move in self.moves):
            own = [k for k, move in enumerate(self.moves) if move.kind == kind]
            every = [_fit([self._parts(curve[k], k, own) for k in own], seen) for curve in curves]
            nearest = min(fit.distance for fit in every)
            if nearest < best[0]:
                best = (nearest, own, every)
        chance = len(seen)  # expected of the distance from the truth

        limit = chance + (1 - EXPLAINED) * max(1.0, nothing - chance)
        explained = 1 - max(0.0, best[0] - chance) / max(1.0, nothing - chance)
        if best[0] > limit:
            return Change("none of these", {}, explained)
        own = best[1]
        # Each way that explains the change may be the right one: an interval holds those of all.
        likely = {i: fit for i, fit in enumerate(best[2]) if fit.distance <= limit}
        likely = dict(sorted(likely.items(), key=lambda pair: pair[1].distance))
        first = next(iter(likely.values()))
        errors = self._errors(features, own, likely)
        parameters = {}
        for j, k in enumerate(own):
            profiles = []
            for fit, error in zip(likely.values(), errors, strict=True):
                wider = max(1.0, fit.distance / chance)  # errors that nothing explains
                fits = fit.by_amount[j] <= limit  # other amounts do not explain the change
                profiles.append(torch.where(fits, error[j] / wider, math.inf))
            amounts = self._amount(self.moves[k], profiles, int(first.by_amount[j].argmin()))
            parameters[self.moves[k].name] = amounts
        if all(low is None and high is None for _, low, high, _ in parameters.values()):
            return Change("none of these", {}, explained)  # nothing is seen but what moving leaves
        return Change(self.moves[own[0]].kind, parameters, explained)

    def _parts(self, curve: Tensor, k: int, own: list[int]) -> Parts:
        """The odd and the even part of the curve (G, F) of move k, at many more amounts.

        The even part is the same for a change and its inverse: mostly what resampling does to
        pictures. There are fewer amounts where each of one axis is combined with each of another.
        """
        size = FINER[len(own)] * (len(curve) - 1) + 1
        even = (curve + curve.flip(0)) / 2 if self.moves[k].least < 0 else torch.zeros_like(curve)
        odd, even = (_interpolated(part, size) for part in (curve - even, even))
        return odd, even

    def _errors(self, features: Tensor, own: list[int], ways: dict[int, Fit]) -> list[list[Tensor]]:
        """Squared errors by amount of each move of one kind, of the means of their readings alone.

        The reader has learned what else may happen to pictures. Other features know less of an
        amount, and the resampling of small pictures moves them more. The error of a mean is that of
        the pictures held out and that of the stream, whose readings may be more spread.

        Args:
            features: (n, F) of the stream.
            own: numbers of the moves, one or two.
            ways: of moving pictures, by number. What they do besides moving counts as it fits.
        """
        count, known = len(features), self.covariance[own][:, own].double()
        spread = features[:, own].double().var(0, unbiased=count > 1) / known.diagonal()
        error = known * (float(spread.max().clamp(min=1)) / count + 1 / self.held_out)
        white = torch.linalg.inv(torch.linalg.cholesky(error))
        seen = white @ (features.mean(0) - self.centre)[own].double()
        resampled = self.moves[own[0]] in PLANAR  # other changes are what they are
        found = []
        for i, fit in ways.items():
            share = fit.share if resampled else 1.0
            every = [self._parts(self.curves[i, k][:, own].double() @ white.T, k, own) for k in own]
            responses = [odd + share * even for odd, even in every]
            if len(own) == 1:
                found.append([(seen - responses[0]).square().sum(1)])
            else:
                rest, other = seen - responses[0], -responses[1]
                square = _products(rest, other, rest, other)
                found.append([square.amin(1), square.amin(0)])
        return found

    def _amount(self, move: Move, profiles: list[Tensor], nearest: int) -> Amount:
        """The amount by the likeliest way, the first, and an interval, open at the largest amounts.

        It holds what all features say, too, and is wider by the systematic error on both sides: no
        number of pictures makes the reader's curves exact for a camera that it has not seen.

        Args:
            move: one of the changes.
            profiles: squared errors (G,) by readings, for each way.
            nearest: number of the amount that all features say, by the likeliest way.
        """
        lows, highs, error = [], [], systematic_error(move, self.side)
        shares = grid_of(move, len(profiles[0]))
        for profile in profiles:
            inside = shares[profile <= profile.min() + QUANTILE]
            lows.append(float(inside.min()) - error)
            highs.append(float(inside.max()) + error)
        lows.append(float(shares[nearest]) - error)
        highs.append(float(shares[nearest]) + error)
        read = float(shares[profiles[0].argmin()])
        ends = (read, max(move.least, min(lows)), min(1.0, max(highs)))
        best, low, high = (amount(move, end, self.side) for end in ends)
        opens = (move.least < 0 and ends[1] <= move.least, ends[2] >= 1)
        return best, None if opens[0] else low, None if opens[1] else high, move.unit


def _fit(parts: list[Parts], seen: Tensor) -> Fit:
    """Compare an observed mean (F,) with odd + c even, for c in [0, 1] and all amounts.

    Args:
        parts: for each move of a kind, one or two, the odd and the even part (G, F) of responses.
            Those of two moves are added, (G, G).
        seen: whitened mean.
    """
    none = torch.zeros(1, len(seen), dtype=seen.dtype)
    (odd, even), (odder, evener) = (*parts, (none, none))[:2]
    square = _products(even, evener, even, evener)
    both = _products(seen - odd, -odder, even, evener)
    share = (both / square.clamp(min=1e-12)).clamp(0, 1)
    rest = _products(seen - odd, -odder, seen - odd, -odder)
    distance = (rest - 2 * share * both + share.square() * square).clamp(min=0)
    nearest = int(distance.argmin())
    axes = [distance.amin(1), distance.amin(0)][: len(parts)]
    return Fit(float(distance.flatten()[nearest]), float(share.flatten()[nearest]), axes)


def _products(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """Inner products (G, G) of a_i + b_j and c_i + d_j, for rows (G, F), without an axis of F."""
    return (a * c).sum(1)[:, None] + a @ d.T + (b @ c.T).T + (b * d).sum(1)[None]


def _interpolated(curve: Tensor, size: int) -> Tensor:
    """A curve (G, F) at ``size`` amounts, on lines between those that were measured."""
    lines = torch.nn.functional.interpolate
    return lines(curve.T[None], size, mode="linear", align_corners=True)[0].T
