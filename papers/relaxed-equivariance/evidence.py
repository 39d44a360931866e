"""Can omega' be learned without lambda? A lower bound on the marginal likelihood, on small digits.

The weights A' that read the absolute element get a Gaussian posterior N(M, S^2), diagonal, and the
prior that they were drawn from. Minimised is minus the evidence lower bound per image,

    E_q[cross-entropy] + KL(q || prior) / N,

over all weights, M, S and omega'. At omega' = 0 the features of the absolute element do not vary,
so noise on A' cannot be seen: the posterior may be the prior, at no cost. Where omega' is not 0,
the layer must pay in nats for every weight that it wants to know. That is the pull towards
symmetry that the cross-entropy lacks, in units that need no lambda.

    python papers/relaxed-equivariance/evidence.py
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))

from image_sets import images_of
from starts import network

from symmetries.learners.relaxed import accuracy
from symmetries.nn.fourier import SHARE, fourier_features
from symmetries.nn.relaxation import relaxation, relaxed_layers
from symmetries.training import Batch, Step, TrainConfig, train
from symmetries.training.atomic_files import write_atomic


class Posterior(nn.Module):
    """A network whose weights A' on the absolute element have a Gaussian posterior.

    Args:
        model: with soft layers; their ``absolute_weight`` becomes the mean M.
        deviation: S at the start.
    """

    def __init__(self, model: nn.Module, deviation: float = 0.1) -> None:
        super().__init__()
        self.model = model
        self.kernels = [layer.kernel for layer in relaxed_layers(model).values()]
        self.log_deviation = nn.ParameterList(
            torch.full_like(kernel.absolute_weight, math.log(deviation)) for kernel in self.kernels
        )
        for kernel in self.kernels:
            kernel.noise = None
            kernel.project_absolute = _noisy(kernel)

    def draw(self, generator: torch.Generator | None) -> None:
        """New noise for all layers; None takes it away."""
        for kernel, log_deviation in zip(self.kernels, self.log_deviation, strict=True):
            kernel.noise = None
            if generator is not None:
                unit = torch.randn(
                    log_deviation.shape, generator=generator, device=log_deviation.device
                )
                kernel.noise = unit * log_deviation.exp()

    def kl(self) -> Tensor:
        """KL(q || prior) in nats; the prior has the variance that the weights were drawn with."""
        total = torch.zeros((), device=self.log_deviation[0].device)
        for kernel, log_deviation in zip(self.kernels, self.log_deviation, strict=True):
            prior = SHARE
            variance = (2 * log_deviation).exp()
            ratio = (variance + kernel.absolute_weight.square()) / prior
            total = total + 0.5 * (ratio - 1 - 2 * log_deviation + math.log(prior)).sum()
        return total

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.model(images)
        return logits


def _noisy(kernel: Any) -> Any:  # noqa: ANN401 - a method in another's place
    def project(absolute: Tensor, frequency: Tensor) -> Tensor:
        gamma = fourier_features(absolute, kernel.absolute_directions, frequency)
        z = gamma @ kernel.absolute_weight.T
        if kernel.noise is None:
            return z
        still = fourier_features(0 * absolute, kernel.absolute_directions, frequency)
        return z + (gamma - still) @ kernel.noise.T

    return project


def run(task: str, seed: int, steps: int, start: float, weight: float) -> dict[str, Any]:
    """Train on one task; ``weight`` of the KL is 1 for the bound and 0 for cross-entropy alone."""
    (images, labels), test = images_of(task, None, False)
    posterior = Posterior(network(seed, start))
    frequencies = [layer.relaxed_frequency for layer in relaxed_layers(posterior).values()]
    groups = [
        {"params": [p for p in posterior.parameters() if all(p is not q for q in frequencies)]},
        {"params": frequencies, "lr_multiplier": 4.0},
    ]

    def loss(model: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        posterior.draw(step.generator if weight else None)
        cross_entropy = F.cross_entropy(model(batch[0]), batch[1])
        divergence = posterior.kl() / len(images)
        return {"loss": cross_entropy + weight * divergence, "kl": divergence}

    config = TrainConfig(steps, 32, lr=5e-3, seed=seed, device="cpu", progress=False)
    history = train(posterior, loss, (images, labels), config, param_groups=groups)
    posterior.draw(None)
    return {
        "task": task,
        "seed": seed,
        "kl_weight": weight,
        "start": start,
        "steps": steps,
        "relaxation": [round(row["value"], 4) for row in relaxation(posterior)],
        "accuracy": round(100 * accuracy(posterior, *test), 2),
        "kl_per_image": round(history["kl"][-1], 4),
        "loss": round(history["loss"][-1], 4),
    }


def main(words: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Both tasks, with and without the KL."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--start", type=float, default=0.1)
    parser.add_argument("--weights", nargs="+", type=float, default=[1.0, 0.0])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)
    rows = []
    for weight in arguments.weights:
        for seed in range(arguments.seeds):
            for task in ("digit", "turn"):
                rows.append(run(task, seed, arguments.steps, arguments.start, weight))
                print(rows[-1], flush=True)
    if arguments.out is not None:
        write_atomic(arguments.out, (json.dumps({"rows": rows}, indent=1) + "\n").encode())
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
