"""A Bayesian last layer and its log evidence: this library against laplace-torch, on equal work.

With a Gaussian likelihood both are exact and must agree: the posterior of linear regression on a
network's features, and log p(y). 10,000 images of 28 x 28 through one hidden layer, 10 outputs, all
in batches of 1,000. laplace-torch gets the best weights beforehand, which this library finds itself
on the way; its curvature "full" is exact here, "kron" (weights and biases apart) is not. It is no
requirement and must be on the path; its dependencies pull a torchvision for CUDA, so install it
with --no-deps in a folder of its own.

    PYTHONPATH=PEERS python benchmarks/laplace_peer.py
"""

import argparse
import importlib.util
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from symmetries.nn.natural_linear import NaturalLinear

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EXAMPLES, BATCH, OUTPUTS, NOISE, PRIOR = 10_000, 1000, 10, 0.5, 2.0


def ours(body: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
    """The posterior of the last layer by one natural-gradient step, and the log evidence."""
    with torch.no_grad():
        parts = [body(part) for part in images.split(BATCH)]
        width = parts[0].shape[1]
        layer = NaturalLinear(width, OUTPUTS, prior_variance=PRIOR, learn_prior=False).to(DEVICE)
        sums = None
        for features, y in zip(parts, targets.split(BATCH), strict=True):
            curvature = torch.full_like(y, 1 / NOISE**2)[None]
            sums = layer.sums(features[None], y[None] / NOISE**2, curvature, sums)
        layer.step(sums, rate=1.0)
        fit = torch.zeros((), device=DEVICE)
        for features, y in zip(parts, targets.split(BATCH), strict=True):
            mean, variance = layer(features)
            fit -= 0.5 * (((y - mean).square() + variance) / NOISE**2).sum()
        constant = targets.numel() * torch.log(torch.tensor(2 * torch.pi * NOISE**2)) / 2
        return fit - constant - layer.kl()[0]


def peer(network: nn.Module, images: Tensor, targets: Tensor, structure: str) -> Tensor:
    """The same by laplace-torch."""
    from laplace import Laplace

    options: dict[str, Any] = {"sigma_noise": NOISE, "prior_precision": 1 / PRIOR}
    options |= {"subset_of_weights": "last_layer", "hessian_structure": structure}
    found = Laplace(network, "regression", **options)
    found.fit(DataLoader(TensorDataset(images, targets), batch_size=BATCH))
    evidence: Tensor = found.log_marginal_likelihood()
    return evidence.detach()


def best_weights(body: nn.Module, images: Tensor, targets: Tensor) -> nn.Linear:
    """The weights in the middle of the posterior, in closed form."""
    with torch.no_grad():
        phi = body(images).double()
        phi = torch.cat((phi, phi.new_ones(len(phi), 1)), 1)
        gram = phi.T @ phi / NOISE**2 + torch.eye(phi.shape[1], device=DEVICE) / PRIOR
        solved = torch.linalg.solve(gram, phi.T @ targets.double() / NOISE**2).T.float()
        head = nn.Linear(phi.shape[1] - 1, OUTPUTS).to(DEVICE)
        head.weight.copy_(solved[:, :-1])
        head.bias.copy_(solved[:, -1])
    return head


def main() -> None:
    """Measure and record."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    if importlib.util.find_spec("laplace") is None:
        print("laplace-torch is not installed: nothing to compare")
        return
    rows: list[dict[str, Any]] = []
    for width, structures in ((64, ("kron", "full")), (256, ("kron",))):
        torch.manual_seed(0)
        body = nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.Tanh()).to(DEVICE)
        images = torch.rand(EXAMPLES, 1, 28, 28, device=DEVICE)
        targets = torch.eye(OUTPUTS, device=DEVICE)[torch.arange(EXAMPLES) % OUTPUTS]
        network = nn.Sequential(*body, best_weights(body, images, targets))
        calls = {"ours": lambda b=body, x=images, y=targets: ours(b, x, y)}
        for kind in structures:
            calls[f"laplace-torch, {kind}"] = lambda n=network, x=images, y=targets, k=kind: peer(
                n, x, y, k
            )
        evidence = {}
        for name, call in list(calls.items()):
            try:
                evidence[name] = float(call())
            except RuntimeError as problem:  # its "full" mixes devices on a GPU
                print(name, "does not run here:", problem)
                del calls[name]
        times = medians(interleaved(calls, rounds=5))
        for name, seconds in times.items():
            row = {
                "alternative": name,
                "features": width,
                "milliseconds": 1e3 * seconds,
                "over ours": seconds / times["ours"],
                "log evidence": evidence[name],
            }
            rows.append(row)
            print(row, flush=True)
    for row in rows:
        row["laplace-torch"] = metadata.version("laplace-torch")
    record(f"laplace_peer-{DEVICE}", rows)


if __name__ == "__main__":
    main()
