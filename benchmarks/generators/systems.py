"""Ten polynomial systems, intact and broken: how often symmetries are found, and how often falsely.

Each run draws 400 standard normal points, outputs with noise of 0.5, 2 or 5 % of their size, and,
in half of the runs, a term that breaks the symmetry, of 1 to 30 % of the function's size.
Affine fields, fits by polynomials, a family-wise level of 99.9 %. A certificate is false if the
largest defect of what was certified is above epsilon for the true function on 20,000 new points; a
broken system may still be symmetric up to epsilon. A symmetry is detected if the whole algebra is
certified in an intact system. A plain threshold calls every field a symmetry whose estimated
defect, on the data that chose it, is below epsilon.

Run with: python -m benchmarks.generators.systems --seeds 500 --workers 4
"""

import argparse
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from benchmarks.generators.records import RESULTS, Clock, parallel, record
from benchmarks.generators.truth import true_defect
from torch import Tensor

import symmetries
from symmetries import lie
from symmetries.lie import fit_polynomial, search

EPSILON, LEVEL, POINTS = 0.05, 0.999, 400
NOISES = (0.005, 0.02, 0.05)
SEARCH = (
    *("certificates", "intervals", "charts", "fields", "fitting", "functions", "polarisation"),
    *("search", "triangular"),
)
Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class System:
    """A function, the dimension of its affine symmetries, and a term that breaks them all."""

    inputs: int
    dimension: int
    function: Function
    term: Function
    law: str = "invariant"


def _radius(x: Tensor, *columns: int) -> Tensor:
    return x[:, list(columns)].square().sum(1, keepdim=True)


def _turning(x: Tensor) -> Tensor:
    return torch.stack((-x[:, 1], x[:, 0]), 1) + x * (1 - _radius(x, 0, 1))


SYSTEMS = {
    "circle": System(2, 1, lambda x: _radius(x, 0, 1), lambda x: x[:, :1] ** 3),
    "hyperbola": System(2, 1, lambda x: x[:, :1] * x[:, 1:], lambda x: x[:, :1] ** 2),
    "sphere": System(3, 3, lambda x: _radius(x, 0, 1, 2), lambda x: x.prod(1, keepdim=True)),
    "Minkowski": System(
        3, 3, lambda x: x[:, :1] ** 2 - _radius(x, 1, 2), lambda x: x.prod(1, keepdim=True)
    ),
    "translation": System(2, 1, lambda x: x[:, :1] ** 3 + x[:, :1], lambda x: x[:, 1:] ** 2),
    "difference": System(2, 1, lambda x: (x[:, :1] - x[:, 1:]) ** 2, lambda x: x[:, :1] ** 3),
    "axis": System(3, 1, lambda x: _radius(x, 0, 1) + x[:, 2:] ** 3, lambda x: x[:, :1] * x[:, 2:]),
    "two circles": System(
        4,
        2,
        lambda x: torch.cat((_radius(x, 0, 1), _radius(x, 2, 3)), 1),
        lambda x: torch.cat((x[:, :1] * x[:, 2:3], x[:, 1:2] * x[:, 3:] ** 2), 1),
    ),
    "limit cycle": System(
        2, 1, _turning, lambda x: torch.stack((x[:, 1] ** 2, x[:, 0]), 1), "dynamics"
    ),
    "ball": System(
        3,
        3,
        lambda x: x * (1 - _radius(x, 0, 1, 2)),
        lambda x: torch.stack((x[:, 1] ** 2, x[:, 2], x[:, 0] * x[:, 1]), 1),
        "dynamics",
    ),
}


def one_run(name: str, seed: int, broken: bool) -> dict[str, object]:
    """One run of one system."""
    system = SYSTEMS[name]
    generator = torch.Generator().manual_seed(
        2 * seed + broken + 100_000 * list(SYSTEMS).index(name)
    )
    x = torch.randn(POINTS, system.inputs, dtype=torch.float64, generator=generator)
    size = math.exp(math.log(0.01) + math.log(30) * float(torch.rand(1, generator=generator)))
    share = size if broken else 0.0
    scale = float(system.function(x).std() / system.term(x).std())

    def function(x: Tensor) -> Tensor:
        return system.function(x) + share * scale * system.term(x)

    clean = function(x)
    noise = NOISES[seed % 3]
    drawn = torch.randn(clean.shape, dtype=torch.float64, generator=generator)
    y = clean + noise * clean.std(0) * drawn
    found = symmetries.generators(x, y, law=system.law, epsilon=EPSILON, level=LEVEL, seed=seed)
    least, most = found.dimension
    row: dict[str, object] = {"system": name, "seed": seed, "broken": share, "noise": noise}
    row |= {"least": least, "most": most, "dimension": system.dimension, "degree": found.fit.degree}
    if least:
        matrices = torch.tensor([part.matrix for part in found.generators], dtype=torch.float64)
        row["true defect"] = true_defect(function, matrices, system.law)
    plain = search(fit_polynomial(x, y, found.fit.degree), x, "affine", system.law, EPSILON)
    spectrum = plain.spectrum()
    theta = spectrum.theta[spectrum.defects <= EPSILON]
    row["threshold"] = len(theta)
    if len(theta):
        row["true defect of threshold"] = true_defect(function, plain.matrices(theta), system.law)
    return row


def main() -> None:
    """Run all systems and record them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=500, help="in all, 20 runs each")
    parser.add_argument("--more", action="store_true", help="add seeds to the stored ones")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds to stop after")
    parser.add_argument("--first", type=int, default=0, help="seed of a part; else 0")
    parser.add_argument("--name", default="systems", help="of the result")
    parser.add_argument("--join", nargs="+", metavar="NAME", help="join results of parts instead")
    given = parser.parse_args()
    if given.join:
        join(given.join)
        return
    clock, rows, commits = Clock(), [], {}
    code = fingerprint()
    if given.more:
        stored = json.loads((RESULTS / f"{given.name}.json").read_text())
        if stored["settings"].get("code") != code:
            raise SystemExit(f"stored rows are of other code: {stored['commit']}")
        rows, clock.before = stored["rows"], stored["minutes"]
        commits = stored["settings"]["commits"]
    each = 2 * len(SYSTEMS)
    first = given.first + len(rows) // each
    seeds = range(first, given.seeds)
    runs = [(name, seed, broken) for seed in seeds for name in SYSTEMS for broken in (False, True)]
    for row in parallel(one_run, runs, given.workers):
        rows.append(row)
        if 60 * (clock.minutes() - clock.before) > given.limit:
            break
    rows = rows[: len(rows) // each * each]  # whole seeds
    last = given.first + len(rows) // each - 1
    if last >= first:
        commits = commits | {f"{first} to {last}": clock.environment["commit"]}
    settings = {"epsilon": EPSILON, "level": LEVEL, "points": POINTS}
    settings |= {"seeds": f"{given.first} to {last}", "commits": commits, "code": code}
    record(given.name, summarised(rows), rows, clock, settings)


def join(names: list[str]) -> None:
    """Join results of parts of different seeds, whose code is the same."""
    parts = [json.loads((RESULTS / f"{name}.json").read_text()) for name in names]
    if len({part["settings"]["code"] for part in parts}) > 1:
        raise SystemExit("parts are of different code")
    rows = [row for part in parts for row in part["rows"]]
    seeds = [row["seed"] for row in rows]
    if set(Counter(seeds).values()) != {2 * len(SYSTEMS)}:
        raise SystemExit("seeds of parts are not different and whole")
    clock = Clock()
    clock.before = sum(part["minutes"] for part in parts)
    devices = sorted({part["device"] for part in parts})
    commits: dict[str, str] = {}
    for part in parts:
        commits |= part["settings"]["commits"]
    ranges = ", ".join(part["settings"]["seeds"] for part in parts)
    settings = parts[0]["settings"] | {"seeds": ranges, "commits": commits}
    record("systems", summarised(rows), rows, clock, settings | {"devices": devices})


def fingerprint() -> str:
    """What rows depend on, of one kind only in a file: this file, the truth and the search."""
    folders = [Path(__file__).parent, Path(lie.__file__).parent]
    files = [folders[0] / "systems.py", folders[0] / "truth.py"]
    files += [folders[1] / f"{name}.py" for name in SEARCH]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def summarised(rows: list[dict[str, object]]) -> dict[str, object]:
    """The numbers that the documentation shows."""
    intact = [row for row in rows if not row["broken"]]
    found = [row for row in intact if row["least"] >= row["dimension"]]
    plain = [row for row in intact if row["threshold"] >= row["dimension"]]
    shares = {}
    for noise in sorted({row["noise"] for row in intact}):
        all_of_them = [row for row in intact if row["noise"] == noise]
        shares[f"detection, noise {noise:g}"] = sum(row in found for row in all_of_them) / len(
            all_of_them
        )
    return {
        "runs": len(rows),
        "false certificates": sum(row.get("true defect", 0) > EPSILON for row in rows),
        "symmetries falsely denied": sum(row["most"] < row["dimension"] for row in intact),
        "detection": len(found) / len(intact),
        **shares,
        "false answers of a plain threshold": sum(
            row.get("true defect of threshold", 0) > EPSILON for row in rows
        ),
        "detection of a plain threshold": len(plain) / len(intact),
    }


if __name__ == "__main__":
    main()
