"""Does it help a classifier to know the symmetries? Five ways to use transformations, few labels.

    python papers/symmetry-model/classifiers.py --data DATA --out OUT --model MODEL

MODEL is a folder that run.py wrote, such as OUT/models/mnist-affine-0-0. Rows are added to
OUT/classifiers.json as they are done; rows that are in it are not repeated. The symmetry model has
seen all training images, without labels; the other ways see the labelled ones.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from tasks import mnist_rotated
from torch import Tensor, nn

from symmetries._utils.provenance import provenance
from symmetries.actions.images import ImageAction
from symmetries.data import ImageSet
from symmetries.distributions.box import UniformBox
from symmetries.groups.base import Group
from symmetries.learners.invariant_weights import NaturalConfig, evaluate, fit_natural
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.nn.invariant_model import shallow_model
from symmetries.training import Step, TrainConfig, train
from symmetries.training.atomic_files import write_atomic

COUNTS = (500, 5_000, 50_000)
WAYS = ("none", "full", "augerino", "discovered", "invariant weights")
STRENGTH = 0.01  # of Augerino's reward for widths
START = 0.1  # of the half-widths that invariant weights learn
AVERAGED = 8  # versions that Augerino averages at test time
Loss = Callable[[nn.Module, tuple[Tensor, ...], Step], dict[str, Tensor]]


class Classifier(nn.Module):
    """A small convolutional network; ``box`` holds the widths that Augerino learns."""

    def __init__(self, box: UniformBox | None = None) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 49, 128),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(128, 10),
        )
        self.box = box

    def forward(self, images: Tensor) -> Tensor:
        """Logits (N, 10)."""
        logits: Tensor = self.body(images)
        return logits


def moving_loss(act: ImageAction, bounds: Tensor | None) -> Loss:
    """Cross-entropy of moved images: uniform within bounds, or within the learned widths."""

    def loss(net: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
        images, labels = batch
        half = net.box.half_width if bounds is None else bounds
        eta = half * (2 * step.rand(len(images), len(half)) - 1)
        entropy = F.cross_entropy(net(act(act.group.exp(eta), images)), labels)
        reward = 0.0 if bounds is not None else STRENGTH * (2 * half).norm()
        return {"loss": entropy - reward}

    return loss


def plain_loss(net: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
    """Cross-entropy."""
    return {"loss": F.cross_entropy(net(batch[0]), batch[1])}


@torch.no_grad()
def accuracy(net: Classifier, test: ImageSet, act: ImageAction | None) -> float:
    """In percent; with an action, logits are averaged over versions within the learned widths."""
    net.eval()
    right = 0
    for images, labels in zip(test.images.split(2000), test.labels.split(2000), strict=True):
        views = [images]
        if act is not None:
            eta = net.box.sample(AVERAGED, "sobol", torch.Generator(images.device).manual_seed(0))
            views = list(act.orbit(act.group.exp(eta), images).unbind(1))
        logits = torch.stack([net(view).softmax(-1) for view in views]).mean(0)
        right += int((logits.argmax(1) == labels).sum())
    return 100 * right / len(test)


def labelled(train_set: ImageSet, count: int, seed: int) -> ImageSet:
    """The first so many of a fixed order of the first 50,000 images."""
    order = torch.randperm(50_000, generator=torch.Generator().manual_seed(seed))
    return train_set.subset(order[:count].to(train_set.images.device))


def one(
    arguments: argparse.Namespace,
    way: str,
    chosen: ImageSet,
    test: ImageSet,
    model: SymmetryModel,
    seed: int,
) -> dict[str, Any]:
    """Train one classifier; accuracy on the test images."""
    steps = arguments.steps
    if way == "invariant weights":
        return invariant_weights(chosen, test, model.group, seed, steps)
    device = chosen.images.device
    bounds = torch.tensor(model.bounds, device=device)
    act = ImageAction(model.group)
    torch.manual_seed(seed)
    box = UniformBox(model.group, 0.05, constraint="softplus") if way == "augerino" else None
    net = Classifier(box).to(device)
    images, labels = chosen.images, chosen.labels
    if way == "discovered":
        n = max(1, arguments.versions // len(images))
        generator = torch.Generator(device).manual_seed(seed)
        parts = [model.sample(p, n, generator).flatten(0, 1) for p in images.split(2000)]
        images, labels = torch.cat(parts), labels.repeat_interleave(n)
    loss = plain_loss
    if way in ("full", "augerino"):
        loss = moving_loss(act, bounds if way == "full" else None)
    config = TrainConfig(steps, 128, lr=1e-3, seed=seed, progress=False).replace(warmup=0.05)
    train(net, loss, (images, labels), config)
    found = {"accuracy": accuracy(net, test, act if box is not None else None)}
    if box is not None:
        found["half_width"] = box.half_width.tolist()
    return found


def invariant_weights(
    chosen: ImageSet, test: ImageSet, group: Group[Any], seed: int, steps: int
) -> dict[str, Any]:
    """Paper 0: widths by the marginal likelihood, with a classifier of its own kind."""
    images, labels = chosen.images, chosen.labels
    distance = float((2 * images.flatten(1).var(0, unbiased=False).sum()).sqrt())
    net = shallow_model(
        tuple(images.shape[1:]),
        10,
        group,
        half_widths=(START,),
        features=1024,
        sigma=2 / distance,
        prior_variance=30.0,
        seed=seed,
    ).to(images.device)
    batch = min(1000, len(images))
    config = NaturalConfig(steps=max(3, steps // 8), batch_size=batch, lr=0.1, seed=seed)
    fit_natural(net, [images], labels, config)
    found = evaluate(net, [test.images], test.labels)
    return {"accuracy": 100 * float(found.score), "half_width": net.half_width[0].tolist()}


def main() -> None:
    """All rows that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", default=None)
    parser.add_argument("--model", type=Path, required=True, help="a saved symmetry model")
    parser.add_argument("--added", type=float, default=0.0, help="rotation, in degrees")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--versions", type=int, default=100_000, help="drawn in advance, in all")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds, for all rows")
    parser.add_argument("--looked-at", type=int, default=10_000, help="test images")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = SymmetryModel.load(arguments.model, device)
    sets = []
    for split in ("train", "test"):
        data = mnist_rotated(split, arguments.added, arguments.data)
        if split == "test":
            data = data.subset(torch.arange(arguments.looked_at))
        sets.append(ImageSet(data.images.to(device), data.labels.to(device), data.name))
    file = arguments.out / "classifiers.json"
    rows = json.loads(file.read_text()) if file.exists() else []
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        for count in arguments.counts:
            for way in arguments.ways:
                key = {"added": arguments.added, "labels": count, "way": way, "seed": seed}
                if any(all(row[k] == v for k, v in key.items()) for row in rows):
                    continue
                if time.perf_counter() - begun > arguments.limit:
                    return
                start = time.perf_counter()
                chosen = labelled(sets[0], count, seed)
                row = key | one(arguments, way, chosen, sets[1], model, seed)
                count_of = {"steps": arguments.steps, "test_images": len(sets[1])}
                made = {"seconds": time.perf_counter() - start, "made": provenance(device)}
                rows.append(row | count_of | made)
                write_atomic(file, (json.dumps(rows, indent=1) + "\n").encode())
                print(json.dumps(rows[-1]), flush=True)


if __name__ == "__main__":
    main()
