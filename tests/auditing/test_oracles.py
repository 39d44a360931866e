"""Numbers of an audit against loops: what resampling alone does, maps, layers, Lie derivatives."""

import pytest
import torch
from torch import nn

from symmetries.actions import ImageAction
from symmetries.auditing import (
    audit_energies,
    audit_model,
    layer_contributions,
    layer_equivariance,
    lie_derivative,
)
from symmetries.auditing.elements import make_moves
from symmetries.groups import SO3

F64 = torch.float64
WIDTH = 0.4  # radians


def smooth(n=4, side=20):
    generator = torch.Generator().manual_seed(0)
    small = torch.rand(n, 1, 5, 5, generator=generator, dtype=F64)
    return nn.functional.interpolate(small, (side, side), mode="bicubic").clamp(0, 1)


def turns(x, samples):
    """An action and (example, element) pairs, as an audit with seed 0 draws them."""
    action = ImageAction("rotation")
    moves = make_moves(action, x, samples=samples, half_width=WIDTH, seed=0)
    return action, [(i, element[i : i + 1]) for element in moves.elements for i in range(len(x))]


def test_what_resampling_alone_does_to_logits():
    torch.manual_seed(0)
    x = smooth()
    net = nn.Sequential(nn.Flatten(), nn.Linear(400, 3)).double()
    found = audit_model(net, x, "rotation", half_width=WIDTH, samples=3, layers=(),
                        gradients=False, local=False, progress=False)  # fmt: skip
    action, pairs = turns(x, 3)
    half, kl, same = [], [], []
    with torch.no_grad():
        for i, g in pairs:
            a, b = net(x[i : i + 1])[0], net(action.undo(g, action(g, x[i : i + 1])))[0]
            half.append(0.5 * float((a - b).square().sum()))
            p, q = a.softmax(0), b.softmax(0)
            kl.append(float((p * (p / q).log()).sum()))
            same.append(float(a.argmax() == b.argmax()))
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    assert found.logit_invariance.discretisation == pytest.approx(mean(half), rel=1e-9)
    assert found.distribution_invariance.discretisation == pytest.approx(mean(kl), rel=1e-6)
    assert found.agreement.discretisation == pytest.approx(mean(same))


def inner(action, g, side=20):
    """Pixels of the inner 80 %, before the turn and after it."""
    mask = torch.zeros(1, 1, side, side, dtype=F64)
    mask[..., 2:18, 2:18] = 1
    return ((action(g, mask) > 0.999) & (mask > 0))[0, 0]


def test_maps_by_pixel_inside_and_at_the_border():
    torch.manual_seed(1)
    x = smooth()
    net = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Tanh()).double()
    found = audit_model(net, x, "rotation", output="map", half_width=WIDTH, samples=2,
                        layers=(), local=False, progress=False).measures  # fmt: skip
    action, pairs = turns(x, 2)
    rows = {name: [] for name in (*found, "alone")}
    with torch.no_grad():
        for i, g in pairs:
            one = x[i : i + 1]
            still, moved = net(one), net(action(g, one))
            expected, mask = action(g, still)[0], inner(action, g)
            square = (expected - moved[0]).square().sum(0)
            rows["relative_error"].append((square.sum() / expected.square().sum()).sqrt())
            size = expected.square().sum(0)[mask].sum()
            rows["relative_error_inside"].append((square[mask].sum() / size).sqrt())
            rows["share_at_the_border"].append(square[~mask].sum() / square.sum())
            equal = expected.argmax(0)[mask] == moved[0].argmax(0)[mask]
            rows["agreement"].append(equal.double().mean())
            again = net(action.undo(g, action(g, one)))
            back = action.undo(g, action(g, again))
            rows["alone"].append((back - still).norm() / still.norm())
    alone = float(sum(rows.pop("alone"))) / len(pairs)
    assert rows.keys() == found.keys()
    for name, values in rows.items():
        assert found[name].mean == pytest.approx(float(sum(values)) / len(pairs), rel=1e-6), name
    assert found["relative_error"].discretisation == pytest.approx(alone, rel=1e-6)


def test_what_resampling_alone_does_to_a_layer():
    torch.manual_seed(2)
    x = smooth()
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Tanh()).double()
    (row,) = layer_equivariance(net, x, "rotation", layers=["0"], samples=2, half_width=WIDTH)
    action, pairs = turns(x, 2)
    error, back, size = 0.0, 0.0, 0.0
    with torch.no_grad():
        for i, g in pairs:
            one = x[i : i + 1]
            h = net[0](one)
            error += float((net[0](action(g, one)) - action(g, h)).square().sum())
            again = net[0](action.undo(g, action(g, one)))
            back += float((action.undo(g, action(g, again)) - h).square().sum())
            size += float(h.square().sum())
    assert row.error == pytest.approx((error / size) ** 0.5, rel=1e-9)
    assert row.discretisation == pytest.approx((back / size) ** 0.5, rel=1e-9)


def test_the_lie_derivative_and_what_is_not_the_model_s():
    """Rate, resampling there and back, and rounding: one step of a number of the output's size."""
    torch.manual_seed(3)
    x = smooth()
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Tanh()).double()
    (row,) = lie_derivative(net, x, "rotation", step=0.01)
    action = ImageAction("rotation")
    t = 0.01 * torch.pi
    turn = [action.group.exp(torch.tensor([[sign * t]], dtype=F64)) for sign in (1, -1)]
    rates, trips = [], []
    with torch.no_grad():
        for one in x.split(1):
            ends = [action.undo(g, net(action(g, one))) for g in turn]
            rates.append(((ends[0] - ends[1]) / (2 * t)).square().mean())
            ends = [action.undo(g, action(g, net(action.undo(g, action(g, one))))) for g in turn]
            trips.append(((ends[0] - ends[1]) / (2 * t)).square().mean())
        largest = float(net(x).abs().max())
    assert row.error.mean == pytest.approx(float(sum(rates)) / 4, rel=1e-6)
    assert row.error.discretisation == pytest.approx(float(sum(trips)) / 4, rel=1e-4)
    assert row.rounding == pytest.approx((torch.finfo(F64).eps * largest / t) ** 2)


def test_what_a_layer_adds_and_resampling_adds_there():
    """The first of two layers, conjugated by small turns and by quarter turns."""
    torch.manual_seed(4)
    x = smooth()
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Tanh()).double()
    shared = net[0].weight.data
    shared[0] = sum(shared[0].rot90(k, (1, 2)) for k in range(4)) / 4  # breaks small turns only
    added, alone = layer_contributions(net, x, "rotation", half_width=WIDTH)["0"]
    action = ImageAction("rotation", interpolation="bicubic", padding="border")
    t = 0.01 * torch.pi
    with torch.no_grad():
        size = net(x).norm()
        turns = [action.group.exp(torch.full((4, 1), s * t, dtype=F64)) for s in (1, -1)]
        ends = [net[1](action.undo(g, net[0](action(g, x)))) for g in turns]
        change = float((ends[0] - ends[1]).norm() / size) * WIDTH / (2 * t)
        quarters = [net[1](net[0](x.rot90(k, (2, 3))).rot90(-k, (2, 3))) for k in (1, -1)]
        exact = float(sum((q - net(x)).square().sum() for q in quarters) / 2 / size**2)
    assert added == pytest.approx(change, rel=1e-6)
    assert alone == pytest.approx(max(change**2 - exact, 0.0) ** 0.5, rel=1e-3, abs=1e-9)


def test_what_a_layer_adds_to_shifts_by_a_pixel():
    """Every other pixel: shifted by one, back by half of a pixel there, with the same blur."""
    x = smooth()
    net = nn.Sequential(Skip(), nn.Tanh()).double()
    added, alone = layer_contributions(net, x, "shift_x", half_width=WIDTH)["0"]
    action = ImageAction("shift_x", interpolation="bicubic", padding="border")
    side = x.shape[-1]
    size, squares = net(x).norm(), 0.0
    for sign in (1, -1):
        g = action.group.exp(torch.full((4, 1), sign * 2 / side, dtype=F64))
        moved = net[1](action.undo(g, net[0](action(g, x))))
        lost = net[0](action.undo(g, action(g, x)))
        lost = net[1]((lost + action.undo(g, action(g, lost))) / 2)
        squares += float((moved - lost).square().sum()) / 2
    on_grid = squares / float(size) ** 2 * (WIDTH * side / 2) ** 2
    assert added**2 - alone**2 == pytest.approx(min(on_grid, added**2), rel=1e-6)
    assert on_grid < added**2


class Skip(nn.Module):
    def forward(self, x):
        return x[..., ::2, ::2].clone()


def test_the_largest_force_error_against_a_loop():
    class Atoms:
        def __init__(self, positions):
            self.positions = positions

        def copy(self):
            return Atoms(self.positions)

    def pulled(atoms):
        return 0.0, atoms.positions * [1.0, 1.0, 3.0]  # stronger along z

    generator = torch.Generator().manual_seed(0)
    two = [Atoms(torch.randn(3, 3, generator=generator, dtype=F64).numpy()) for _ in range(2)]
    found = audit_energies(pulled, two, samples=3, seed=5).measures
    largest = []
    for i, atoms in enumerate(two):
        copies = torch.zeros(3, 3, 3, dtype=F64)
        (rotations,) = make_moves(SO3(), copies, samples=1, seed=5 + i).elements
        for r in rotations.numpy():
            expected = pulled(atoms)[1] @ r.T
            lengths = (((expected - pulled(Atoms(atoms.positions @ r.T))[1]) ** 2).sum(1)) ** 0.5
            largest.append(lengths.max())
    assert found["largest_force_error"].mean == pytest.approx(sum(largest) / 6, rel=1e-9)
