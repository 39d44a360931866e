"""Conserved quantities of Hamiltonians that are given or learned, along motions of the system."""

import pytest
import torch

import symmetries
from symmetries.lie import conserved_quantities


def potential(q):
    return q.square().sum(-1) + 0.3 * q.square().sum(-1) ** 2


def energy(z):
    return z[:, 3:].square().sum(-1) / 2 + potential(z[:, :3])


def motion(state, steps=2000, dt=0.001):
    """States along the motion, by leapfrog."""
    q, p = state[:3], state[3:]
    states = []
    for _ in range(steps):
        for kind in ("kick", "drift", "kick"):
            if kind == "drift":
                q = q + dt * p
            else:
                place = q.clone().requires_grad_()
                p = p - dt / 2 * torch.autograd.grad(potential(place), place)[0]
        states.append(torch.cat((q, p)))
    return torch.stack(states)


@pytest.mark.parametrize("learned", [False, True])
def test_angular_momentum_is_found_and_conserved(learned):
    z = torch.randn(1500, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    if learned:
        found = symmetries.generators(z, energy(z), fields="linear", degree=4, epsilon=0.02)
    else:
        found = symmetries.generators(z, model=energy, fields="linear")
    assert found.name == "so(3) + so(3)"  # places and momenta may turn by themselves
    quantities = conserved_quantities(found.fitted.generators)
    assert len(quantities) == 3
    states = motion(torch.tensor([1.0, 0.2, -0.5, 0.3, 1.1, 0.4], dtype=torch.float64))
    kinetic = states[:, 3:].square().sum(1)
    assert kinetic.max() > 2 * kinetic.min()  # other quantities change
    for quantity in quantities:
        values = quantity(states)
        assert float((values - values[0]).abs().max()) < 1e-6


def test_fields_that_are_not_hamiltonian_conserve_nothing():
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    places = torch.block_diag(turn, torch.zeros(2, 2))
    momenta = torch.block_diag(torch.zeros(2, 2), turn)
    assert len(conserved_quantities(places[None])) == 0
    assert len(conserved_quantities(torch.stack((places, momenta)))) == 1  # their sum
    shift = torch.zeros(1, 5, 5)
    shift[0, 0, 4] = 1.0  # along q1: p1 is conserved
    (quantity,) = conserved_quantities(shift)
    assert float(quantity(torch.tensor([3.0, 0.0, 2.0, 0.0])).__abs__()) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="generators: expected"):
        conserved_quantities(torch.zeros(1, 2, 3))
