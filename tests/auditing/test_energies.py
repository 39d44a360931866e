"""Energies and forces in their units: against closed forms, loops, and planted errors."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from symmetries.auditing import audit_energies, audit_model
from symmetries.groups import SE3, SO3

F64 = torch.float64


class Atoms:
    """As much of ASE's class as an audit needs."""

    def __init__(self, positions, cell):
        self.positions, self.cell = np.array(positions), np.array(cell)

    def copy(self):
        return Atoms(self.positions, self.cell)

    def set_cell(self, cell, scale_atoms):
        assert not scale_atoms
        self.cell = np.array(cell)


def structures(seed=0):
    rng = np.random.default_rng(seed)
    cells = [4 * np.eye(3) + 0.3 * rng.normal(size=(3, 3)) for _ in range(5)]
    return [Atoms(rng.normal(size=(n, 3)), cell) for n, cell in enumerate(cells, 2)]


def springs(atoms):
    """Springs to the nearest copies of all others; forces are minus the gradient."""
    x = torch.tensor(atoms.positions, requires_grad=True)
    cell = torch.tensor(atoms.cell)
    bonds = x[:, None] - x[None]
    bonds = bonds - (bonds @ cell.inverse()).round() @ cell
    energy = bonds.square().sum() / 4
    (gradient,) = torch.autograd.grad(energy, x)
    return float(energy.detach()), -gradient.numpy()


def test_a_crystal_turns_with_its_cell():
    for group, width in (("so3", None), ("o3", None), ("se3", 2.0)):
        found = audit_energies(springs, structures(), group, half_width=width, samples=4)
        assert found.measures["energy_error"].mean < 1e-11
        assert found.measures["force_error"].mean < 1e-11
    assert found.units["energy_error_per_atom"] == "eV per atom"
    assert found.examples == 5
    assert found.output == "energy"


def test_the_largest_error_is_said():
    """Every call but those of structures as they are adds more: the last error is the largest."""
    calls = iter(range(1000))
    found = audit_energies(lambda atoms: 0.5 * next(calls), structures(), "so3", samples=3)
    # As it is, three times moved, there and back: 0.5, 1 and 1.5 more in each of five structures.
    assert found.measures["energy_error"].mean == pytest.approx(1.0)
    assert found.notes == ("at most, over all structures and elements: energy error 1.5 eV",)


def test_a_cell_that_is_not_turned_along_shows():
    def fixed(atoms):
        atoms.cell = 4 * np.eye(3)
        return springs(atoms)

    found = audit_energies(fixed, structures(), samples=8)
    assert found.measures["energy_error"].mean > 0.1
    assert found.measures["energy_error"].discretisation < 1e-11


def test_a_field_along_an_axis_against_closed_forms():
    """E = c z of one atom: |E(R x) - E(x)| has mean c |x| / 2 around the mean over the sphere."""
    c = 0.3

    def field(atoms):
        return c * float(atoms.positions[:, 2].sum()), np.tile(
            [0.0, 0.0, -c], (len(atoms.positions), 1)
        )

    atom = SimpleNamespace(positions=np.array([[1.0, 0.0, 0.0]]))
    atom.copy = lambda: SimpleNamespace(positions=atom.positions)
    found = audit_energies(field, [atom, atom], samples=4000)
    # z of a uniform direction is uniform in [-1, 1]: the mean of |z| is 1/2; E(x) is 0.
    assert found.measures["energy_error"].mean == pytest.approx(c / 2, rel=0.03)
    # |p - R p| of a fixed vector has mean 4/3 of its length.
    assert found.measures["force_error"].mean == pytest.approx(4 / 3 * c, rel=0.03)
    assert found.measures["relative_force_error"].mean == pytest.approx(4 / 3, rel=0.03)
    assert audit_energies(lambda a: field(a)[0], [atom, atom]).measures.keys() == {"energy_error"}


def test_tensors_of_energies_and_forces_against_a_loop():
    """audit_model with output="energy", for a model that adds a field along x."""
    x = torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(0), dtype=F64)
    axis = torch.tensor([0.2, 0.0, 0.0], dtype=F64)

    def model(x):
        return x.square().sum((1, 2)) + x @ axis @ torch.ones(4, dtype=F64), -2 * x - axis

    found = audit_model(model, x, SO3(), output="energy", samples=3, seed=2, progress=False)
    generator = torch.Generator().manual_seed(2)
    turns = [SO3().haar(6, generator=generator, dtype=F64) for _ in range(3)]
    energies, forces = [], []
    for i in range(6):
        for turn in turns:
            a, b = model(x[i : i + 1]), model((x[i] @ turn[i].mT)[None])
            energies.append(float((a[0] - b[0]).abs()))
            forces.append(float((a[1][0] @ turn[i].mT - b[1][0]).norm(dim=1).mean()))
    assert found.measures["energy_error"].mean == pytest.approx(np.mean(energies))
    assert found.measures["energy_error_per_atom"].mean == pytest.approx(np.mean(energies) / 4)
    assert found.measures["force_error"].mean == pytest.approx(np.mean(forces))
    named = audit_model(
        lambda x: dict(zip(("energy", "forces"), model(x), strict=True)), x, SO3(),
        output="energy", samples=3, seed=2, progress=False,
    )  # fmt: skip
    assert named.measures == found.measures


def test_forces_change_places_with_permuted_atoms():
    x = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0), dtype=F64)
    wells = lambda x: (x.square().sum((1, 2)), -2 * x)  # noqa: E731
    found = audit_model(wells, x, "s4", output="energy", progress=False)
    assert found.measures["force_error"].mean == 0
    first = lambda x: (x[:, 0].square().sum(1), -2 * x[:, :1].expand_as(x))  # noqa: E731
    assert audit_model(first, x, "s4", output="energy", progress=False).measures[
        "energy_error"
    ].mean > 0.5  # fmt: skip


def test_what_is_not_an_energy_is_refused():
    several = structures()
    with pytest.raises(ValueError, match="structures: expected at least 2"):
        audit_energies(springs, several[:1])
    with pytest.raises(ValueError, match=r"objects with positions \(P, 3\)"):
        audit_energies(springs, [np.zeros((3, 3))] * 2)
    with pytest.raises(TypeError, match="model: expected a function from a structure"):
        audit_energies(None, several)
    with pytest.raises(ValueError, match=r"model: expected forces \(2, 3\)"):
        audit_energies(lambda atoms: (0.0, np.zeros((1, 3))), several)
    with pytest.raises(ValueError, match="group"):
        audit_energies(springs, several, "c4")
    for cell in (np.eye(2), np.ones(3)):
        skewed = [Atoms(np.ones((2, 3)), cell)] * 2
        with pytest.raises(ValueError, match=r"structures: expected a cell \(3, 3\)"):
            audit_energies(lambda atoms: 0.0, skewed)
    x = torch.randn(4, 3, 3, dtype=F64)
    both = lambda x: (x.sum((1, 2)), x[..., :2])  # noqa: E731
    with pytest.raises(ValueError, match=r"output: expected vectors \(N, ..., 3\)"):
        audit_model(both, x, SE3(), output="energy", progress=False)
    with pytest.raises(ValueError, match="model: expected 4 energies, and forces"):
        audit_model(lambda x: x, x, SE3(), output="energy", progress=False)
