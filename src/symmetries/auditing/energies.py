"""Energies and forces of atoms, in their units: of tensors, and of calculators such as ASE's."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from symmetries._validation.checks import check_whole, invalid, wrong_type
from symmetries.actions.nodes import linear_part
from symmetries.actions.points import PointAction
from symmetries.auditing.elements import make_moves, resolve_action
from symmetries.auditing.estimate import estimate
from symmetries.groups.base import Group
from symmetries.results import AuditResult

Answer = float | tuple[float, Any]
Pairs = list[tuple[Tensor, Tensor | None]]
MEASURES = {
    "energy_error": "{0}",
    "energy_error_per_atom": "{0} per atom",
    "force_error": "{0}/{1}",
    "largest_force_error": "{0}/{1}",
}


def audit_energies(
    model: Callable[[Any], Answer],
    structures: Sequence[Any],
    group: str | Group[Any] = "so3",
    *,
    samples: int = 16,
    half_width: float | Sequence[float] | None = None,
    units: tuple[str, str] = ("eV", "Å"),
    level: float = 0.95,
    seed: int = 0,
) -> AuditResult:
    """Measure whether energies stay and forces turn when atoms and their cell are moved.

    Structures may differ in their number of atoms. The cell turns along; forces are compared with
    the turned forces of the structure as it is. What rounding alone explains is measured by moving
    each structure there and back.

    Args:
        model: from one structure to its energy, or to a pair (energy, forces (P, 3)). For a
            calculator of ASE it has three lines; see the example.
        structures: at least 2, such as ``ase.Atoms``: with ``positions`` (P, 3), which can be set,
            ``copy()`` and, where they are periodic, ``cell`` with vectors as rows and ``set_cell``.
        group: of space: "so3", "o3", "se3" or "e3", or such a group.
        samples: number of elements drawn for each structure.
        half_width: of the box that they are drawn from; by default all rotations.
        units: of the energy and of lengths, for the result.
        level: of the confidence intervals, over structures.
        seed: random seed of the elements.

    Returns:
        Errors of energies, energies per atom and forces in ``measures``, their units in ``units``.

    Example:
        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> class Points(SimpleNamespace):
        ...     def copy(self):
        ...         return Points(**vars(self))
        >>> def springs(atoms):  # with ASE: atoms.calc = calculator, and its energy and forces
        ...     centred = atoms.positions - atoms.positions.mean(0)
        ...     return (centred**2).sum(), -2 * centred
        >>> rng = np.random.default_rng(0)
        >>> several = [Points(positions=rng.normal(size=(n, 3))) for n in (3, 5)]
        >>> found = audit_energies(springs, several, "se3", half_width=1.0)
        >>> found.measures["force_error"].mean < 1e-12, found.units["force_error"]
        (True, 'eV/Å')
    """
    begin = time.perf_counter()
    if not callable(model):
        remedy = "write a function of one structure that returns its energy and forces"
        raise wrong_type("model", "a function from a structure to its energy", model, remedy)
    check_whole(samples, "samples", most=10**6)
    if len(structures) < 2:
        raise invalid("structures", "at least 2", len(structures), "give more structures")
    rows: dict[str, list[float]] = {}
    worst: dict[str, float] = {}
    for i, structure in enumerate(structures):
        found, rounding = _one(model, structure, group, samples, half_width, seed + i)
        for suffix, errors in (("", found), (" alone", rounding)):
            for name, values in errors.items():
                rows.setdefault(name + suffix, []).append(float(values.mean()))
                worst[name + suffix] = max(worst.get(name + suffix, 0.0), float(values.max()))
    measures = {}
    for name in (n for n in rows if not n.endswith(" alone")):
        one = estimate(torch.tensor(rows[name], dtype=torch.float64), level=level, least=0.0)
        alone = sum(rows[name + " alone"]) / len(rows[name + " alone"])
        measures[name] = one.model_copy(update={"discretisation": alone})
    some = resolve_action(group, torch.zeros(1, 1, 3)).group
    shown = {n: text.format(*units) for n, text in MEASURES.items() if n in measures}
    largest = [f"{n.replace('_', ' ')} {worst[n]:.2g} {unit}" for n, unit in shown.items()]
    return AuditResult(
        group=repr(some) if not isinstance(group, str) else group,
        elements=samples,
        exhaustive=False,
        identity=False,
        examples=len(structures),
        output="energy",
        level=level,
        measures=measures,
        units=shown,
        notes=(f"at most, over all structures and elements: {', '.join(largest)}",),
        saliency_similarity=None,
        sensitivity=None,
        layers=(),
        seconds=time.perf_counter() - begin,
    )


def energy_errors(
    still: Pairs, moved: Pairs, turn: Callable[[Tensor], Tensor] | None = None
) -> dict[str, Tensor]:
    """Return errors (N,) of energies and forces, in their units.

    Args:
        still: N pairs of an energy and forces (P, 3), of the structures as they are.
        moved: the same of moved ones.
        turn: how forces (N, P, 3) should turn; None if they should stay.
    """
    energies = [torch.stack([pair[0] for pair in pairs]).double() for pairs in (still, moved)]
    errors = {"energy_error": (energies[0] - energies[1]).abs()}
    if still[0][1] is None or moved[0][1] is None:
        return errors
    forces = [
        torch.stack([pair[1] for pair in pairs if pair[1] is not None]) for pairs in (still, moved)
    ]
    errors["energy_error_per_atom"] = errors["energy_error"] / forces[0].shape[1]
    expected = forces[0] if turn is None else turn(forces[0])
    length = torch.linalg.vector_norm(expected.double() - forces[1].double(), dim=-1)
    errors |= {"force_error": length.mean(1), "largest_force_error": length.amax(1)}
    size = torch.linalg.vector_norm(expected.double(), dim=-1).mean(1)
    errors["relative_force_error"] = errors["force_error"] / size.clamp_min(1e-300)
    return errors


def read_energies(output: Any, count: int) -> Pairs:  # noqa: ANN401 - whatever a model gives
    """Energy and forces (P, 3) of each of N examples, from a pair or a mapping of tensors.

    Args:
        output: (energies (N,) or (N, 1), forces (N, P, D)), a mapping with "energy" and "forces",
            or energies alone.
        count: number of examples N.
    """
    remedy = "return (energies (N,), forces (N, P, D)), or a mapping with energy and forces"
    if isinstance(output, Mapping):
        output = (output.get("energy"), output.get("forces"))
    pair = tuple(output) if isinstance(output, tuple | list) else (output, None)
    energies, forces = pair if len(pair) == 2 else (None, None)
    if not isinstance(energies, Tensor) or energies.numel() != count:
        got = tuple(energies.shape) if isinstance(energies, Tensor) else type(output).__name__
        raise invalid("model", f"{count} energies, and forces", got, remedy)
    if forces is not None and (not isinstance(forces, Tensor) or forces.ndim != 3):
        got = tuple(forces.shape) if isinstance(forces, Tensor) else type(forces).__name__
        raise invalid("model", "forces (N, P, D)", got, remedy)
    flat = energies.reshape(count)
    return [(flat[i], None if forces is None else forces[i]) for i in range(count)]


def _one(
    model: Callable[[Any], Answer],
    structure: Any,  # noqa: ANN401 - any object with positions
    group: str | Group[Any],
    samples: int,
    half_width: float | Sequence[float] | None,
    seed: int,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return errors (S,) of one structure under S elements, and of moving it there and back."""
    x = torch.as_tensor(_positions(structure), dtype=torch.float64)
    copies = x.expand(samples, *x.shape)
    moves = make_moves(group, copies, samples=1, half_width=half_width, seed=seed)
    points, element = PointAction(moves.action.group), moves.elements[0]
    linear = linear_part(points, element, copies)
    moved, back = points(element, copies), points(moves.inverse(element), points(element, copies))
    still = _answer(model, structure, x, torch.eye(3, dtype=torch.float64))
    ends = [_answer(model, structure, moved[i], linear[i]) for i in range(samples)]
    again = _answer(model, structure, back[0], linear[0].inverse() @ linear[0])
    errors = energy_errors([still] * samples, ends, lambda forces: forces @ linear.mT)
    return errors, energy_errors([still], [again])


def _positions(structure: Any) -> Any:  # noqa: ANN401
    found = getattr(structure, "positions", None)
    if found is None or getattr(found, "shape", (0,))[-1] != 3 or not hasattr(structure, "copy"):
        got = type(structure).__name__
        remedy = "give structures such as ase.Atoms"
        raise invalid("structures", "objects with positions (P, 3) and copy()", got, remedy)
    return found


def _answer(
    model: Callable[[Any], Answer],
    structure: Any,  # noqa: ANN401
    positions: Tensor,
    linear: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """Energy and forces of a copy of a structure whose positions and cell are moved."""
    moved = structure.copy()
    moved.positions = positions.numpy().copy()
    cell = getattr(structure, "cell", None)
    if cell is not None:
        rows = torch.as_tensor(np.asarray(cell), dtype=torch.float64)
        if rows.shape != (3, 3) or not hasattr(moved, "set_cell"):
            got = f"cell of shape {tuple(rows.shape)} of a {type(structure).__name__}"
            remedy = "give structures such as ase.Atoms, or without a cell"
            raise invalid("structures", "a cell (3, 3) with vectors as rows, set_cell", got, remedy)
        moved.set_cell((rows @ linear.mT).numpy(), scale_atoms=False)
    found = model(moved)
    energy, forces = found if isinstance(found, tuple) else (found, None)
    value = torch.tensor(float(energy), dtype=torch.float64)
    if not bool(torch.isfinite(value)):
        raise invalid("model", "a finite energy", float(energy), "check the structure")
    if forces is None:
        return value, None
    vectors = torch.as_tensor(forces, dtype=torch.float64)
    if vectors.shape != positions.shape:
        got = f"shape {tuple(vectors.shape)} for {len(positions)} atoms"
        raise invalid("model", f"forces ({len(positions)}, 3)", got, "return one for each atom")
    return value, vectors
