"""Cost of learning widths with a residual network on images like CIFAR-10's: steps and updates.

Random images of 3 x 32 x 32 pixels, batches of 128, 8 transformations for each image. Measured are
a step of the weights of an averaged network; a step of the same network on as many images that are
moved in the same way but not averaged, as in training with augmentation; and an update of
precisions and widths, which must cost at most a tenth of an epoch of 50,000 images.

    python benchmarks/network_speed.py --device cuda

With ``--candidates 7`` so many networks of two convolutions on images of 28 x 28, as in
``network_widths.py``, at different half-widths: seconds of training them one after the other, and
as one, whose convolutions are products of matrices or grouped.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.learners.invariant_network import (
    InvariantNetwork,
    InvariantNetworkConfig,
    candidates,
    convolutions,
)
from symmetries.learners.invariant_network.training import HyperUpdates
from symmetries.nn.named_networks import named_network
from symmetries.training import train

sys.path.insert(0, str(Path(__file__).parent))
from common import record, synchronise
from network_widths import SIZES, untrained

EPOCH = 50_000


def seconds_per_step(learner: InvariantNetwork, data: Any, given: Any, augmented: bool) -> float:  # noqa: ANN401
    """Seconds of one step, the first ones left out."""

    def loss(_: nn.Module, batch: Any, step: Any) -> dict[str, Tensor]:  # noqa: ANN401
        images, labels = batch
        box = learner.network.box
        eta = box.noise(given.samples, "sobol", step.generator) * box.half_width
        views = learner.act.orbit(learner.group.exp(eta), images).flatten(0, 1)
        outputs = learner.module(views)
        if augmented:
            return {"loss": F.cross_entropy(outputs, labels.repeat_interleave(given.samples))}
        averaged = outputs.unflatten(0, (-1, given.samples)).mean(1)
        return {"loss": F.cross_entropy(averaged, labels)}

    clock: list[float] = []

    def look(step: Any, _: Any) -> None:  # noqa: ANN401
        if step.index in (given.steps // 2, given.steps - 1):
            synchronise()
            clock.append(time.perf_counter())

    config = learner.config.training.train_config(seed=0, device=given.device, progress=False)
    groups = [{"params": list(learner.module.parameters())}]
    train(learner, loss, data, config, param_groups=groups, on_step=look)
    return (clock[1] - clock[0]) / (given.steps - 1 - given.steps // 2)


def seconds_per_update(learner: InvariantNetwork, data: Any, config: Any, learn: bool) -> float:  # noqa: ANN401
    """Seconds of an update of precisions, and of widths if they are learned."""
    updates = HyperUpdates(learner, *data, config, learn=learn)
    updates.images, updates.targets = (part.to(learner.device) for part in data)
    times = []
    for seed in range(4):
        generator = torch.Generator(learner.device).manual_seed(seed)
        synchronise()
        began = time.perf_counter()
        updates._update(learner, generator)
        synchronise()
        times.append(time.perf_counter() - began)
    return min(times[1:])


def seconds_of_candidates(given: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Seconds of several trainings alone and as one, and of an update of precisions in each way."""
    size = replace(SIZES["mnist"], steps=given.steps)
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(size.examples, 1, 28, 28, generator=generator)
    labels = torch.randint(6, (size.examples,), generator=generator)
    learner = untrained((images, labels, 6), size, 0.0, 0, every=10 * given.steps)
    learner.to(given.device)
    widths = torch.linspace(0.3, 3.0, given.candidates)[:, None]
    run = {"device": given.device, "progress": False}
    rows = []
    largest = convolutions.LARGEST
    for way, together, numbers in (
        ("one after the other", False, largest),
        ("as one, products", True, largest),
        ("as one, grouped convolutions", True, 0),
    ):
        candidates._gains_together = lambda *_, together=together: together
        convolutions.LARGEST = numbers
        seconds = []
        for _ in range(3):
            synchronise()
            began = time.perf_counter()
            several = candidates.trained_each(learner, widths, images, labels, run)
            models = [model for some in several for model in some]
            synchronise()
            seconds.append(time.perf_counter() - began)
        config = learner.config.training.train_config(seed=0).replace(batch_size=size.batch)
        update = seconds_per_update(models[0].eval(), (images, labels), config, learn=False)
        rows.append(
            {
                "candidates": given.candidates, "steps": given.steps, "way": way,
                "seconds": min(seconds[1:]), "first": seconds[0], "update": update,
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--network", default="resnet")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--examples", type=int, default=5000)
    parser.add_argument("--rows", nargs="+", type=int, default=[512, 2048])
    parser.add_argument("--candidates", type=int, default=0, help="networks that train as one")
    given = parser.parse_args()
    kind = "cuda" if given.device.startswith("cuda") else "cpu"
    if given.candidates:
        record(f"network_candidates-{kind}", seconds_of_candidates(given))
        return
    generator = torch.Generator().manual_seed(0)
    data = (
        torch.rand(given.examples, 3, 32, 32, generator=generator),
        torch.randint(10, (given.examples,), generator=generator),
    )
    module = named_network(given.network, (3, 32, 32), 10)
    config = InvariantNetworkConfig(half_width=0.2, samples=given.samples).replace(
        steps=given.steps, batch_size=given.batch
    )
    learner = InvariantNetwork(module, "rotation", (3, 32, 32), config)
    averaged = seconds_per_step(learner, data, given, augmented=False)
    augmented = seconds_per_step(learner, data, given, augmented=True)
    epoch = averaged * EPOCH / given.batch
    rows = []
    learner.eval()
    for count in given.rows:
        learner.config = config.replace(curvature_rows=count)
        training = config.training.train_config(seed=0)
        for learn in (False, True):
            seconds = seconds_per_update(learner, data, training, learn)
            rows.append(
                {
                    "network": given.network, "samples": given.samples, "batch": given.batch,
                    "weights": sum(p.numel() for p in module.parameters()),
                    "step, averaged": averaged, "step, augmented": augmented,
                    "ratio of steps": averaged / augmented, "epoch": epoch,
                    "curvature rows": count, "widths": learn, "update": seconds,
                    "share of an epoch": seconds / epoch,
                }
            )  # fmt: skip
            print(rows[-1], flush=True)
    record(f"network_speed-{kind}", rows)


if __name__ == "__main__":
    main()
