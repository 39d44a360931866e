"""How many transformations the evidence of an average needs, and how they must be spread.

Networks trained at half-widths of 45 and 90 degrees (two sectors of 8 x 8 digits, the network of
``network_widths.py``): their exact Laplace evidence with S transformations, the midpoints of equal
parts of the range, or scrambled Sobol points.

    python benchmarks/network_samples.py
"""

import sys
from pathlib import Path

import torch

from symmetries.data import load
from symmetries.learners.invariant_network.candidates import trained_at

sys.path.insert(0, str(Path(__file__).parent))
from common import record
from network_widths import SIZES, task, untrained

WIDTHS = (45.0, 90.0)
SAMPLES = (12, 16, 32, 64)
SEEDS = 3  # of the Sobol points


def main() -> None:
    """Measure and record."""
    size = SIZES["digits"]
    found = task("2 sectors", load("digits", "train"), size)
    images, labels, _ = found
    learner, rows = untrained(found, size, 0.0, 0), []
    for degrees in WIDTHS:
        width = torch.tensor([degrees]).deg2rad()
        model = trained_at(learner, width, images, labels, {"device": "cpu", "progress": False})
        evidence, box = model.evidence(), model.network.box
        for samples in SAMPLES:
            drawn = [
                box.noise(samples, "sobol", torch.Generator().manual_seed(seed)) * width
                for seed in range(SEEDS)
            ]
            values = [
                float(evidence.total(images, labels, eta.detach()))
                for eta in (model.eta(samples), *drawn)
            ]
            known = {"half_width": degrees, "samples": samples}
            rows.append({**known, "midpoints": values[0], "sobol": values[1:]})
            print(rows[-1], flush=True)
    record("network_samples-cpu", rows)


if __name__ == "__main__":
    main()
