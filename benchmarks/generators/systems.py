"""Ten polynomial systems, intact and broken: how often symmetries are found, and how often falsely.

Each run draws 400 standard normal points, outputs with noise of 0.5, 2 or 5 % of their size, and,
in half of the runs, a term that breaks the symmetry, of 1 to 30 % of the function's size.
Affine fields, fits by polynomials, a family-wise level of 99.9 %. A certificate is false if the
largest defect of what was certified is above epsilon for the true function on 20,000 new points; a
broken system may still be symmetric up to epsilon. A symmetry is detected if the whole algebra is
certified in an intact system. A plain threshold calls every field a symmetry whose estimated
defect, on the data that chose it, is below epsilon.

Stored are counts for each system and noise, and every run with a false certificate; any other run
is made again by its seed.

Run with: python -m benchmarks.generators.systems --seeds 500 --workers 4
"""

import argparse
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
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
KIND = ("system", "noise", "broken")  # of a row of counts
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
    clock, stored = Clock(), None
    code = fingerprint()
    if given.more:
        stored = json.loads((RESULTS / f"{given.name}.json").read_text())
        if stored["settings"].get("code") != code:
            raise SystemExit(f"stored runs are of other code: {stored['commit']}")
        clock.before = stored["minutes"]
    each = 2 * len(SYSTEMS)
    done = stored["summary"]["runs"] // each if stored else 0
    first = given.first + done
    seeds = range(first, given.seeds)
    runs = [(name, seed, broken) for seed in seeds for name in SYSTEMS for broken in (False, True)]
    found = []
    for row in parallel(one_run, runs, given.workers):
        found.append(row)
        if 60 * (clock.minutes() - clock.before) > given.limit:
            break
    found = found[: len(found) // each * each]  # whole seeds
    last = first + len(found) // each - 1
    commits = dict(stored["settings"]["commits"]) if stored else {}
    if found:
        commits[f"{first} to {last}"] = clock.environment["commit"]
    settings = {"epsilon": EPSILON, "level": LEVEL, "points": POINTS}
    settings |= {"seeds": f"{given.first} to {last}", "commits": commits, "code": code}
    settings["false certificates"] = false_runs(found)
    rows = counted(found)
    if stored:
        rows = added([*stored["rows"], *rows])
        settings["false certificates"] = [
            *stored["settings"]["false certificates"],
            *settings["false certificates"],
        ]
    record(given.name, summarised(rows), rows, clock, settings)


def join(names: list[str]) -> None:
    """Join results of parts of different seeds, whose code is the same."""
    parts = [json.loads((RESULTS / f"{name}.json").read_text()) for name in names]
    if len({part["settings"]["code"] for part in parts}) > 1:
        raise SystemExit("parts are of different code")
    every = [given for part in parts for given in part["settings"]["seeds"].split(", ")]
    ranges = sorted(tuple(map(int, given.split(" to "))) for given in every)
    if any(later[0] <= before[1] for before, later in pairwise(ranges)):
        raise SystemExit("seeds of parts are not different")
    clock = Clock()
    clock.before = sum(part["minutes"] for part in parts)
    settings = dict(parts[0]["settings"])
    settings["seeds"] = ", ".join(part["settings"]["seeds"] for part in parts)
    settings["commits"] = {k: v for part in parts for k, v in part["settings"]["commits"].items()}
    false = [row for part in parts for row in part["settings"]["false certificates"]]
    devices = {d for part in parts for d in part["settings"].get("devices", [part["device"]])}
    settings |= {"false certificates": false, "devices": sorted(devices)}
    rows = added([row for part in parts for row in part["rows"]])
    record("systems", summarised(rows), rows, clock, settings)


def fingerprint() -> str:
    """What rows depend on, of one kind only in a file: this file, the truth and the search."""
    folders = [Path(__file__).parent, Path(lie.__file__).parent]
    files = [folders[0] / "systems.py", folders[0] / "truth.py"]
    files += [folders[1] / f"{name}.py" for name in SEARCH]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


Row = dict[str, object]


def false_runs(runs: list[Row]) -> list[Row]:
    """Runs whose certificate is false."""
    return [run for run in runs if run.get("true defect", 0) > EPSILON]


def counted(runs: list[Row]) -> list[Row]:
    """Counts of runs for each system, noise, and whether the symmetry was broken."""
    rows = []
    for run in runs:
        intact = not run["broken"]
        row = {"system": run["system"], "noise": run["noise"], "broken": not intact, "runs": 1}
        row["false certificates"] = len(false_runs([run]))
        row["detected"] = int(intact and run["least"] >= run["dimension"])
        row["falsely denied"] = int(intact and run["most"] < run["dimension"])
        row["false by threshold"] = int(run.get("true defect of threshold", 0) > EPSILON)
        row["detected by threshold"] = int(intact and run["threshold"] >= run["dimension"])
        rows.append(row)
    return added(rows)


def added(rows: list[Row]) -> list[Row]:
    """Rows of counts with those of the same system, noise and kind added."""
    sums: dict[tuple[object, ...], Counter[str]] = {}
    for row in rows:
        counts = {name: count for name, count in row.items() if name not in KIND}
        sums.setdefault(tuple(row[name] for name in KIND), Counter()).update(counts)
    names = [name for name in rows[0] if name not in KIND] if rows else []
    return [
        dict(zip(KIND, kind, strict=True)) | {name: counts[name] for name in names}
        for kind, counts in sums.items()
    ]


def summarised(rows: list[Row]) -> dict[str, object]:
    """The numbers that the documentation shows."""

    def total(name: str, **kind: object) -> int:
        return sum(row[name] for row in rows if all(row[k] == v for k, v in kind.items()))

    shares = {
        f"detection, noise {noise:g}": total("detected", noise=noise)
        / total("runs", noise=noise, broken=False)
        for noise in sorted({row["noise"] for row in rows})
    }
    intact = total("runs", broken=False)
    return {
        "runs": total("runs"),
        "false certificates": total("false certificates"),
        "symmetries falsely denied": total("falsely denied"),
        "detection": total("detected") / intact,
        **shares,
        "false answers of a plain threshold": total("false by threshold"),
        "detection of a plain threshold": total("detected by threshold") / intact,
    }


if __name__ == "__main__":
    main()
