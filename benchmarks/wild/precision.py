"""Rotation errors of SevenNet-0 and CHGNet in single and in double precision, by a plain loop.

A check of ``audit_energies`` that shares no code with it, and the cause of what it finds: in double
precision the errors are gone, so they are the rounding of the models' own arithmetic.

    python benchmarks/wild/precision.py        # in the environment of make wild
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
from packages import chgnet, sevennet

from symmetries._utils.provenance import commit, device_name

RESULTS = Path(__file__).with_name("precision.json")
ROTATIONS = 4
FEW = (
    "C6H6",
    "CH3Cl",
    "N2",
    "Si2",
    "CCH",
    "HCN",
    "C2H2",
    "CH3CH2Cl",
)  # the largest errors in single


def doubled(calculator: Any) -> Any:  # noqa: ANN401 - of ASE
    """The calculator with weights, constants and inputs of 64 bits."""
    for module in calculator.model.double().modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(module, name, value.double())
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double  # what the packages call on their inputs
    for package in ("chgnet.graph.converter", "chgnet.graph.crystalgraph", "chgnet.model.model"):
        if package in sys.modules:
            sys.modules[package].TORCH_DTYPE = torch.float64
    if "sevenn.util" in sys.modules:
        sys.modules["sevenn.util"].dtype_correct.__defaults__ = (torch.float64, torch.int64)
    return calculator


def errors(calculator: Any, names: list[str], cell: float | None) -> np.ndarray:  # noqa: ANN401
    """|E(R x) - E(x)| per atom in meV, (molecules, rotations)."""
    from ase.collections import g2

    rng = np.random.default_rng(7)
    found = []
    for name in names:
        still = g2[name].copy()
        if cell is not None:
            still.set_cell([cell] * 3)
            still.center()
            still.pbc = True
        energies = []
        for turn in [np.eye(3), *(_rotation(rng) for _ in range(ROTATIONS))]:
            atoms = still.copy()
            atoms.positions = still.positions @ turn.T
            if cell is not None:
                atoms.set_cell(still.cell.array @ turn.T)
            atoms.calc = calculator
            energies.append(float(atoms.get_potential_energy()))
        found.append(1000 * np.abs(np.array(energies[1:]) - energies[0]) / len(still))
    return np.array(found)


def _rotation(rng: np.random.Generator) -> np.ndarray:
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    q[:, 0] *= np.linalg.det(q)
    return q


def main() -> None:
    """Measure both models, single precision first, and store what was found."""
    from ase.collections import g2

    every = [name for name in g2.names if len(g2[name]) > 1]
    models = {"SevenNet-0": (sevennet(), None), "CHGNet 0.3.0": (chgnet(), 30.0)}
    rows = []
    for bits, names in ((32, every), (32, [*FEW]), (64, [*FEW])):
        for model, (calculator, cell) in models.items():
            found = errors(doubled(calculator) if bits == 64 else calculator, names, cell)
            row = {"model": model, "bits": bits, "molecules": len(found), "rotations": ROTATIONS}
            row |= {"largest": float(found.max()), "mean": float(found.mean()), "cell": cell}
            rows.append(row)
            print(row, flush=True)
    about = {"unit": "meV per atom", "commit": commit(), "device": device_name("cpu"), "seed": 7}
    RESULTS.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
