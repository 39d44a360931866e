"""The name and the size of a change, from the mean scores before and after it."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.monitoring.moves import Move, amount, apply
from symmetries.monitoring.readers import ChangeReader

GRID = 41  # amounts at which the response to a change is measured
EXPLAINED = 0.9  # share of the squared deviation that a named change explains, at least
SYSTEMATIC = 0.03  # error of a mean score, as a share of the largest amount
QUANTILE = 3.84  # of chi-squared with one degree of freedom, at 95 %

Amount = tuple[float, float | None, float | None, str]


@dataclass(frozen=True)
class Change:
    """What happened to a stream.

    Args:
        name: "rotation", "shift", "zoom", "hue", "value", "blur" or "none of these".
        parameters: amount, lower and upper end of a 95 % interval, and unit, by parameter. An end
            is None where the interval reaches the largest amount that is looked for: the change may
            be larger.
        explained: share of the squared deviation of the mean scores that the change explains.
    """

    name: str
    parameters: dict[str, Amount]
    explained: float


def grid_of(move: Move) -> Tensor:
    """The shares (G,) of the largest amount at which the response to a change is measured."""
    return torch.linspace(move.least, 1, GRID)


@dataclass(frozen=True)
class Responses:
    """Mean scores of held-out pictures under each change alone, at a grid of amounts.

    Args:
        moves: the K changes.
        side: pixels of the longer side of the pictures.
        centre: mean scores (K,) of the pictures as they are.
        covariance: of their scores, (K, K).
        curves: mean scores (K, G, K) of changed pictures, less the centre.
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
        """The responses of pictures (m, C, H, W) that the reader has not seen."""
        moves = reader.moves
        rows = []
        with torch.no_grad():
            scores = reader(x)
            for k, move in enumerate(moves):
                for share in grid_of(move):
                    shares = torch.zeros(len(x), len(moves))
                    shares[:, k] = share
                    rows.append(reader(apply(x, shares, moves, reader.fill)).mean(0))
        curves = torch.stack(rows).view(len(moves), GRID, len(moves)) - scores.mean(0)
        return cls(moves, max(x.shape[-2:]), scores.mean(0), torch.cov(scores.T), curves, len(x))

    def name(self, scores: Tensor) -> Change:
        """The change that explains the mean of scores (n, K) best, and its size.

        The squared Mahalanobis distance of the mean of the scores from the response to each change,
        in the covariance of a difference of two means and of a systematic error of the scores, is
        minimised over amounts. A camera that turns does not resample, as we do: the part of a
        response that is the same for a change and its inverse may be there, in part or not at all.
        Shifts along both axes are one change, whose responses add.
        """
        spread = self.covariance * (1 / len(scores) + 1 / self.held_out)
        spread = spread + SYSTEMATIC**2 * torch.eye(len(spread))
        white = torch.linalg.inv(torch.linalg.cholesky(spread))
        seen = white @ (scores.mean(0) - self.centre)
        curves = self.curves @ white.T  # (K, G, K)
        nothing = float(seen.square().sum())
        best: tuple[float, str, list[tuple[Move, Tensor, Tensor]]] = (math.inf, "", [])
        kinds = dict.fromkeys(move.kind for move in self.moves)
        for kind in kinds:
            own = [k for k, move in enumerate(self.moves) if move.kind == kind]
            grids = [_finer(curves[k], self.moves[k]) for k in own]
            if len(own) == 1:
                profiles = [_distance(*grids[0][0], seen)]
            else:
                odd, even = (
                    a[:, None] + b[None] for a, b in zip(grids[0][0], grids[1][0], strict=True)
                )
                square = _distance(odd, even, seen)
                profiles = [square.amin(1), square.amin(0)]
            least = float(min(profile.min() for profile in profiles))
            if least < best[0]:
                found = [
                    (self.moves[k], grid[1], profile)
                    for k, grid, profile in zip(own, grids, profiles, strict=True)
                ]
                best = (least, kind, found)
        explained = 1 - best[0] / nothing if nothing > 0 else 0.0
        if explained < EXPLAINED:
            return Change("none of these", {}, explained)
        return Change(best[1], {m.name: self._amounts(m, s, p) for m, s, p in best[2]}, explained)

    def _amounts(self, move: Move, shares: Tensor, profile: Tensor) -> Amount:
        """The best amount and the ends of its interval, open at the largest amounts."""
        inside = shares[profile <= profile.min() + QUANTILE]
        ends = (shares[profile.argmin()], inside.min(), inside.max())
        best, low, high = (amount(move, float(end), self.side) for end in ends)
        opens = (move.least < 0 and float(ends[1]) <= move.least, float(ends[2]) >= 1)
        return best, None if opens[0] else low, None if opens[1] else high, move.unit


def _distance(odd: Tensor, even: Tensor, seen: Tensor) -> Tensor:
    """Squared distances (...) of what is seen (K,) from odd + c even (..., K), with c in [0, 1]."""
    rest = seen - odd
    factor = (rest * even).sum(-1) / even.square().sum(-1).clamp(min=1e-12)
    return (rest - factor.clamp(0, 1)[..., None] * even).square().sum(-1)


def _finer(curve: Tensor, move: Move, factor: int = 16) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The odd and the even part of a curve (G, K), and its shares, at ``factor`` times as many.

    The even part is the same for a change and its inverse: mostly what resampling does to pictures.
    """
    even = (curve + curve.flip(0)) / 2 if move.least < 0 else torch.zeros_like(curve)
    size = factor * (len(curve) - 1) + 1
    parts = [_interpolated(part.T[None], size)[0].T for part in (curve - even, even)]
    return (parts[0], parts[1]), _interpolated(grid_of(move)[None, None], size)[0, 0]


def _interpolated(values: Tensor, size: int) -> Tensor:
    """Values (1, C, G) at ``size`` points, on lines between the given ones."""
    return torch.nn.functional.interpolate(values, size, mode="linear", align_corners=True)
