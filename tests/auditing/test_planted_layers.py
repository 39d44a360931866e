"""The layer that breaks a symmetry is named first: four planted kinds, 20 networks each."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from symmetries.actions import ImageAction, PointAction
from symmetries.auditing import audit_model, layer_contributions, layer_equivariance
from symmetries.groups import SE3, SO3, Permutation

NETWORKS = 20
ENOUGH = 19


def first_named(found):
    """The layer that adds most beyond resampling: the first row of a report."""
    return max(found, key=lambda name: found[name][0] ** 2 - found[name][1] ** 2)


# Pictures: networks of round filters under continuous groups. The content stays away from the
# frame, where every finite picture breaks shifts and turns.


def disc(side, radius=0.55):
    r = torch.linspace(-1, 1, side)
    return ((radius - (r[:, None] ** 2 + r**2).sqrt()) * 6).clamp(0, 1)


class RoundFilters(nn.Module):
    """Mixtures of three Gaussians: the same from all sides."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, padding_mode="replicate")
        square = torch.arange(-1, 2)[:, None] ** 2 + torch.arange(-1, 2) ** 2
        basis = torch.stack([torch.exp(-square / (2 * s * s)) for s in (0.4, 0.7, 1.5)])
        weight = 2 * torch.randn(outputs, inputs, 3) / math.sqrt(inputs)
        basis = basis / basis.sum((1, 2), keepdim=True)
        self.conv.weight.data = torch.einsum("oik,kxy->oixy", weight, basis)

    def forward(self, x):
        return self.conv(x)


class Halved(nn.Module):
    """Half the resolution, behind an anti-aliasing filter; or every other pixel without it."""

    def __init__(self, filtered=True):
        super().__init__()
        self.filtered = filtered

    def forward(self, x):
        if not self.filtered:
            return x[..., ::2, ::2].clone()
        row = torch.tensor([1.0, 4, 6, 4, 1]) / 16
        kernel = (row[:, None] * row).expand(x.shape[1], 1, 5, 5)
        padded = F.pad(x, (2, 2, 2, 2), mode="replicate")
        return F.avg_pool2d(F.conv2d(padded, kernel, groups=x.shape[1]), 2)


class Positions(nn.Module):
    """Adds a table: an absolute position."""

    def __init__(self, side):
        super().__init__()
        smooth = F.interpolate(torch.randn(1, 1, 4, 4), (side, side), mode="bicubic")
        self.table = nn.Parameter(smooth * disc(side))

    def forward(self, x):
        return x + self.table


def dense_network(seed, kind):
    """A network of maps with one broken layer, and its name."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        *(RoundFilters(1, 6), nn.Identity(), nn.GELU(), Halved()),
        *(RoundFilters(6, 6), nn.BatchNorm2d(6), nn.Identity(), nn.GELU(), nn.Conv2d(6, 4, 1)),
    ).eval()
    if kind == "anti-aliasing removed":
        net[3] = Halved(filtered=False)
        return net, "3"
    place, side = ((1, 32), (6, 16))[seed // 2 % 2]
    net[place] = Positions(side)
    return net, str(place)


def textures(seed):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(2, 1, 16, 16, generator=generator)
    return F.interpolate(coarse, (32, 32), mode="bicubic").clamp(0, 1) * disc(32)


@pytest.mark.parametrize("kind", ["anti-aliasing removed", "absolute positions"])
def test_broken_layers_of_pictures_under_continuous_groups(kind):
    right = []
    for seed in range(NETWORKS):
        net, name = dense_network(seed, kind)
        group, width = (("translation", 0.25), ("rotation", 0.5))[seed % 2]
        found = layer_contributions(net, textures(seed), group, half_width=width)
        right.append(first_named(found) == name)
    assert sum(right) >= ENOUGH


def test_blurring_by_interpolation_is_not_counted():
    """Small turns there and in the other direction blur alike: an identity adds next to nothing."""
    net, name = dense_network(1, "absolute positions")
    x = textures(1)
    found = layer_contributions(net, x, "rotation", half_width=0.5)
    act = ImageAction("rotation")
    turn = act.group.exp(torch.tensor([0.0314]))
    blurred = act.undo(turn, act(turn, x))
    assert float((blurred - x).norm() / x.norm()) > 0.01  # for comparison: one small turn and back
    assert found["6"][0] < 0.05 * found[name][0]


# Energies of atoms in a periodic cell: x holds P positions and, in the last three rows, the cell.


class MinimumImage(nn.Module):
    """Displacements to the nearest copies; broken: along fixed axes, not those of the cell."""

    def __init__(self, broken=False):
        super().__init__()
        self.broken = broken

    def forward(self, displacements, cell):
        if self.broken:
            cell = torch.diag_embed(torch.linalg.vector_norm(cell, dim=-1))
        shares = torch.einsum("nijk,nkl->nijl", displacements, torch.linalg.inv(cell))
        return displacements - torch.einsum("nijk,nkl->nijl", shares.round(), cell)


class Slope(nn.Module):
    """Slope of exp(-r^2 / 2) along the bond; broken: a finite difference along the x axis."""

    def __init__(self, broken=False):
        super().__init__()
        self.broken = broken

    def forward(self, bonds):
        r2 = bonds.square().sum(-1, keepdim=True)
        if not self.broken:
            return r2.sqrt() * torch.exp(-r2 / 2)
        step = torch.tensor([0.1, 0.0, 0.0], dtype=bonds.dtype)
        ends = [(bonds + sign * step).square().sum(-1, keepdim=True) for sign in (1, -1)]
        return (torch.exp(-ends[1] / 2) - torch.exp(-ends[0] / 2)).abs() / 0.2


class Differences(nn.Module):
    def forward(self, positions):
        return positions[:, :, None] - positions[:, None]


class Energy(nn.Module):
    """A small network of pairs."""

    def __init__(self, seed, broken=None):
        super().__init__()
        torch.manual_seed(seed)
        self.pairs = Differences()
        self.wrap = MinimumImage(broken == "wrap")
        self.slope = Slope(broken == "slope")
        self.first, self.act, self.second = nn.Linear(1, 8), nn.SiLU(), nn.Linear(8, 8)
        self.last = nn.Linear(8, 1)
        self.double()

    def forward(self, x):
        positions, cell = x[:, :-3], x[:, -3:]
        hidden = self.act(self.first(self.slope(self.wrap(self.pairs(positions), cell))))
        return self.last(self.act(self.second(hidden.sum(2))).sum(1))


def crystals(seed, count=4, atoms=5):
    """Atoms in a slightly skewed cell of side 3, whose rows are the last three."""
    generator = torch.Generator().manual_seed(seed)
    cell = 3 * torch.eye(3) + 0.2 * torch.randn(count, 3, 3, generator=generator)
    shares = torch.rand(count, atoms, 3, generator=generator)
    return torch.cat((shares @ cell, cell), 1).double()


@pytest.mark.parametrize("broken", ["slope", "wrap"])
def test_broken_layers_of_energies_under_rotations(broken):
    """A finite difference along a fixed axis, and a cell that is not turned along."""
    right = []
    for seed in range(NETWORKS):
        found = layer_contributions(Energy(seed, broken), crystals(seed), SO3(), seed=seed)
        right.append(first_named(found) == broken)
    assert sum(right) >= ENOUGH


def test_energies_that_turn_along_add_nothing():
    found = layer_contributions(Energy(0), crystals(0), SO3())
    assert {"pairs", "wrap", "slope", "first", "act", "second", "last"} == set(found)
    assert max(added for added, _ in found.values()) < 1e-10


def test_one_broken_layer_of_an_energy_adds_the_whole_error():
    """Against energies of moved crystals, one after the other."""
    model, x = Energy(1, "slope"), crystals(1)
    added, alone = layer_contributions(model, x, SO3(), seed=3)["slope"]
    turns = SO3().haar(4, generator=torch.Generator().manual_seed(3), dtype=x.dtype)
    more = [turns] + [SO3().haar(4, generator=_after(3, k), dtype=x.dtype) for k in (1, 2)]
    squares = []
    for turn in more:
        moved = torch.stack([one @ r.mT for one, r in zip(x, turn, strict=True)])
        squares.append((model(moved) - model(x)).square().sum())
    total = (sum(squares) / 3).sqrt() / model(x).norm()
    assert added == pytest.approx(float(total.detach()), rel=1e-9)
    assert alone < 1e-12


def _after(seed, draws):
    """The generator of a seed after so many draws of four rotations."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(draws):
        SO3().haar(4, generator=generator, dtype=torch.float64)
    return generator


def test_the_table_of_layers_says_how_each_output_moves():
    """Displacements turn, bonds turn, slopes stay; under shifts, positions are points."""
    x = crystals(2)
    rows = {row.name: row for row in layer_equivariance(Energy(2), x, SO3())}
    assert (rows["pairs"].law, rows["wrap"].law) == ("vector", "vector")
    assert (rows["slope"].law, rows["last"].law) == ("invariance", "invariance")
    assert max(row.error for row in rows.values()) < 1e-10

    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.copy, self.lengths = nn.Identity(), nn.Identity()

        def forward(self, x):
            x = self.copy(x)
            return self.lengths((x - x.mean(1, keepdim=True)).square().sum(-1)).sum(1, keepdim=True)

    rows = {row.name: row for row in layer_equivariance(Centred(), x, PointAction(SE3()))}
    assert (rows["copy"].law, rows["lengths"].law) == ("point", "invariance")
    permuted = layer_equivariance(Centred(), x, Permutation(8))
    assert [row.law for row in permuted] == ["permuted", "permuted"]
    assert max(row.error for row in permuted) < 1e-12


def test_an_audit_of_an_energy_ranks_its_layers():
    result = audit_model(Energy(3, "wrap"), crystals(3), SO3(), output="scalar", progress=False)
    ranked = sorted((row for row in result.layers if row.added), key=lambda row: -row.added)
    assert ranked[0].name == "wrap"
