"""How often is a symmetry certified that is not there? Random networks, and asymmetric tables.

Networks: two hidden layers with random weights (the usual initialisation), 2 to 4 inputs, 8 to 32
units, four activations; 400 standard normal points. Tables: random polynomials of degree 3 in 2 or
3 coordinates with noise of 5 % of their size, 300 rows, fitted. Nobody put a symmetry into either,
but a function can be nearly symmetric by chance: a certificate counts as false if the largest
defect of the span that was certified is above epsilon on 20,000 new points (for tables, of the true
function).

Run with: python -m benchmarks.generators.false_certificates --seeds 1000 --first 1000
"""

import argparse
from collections.abc import Callable

import torch
from benchmarks.generators.records import Clock, parallel, record
from benchmarks.generators.truth import true_defect
from torch import Tensor, nn

import symmetries
from symmetries.analysis.lie_generators import EPSILON
from symmetries.lie import monomials
from symmetries.lie.fields import monomial_values

ACTIVATIONS = (nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU)


def network(seed: int) -> tuple[nn.Module, int]:
    """A random network, and the number of its inputs."""
    torch.manual_seed(seed)
    inputs, width = 2 + seed % 3, (8, 16, 32)[seed // 3 % 3]
    kind = ACTIVATIONS[seed // 9 % 4]
    layers = [nn.Linear(inputs, width), kind(), nn.Linear(width, width), kind()]
    return nn.Sequential(*layers, nn.Linear(width, 1)), inputs


def polynomial(seed: int) -> tuple[Callable[[Tensor], Tensor], int]:
    """A random polynomial of degree 3, and the number of its inputs."""
    inputs = 2 + seed % 2
    exponents = monomials(inputs, 3)
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(len(exponents), 1, generator=generator, dtype=torch.float64)
    return lambda x: monomial_values(x, exponents) @ weights, inputs


def judged(kind: str, seed: int, epsilon: float) -> dict[str, object]:
    """One run: how many generators were certified, and whether that is true."""
    function, inputs = network(seed) if kind == "network" else polynomial(seed)
    generator = torch.Generator().manual_seed(10_000 + seed)
    if kind == "network":
        x = torch.randn(400, inputs, generator=generator, dtype=torch.float64)
        found = symmetries.generators(x, model=function, epsilon=epsilon, seed=seed)
        function = function.double()
    else:
        x = torch.randn(300, inputs, generator=generator, dtype=torch.float64)
        y = function(x)
        y = y + 0.05 * y.std() * torch.randn(300, 1, generator=generator, dtype=torch.float64)
        found = symmetries.generators(x, y, epsilon=epsilon, seed=seed)
    least, most = found.dimension
    row: dict[str, object] = {"kind": kind, "seed": seed, "epsilon": epsilon, "certified": least}
    row["cannot be told"] = most - least
    if least:
        matrices = torch.tensor([part.matrix for part in found.generators], dtype=torch.float64)
        row["true defect"] = true_defect(function, matrices)
    return row


def main() -> None:
    """Run both kinds and record them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1000, help="seeds below it set the interval")
    parser.add_argument("--epsilon", type=float, help="by default that of the library")
    parser.add_argument("--kinds", nargs="+", default=["network", "table"])
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    clock = Clock()
    seeds = range(given.first, given.first + given.seeds)
    for kind in given.kinds:
        epsilon = given.epsilon or EPSILON["model" if kind == "network" else "fit"]
        rows = []
        for row in parallel(judged, [(kind, seed, epsilon) for seed in seeds], given.workers):
            rows.append(row)
            if len(rows) % 100 == 0 or len(rows) == given.seeds:
                settings = {
                    "epsilon": epsilon,
                    "level": 0.95,
                    "seeds": f"{seeds[0]} to {row['seed']}",
                }
                shown = [row for row in rows if row["certified"] or row["cannot be told"]]
                name = f"false_certificates-{kind}s-{epsilon:g}"
                record(name, summarised(rows, kind, epsilon), shown, clock, settings)


def summarised(rows: list[dict[str, object]], kind: str, epsilon: float) -> dict[str, object]:
    """The numbers that the documentation shows."""
    wrong = [row for row in rows if row.get("true defect", 0) > epsilon]
    unsure = sum(bool(row["cannot be told"]) for row in rows)
    return {
        f"{kind}s": len(rows),
        f"{kind}s, generators certified": sum(row["certified"] for row in rows),
        f"{kind}s, of these false": sum(row["certified"] for row in wrong),
        f"{kind}s that have fields that cannot be told": unsure,
    }


if __name__ == "__main__":
    main()
