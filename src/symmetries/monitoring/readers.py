"""A network that estimates changes of pictures, trained on randomly changed references."""

import math

import torch
from torch import Tensor, nn

from symmetries.monitoring.moves import Move, apply

SIDE = 20  # pictures are read at most at this size
COARSE = 6  # pixels of a side of coarse pictures
STEPS, BATCH, RATE = 1000, 128, 2e-3


class ChangeReader(nn.Module):
    """Reads shares (N, K) of the largest amounts of changes off pictures (N, C, H, W).

    What it reads of a picture is not what was done to it: a digit may lean by itself. It is a
    score, whose mean over many pictures moves with the amount of a change.

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

    def forward(self, x: Tensor) -> Tensor:
        """Shares (N, K)."""
        small = nn.functional.interpolate(x, self.size, mode="area")
        return self.layers(torch.cat([small.flatten(1), _whole(x)], 1))

    def features(self, x: Tensor) -> Tensor:
        """Shares and what a change must explain besides them: (N, K + F).

        A mirrored or a noisy picture may have the shares of a moved one. Its coarse picture,
        brightness, contrast and sharpness tell them apart.
        """
        coarse = nn.functional.adaptive_avg_pool2d(x.mean(1, keepdim=True), COARSE)
        return torch.cat([self(x), coarse.flatten(1), _whole(x)], 1)

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


def _whole(x: Tensor) -> Tensor:
    """Brightness, contrast and sharpness (N, 3 C), which small pictures lose."""
    down, right = (x.diff(dim=d).square().mean((-2, -1)) for d in (-2, -1))
    return torch.cat([x.mean((-2, -1)), x.var((-2, -1)), (down + right + 1e-8).log()], 1)


def draw_shares(count: int, moves: tuple[Move, ...], generator: torch.Generator) -> Tensor:
    """Random shares (count, K): each is 0 with probability a half, else spread over its range.

    Those of blur, which acts on all pictures of one strength at once, have eight values.
    """
    low = torch.tensor([move.least for move in moves])
    spread = torch.rand(count, len(moves), generator=generator) * (1 - low) + low
    spread = torch.where(low < 0, spread, (8 * spread).ceil() / 8)
    return spread * (torch.rand(count, len(moves), generator=generator) < 0.5)
