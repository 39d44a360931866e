"""The package equiadapt on the frozen networks of ``benchmarks.wrap.run``.

``python -m benchmarks.wrap.equiadapt_peer cifar10 --folder DATA`` needs the package (0.1.2, with
kornia and torchvision) beside this one. Its prior-regularised canonicaliser for eight turns
(``OptimizedGroupEquivariantImageCanonicalization`` with its ``ConvNetwork``) is trained in front of
the same network, by the losses of its example: the task's, 100 times the prior's, and a tenth of
its own; then tested as the others are.
"""

import argparse
import json
import time
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from benchmarks.common import environment
from benchmarks.wrap.run import HELD_OUT, PRIOR, accuracies, train_network
from equiadapt.images.canonicalization.discrete_group import (
    OptimizedGroupEquivariantImageCanonicalization,
)
from equiadapt.images.canonicalization_networks.custom_nonequivariant_networks import ConvNetwork
from torch import Tensor, nn

from symmetries.data import load

TURNS = 8
CONTRAST = 0.1


class Canonicalised(nn.Module):
    """A frozen network behind a canonicaliser of equiadapt."""

    def __init__(self, net: nn.Module, shape: tuple[int, int, int]) -> None:
        super().__init__()
        settings = SimpleNamespace(
            beta=1.0,
            input_crop_ratio=0.9,
            resize_shape=shape[-1],
            group_type="rotation",
            num_rotations=TURNS,
            artifact_err_wt=0,
            learn_ref_vec=False,
        )
        scores = ConvNetwork(shape, 32, 3, 3, 128)
        self.poses = OptimizedGroupEquivariantImageCanonicalization(scores, settings, shape)
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.net(self.poses.canonicalize(x))
        return logits


def main() -> None:
    """Train and test on one data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=("cifar10", "fashion-mnist"))
    parser.add_argument("--folder", required=True)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, test = (load(given.data, split, given.folder) for split in ("train", "test"))
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    train = train.subset(order[HELD_OUT:])
    net = train_network(train, device, given.epochs, given.width, flips=True)
    net = net.to(memory_format=torch.contiguous_format)
    torch.manual_seed(0)
    model = Canonicalised(net, tuple(train.images.shape[1:])).to(device)  # type: ignore[arg-type]
    weights = [weight for weight in model.poses.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(weights, 1e-3)
    x, y = train.images.to(device), train.labels.to(device)
    model.poses.train()
    start = time.perf_counter()
    for _ in range(given.steps):
        rows = torch.randint(len(x), (128,), device=device)
        loss = F.cross_entropy(model(x[rows]), y[rows])
        loss = loss + PRIOR * model.poses.get_prior_regularization_loss()
        loss = loss + CONTRAST * model.poses.get_optimization_specific_loss()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    seconds = round(time.perf_counter() - start, 1)
    found = accuracies(model.eval(), test, given.data != "cifar10", device)
    facts = {"name": f"wrap-equiadapt-{given.data}", **environment(), "seconds": seconds}
    facts |= {"steps": given.steps, "turns": TURNS, "accuracy": found}
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"equiadapt-{given.data}.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(found)


if __name__ == "__main__":
    main()
