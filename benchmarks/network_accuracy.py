"""Test accuracy of a network that learns its invariance, beside the controls a reviewer asks for.

MNIST upright, and turned by any angle, with few labels; one network, the same number of steps,
batch size and transformations for all:

- "none": no transformations.
- "grid by validation": averaged over ±0, 45, 90, 135 or 180 degrees, chosen on a fifth of the
  training images, then trained on all of them.
- "Augerino": the width follows the training loss minus 0.01 times the width (Benton et al. 2020).
- "TrivialAugment": torchvision's, on groups of 8 images.
- "law of the data": averaged over the angles by which the data were turned.
- "learned": by the evidence, without a validation set; a width that cannot be told is used only if
  it explains left out training images better than none.

    python benchmarks/network_accuracy.py --folder MNIST --device cuda
"""

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.data import ImageSet, load
from symmetries.data.derived import rotated
from symmetries.learners.invariant_network import InvariantNetwork, InvariantNetworkConfig
from symmetries.learners.invariant_network.convolutions import convolutions_as_products
from symmetries.learners.invariant_network.training import train_jobs
from symmetries.nn.named_networks import named_network
from symmetries.training import TrainJob, fit_together
from symmetries.training.ensemble import TrainJobs
from symmetries.training.step import mix, seeded

sys.path.insert(0, str(Path(__file__).parent))
from common import record

GRID = (0.0, 45.0, 90.0, 135.0, 180.0)
METHODS = ("none", "law of the data", "learned", "grid by validation", "Augerino", "TrivialAugment")
LAWS = {"upright": 0.0, "turned": 180.0}
AUGERINO = 0.01  # weight of the width in its loss
GROUP = 8  # images that share one operation of TrivialAugment
TESTED = 5000
DATA = ("mnist", "fashion-mnist", "cifar10", "cifar100")


def network(classes: int, channels: int, width: int, seed: int) -> nn.Sequential:
    """Three convolutions, of stride 2 but the first, a mean over positions, and a linear layer."""
    with seeded(1000 + seed):
        return nn.Sequential(
            nn.Conv2d(channels, width, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(2 * width * 16, classes),
        )  # fmt: skip


Found = tuple[InvariantNetwork, dict[str, Any]]  # a trained network, and what is known of it


class Comparison:
    """One data set, number of labels and seed, for all methods.

    Args:
        train: images (N, C, H, W) and labels to learn from.
        test: those to measure on.
        given: arguments of the script.
        seed: of initial weights and training.
    """

    def __init__(
        self, train: ImageSet, test: ImageSet, given: argparse.Namespace, seed: int
    ) -> None:
        self.data, self.classes = (train.images, train.labels), train.classes
        self.test = (test.images, test.labels)
        self.given, self.seed = given, seed
        self.run = {"device": given.device, "progress": False}

    def learner(self, degrees: float, **more: Any) -> InvariantNetwork:  # noqa: ANN401
        """An untrained network, averaged over a half-width in degrees."""
        given, images = self.given, self.data[0]
        config = InvariantNetworkConfig(half_width=0.1, learn=False)
        config = config.replace(
            **{
                "samples": given.samples if degrees else 1, "steps": given.steps,
                "batch_size": given.batch, "curvature_rows": given.rows,
                "every": max(1, given.steps // 12), "search": 5, "lr": given.lr, **more,
            }
        )  # fmt: skip
        shape, classes = tuple(images.shape[1:]), self.classes
        if given.network == "cnn":
            module = network(classes, images.shape[1], given.width, self.seed)
        else:
            module = named_network(given.network, shape, classes, 1000 + self.seed)
        model = InvariantNetwork(module, "rotation", shape, config, seed=self.seed)
        model.network.box.set_half_width(torch.tensor([math.radians(degrees)]))
        return model

    def held(
        self,
        degrees: float,
        data: tuple[Tensor, Tensor] | None = None,
        **more: Any,  # noqa: ANN401
    ) -> TrainJobs[InvariantNetwork]:
        """Train a network at a half-width."""
        model = self.learner(degrees, **more)
        yield from train_jobs(model, *(data or self.data), self.run)
        return model.eval()

    @torch.no_grad()
    def accuracy(self, model: InvariantNetwork, data: tuple[Tensor, Tensor] | None = None) -> float:
        """The share of images that are classified correctly."""
        images, labels = data or self.test
        parts = [model(part.to(model.device)).argmax(1).cpu() for part in images.split(1000)]
        return float((torch.cat(parts) == labels).float().mean())

    def by_validation(self) -> TrainJobs[Found]:
        """The best of a grid on a fifth of the training images, trained again on all."""
        images, labels = self.data
        kept = len(images) - len(images) // 5
        first, rest = (images[:kept], labels[:kept]), (images[kept:], labels[kept:])
        scores = []
        for degrees in GRID:
            model = yield from self.held(degrees, first)
            scores.append(self.accuracy(model, rest))
        degrees = GRID[scores.index(max(scores))]
        model = yield from self.held(degrees, samples=self.given.samples)
        return model, {"half_width": degrees, "scores": scores}

    def learned(self) -> Found:
        """By the evidence."""
        model = self.learner(18.0, learn=True, samples=self.given.samples)
        model.fit(self.data, **self.run)
        profile = model.profiles[0]
        return model, {
            "half_width": math.degrees(profile.used),
            "best": math.degrees(profile.best),
            "interval": [math.degrees(end) for end in profile.interval],
            "told": profile.told,
            "settled": profile.settled,
            "noise": profile.noise,
            "gain": [profile.gain, profile.gain_error, profile.gain_right],
            "effective parameters": float(model.effective_parameters),
        }

    def by_loss(self, augment: Any = None) -> TrainJobs[Found]:  # noqa: ANN401
        """Augerino; or with an augmentation, training on augmented images."""
        model = self.learner(0.0 if augment else 18.0)
        box = model.network.box
        box.free.requires_grad_(augment is None)

        def loss(model: Any, batch: Any, step: Any) -> dict[str, Tensor]:  # noqa: ANN401
            images, labels = batch
            if augment is not None:
                return {"loss": F.cross_entropy(model.module(augment(images)), labels)}
            box, count = model.network.box, model.config.samples
            eta = box.noise(count, "sobol", step.generator) * box.half_width
            with convolutions_as_products(images.device):
                outputs = model.network.average(images, model.group.exp(eta))
            return {"loss": F.cross_entropy(outputs, labels) - AUGERINO * box.half_width.sum()}

        training = model.config.training.train_config(seed=mix(self.seed, 0), **self.run)
        training = training.replace(batch_size=min(training.batch_size, len(self.data[0])))
        training = training.replace(graph="auto" if augment is None else "off", weight_decay=1e-4)
        groups = [{"params": list(model.module.parameters())}]
        if augment is None:
            groups.append({"params": [box.free], "lr": 0.01})
        yield TrainJob(model, loss, self.data, training, param_groups=groups)
        return model.eval(), {"half_width": math.degrees(float(box.half_width[0].detach()))}

    def fixed(self, degrees: float) -> TrainJobs[Found]:
        """At a half-width that is known."""
        model = yield from self.held(degrees)
        return model, {"half_width": degrees}


def measured(method: str, law: str, several: list[Comparison]) -> Iterator[dict[str, Any]]:
    """Accuracy and seconds of one method with each seed; those of some methods train as one."""
    generators: dict[str, Callable[[Comparison], TrainJobs[Found]]] = {
        "none": lambda one: one.fixed(0.0),
        "law of the data": lambda one: one.fixed(LAWS[law]),
        "grid by validation": lambda one: one.by_validation(),
        "Augerino": lambda one: one.by_loss(),
        "TrivialAugment": lambda one: one.by_loss(trivial_augment()),
    }
    at_once = [[one] for one in several]
    if method not in ("learned", "TrivialAugment"):  # that draws one operation for all
        at_once = [several]
    for some in at_once:
        began = time.perf_counter()
        if method == "learned":
            found = [some[0].learned()]
        else:
            found = fit_together([generators[method](one) for one in some])
        seconds = (time.perf_counter() - began) / len(some)
        for one, (model, known) in zip(some, found, strict=True):
            accuracy = one.accuracy(model)
            row = {"seed": one.seed, "method": method, "accuracy": accuracy, "seconds": seconds}
            yield {**row, "trained as one": len(some), **known}


def trivial_augment() -> Any:  # noqa: ANN401 - a function of images
    """Return torchvision's TrivialAugment for images (N, C, H, W) from 0 to 1."""
    from torchvision.transforms.v2 import TrivialAugmentWide

    one = TrivialAugmentWide()

    def augment(images: Tensor) -> Tensor:
        whole = (255 * images.clamp(0, 1)).round().to(torch.uint8)
        colours = whole.expand(-1, 3, -1, -1)
        moved = torch.cat([one(part) for part in colours.split(GROUP)])
        return moved[:, : images.shape[1]].to(images) / 255

    return augment


def main() -> None:
    """Measure and record, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", choices=DATA, default="mnist")
    parser.add_argument("--folder", help="of the data's files")
    parser.add_argument("--network", choices=("cnn", "resnet"), default="cnn")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--laws", nargs="+", choices=LAWS, default=list(LAWS))
    parser.add_argument("--labels", nargs="+", type=int, default=[300, 1250, 5000])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--width", type=int, default=16, help="channels of the first layer")
    parser.add_argument("--rows", type=int, default=1000, help="of the curvature")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds")
    parser.add_argument("--name", default="", help="added to the name of the result")
    given = parser.parse_args()
    seen, unseen = (load(given.data, split, folder=given.folder) for split in ("train", "test"))
    kind = "cuda" if given.device.startswith("cuda") else "cpu"
    name = f"network_accuracy-{given.data}-{kind}{given.name}"
    rows: list[dict[str, Any]] = []
    ends, longest = time.perf_counter() + given.budget, dict[str, float]()
    cases = itertools.product(given.labels, given.laws)
    for (labels, law), method in itertools.product(cases, given.methods):
        if time.perf_counter() + longest.get(method, 0.0) > ends:
            print(f"{method}: no time is left", flush=True)
            continue
        several = [
            Comparison(*sets(seen, unseen, labels, law, seed), given, seed) for seed in given.seeds
        ]
        for row in measured(method, law, several):
            settings = {"steps": given.steps, "samples": given.samples, "lr": given.lr}
            rows.append({"data": law, "labels": labels, **row, **settings})
            shown = {k: round(v, 4) if isinstance(v, float) else v for k, v in rows[-1].items()}
            print(shown, flush=True)
            record(name, rows, part=True)
            together = row["seconds"] * row["trained as one"]
            longest[method] = max(longest.get(method, 0.0), together)
            alone = row["trained as one"] == 1  # else the other rows are there already
            if alone and time.perf_counter() + longest[method] > ends:
                break


def sets(
    seen: ImageSet, unseen: ImageSet, labels: int, law: str, seed: int
) -> tuple[ImageSet, ImageSet]:
    """So many images to learn from, drawn by a seed, and those to test on; turned, if asked."""
    generator = torch.Generator().manual_seed(mix(seed, 7))
    chosen = torch.randperm(len(seen), generator=generator)[:labels].tolist()
    train, test = seen.subset(chosen), unseen.subset(list(range(TESTED)))
    if LAWS[law]:
        return rotated(train, LAWS[law], seed=seed), rotated(test, LAWS[law], "test")
    return train, test


if __name__ == "__main__":
    main()
