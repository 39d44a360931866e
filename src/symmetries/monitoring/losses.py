"""Expected loss of a model's score under each change, measured on held-out pictures."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.monitoring.moves import Move, apply
from symmetries.monitoring.naming import Change, grid_of

ALONE, BOTH = 13, 7  # amounts of a change with one parameter, and of each of two
FINE = 9  # places within an interval at which its worst and its best are looked for
BATCH = 256
Model = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Loss:
    """Points of the score that a model is expected to lose, with a 95 % interval.

    Args:
        points: at the amount that was found.
        low: least over all amounts that are possible.
        high: most; None where the change may be larger than any that was measured.
    """

    points: float
    low: float
    high: float | None


@dataclass(frozen=True)
class LossCurves:
    """Points that a model loses on held-out pictures under each change, at a grid of amounts.

    Args:
        moves: the changes.
        side: pixels of the longer side of the pictures.
        curves: by kind of change, (2, G) or (2, G, G): mean loss and its standard error.
    """

    moves: tuple[Move, ...]
    side: int
    curves: dict[str, Tensor]

    @classmethod
    def measure(
        cls,
        model: Model,
        targets: Tensor,
        x: Tensor,
        moves: tuple[Move, ...],
        fill: float,
    ) -> "LossCurves":
        """Measure a model that gives logits (N, C).

        Args:
            model: a classifier.
            targets: (N,) classes that count as right.
            x: (N, C, H, W) that it should know how to classify.
            moves: the changes.
            fill: value of the background.
        """

        @torch.no_grad()
        def right(pictures: Tensor) -> Tensor:
            parts = [model(part).argmax(-1).cpu() for part in pictures.split(BATCH)]
            return (torch.cat(parts) == targets).double()

        base, curves = right(x), {}
        for kind in dict.fromkeys(move.kind for move in moves):
            own = [k for k, move in enumerate(moves) if move.kind == kind]
            axes = [grid_of(moves[k], BOTH if len(own) > 1 else ALONE) for k in own]
            rows = []
            for amounts in torch.cartesian_prod(*axes).reshape(-1, len(own)):
                shares = torch.zeros(len(x), len(moves))
                shares[:, own] = amounts
                lost = 100 * (base - right(apply(x, shares, moves, fill)))
                rows.append(torch.stack((lost.mean(), lost.std() / math.sqrt(len(x)))))
            curves[kind] = torch.stack(rows, 1).unflatten(1, [len(axis) for axis in axes])
        return cls(moves, max(x.shape[-2:]), curves)

    def expected(self, change: Change) -> Loss | None:
        """What a change costs; None for one without a name."""
        own = [move for move in self.moves if move.kind == change.name]
        if not own:
            return None
        found = [change.parameters[move.name] for move in own]
        at = torch.tensor([[self._share(m, p[0]) for m, p in zip(own, found, strict=True)]])
        axes = []
        for move, (_, low, high, _) in zip(own, found, strict=True):
            ends = (
                move.least if low is None else self._share(move, low),
                1.0 if high is None else self._share(move, high),
            )
            axes.append(torch.linspace(*ends, FINE))
        box = torch.cartesian_prod(*axes).reshape(-1, len(own))
        points = self._between(change.name, own, at)[0, 0]
        mean, error = self._between(change.name, own, box)
        opened = any(low is None or high is None for _, low, high, _ in found)
        most = None if opened else float((mean + 1.96 * error).max())
        return Loss(float(points), float((mean - 1.96 * error).min()), most)

    def _share(self, move: Move, amount: float) -> float:
        """The share of the largest amount that an amount in the unit of a move is."""
        if move.unit == "factor":
            return math.log(amount) / move.most
        return amount / move.most / (self.side if move.kind == "shift" else 1)

    def _between(self, kind: str, own: list[Move], shares: Tensor) -> Tensor:
        """Mean and standard error (2, P) at shares (P, D), on lines between those of the grid."""
        curve = self.curves[kind]
        found = curve.new_zeros(2, len(shares))
        place, below = [], []
        for d, move in enumerate(own):
            size = curve.shape[1 + d]
            at = (shares[:, d].double() - move.least) / (1 - move.least) * (size - 1)
            at = at.clamp(0, size - 1)
            below.append(at.floor().long().clamp(max=size - 2))
            place.append(at - below[-1])
        for corner in torch.cartesian_prod(*[torch.arange(2)] * len(own)).reshape(-1, len(own)):
            weight = torch.ones(len(shares), dtype=torch.float64)
            for d, side in enumerate(corner.tolist()):
                weight = weight * (place[d] if side else 1 - place[d])
            where = tuple(b + c for b, c in zip(below, corner.tolist(), strict=True))
            found = found + weight * curve[(slice(None), *where)]
        return found
