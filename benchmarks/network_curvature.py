"""Approximations of the log-determinant of an averaged network, against the full one.

A perceptron averaged over rotations is trained on sevens that point into one of six sectors. At its
weights, for several half-widths, half the log-determinant of I + Delta^{-1/2} H Delta^{-1/2} with
the full generalised Gauss-Newton matrix H, and what replaces it:

- "tangent": the bound of ``InvariantNetwork``, from R rows that mix the outputs of R examples.
- "extrapolated": from two such bounds, as candidates of a search are compared.
- "tangent, all outputs": the same from all outputs of R / K examples.
- "blocks": the sum over blocks of R / K examples, each as if it were alone (a bound, too).
- "Kronecker, reduced": A x G by layer, from inputs and gradients averaged over transformations.
- "Kronecker, expanded": A x G by layer, with transformed inputs as examples of their own, so that
  the cross terms of different transformations are dropped.

What the widths see is the slope: "slope" is the mean slope between 10 and 60 degrees, in nats per
radian.

    python benchmarks/network_curvature.py
"""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.data import digits
from symmetries.learners.invariant_network import InvariantNetwork, InvariantNetworkConfig
from symmetries.learners.invariant_network import evidence as evidence_module
from symmetries.learners.invariant_network.evidence import LaplaceEvidence
from symmetries.learners.invariant_network.likelihoods import whitened
from symmetries.training.step import seeded

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "papers" / "invariant-weights"))
from common import record
from pose_labels import pose_sectors

EXAMPLES, CLASSES, HIDDEN, SAMPLES = 300, 6, 24, 16
DEGREES = (0, 10, 20, 30, 40, 50, 60, 90, 120, 150, 180)
ROWS = (120, 300, 600)


def trained_network(images: Tensor, labels: Tensor) -> InvariantNetwork:
    """A perceptron with 64, 24 and 6 units, averaged over 30 degrees."""
    with seeded(0):
        module = nn.Sequential(
            nn.Flatten(), nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
        )
    config = InvariantNetworkConfig(half_width=1 / 6, learn=False, samples=SAMPLES).replace(
        steps=400, batch_size=100, curvature_rows=300, draws=1
    )
    model = InvariantNetwork(module, "rotation", (1, 8, 8), config)
    model.fit((images, labels), device="cpu", progress=False)
    return model


def kronecker(evidence: LaplaceEvidence, images: Tensor, eta: Tensor, reduced: bool) -> Tensor:
    """Half the log-determinant with Kronecker factors by layer."""
    layers: Any = evidence.module
    views = evidence.views(images, eta)
    n, s = views.shape[:2]
    inputs = views.flatten(2).flatten(0, 1)
    first = layers[1](inputs)
    second = layers[3](first.relu())
    mean = second.unflatten(0, (n, s)).mean(1)
    rows = whitened("categorical", mean.detach(), mean)
    total = torch.zeros((), dtype=torch.float64)
    for name, a, z in (("1", inputs, first), ("3", first.relu(), second)):
        ones = torch.ones(n * s, 1)
        a = torch.cat((a.detach(), ones), 1).unflatten(0, (n, s)).double()
        g = [torch.autograd.grad(row, z, retain_graph=True)[0] for row in rows.sum(0)]
        g = torch.stack(g, 1).unflatten(0, (n, s)).double()  # (n, s, K, units)
        if reduced:
            a, g = a.mean(1, keepdim=True), g.sum(1, keepdim=True)
        a, g = a.flatten(0, 1), g.flatten(0, 2)
        sizes = torch.linalg.eigvalsh(a.T @ a / len(a)), torch.linalg.eigvalsh(g.T @ g)
        products = torch.outer(*(size.clamp_min(0) for size in sizes))
        total = total + 0.5 * torch.log1p(products / evidence.precision[name]).sum()
    return total.detach()


def tangent(evidence: LaplaceEvidence, images: Tensor, eta: Tensor, known: Any) -> Tensor:  # noqa: ANN401
    """Half of the bound on the log-determinant that a posterior gives."""
    trace = sum(known.trace(part) for part in evidence.rows(images, eta))
    return 0.5 * (known.log_det - known.retained().sum() + trace)


def alternatives(
    evidence: LaplaceEvidence, images: Tensor, labels: Tensor, eta: Tensor
) -> dict[str, float]:
    """Half the log-determinant at one width, by each."""
    found = {"full": 0.5 * evidence.posterior(images, eta).log_det}
    for rows in ROWS:
        generator, few = torch.Generator().manual_seed(rows), rows // CLASSES
        mixed = evidence.sampled_posterior(images, eta, CLASSES, rows, generator)
        found[f"tangent, {rows} rows"] = tangent(evidence, images, eta, mixed)
        generator = torch.Generator().manual_seed(rows)
        value, _ = evidence.estimate(images, labels, eta, CLASSES, rows, generator)
        found[f"extrapolated, {rows} rows"] = (
            evidence.fit(images, labels, eta) - evidence.penalty() - value
        )
        part = evidence.posterior(images[:few], eta, len(images))
        found[f"tangent, all outputs, {rows} rows"] = tangent(evidence, images, eta, part)
        blocks = [evidence.posterior(block, eta).log_det for block in images.split(few)]
        found[f"blocks of {rows} rows"] = 0.5 * torch.stack(blocks).sum()
    for reduced in (True, False):
        kind = "reduced" if reduced else "expanded"
        found[f"Kronecker, {kind}"] = kronecker(evidence, images, eta, reduced)
    return {name: float(value) for name, value in found.items()}


def main() -> None:
    """Measure and record."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    data = pose_sectors(digits("train"), CLASSES, copies=3)
    images, labels = data.images[:EXAMPLES], data.labels[:EXAMPLES]
    evidence = trained_network(images, labels).evidence()
    noise = (torch.arange(SAMPLES)[:, None] + 0.5) / SAMPLES * 2 - 1
    evidence_module.EXACT["cpu"] = (0, 0)  # extrapolate, though the matrix is small
    found = [alternatives(evidence, images, labels, noise * math.radians(w)) for w in DEGREES]
    low, high = DEGREES.index(10), DEGREES.index(60)
    rows = []
    for name in found[0]:
        values = [each[name] for each in found]
        slope = (values[high] - values[low]) / math.radians(50)
        row = {"log-determinant by": name, "degrees": list(DEGREES), "half": values, "slope": slope}
        rows.append(row)
        print(f"{name:36} {[round(v, 1) for v in values]}, slope {slope:.1f}", flush=True)
    record("network_curvature-cpu", rows)


if __name__ == "__main__":
    main()
