"""A network that estimates changes of pictures, trained on randomly changed references."""

import math

import torch
from torch import Tensor, nn

from symmetries.monitoring.moves import WAYS, Move, apply

SIDE = 20  # pictures are read at most at this size
COARSE = 6  # pixels of a side of coarse pictures
WHOLE = 5  # features of a whole picture, for each channel
STEPS, BATCH, RATE = 1000, 128, 2e-3
SMALL = 0.25  # share of the largest amount: of the changes that scores tell from none
LOOKED_AT = 500  # pictures
TINY = 12  # pixels of a side: smoothing would take too much of what smaller pictures show
FLAT = 1e-2  # squared difference of neighbours that look alike
RIDGE = 0.05  # of the variance of each feature, and more where pictures are few


class ChangeReader(nn.Module):
    """Reads shares (N, K) of the largest amounts of changes off pictures (N, C, H, W).

    What it reads of a picture is not what was done to it: a digit may lean by itself. Its mean over
    many pictures moves with the amount of a change. It sees pictures slightly smoothed: pictures
    that were moved by software are less sharp, and those of a camera that moved are not.

    Args:
        shape: (C, H, W) of the pictures.
        moves: the changes.
        fill: value of the background.
        features: of the two hidden layers.
    """

    def __init__(
        self, shape: tuple[int, int, int], moves: tuple[Move, ...], fill: float, features: int = 192
    ) -> None:
        super().__init__()
        self.shape, self.moves, self.fill = shape, moves, fill
        self.size = [min(SIDE, side) for side in shape[1:]]
        inputs = shape[0] * math.prod(self.size) + shape[0] * 3
        self.layers = nn.Sequential(
            nn.Linear(inputs, features),
            nn.LayerNorm(features),
            nn.GELU(),
            nn.Linear(features, features),
            nn.GELU(),
            nn.Linear(features, len(moves)),
        )
        signs = [(k, sign) for k, move in enumerate(moves) for sign in _signs(move)]
        self.changes: tuple[tuple[int, float], ...] = tuple(signs)
        seen = len(moves) + COARSE**2 + WHOLE * shape[0]
        self.register_buffer("directions", torch.zeros(seen, 2 * len(signs)))
        self.directions: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Shares (N, K)."""
        return self._read(_smoothed(x))

    def _read(self, x: Tensor) -> Tensor:
        small = nn.functional.interpolate(x, self.size, mode="area")
        return self.layers(torch.cat([small.flatten(1), _whole(x)], 1))

    def features(self, x: Tensor) -> Tensor:
        """Shares and what a change must explain besides them: (N, K + F).

        A mirrored or a noisy picture may have the shares of a moved one. Its coarse picture,
        brightness, contrast, sharpness and roughness tell them apart. The last are those of the
        sharpness of pictures as they are, which changes soon and for many reasons.
        """
        own = [_roughness(x), _sharpness(x)]
        x = _smoothed(x)
        coarse = nn.functional.adaptive_avg_pool2d(x.mean(1, keepdim=True), COARSE)
        return torch.cat([self._read(x), coarse.flatten(1), _whole(x), *own], 1)

    def scores(self, features: Tensor) -> Tensor:
        """Scores (N, S) of features (N, K + F): two for each change and each of its directions."""
        return features @ self.directions

    @torch.no_grad()
    def learn_scores(self, x: Tensor) -> None:
        r"""Fit linear discriminants of small changes to pictures (N, C, H, W).

        That of a change which moves the mean of the features by :math:`\mu` is
        :math:`(\Sigma + \text{ridge})^{-1} \mu`, with the mean over several ways to move pictures.
        It sees what the readings alone do not, such as how software that moves pictures makes them
        less sharp. Cameras do not, so that the reading of each change is a score, too.
        """
        x = x[:LOOKED_AT]
        base = self.features(x)
        shifts = []
        for k, sign in self.changes:
            shares = torch.zeros(len(x), len(self.moves))
            shares[:, k] = sign * SMALL
            moved = [self.features(apply(x, shares, self.moves, self.fill, *way)) for way in WAYS]
            shifts.append(torch.stack(moved).mean((0, 1)) - base.mean(0))
        covariance = torch.cov(base.T).double()
        variance = covariance.diagonal()
        ridge = (RIDGE + len(variance) / len(x)) * variance + 1e-8
        found = torch.linalg.solve(covariance + ridge.diag(), torch.stack(shifts, 1).double())
        plain = torch.zeros_like(found)
        for j, (k, sign) in enumerate(self.changes):
            plain[k, j] = sign
        self.directions.copy_(torch.cat([found / found.abs().amax(0).clamp_min(1e-12), plain], 1))

    def learn(self, x: Tensor, generator: torch.Generator) -> None:
        """Fit to pictures (N, C, H, W) that are changed by all moves at once, at random."""
        optimiser = torch.optim.Adam(self.parameters(), RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
        for _ in range(STEPS):
            rows = torch.randint(len(x), (BATCH,), generator=generator)
            shares = draw_shares(BATCH, self.moves, generator)
            error = self(apply(x[rows], shares, self.moves, self.fill)) - shares
            loss = error.square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        self.learn_scores(x)


def _signs(move: Move) -> tuple[float, ...]:
    """The directions of a change: blur has one."""
    return (1.0, -1.0) if move.least < 0 else (1.0,)


def _smoothed(x: Tensor) -> Tensor:
    """Pictures (N, C, H, W) with weights 1, 2, 1 along both axes; tiny ones as they are."""
    if min(x.shape[-2:]) < TINY:
        return x
    around = nn.functional.pad(x, (1, 1, 1, 1), mode="replicate")
    return nn.functional.avg_pool2d(nn.functional.avg_pool2d(around, 2, 1), 2, 1)


def _roughness(x: Tensor) -> Tensor:
    """Mean logarithm (N, C) of squared differences of neighbours, in pictures as they are.

    Noise is where nothing else is; what moves edges or makes them less sharp changes it little.
    """
    down, right = ((x.diff(dim=d).square() + FLAT).log().mean((-2, -1)) for d in (-2, -1))
    return down + right


def _whole(x: Tensor) -> Tensor:
    """Brightness, contrast and sharpness (N, 3 C), which small pictures lose."""
    return torch.cat([x.mean((-2, -1)), x.var((-2, -1)), _sharpness(x)], 1)


def _sharpness(x: Tensor) -> Tensor:
    """Logarithm (N, C) of the mean of squared differences of neighbours."""
    down, right = (x.diff(dim=d).square().mean((-2, -1)) for d in (-2, -1))
    return (down + right + 1e-8).log()


def draw_shares(count: int, moves: tuple[Move, ...], generator: torch.Generator) -> Tensor:
    """Random shares (count, K): each is 0 with probability a half, else spread over its range.

    Those of blur, which acts on all pictures of one strength at once, have eight values.
    """
    low = torch.tensor([move.least for move in moves])
    spread = torch.rand(count, len(moves), generator=generator) * (1 - low) + low
    spread = torch.where(low < 0, spread, (8 * spread).ceil() / 8)
    return spread * (torch.rand(count, len(moves), generator=generator) < 0.5)
