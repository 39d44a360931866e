"""The first losses of every learner on a CPU, without kernels, from fixed seeds and data.

A change that is meant to leave the mathematics alone must leave these numbers alone, up to
rounding. The stored ones were made at commit 0da4940.

    python tests/equality/first_losses.py --out FILE
    python tests/equality/first_losses.py --compare tests/equality/first_losses.json
"""

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["SYMMETRIES_KERNELS"] = "0"

import torch
from torch import Tensor, nn

from symmetries.groups import Cyclic
from symmetries.groups.affine import Affine2
from symmetries.learners import relaxed
from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig
from symmetries.learners.invariant_weights import NaturalConfig, elbo_loss, fit_natural
from symmetries.learners.penalties import regularised_loss
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.learners.vae import VAE, InvVAE, VAEConfig
from symmetries.nn.invariant_model import shallow_model
from symmetries.nn.relaxed_networks import RelaxedCNN, Symmetry
from symmetries.training import TrainConfig, train

STEPS, DIGITS, TOLERANCE = 100, 9, 1e-5
RATE = 1e-4  # at the usual rates, some learners turn a last digit into a tenth in 100 steps
RUN: dict[str, Any] = {"device": "cpu", "progress": False, "log_every": 1}
Losses = dict[str, list[float]]


def images(channels: int = 1, count: int = 64, side: int = 8) -> Tensor:
    """Soft bars of random places and directions, from a fixed seed."""
    generator = torch.Generator().manual_seed(1)
    x, y = torch.meshgrid(*[torch.linspace(-1, 1, side)] * 2, indexing="xy")
    angle, shift, *shade = torch.rand(2 + channels, count, 1, 1, generator=generator)
    across = (6.3 * angle).cos() * x + (6.3 * angle).sin() * y - 0.5 * (shift - 0.5)
    along = (6.3 * angle).cos() * y - (6.3 * angle).sin() * x
    bar = torch.exp(-12 * across.square() - 2 * (along - 0.2).square())
    return torch.stack([(0.4 + 0.6 * part) * bar for part in shade], 1)


def symmetry(group: str) -> Losses:
    """Both stages of the symmetry model."""
    model = _symmetry_model(group)
    history = model.fit(images(3 if group == "colour" else 1), **RUN)
    return {f"symmetry model, {group}, {stage}": h["loss"] for stage, h in history.stages.items()}


def _symmetry_model(group: str) -> SymmetryModel:
    stage = {"steps": STEPS, "batch_size": 16, "lr": RATE}
    config = SymmetryConfig.preset("quick").replace(
        widths=(32, 16),
        features=(16, 16),
        base=(8,),
        layers=2,
        conditioner=16,
        matmul_precision="tf32",  # float32 on every processor
        inference=stage,
        generative=stage,
    )
    shape = (3 if group == "colour" else 1, 8, 8)
    return SymmetryModel(group, shape, config, seed=3)


def _random_symmetry_model() -> SymmetryModel:
    """One that moves images: as it starts, it leaves them as they are."""
    model, generator = _symmetry_model("rotation"), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model


def vae(kind: str) -> Losses:
    """VAE; AugVAE and InvVAE with a symmetry model of random weights."""
    sizes = {"channels": (4, 8), "hidden": 16, "latent": 3, "steps": STEPS, "batch_size": 16}
    sizes["lr"] = RATE
    config = VAEConfig.preset("quick").replace(**sizes)
    if kind == "InvVAE":
        history = InvVAE(_random_symmetry_model(), config, seed=4).fit(images(), **RUN)
    else:
        augment = _random_symmetry_model().augment if kind == "AugVAE" else None
        history = VAE((1, 8, 8), config, seed=4).fit(images(), augment=augment, **RUN)
    return {kind: history["loss"]}


def invariant_vae() -> Losses:
    """All networks at once."""
    sizes = {"channels": (4, 8), "hidden": 16, "latent": 3, "steps": STEPS, "batch_size": 16}
    sizes |= {"lr": RATE, "warmup": 0.5}
    config = InvariantVAEConfig.preset("quick").replace(**sizes)
    model = InvariantVAE("rotation", (1, 8, 8), config, seed=5)
    return {"invariant VAE": model.fit(images(), **RUN)["loss"]}


def invariant_weights(kind: str) -> Losses:
    """The evidence by Adam, with a full covariance."""
    torch.manual_seed(6)
    model = shallow_model(
        (1, 8, 8), 4, Affine2("rotation"), half_widths=[0.3, 1.0], features=32, kind=kind,
        posterior="full", learn_prior=True, scale=0.1, bias=False,
    )  # fmt: skip
    x, labels = images(), torch.arange(64) % 4
    config = TrainConfig(STEPS, 16, seed=6).replace(**RUN)
    history = train(model, elbo_loss(len(x), samples=8), (x, labels), config)
    return {f"invariant weights, {kind}": history["loss"]}


def natural() -> Losses:
    """The evidence by natural gradients: expected log-likelihoods of both runs, in turn."""
    torch.manual_seed(7)
    group = Affine2("rotation")
    model = shallow_model((1, 8, 8), 4, group, half_widths=[0.3, 1.0], features=32, bias=False)
    found: list[float] = []
    config = NaturalConfig(STEPS, batch_size=64, samples=8, search=3, seed=7)
    labels = torch.arange(64) % 4
    fit_natural(
        model, [images()], labels, config, on_step=lambda _, fit: found.extend(fit.tolist())
    )
    return {"invariant weights, natural": found}


def relaxed_network(mode: str, which: str) -> Losses:
    """A plain network of group convolutions."""
    torch.manual_seed(8)
    relax = {which: 0.5} if mode == "soft" else None
    group = Cyclic(1 if which == "translation" else 4)
    options = {"hidden": 16, "features": 16}
    symmetry_of = Symmetry(group, mode, relax, options=options)
    model = RelaxedCNN(1, 4, symmetry_of, width=4, kernel_size=3)
    config = TrainConfig(STEPS, 8, lr=RATE, seed=8).replace(**RUN)
    labels = torch.arange(64) % 4
    history = relaxed.fit_relaxed(model, images(), labels, config, penalty=0.1)
    return {f"relaxed, {mode} {which}": history["loss"]}


def penalties(kind: str) -> Losses:
    """A perceptron with a penalty on the invariance error."""
    torch.manual_seed(9)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Any) -> dict[str, Tensor]:
        return regularised_loss(
            model, *batch, Cyclic(4), nu=0.5, kind=kind, generator=step.generator
        )

    config = TrainConfig(STEPS, 16, seed=9).replace(**RUN)
    history = train(model, loss, (images(), torch.arange(64) % 4), config)
    return {f"penalties, {kind}": history["loss"]}


LEARNERS: list[Callable[[], Losses]] = [
    *(lambda group=group: symmetry(group) for group in ("rotation", "affine", "c4", "colour")),
    *(lambda kind=kind: vae(kind) for kind in ("VAE", "AugVAE", "InvVAE")),
    invariant_vae,
    *(lambda kind=kind: invariant_weights(kind) for kind in ("fourier", "relu")),
    natural,
    lambda: relaxed_network("strict", "rotation"),
    lambda: relaxed_network("partial", "rotation"),
    lambda: relaxed_network("soft", "rotation"),
    lambda: relaxed_network("soft", "translation"),
    *(lambda kind=kind: penalties(kind) for kind in ("li", "nli", "di")),
]


def all_losses() -> Losses:
    """Of all learners, by name."""
    torch.set_num_threads(1)
    found: Losses = {}
    for learner in LEARNERS:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that so few steps have taught little
            made = learner()
        found |= {name: [float(f"{v:.{DIGITS - 1}e}") for v in of] for name, of in made.items()}
        seconds = time.perf_counter() - began
        print(f"{', '.join(made)}: {seconds:.1f} s", flush=True)  # noqa: T201
    return found


def differences(found: Losses, stored: Losses) -> dict[str, float]:
    """Largest difference of each learner, relative to its loss at that step.

    Losses that pass through zero count as no smaller than the median of their learner's sizes.
    """
    largest: dict[str, float] = {}
    for name in sorted({*found, *stored}):
        ours, theirs = found.get(name, []), stored.get(name, [])
        if len(ours) != len(theirs):
            largest[name] = float("inf")
            continue
        least = statistics.median(map(abs, theirs)) if min(theirs) < 0 < max(theirs) else 1e-12
        pairs = zip(ours, theirs, strict=True)
        largest[name] = max(abs(a - b) / max(abs(b), least) for a, b in pairs)
    return largest


def main() -> None:
    """Train, and store or compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="file to write")
    parser.add_argument("--compare", type=Path, help="file to compare with")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    options = parser.parse_args()
    found = all_losses()
    if options.out is not None:
        lines = [
            f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in found.items()
        ]
        options.out.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    if options.compare is not None:
        largest = differences(found, json.loads(options.compare.read_text()))
        for name, value in largest.items():
            print(f"{value:.2e}  {name}")  # noqa: T201
        if not max(largest.values()) <= options.tolerance:
            sys.exit(f"more than {options.tolerance:g} from the stored losses")


if __name__ == "__main__":
    main()
