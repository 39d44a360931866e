"""O(5), read off networks that were trained as LieGG's were.

f(x, y) = sin|x| - |y|^3 / 2 + x.y / (|x| |y|) for two vectors of five coordinates, 10,000 standard
normal samples of which 9,500 are trained on; two hidden layers of 32 units (SiLU, no biases),
inputs divided by their size; 90 epochs of Adam (3e-3, weight decay 1e-4, batches of 500). The bias
of a generator of unit length is the norm of its symmetric part, as LieGG reports it for the
generator with the smallest singular value.

Run with: python -m benchmarks.generators.o5 --seeds 100
"""

import argparse
import time

import torch
from benchmarks.generators.records import Clock, parallel, record
from torch import Tensor, nn

import symmetries
from symmetries.lie import search

# Chosen on seeds 100 to 199, where the tenth defect is at most 0.12 and the eleventh at least 1.19;
# at 0.1, five of those networks are not that symmetric. Other seeds count.
EPSILON = 0.2
FIRST = 200


def samples(seed: int) -> tuple[Tensor, Tensor]:
    """10,000 inputs and outputs."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(10_000, 10, generator=generator)
    a, b = x[:, :5].norm(dim=1), x[:, 5:].norm(dim=1)
    y = torch.sin(a) - b**3 / 2 + (x[:, :5] * x[:, 5:]).sum(1) / (a * b)
    return x, y[:, None]


class Standardised(nn.Module):
    """A network of inputs of unit size, with outputs in the data's units."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        super().__init__()
        sizes = [part.square().mean().sqrt().expand(5) for part in x.split(5, 1)]
        self.register_buffer("size", torch.cat(sizes))
        self.register_buffer("mean", y.mean())
        self.register_buffer("spread", y.std())
        layers = []
        for inputs in (10, 32):
            layers += [nn.Linear(inputs, 32, bias=False), nn.SiLU()]
        self.network = nn.Sequential(*layers, nn.Linear(32, 1, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (n, 1)."""
        return self.spread * self.network(x / self.size) + self.mean


def trained(seed: int) -> tuple[nn.Module, Tensor, float]:
    """A trained network, its inputs, and its error on 500 samples held out."""
    torch.manual_seed(seed)
    x, y = samples(seed)
    model = Standardised(x, y)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    for _ in range(90):
        for batch in torch.randperm(9500).split(500):
            optimiser.zero_grad()
            (model(x[batch]) - y[batch]).square().mean().backward()
            optimiser.step()
    with torch.no_grad():
        error = float((model(x[9500:]) - y[9500:]).square().mean())
    return model, x, error


def bias(matrices: Tensor) -> Tensor:
    """Norms of the symmetric parts of matrices (k, 6, 6) of unit length."""
    inner = matrices[:, :5, :5]
    inner = inner / inner.norm(dim=(1, 2), keepdim=True)
    return ((inner + inner.mT) / 2).norm(dim=(1, 2))


def one_run(seed: int) -> dict[str, object]:
    """One network."""
    model, x, error = trained(seed)
    begun = time.perf_counter()
    found = symmetries.generators(
        x, model=model, fields="linear", vectors=2, epsilon=EPSILON, seed=seed
    )
    seconds = time.perf_counter() - begun
    raw = search(model, x, "linear", vectors=2)
    biases = bias(raw.matrices(raw.spectrum().theta[:10]))
    shown = torch.tensor([part.matrix for part in found.generators]).reshape(-1, 6, 6)
    return {
        "seed": seed,
        "test error": round(error, 4),
        "dimension": list(found.dimension),
        "name": found.name,
        "defect of the tenth": round(found.spectrum[9].defect, 4),
        "defect of the eleventh": round(found.spectrum[10].defect, 4),
        "bias before rounding, first": float(biases[0]),
        "bias before rounding, mean": float(biases.mean()),
        "largest bias of the basis shown": float(bias(shown).max()) if len(shown) else None,
        "upper limit": max((part.high for part in found.generators), default=None),
        "seconds": round(seconds, 2),
    }


def main() -> None:
    """Train, search and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    clock, rows = Clock(), []
    seeds = range(FIRST, FIRST + given.seeds)
    for row in parallel(one_run, [(seed,) for seed in seeds], given.workers, chunk=1):
        rows.append(row)
        if len(rows) % 10 == 0 or len(rows) == given.seeds:
            settings = {"epsilon": EPSILON, "level": 0.95, "seeds": f"{FIRST} to {row['seed']}"}
            record("o5", summarised(rows), rows, clock, settings)


def summarised(rows: list[dict[str, object]]) -> dict[str, object]:
    """The numbers that the documentation shows."""
    right = [row for row in rows if row["dimension"] == [10, 10]]
    first = torch.tensor([row["bias before rounding, first"] for row in rows])
    shown = [row["largest bias of the basis shown"] for row in right]
    return {
        "seeds": len(rows),
        "dimension 10, certified": len(right),
        "named so(5)": sum(row["name"] == "so(5)" for row in right),
        "bias of the basis shown, largest over seeds": max(shown, default=None),
        "bias before rounding, best generator, mean over seeds": float(first.mean()),
        "bias before rounding, best generator, largest": float(first.max()),
        "bias of LieGG's own run, best generator": 0.0093,
    }


if __name__ == "__main__":
    main()
