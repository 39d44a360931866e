"""Unlabelled data: how often symmetries of a distribution are found, and how often falsely.

4,000 points of 2 coordinates: normal distributions with random covariances (so(2) in some
coordinates), and mixtures of three of them, which have no symmetry. A certificate is false if the
defect of what was certified is above epsilon for the true density, on 20,000 new points.

Run with: python -m benchmarks.generators.densities --seeds 20
"""

import argparse

import torch
from benchmarks.generators.records import Clock, record
from torch import Tensor
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

import symmetries

EPSILON, POINTS, NEW = 0.2, 4000, 20_000


def mixture(parts: int, generator: torch.Generator) -> MixtureSameFamily:
    """A mixture of normal distributions of the plane."""
    means = 1.5 * torch.randn(parts, 2, generator=generator, dtype=torch.float64)
    mixing = torch.randn(parts, 2, 2, generator=generator, dtype=torch.float64)
    covariances = 0.3 * mixing @ mixing.mT + 0.2 * torch.eye(2, dtype=torch.float64)
    weights = 0.5 + torch.rand(parts, generator=generator, dtype=torch.float64)
    return MixtureSameFamily(Categorical(weights), MultivariateNormal(means, covariances))


def true_defect(density: MixtureSameFamily, matrix: Tensor, data: Tensor) -> float:
    """The defect of one affine field (3, 3), from the definition, by the true density."""
    x = density.sample((NEW,)).requires_grad_()
    score = torch.autograd.grad(density.log_prob(x).sum(), x)[0]
    x = x.detach()
    field = x @ matrix[:2, :2].T + matrix[:2, 2]
    violation = (score * field).sum(1) + matrix[:2, :2].trace()
    covariance = torch.cov(data.T)
    steep = ((score @ covariance) * score).sum(1)  # in standard deviations of the data
    fast = (torch.linalg.solve(covariance, field.T).T * field).sum(1)
    return float((violation.square().mean() / (steep * fast / 2).mean()).sqrt())


def one_run(parts: int, seed: int) -> dict[str, object]:
    """One data set."""
    density = mixture(parts, torch.Generator().manual_seed(seed + 1000 * parts))
    torch.manual_seed(seed)  # distributions of torch draw from the global generator
    x = density.sample((POINTS,))
    found = symmetries.generators(x, law="density", epsilon=EPSILON, seed=seed)
    row: dict[str, object] = {"parts": parts, "seed": seed, "answer": found.answer}
    row["dimension"] = list(found.dimension)
    if found.generators:
        matrices = torch.tensor([part.matrix for part in found.generators], dtype=torch.float64)
        row["true defect"] = max(true_defect(density, matrix, x) for matrix in matrices)
    return row


def main() -> None:
    """Run both kinds and record them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    count = parser.parse_args().seeds
    clock, rows = Clock(), []
    for seed in range(count):
        rows += [one_run(parts, seed) for parts in (1, 3)]
        normal, mixed = ([row for row in rows if row["parts"] == parts] for parts in (1, 3))
        summary = {
            "normal distributions": len(normal),
            "of these certified as so(2)": sum(row["answer"] == "so(2)" for row in normal),
            "mixtures of three": len(mixed),
            "of these certified as anything": sum(row["dimension"][0] > 0 for row in mixed),
            "false certificates": sum(row.get("true defect", 0) > EPSILON for row in rows),
        }
        settings = {"epsilon": EPSILON, "level": 0.95, "points": POINTS, "seeds": f"0 to {seed}"}
        record("densities", summary, rows, clock, settings)


if __name__ == "__main__":
    main()
