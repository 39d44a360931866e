"""Integrated gradients against captum, and the largest singular value against vmap(jacrev) + svd.

Targets on two CPU cores: integrated gradients at 50 steps at least 6x faster than captum's default
where the network begins with a linear layer, and never slower on any network; the largest singular
value at least 3x faster. On one H200: a whole audit of 10,000 images of 28 x 28 under four
rotations, with saliency at 50 steps, in under 5 seconds. Behind a first convolution the singular
value costs nine passes backwards whoever computes it, and only the svd and the way back through the
first layer can be saved: 3x is out of reach there (tried besides: all rows in one batched pass,
rows repeated as a batch, parts of the batch, channels last, power iteration, and all rows in one
batch without autograd, the masks of pooling and ReLU made once; none was faster than row by row).

    python benchmarks/audit_speed.py [--threads 1 --processor-time] [--peers]
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.auditing import audit_model, integrated_gradients, largest_singular_value
from symmetries.groups import Cyclic

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record, synchronise


class Attention(nn.Module):
    """Rows of the image as tokens: no linear first layer that sees the plain input alone."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Parameter(torch.randn(28, 28) / 10)
        layer = nn.TransformerEncoderLayer(28, 4, 64, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(28, 9)

    def forward(self, x: Tensor) -> Tensor:
        """From images to logits."""
        logits: Tensor = self.head(self.body(x[:, 0] + self.place).mean(1))
        return logits


def perceptron(side: int = 28, hidden: int = 128) -> nn.Module:
    """Paper 1's network."""
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(side * side, hidden), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, 9))


def convolutional() -> nn.Module:
    """A small convolutional network."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 9)),
    )


def scaled() -> nn.Module:
    """A perceptron behind something that is not linear: no shortcut."""
    return nn.Sequential(nn.Tanh(), *perceptron())


def shallow() -> nn.Module:
    """One wide hidden layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 9))


# The network, the side of its images, how many of them.
NETWORKS = {
    "perceptron": (perceptron, 28, 256),
    "paper's perceptron": (partial(perceptron, 36), 36, 256),
    "one hidden layer": (shallow, 28, 256),
    "convolutional": (convolutional, 28, 16),
    "attention": (Attention, 28, 16),
    "no linear first layer": (scaled, 28, 256),
}
ROUNDS = 21
SPECTRA = ("perceptron", "paper's perceptron", "one hidden layer", "convolutional")


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """The median over the rounds of the ratio: both saw the same machine in a round."""
    return median(a / b for a, b in zip(slow, fast, strict=True))


def gradients(device: str, clock: Callable[[], float], count: int) -> list[dict[str, Any]]:
    """Integrated gradients against captum, so many rounds."""
    try:
        from captum.attr import IntegratedGradients
    except ImportError:
        return []
    rows = []
    for name, (make, side, n) in NETWORKS.items():
        torch.manual_seed(0)
        model = make().to(device).eval()
        x, y = torch.randn(n, 1, side, side, device=device), torch.randint(9, (n,), device=device)
        peer = IntegratedGradients(model)
        alternatives = {
            "captum": lambda p=peer, x=x, y=y: p.attribute(x, 0.0, y, n_steps=50),
            "ours": lambda m=model, x=x, y=y: integrated_gradients(m, x, y, steps=50),
        }
        difference = (alternatives["captum"]() - alternatives["ours"]()).abs().max()
        rounds = interleaved(alternatives, count, clock)
        times = medians(rounds)
        rows.append(
            {
                "operation": "integrated gradients, 50 steps",
                "network": name,
                "images": n,
                "seconds": times,
                "times_faster": ratio(rounds["captum"], rounds["ours"]),
                "largest_difference": float(difference),
            }
        )
    return rows


def spectra(device: str, clock: Callable[[], float]) -> list[dict[str, Any]]:
    """The largest singular value against vmap(jacrev) and svdvals."""
    rows = []
    for name in SPECTRA:
        make, side, n = NETWORKS[name]
        torch.manual_seed(0)
        model = make().to(device).eval()
        x = torch.randn(n, 1, side, side, device=device)

        def by_svd(model: nn.Module = model, x: Tensor = x) -> Tensor:
            jacobian = torch.func.vmap(torch.func.jacrev(lambda one: model(one[None])[0]))(x)
            values: Tensor = torch.linalg.svdvals(jacobian.flatten(2))
            return values[:, 0].detach()

        alternatives = {
            "jacrev + svd": by_svd,
            "ours": lambda m=model, x=x: largest_singular_value(m, x),
        }
        difference = (by_svd() - alternatives["ours"]()).abs().max() / by_svd().max()
        rounds = interleaved(alternatives, ROUNDS, clock)
        times = medians(rounds)
        rows.append(
            {
                "operation": "largest singular value, 9 outputs",
                "network": name,
                "images": n,
                "seconds": times,
                "times_faster": ratio(rounds["jacrev + svd"], rounds["ours"]),
                "largest_relative_difference": float(difference),
            }
        )
    return rows


def whole(device: str, n: int, network: str) -> dict[str, Any]:
    """A whole audit under four rotations."""
    torch.manual_seed(0)
    model = NETWORKS[network][0]().to(device).eval()
    x, y = torch.randn(n, 1, 28, 28, device=device), torch.randint(9, (n,), device=device)
    size = 256 if device == "cpu" else 2048
    audit_model(model, (x[:100], y[:100]), Cyclic(4), progress=False)
    synchronise()
    start = time.perf_counter()
    audit_model(model, (x, y), Cyclic(4), batch_size=size, progress=False)
    synchronise()
    seconds = time.perf_counter() - start
    what = {"operation": "audit, four rotations, 50 steps", "network": network, "images": n}
    return {**what, "seconds": seconds}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument(
        "--processor-time", action="store_true", help="not wall time: for a busy machine"
    )
    parser.add_argument("--peers", action="store_true", help="captum only, in few rounds")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.processor_time else time.perf_counter
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = gradients(device, clock, 7 if arguments.peers else ROUNDS)
    rows += [] if arguments.peers else spectra(device, clock)
    for row in rows:
        row["clock"] = "processor" if arguments.processor_time else "wall"
        label = f"{row['operation']}, {row['network']}"
        print(f"{label:55s} {row['times_faster']:6.2f}x")
    if arguments.peers:
        record(f"audit_peers-{device}", rows)
        return
    for network in ("perceptron", "convolutional")[: 2 if device == "cuda" else 1]:
        rows.append(whole(device, 10_000 if device == "cuda" else 500, network))
        print(f"audit of {rows[-1]['images']} images, {network}: {rows[-1]['seconds']:.2f} s")
    name = "audit_processor" if arguments.processor_time else "audit_speed"
    record(f"{name}-{device}", rows)


if __name__ == "__main__":
    main()
