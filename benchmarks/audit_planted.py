"""How often the layer that breaks a symmetry is named first: four planted kinds of broken layers.

Copies of networks of random weights, whose other layers keep the symmetry, with one broken layer:
anti-aliasing removed or absolute positions added in networks of pictures, under shifts and turns; a
finite difference along a fixed axis or a cell that is not turned along in energies of crystals,
under rotations of space. Target: named first in at least 19 of 20, for each kind.

Small networks, the same with a second halving (down to maps of 8 x 8, where filters and
nonlinearities alias as well), and deep ones (``audit_deep.py``). The measure was chosen on seeds
1000 to 1039.

    python benchmarks/audit_planted.py [--networks 20] [--only "residual networks"]
"""

import argparse
import json
import math
import sys
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from symmetries.auditing import layer_contributions
from symmetries.groups import SO3

sys.path.insert(0, str(Path(__file__).parent))
from common import environment, record

FRESH = 7000  # seeds from here on were not looked at while the measure was made
SMALL = "small networks"
Network = Callable[[str, int], tuple[nn.Module, str, Tensor]]
KINDS = ("anti-aliasing removed", "absolute positions", "slope", "wrap")
TITLES = {"slope": "finite difference along a fixed axis", "wrap": "cell that is not turned along"}


def first_named(found: dict[str, tuple[float, float]]) -> str:
    """The layer that adds most beyond resampling: the first row of a report."""
    return max(found, key=lambda name: found[name][0] ** 2 - found[name][1] ** 2)


# Pictures: networks of round filters under continuous groups. The content stays away from the
# frame, where every finite picture breaks shifts and turns.


def disc(side: int, radius: float = 0.55) -> Tensor:
    """A soft disc (side, side)."""
    r = torch.linspace(-1, 1, side)
    return ((radius - (r[:, None] ** 2 + r**2).sqrt()) * 6).clamp(0, 1)


class RoundFilters(nn.Module):
    """Mixtures of three Gaussians: the same from all sides."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, padding_mode="replicate")
        square = torch.arange(-1, 2)[:, None] ** 2 + torch.arange(-1, 2) ** 2
        basis = torch.stack([torch.exp(-square / (2 * s * s)) for s in (0.4, 0.7, 1.5)])
        weight = 2 * torch.randn(outputs, inputs, 3) / math.sqrt(inputs)
        basis = basis / basis.sum((1, 2), keepdim=True)
        self.conv.weight.data = torch.einsum("oik,kxy->oixy", weight, basis)

    def forward(self, x: Tensor) -> Tensor:
        """The convolution."""
        return self.conv(x)


class Halved(nn.Module):
    """Half the resolution, behind an anti-aliasing filter; or every other pixel without it."""

    def __init__(self, filtered: bool = True) -> None:
        super().__init__()
        self.filtered = filtered

    def forward(self, x: Tensor) -> Tensor:
        """Every other pixel, filtered or not."""
        if not self.filtered:
            return x[..., ::2, ::2].clone()
        row = torch.tensor([1.0, 4, 6, 4, 1]) / 16
        kernel = (row[:, None] * row).expand(x.shape[1], 1, 5, 5)
        padded = F.pad(x, (2, 2, 2, 2), mode="replicate")
        return F.avg_pool2d(F.conv2d(padded, kernel, groups=x.shape[1]), 2)


class Positions(nn.Module):
    """Adds a table: an absolute position."""

    def __init__(self, side: int) -> None:
        super().__init__()
        smooth = F.interpolate(torch.randn(1, 1, 4, 4), (side, side), mode="bicubic")
        self.table = nn.Parameter(smooth * disc(side))

    def forward(self, x: Tensor) -> Tensor:
        """X and the table."""
        return x + self.table


def dense_network(seed: int, kind: str, halvings: int = 1) -> tuple[nn.Sequential, str]:
    """A network of maps with one broken layer, and its name."""
    torch.manual_seed(seed)
    more = (Halved(), RoundFilters(6, 6), nn.GELU()) if halvings == 2 else ()
    net = nn.Sequential(
        *(RoundFilters(1, 6), nn.Identity(), nn.GELU(), Halved()),
        *(RoundFilters(6, 6), nn.BatchNorm2d(6), nn.Identity(), nn.GELU()),
        *(*more, nn.Conv2d(6, 4, 1)),
    ).eval()
    second = seed // 2 % 2
    if kind == "anti-aliasing removed":
        place = 8 if halvings == 2 and second else 3
        net[place] = Halved(filtered=False)
    else:
        place, side = ((1, 32), (6, 16))[second]
        net[place] = Positions(side)
    return net, str(place)


def textures(seed: int, side: int = 32) -> Tensor:
    """Smooth pictures (2, 1, side, side) inside of a disc."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(2, 1, side // 2, side // 2, generator=generator)
    return F.interpolate(coarse, (side, side), mode="bicubic").clamp(0, 1) * disc(side)


# Energies of atoms in a periodic cell: x holds P positions and, in the last three rows, the cell.


class MinimumImage(nn.Module):
    """Displacements to the nearest copies; broken: along fixed axes, not those of the cell."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.broken = broken

    def forward(self, displacements: Tensor, cell: Tensor) -> Tensor:
        """Displacements to the nearest copies."""
        if self.broken:
            cell = torch.diag_embed(torch.linalg.vector_norm(cell, dim=-1))
        shares = torch.einsum("nijk,nkl->nijl", displacements, torch.linalg.inv(cell))
        return displacements - torch.einsum("nijk,nkl->nijl", shares.round(), cell)


class Slope(nn.Module):
    """Slope of exp(-r^2 / 2) along the bond; broken: a finite difference along the x axis."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.broken = broken

    def forward(self, bonds: Tensor) -> Tensor:
        """Slopes (..., 1)."""
        r2 = bonds.square().sum(-1, keepdim=True)
        if not self.broken:
            return r2.sqrt() * torch.exp(-r2 / 2)
        step = torch.tensor([0.1, 0.0, 0.0], dtype=bonds.dtype)
        ends = [(bonds + sign * step).square().sum(-1, keepdim=True) for sign in (1, -1)]
        return (torch.exp(-ends[1] / 2) - torch.exp(-ends[0] / 2)).abs() / 0.2


class Differences(nn.Module):
    """Differences of all pairs of positions."""

    def forward(self, positions: Tensor) -> Tensor:
        """(N, P, P, 3)."""
        return positions[:, :, None] - positions[:, None]


class Energy(nn.Module):
    """A small network of pairs."""

    def __init__(self, seed: int, broken: str | None = None) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.pairs = Differences()
        self.wrap = MinimumImage(broken == "wrap")
        self.slope = Slope(broken == "slope")
        self.first, self.act, self.second = nn.Linear(1, 8), nn.SiLU(), nn.Linear(8, 8)
        self.last = nn.Linear(8, 1)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        """Energies (N, 1)."""
        positions, cell = x[:, :-3], x[:, -3:]
        hidden = self.act(self.first(self.slope(self.wrap(self.pairs(positions), cell))))
        return self.last(self.act(self.second(hidden.sum(2))).sum(1))


def crystals(seed: int, count: int = 4, atoms: int = 5) -> Tensor:
    """Atoms in a slightly skewed cell of side 3, whose rows are the last three."""
    generator = torch.Generator().manual_seed(seed)
    cell = 3 * torch.eye(3) + 0.2 * torch.randn(count, 3, 3, generator=generator)
    shares = torch.rand(count, atoms, 3, generator=generator)
    return torch.cat((shares @ cell, cell), 1).double()


def small_network(kind: str, seed: int) -> tuple[nn.Module, str, Tensor]:
    """A small network with a broken layer, its name, and inputs."""
    if kind in ("slope", "wrap"):
        return Energy(seed, kind), kind, crystals(seed)
    return *dense_network(seed, kind), textures(seed)


def named_first(kind: str, seed: int, network: Network = small_network) -> tuple[str, str]:
    """The layer that is named first in a network with one broken layer, and the broken one."""
    net, name, x = network(kind, seed)
    if kind in ("slope", "wrap"):
        return first_named(layer_contributions(net, x, SO3(), seed=seed)), name
    group, width = (("translation", 0.25), ("rotation", 0.5))[seed % 2]
    return first_named(layer_contributions(net, x, group, half_width=width)), name


def main() -> None:
    """Count, print and record."""
    from audit_deep import DEEP  # it uses the layers above

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", type=int, default=40, help="of each kind")
    parser.add_argument("--first", type=int, default=FRESH, help="seed of the first network")
    parser.add_argument("--only", choices=[SMALL, *DEEP], help="networks of one family")
    parser.add_argument("--out", type=Path, help="a file for the rows, instead of the stored table")
    parser.add_argument("--workers", type=int, default=1, help="processes beside each other")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for family, (network, kinds) in {SMALL: (small_network, KINDS), **DEEP}.items():
        for kind in kinds if asked.only in (None, family) else ():
            seeds = range(asked.first, asked.first + asked.networks)
            with get_context("fork").Pool(asked.workers) as pool:
                named = pool.starmap(named_first, [(kind, seed, network) for seed in seeds], 1)
            pairs = dict(zip(seeds, named, strict=True))
            wrong = {str(seed): a for seed, (a, b) in pairs.items() if a != b}
            row: dict[str, Any] = {"networks": family, "broken": TITLES.get(kind, kind)}
            row |= {"first_seed": asked.first, "count": len(pairs)}
            row |= {"named_first": len(pairs) - len(wrong), "named_instead_by_seed": wrong}
            rows.append(row)
            print(row, flush=True)
            if asked.out is not None:
                asked.out.write_text(json.dumps({**environment(), "rows": rows}, indent=1))
    if asked.out is None:
        record("audit_planted-cpu", rows, part=asked.only is not None)


if __name__ == "__main__":
    main()
