"""Deep networks with one planted broken layer, for ``audit_planted.py``.

A residual network of 18 convolutions, down to maps of 8 x 8 pixels; a transformer of six blocks
behind filtered halvings; an energy of four blocks of messages. All weights are random. Every other
layer keeps the symmetry as far as a grid of pixels can.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
from audit_planted import (
    KINDS,
    Differences,
    Halved,
    MinimumImage,
    Positions,
    RoundFilters,
    Slope,
    crystals,
    dense_network,
    textures,
)


class Residual(nn.Module):
    """Two convolutions with a sum around them; behind it, absolute positions if broken."""

    def __init__(self, width: int, side: int, broken: bool) -> None:
        super().__init__()
        self.conv1, self.norm1 = RoundFilters(width, width), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = RoundFilters(width, width), nn.BatchNorm2d(width)
        self.act = nn.GELU()
        self.positions = Positions(side) if broken else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        inside = self.norm2(self.conv2(self.act(self.norm1(self.conv1(x)))))
        return self.act(self.positions(x + inside))


def residual_network(seed: int, kind: str) -> tuple[nn.Sequential, str]:
    """18 convolutions in four stages, (N, 1, 64, 64) to (N, 5), and the broken layer's name."""
    torch.manual_seed(seed)
    place = seed // 2 % (3 if kind == "anti-aliasing removed" else 8)
    width, side, layers = 8, 64, [RoundFilters(1, 8), nn.GELU()]
    name = ""
    for stage in range(4):
        if stage:
            broken = kind == "anti-aliasing removed" and place == stage - 1
            name = str(len(layers)) if broken else name
            layers.append(Halved(filtered=not broken))
            side //= 2
        for block in range(2):
            broken = kind == "absolute positions" and place == 2 * stage + block
            name = f"{len(layers)}.positions" if broken else name
            layers.append(Residual(width, side, broken))
    head = (nn.Conv2d(width, width, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 5))
    net = nn.Sequential(*layers, *head)
    x = textures(seed, 64)
    with torch.no_grad():
        for _ in range(20):  # batch norms learn the size of their inputs
            net(x)
    scale_tables(net.eval(), x)
    return net, name


def scale_tables(net: nn.Module, x: Tensor) -> None:
    """Make absolute positions as large as what they are added to."""

    def scale(module: nn.Module, inputs: tuple[Tensor]) -> None:
        module.table.data *= inputs[0].std() / module.table.std()

    tables = [module for module in net.modules() if isinstance(module, Positions)]
    handles = [module.register_forward_pre_hook(scale) for module in tables]
    with torch.no_grad():
        net(x)
    for handle in handles:
        handle.remove()


class Block(nn.Module):
    """Attention and two layers; broken: absolute positions, as a layer or in its own operations."""

    def __init__(self, width: int, tokens: int, broken: str | None) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        side = round(tokens**0.5)
        smooth = torch.cat([Positions(side).table.detach() for _ in range(width)], 1)
        table = smooth.flatten(2).mT
        self.table = nn.Parameter(table) if broken == "own" else None
        self.positions = Added(table) if broken == "layer" else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        x = self.positions(x)
        x = x if self.table is None else x + self.table
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Added(nn.Module):
    """Adds a table."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table)

    def forward(self, x: Tensor) -> Tensor:
        """X and the table."""
        return x + self.table


class Transformer(nn.Module):
    """Tokens of 4 x 4 pixels behind two filtered halvings, six blocks, their mean, five classes."""

    def __init__(self, seed: int, kind: str, width: int = 16, side: int = 32) -> None:
        super().__init__()
        torch.manual_seed(seed)
        bare = seed // 2 % 2 if kind == "anti-aliasing removed" else None
        place = seed // 2 % 6 if kind == "absolute positions" else None
        how = ("layer", "own")[seed // 12 % 2]
        self.stem = nn.Sequential(
            *(RoundFilters(1, width), nn.GELU(), Halved(bare != 0)),
            *(RoundFilters(width, width), nn.GELU(), Halved(bare != 1)),
        )
        tokens = (side // 4) ** 2
        blocks = [Block(width, tokens, how if place == i else None) for i in range(6)]
        self.blocks = nn.Sequential(*blocks)
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, 5)
        self.broken = f"stem.{(2, 5)[bare]}" if bare is not None else f"blocks.{place}"
        self.broken += ".positions" if place is not None and how == "layer" else ""
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, 5)."""
        tokens = self.stem(x).flatten(2).mT
        return self.last(self.norm(self.blocks(tokens)).mean(1))


class Messages(nn.Module):
    """Messages along bonds that it measures itself."""

    def __init__(self, width: int, broken: str | None) -> None:
        super().__init__()
        self.pairs, self.wrap = Differences(), MinimumImage(broken == "wrap")
        self.slope = Slope(broken == "slope")
        self.bond, self.sent, self.act = nn.Linear(1, width), nn.Linear(width, width), nn.SiLU()
        self.update = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, h: Tensor, positions: Tensor, cell: Tensor) -> Tensor:
        """Features (N, P, width) of the atoms."""
        weight = self.act(self.bond(self.slope(self.wrap(self.pairs(positions), cell))))
        received = (weight * self.sent(h)[:, None]).sum(2)
        return h + self.update(torch.cat((h, received), -1))


class DeepEnergy(nn.Module):
    """Four blocks of messages, and the sum of the atoms' energies."""

    def __init__(self, seed: int, kind: str | None, width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(seed)
        place = seed % 4
        self.start = nn.Parameter(torch.randn(width))
        self.blocks = nn.ModuleList(Messages(width, kind if place == i else None) for i in range(4))
        self.last = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))
        self.broken = f"blocks.{place}.{kind}"
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        """Energies (N, 1)."""
        positions, cell = x[:, :-3], x[:, -3:]
        h = self.start.expand(*positions.shape[:2], -1)
        for block in self.blocks:
            h = block(h, positions, cell)
        return self.last(h).sum(1)


def two_halvings(kind: str, seed: int) -> tuple[nn.Module, str, Tensor]:
    """The small network with a second halving."""
    return *dense_network(seed, kind, halvings=2), textures(seed)


def residual(kind: str, seed: int) -> tuple[nn.Module, str, Tensor]:
    """A residual network."""
    return *residual_network(seed, kind), textures(seed, 64)


def transformer(kind: str, seed: int) -> tuple[nn.Module, str, Tensor]:
    """A transformer."""
    net = Transformer(seed, kind)
    return net, net.broken, textures(seed)


def deep_energy(kind: str, seed: int) -> tuple[nn.Module, str, Tensor]:
    """An energy of four blocks."""
    net = DeepEnergy(seed, kind)
    return net, net.broken, crystals(seed)


DEEP = {
    "networks with two halvings": (two_halvings, KINDS[:2]),
    "residual networks": (residual, KINDS[:2]),
    "transformers": (transformer, KINDS[:2]),
    "energies of four blocks": (deep_energy, KINDS[2:]),
}
