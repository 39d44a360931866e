"""Many models at once: runs that train as one computation against the same runs one after another.

For each learner the time of a step of R models together, over R times the step of one alone; both
with their first steps (compilation, capture of the CUDA graph) left out. "difference" is that of
the last model's loss after a third of the steps, relative: the numbers are the same up to rounding,
which grows (with dropout on CUDA, in the generative stage, the masks are others: that stage is also
compared without). On a GPU also the
step of one model without fast paths: torch's operations, eagerly, in float32. On a CPU the quick
presets, on a GPU the papers' sizes too.

    python benchmarks/manymodels.py [--models 4] [--cases "VAE, quick" "relaxed network"]
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.groups import Cyclic
from symmetries.learners import relaxed
from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig
from symmetries.learners.penalties import regularised_loss
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.learners.vae import VAE, VAEConfig
from symmetries.nn.relaxed_networks import RelaxedResNet, Symmetry
from symmetries.training import History, Step, TrainConfig, TrainJob, fit_together
from symmetries.training.matmul_precision import use_matmul_precision

sys.path.insert(0, str(Path(__file__).parent))
from common import record
from fast_paths import no_fast_path

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
STEPS = 45 if GPU else 12
RUN: dict[str, Any] = {"device": DEVICE, "progress": False, "log_every": STEPS // 3}
Case = tuple[str, str, Callable[[int], Any]]


def symmetry(preset: str, side: int, stage: str, dropout: bool = True) -> Callable[[int], Any]:
    """One stage of the symmetry model."""
    config = SymmetryConfig.preset(preset)
    if not dropout:
        config = config.replace(feature_dropout=0.0, conditioner_dropout=0.0)
    batch = config.inference.batch_size if GPU else 32
    short = {"steps": STEPS, "batch_size": batch}
    stages = {name: getattr(config, name).replace(**short) for name in ("inference", "generative")}
    config = config.replace(holdout=0.0, **stages)
    images = torch.rand(2048, 1, side, side)

    def make(seed: int) -> Any:  # noqa: ANN401
        model = SymmetryModel("affine", (1, side, side), config, seed=seed)
        return model.train_jobs(images, stages=(stage,), **RUN)

    return make


def vae(preset: str, side: int) -> Callable[[int], Any]:
    """The convolutional VAE."""
    config = VAEConfig.preset(preset).replace(steps=STEPS)
    config = config if GPU else config.replace(batch_size=32)
    images = torch.rand(2048, 1, side, side)
    return lambda seed: VAE((1, side, side), config, seed=seed).train_jobs(images, **RUN)


def joint(preset: str, side: int) -> Callable[[int], Any]:
    """The invariant VAE."""
    config = InvariantVAEConfig.preset(preset).replace(steps=STEPS)
    config = config if GPU else config.replace(batch_size=32)
    images = torch.rand(2048, 1, side, side)
    shape = (1, side, side)
    return lambda seed: InvariantVAE("rotation", shape, config, seed=seed).train_jobs(images, **RUN)


def relaxed_network(width: int, side: int, kernel: int, batch: int) -> Callable[[int], Any]:
    """The residual network of relaxed group convolutions."""
    images, labels = torch.rand(2048, 3, side, side), torch.arange(2048) % 10

    def make(seed: int) -> Any:  # noqa: ANN401
        torch.manual_seed(seed)
        symmetries = Symmetry(Cyclic(4), "soft", {"rotation": 0.1})
        last = min(kernel, side // 4)
        size = {"width": width, "kernel_size": kernel, "last_kernel": last}
        model = RelaxedResNet(3, 10, symmetries, **size)
        config = TrainConfig(STEPS, batch, seed=seed).replace(**RUN)
        return relaxed.train_jobs(model, images, labels, config, penalty=0.1)

    return make


def perceptron(penalised: bool) -> Callable[[int], Any]:
    """Paper 1's network, with the penalty on the invariance error or without."""
    images, labels = torch.rand(2048, 1, 28, 28), torch.arange(2048) % 9

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
        x, y = batch
        if penalised:
            return regularised_loss(model, x, y, Cyclic(4), nu=1.0)
        return {"loss": F.cross_entropy(model(x), y)}

    def train_jobs(seed: int) -> Any:  # noqa: ANN401
        torch.manual_seed(seed)
        layers: list[nn.Module] = [nn.Linear(784, 128), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Linear(128, 128), nn.ReLU()]
        model = nn.Sequential(nn.Flatten(), *layers, nn.Linear(128, 9))
        config = TrainConfig(STEPS, 128 if GPU else 32, seed=seed).replace(**RUN)
        history = yield TrainJob(model, loss, (images, labels), config, products="tf32")
        return history

    return train_jobs


def cases() -> Iterator[Case]:
    """What, of which size, and how to fit one with a seed."""
    small = 28 if GPU else 8
    yield "perceptron", "5 x 128", perceptron(penalised=False)
    for size, side in (("paper", 28), ("quick", small)) if GPU else (("quick", small),):
        for stage in ("inference", "generative"):
            yield f"symmetry model, {stage}", size, symmetry(size, side, stage)
        stage = "generative without dropout"
        yield f"symmetry model, {stage}", size, symmetry(size, side, "generative", dropout=False)
    yield "VAE", "quick", vae("quick", small)
    yield "relaxed network", "width 4", relaxed_network(4, 32 if GPU else 8, 3, 64 if GPU else 16)
    yield "invariant VAE", "quick", joint("quick", small)
    yield "penalised perceptron", "5 x 128", perceptron(penalised=True)
    if GPU:
        yield "VAE", "paper", vae("paper", 28)
        yield "relaxed network", "width 16", relaxed_network(16, 32, 5, 128)
        yield "invariant VAE", "paper", joint("paper", 28)


def fit(
    make: Callable[[int], Any], models: int, products: AbstractContextManager[None] | None = None
) -> list[History]:
    """The histories of models that train as one, with rounded products."""
    with use_matmul_precision() if products is None else products:
        found = fit_together([make(seed) for seed in range(models)])
    return [next(iter(h.values())) if isinstance(h, dict) else h for h in found]


def step_time(history: History) -> float:
    """Milliseconds per step without the first third."""
    return 1e3 * (history.times[-1] - history.times[1]) / (history.step[-1] - history.step[1])


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=8 if GPU else 4)
    parser.add_argument("--cases", nargs="+", default=[""], help="that begin so; all by default")
    parser.add_argument("--most-seconds", type=float, default=1e9, help="begin no case after")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    began = time.perf_counter()
    for what, size, make in cases():
        if not f"{what}, {size}".startswith(tuple(options.cases)):
            continue
        if time.perf_counter() - began > options.most_seconds:
            print("out of time before", what, size, flush=True)
            break
        r = options.models
        try:
            alone = fit(lambda _, last=r - 1, make=make: make(last), 1)[0]
            together = fit(make, r)
        except RuntimeError as error:  # the others may still do
            print(what, size, type(error).__name__, str(error)[:300], flush=True)
            continue
        plain = {}
        if GPU:
            RUN["graph"] = "off"
            with no_fast_path():
                eager = fit(lambda _, last=r - 1, make=make: make(last), 1, nullcontext())[0]
            del RUN["graph"]
            plain = {"plain (ms per step)": step_time(eager)}
            plain["fast over plain"] = step_time(eager) / step_time(alone)
        first, second = alone["loss"][1], together[-1]["loss"][1]
        row = {
            "what": what,
            "size": size,
            "models": r,
            **plain,
            "alone (ms per step)": step_time(alone),
            "together (ms per step)": step_time(together[0]),
            "per model (ms)": step_time(together[0]) / r,
            "times faster": r * step_time(alone) / step_time(together[0]),
            "difference": abs(first - second) / max(abs(first), 1e-12),
        }
        rows.append(row)
        print(row, flush=True)
        record(f"manymodels-{DEVICE}", rows, part=options.cases != [""])


if __name__ == "__main__":
    main()
