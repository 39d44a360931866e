"""The layer that breaks a symmetry is named first: four planted kinds, 20 networks each."""

import pytest
import torch
from benchmarks.audit_deep import DEEP
from benchmarks.audit_planted import KINDS, Energy, crystals, dense_network, named_first, textures
from torch import nn

from symmetries.actions import ImageAction, PointAction
from symmetries.auditing import audit_model, layer_contributions, layer_equivariance
from symmetries.groups import SE3, SO3, Permutation

NETWORKS = 20
ENOUGH = 19


@pytest.mark.parametrize("kind", KINDS)
def test_the_broken_layer_is_named_first(kind):
    pairs = [named_first(kind, seed) for seed in range(NETWORKS)]
    assert sum(found == broken for found, broken in pairs) >= ENOUGH


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "kind"), [(f, k) for f, (_, kinds) in DEEP.items() for k in kinds]
)
def test_the_broken_layer_of_a_deep_network_is_named_first(family, kind):
    """The benchmark counts 40 of each."""
    pairs = [named_first(kind, seed, DEEP[family][0]) for seed in range(NETWORKS)]
    assert sum(found == broken for found, broken in pairs) >= ENOUGH


@pytest.mark.parametrize("seed", [2, 3])
def test_coarse_nonlinearities_are_not_blamed(seed):
    """On maps of 8 x 8 they seem to break small moves, by interpolation, but not exact ones."""
    network, kinds = DEEP["networks with two halvings"]
    assert all(a == b for a, b in (named_first(kind, seed, network) for kind in kinds))
    net, _, x = network(kinds[0], seed)
    added, alone = layer_contributions(net, x, ("translation", "rotation")[seed % 2])["10"]
    assert added > 0.01
    assert added**2 - alone**2 < 0.01 * added**2


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


def test_energies_that_turn_along_add_nothing():
    found = layer_contributions(Energy(0), crystals(0), SO3())
    assert {"", "pairs", "wrap", "slope", "first", "act", "second", "last"} == set(found)
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
