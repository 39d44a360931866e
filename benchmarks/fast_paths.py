"""Does a fast path change what is learned? Every learner with all of them, and with none.

"fast": kernels, the step as a CUDA graph, rounded products (TF32). "plain": torch's own operations,
eagerly, in float32, the seeds trained as one (``fit_many``), which is a path of its own. Quality is
judged on held-out images, over three seeds: "moved" is the difference of the two means, in standard
errors of that difference as the spread over seeds gives it. Beyond 3 would be more than chance.

    python benchmarks/fast_paths.py
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.data import load
from symmetries.estimators import InvariantClassifier
from symmetries.groups import Cyclic
from symmetries.learners import relaxed
from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig
from symmetries.learners.penalties import regularised_loss
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.learners.vae import VAE, VAEConfig
from symmetries.nn.relaxed_networks import RelaxedResNet, Symmetry
from symmetries.ops._dispatch import VARIABLE
from symmetries.training import Step, TrainConfig, TrainJob, ensemble, fit_together

sys.path.insert(0, str(Path(__file__).parent))
from common import record
from precision import judge

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
SEEDS = (0, 1, 2)
STEPS = 250 if GPU else 3  # twice as many where so few teach little
Numbers = dict[str, float]
Fit = tuple[Any, Callable[[], Numbers]]  # what trains, and how it is judged after


@contextmanager
def no_fast_path() -> Iterator[None]:
    """Torch's own operations in float32."""
    products, rounded = ensemble.use_matmul_precision, torch.backends.cudnn.allow_tf32
    os.environ[VARIABLE], ensemble.use_matmul_precision = "0", lambda *_: nullcontext()
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        ensemble.use_matmul_precision, torch.backends.cudnn.allow_tf32 = products, rounded
        del os.environ[VARIABLE]


class Data:
    """MNIST (digits without a GPU), some of it."""

    def __init__(self) -> None:
        name = "mnist" if GPU else "digits"
        many = 20_000 if GPU else 200
        sets = load(name, "train"), load(name, "test")
        self.train, self.labels = sets[0].images[:many], sets[0].labels[:many]
        few = 2000 if GPU else 100
        self.test = sets[1].images[:few].to(DEVICE)
        self.truth = sets[1].labels[:few].to(DEVICE)
        self.shape = tuple(self.train.shape[1:])


def symmetry(data: Data, seed: int, run: dict[str, Any]) -> Fit:
    """Both stages of the symmetry model."""
    config = SymmetryConfig.preset("quick")
    stages = {n: getattr(config, n).replace(steps=STEPS) for n in ("inference", "generative")}
    model = SymmetryModel("rotation,translation", data.shape, config.replace(**stages), seed=seed)
    return model.train_jobs(data.train, **run), lambda: judge(model, data.test)


def fixed() -> torch.Generator:
    """The same random numbers at every call."""
    return torch.Generator(DEVICE).manual_seed(0)


def vae(data: Data, seed: int, run: dict[str, Any]) -> Fit:
    """The VAE: its bound in nats."""
    model = VAE(data.shape, VAEConfig.preset("quick").replace(steps=STEPS), seed=seed)
    return model.train_jobs(data.train, **run), lambda: {
        "bound": float(model.bound(data.test, 20, fixed()).mean())
    }


def joint(data: Data, seed: int, run: dict[str, Any]) -> Fit:
    """The invariant VAE: its bound in nats."""
    config = InvariantVAEConfig.preset("quick").replace(steps=2 * STEPS)
    model = InvariantVAE("rotation", data.shape, config, seed=seed)
    return model.train_jobs(data.train, **run), lambda: {
        "bound": float(model.bound(data.test[:500], 10, fixed()).mean())
    }


def classified(model: nn.Module, data: Data) -> Numbers:
    """Cross-entropy and accuracy."""
    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(part) for part in data.test.split(500)])
    right = (logits.argmax(1) == data.truth).float().mean()
    entropy = F.cross_entropy(logits, data.truth)
    return {"cross-entropy": float(entropy), "accuracy": 100 * float(right)}


def relaxed_network(data: Data, seed: int, run: dict[str, Any]) -> Fit:
    """A residual network of relaxed group convolutions."""
    torch.manual_seed(seed)
    symmetries = Symmetry(Cyclic(4), "soft", {"rotation": 0.1})
    model = RelaxedResNet(1, 10, symmetries, width=4, kernel_size=3, last_kernel=2)
    config = TrainConfig(2 * STEPS, 128, seed=seed).replace(**run)
    fitting = relaxed.train_jobs(model, data.train, data.labels, config, penalty=0.1)
    return fitting, lambda: classified(model, data)


def penalised(data: Data, seed: int, run: dict[str, Any]) -> Fit:
    """Paper 1's network with the penalty on the invariance error."""
    torch.manual_seed(seed)
    inputs = data.train[0].numel()
    layers = [nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
    model = nn.Sequential(nn.Flatten(), *layers, nn.Linear(128, 10))

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
        return regularised_loss(model, *batch, Cyclic(4), nu=1.0)

    def train_jobs() -> Any:  # noqa: ANN401
        config = TrainConfig(STEPS, 128, seed=seed).replace(**run)
        yield TrainJob(model, loss, (data.train, data.labels), config, products="tf32")

    return train_jobs(), lambda: classified(model, data)


def invariant_weights(data: Data, seed: int) -> Numbers:
    """Learned invariance by the evidence: width of the rotation, and held-out log-likelihood."""
    many = 4000 if GPU else 100
    steps = 60 if GPU else 6
    model = InvariantClassifier("rotation", steps=steps, device=DEVICE, random_state=seed)
    model.fit(data.train[:many].numpy(), data.labels[:many].numpy())
    chances = torch.from_numpy(model.predict_proba(data.test.cpu().numpy()))
    truth = data.truth.cpu()[:, None]
    right = (chances.argmax(1, keepdim=True) == truth).double().mean()
    entropy = -chances.gather(1, truth).log().mean()
    return {"cross-entropy": float(entropy), "accuracy": 100 * float(right)}


def both_ways(make: Callable[..., Fit], data: Data) -> Iterator[tuple[str, list[Numbers]]]:
    """What three seeds reach with all fast paths, and with none."""
    run = {"device": DEVICE, "progress": False, "log_every": STEPS}
    found = []
    for seed in SEEDS:
        jobs, judged = make(data, seed, run)
        fit_together([jobs])
        found.append(judged())
    yield "fast", found
    with no_fast_path():
        fits = [make(data, seed, {**run, "graph": "off"}) for seed in SEEDS]
        fit_together([jobs for jobs, _ in fits])
        yield "plain", [judged() for _, judged in fits]


def classifier_both_ways(data: Data) -> Iterator[tuple[str, list[Numbers]]]:
    """The same for the learner that has batches of runs of its own."""
    yield "fast", [invariant_weights(data, seed) for seed in SEEDS]
    with no_fast_path():
        yield "plain", [invariant_weights(data, seed) for seed in SEEDS]


def compared(what: str, ways: dict[str, list[Numbers]]) -> Iterator[dict[str, Any]]:
    """A row for each number."""
    for name in ways["fast"][0]:
        values = {way: [each[name] for each in found] for way, found in ways.items()}
        mean = {way: statistics.mean(numbers) for way, numbers in values.items()}
        spread = {way: statistics.stdev(numbers) for way, numbers in values.items()}
        error = (sum(s**2 for s in spread.values()) / len(SEEDS)) ** 0.5
        difference = mean["fast"] - mean["plain"]
        row: dict[str, Any] = {"learner": what, "number": name}
        row |= {"fast": mean["fast"], "plain": mean["plain"]}
        row |= {"spread, fast": spread["fast"], "spread, plain": spread["plain"]}
        yield row | {"moved": abs(difference) / max(error, 1e-12)}


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most-seconds", type=float, default=1e9, help="begin no learner after")
    parser.add_argument("--learners", nargs="+", default=[""], help="that begin so; all by default")
    options = parser.parse_args()
    data, began, rows = Data(), time.perf_counter(), []
    learners: dict[str, Callable[[], Iterator[tuple[str, list[Numbers]]]]] = {
        name: lambda make=make: both_ways(make, data)
        for name, make in {
            "symmetry model": symmetry,
            "VAE": vae,
            "penalised perceptron": penalised,
            "invariant VAE": joint,
        }.items()
    }
    learners["invariant weights"] = lambda: classifier_both_ways(data)
    learners["relaxed network"] = lambda: both_ways(relaxed_network, data)  # the longest
    for what, ways in learners.items():
        if not what.startswith(tuple(options.learners)):
            continue
        if time.perf_counter() - began > options.most_seconds:
            print("out of time before", what, flush=True)
            break
        for row in compared(what, dict(ways())):
            rows.append(row)
            print(row, f"{time.perf_counter() - began:.0f} s", flush=True)
        if GPU:
            record("fast_paths-cuda", rows, part=options.learners != [""])


if __name__ == "__main__":
    main()
