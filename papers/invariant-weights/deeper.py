"""Beside the paper: deeper networks with the same objective, and a sparse Gaussian process."""

from collections.abc import Iterator

import torch
from building import cached, clock
from sparse_gp import SparseGP
from torch import nn

from symmetries.distributions.box import UniformBox
from symmetries.groups.affine import Affine2
from symmetries.learners.invariant_weights import elbo_loss, evaluate
from symmetries.nn.invariant_model import InvariantModel
from symmetries.nn.orbit_average import OrbitAverage
from symmetries.nn.variational import VariationalLinear
from symmetries.training import TrainConfig, train

SETS = ("mnist-rotated", "mnist-partially-rotated", "mnist")
MOVED = ("mnist-rotated", "mnist-translated", "mnist-scaled", "mnist")
SAMPLES, STEPS, BATCH = 8, 2000, 128
START = 0.1  # radians


def network(features: int, seed: int) -> nn.Sequential:
    """Two convolutions with pooling and a hidden layer: features of images (N, 1, 28, 28)."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 49, features), nn.Tanh(),
    )  # fmt: skip


def deeper(
    folder: str | None, device: torch.device, seed: int, steps: int | None
) -> Iterator[dict[str, object]]:
    """A small CNN averaged over rotations of its input, with several last layers."""
    for posterior, features in (("full", 128), ("point", 128), ("full", 1024)):
        for name in SETS:
            yield one(folder, device, seed, steps or STEPS, name, posterior, features)


def one(
    folder: str | None,
    device: torch.device,
    seed: int,
    steps: int,
    name: str,
    posterior: str,
    features: int,
) -> dict[str, object]:
    """One CNN."""
    data, test = cached(name, "train", folder), cached(name, "test", folder)
    box = UniformBox(Affine2("rotation"), START, constraint="reflect")
    body = OrbitAverage(network(features, seed), box)
    head = VariationalLinear(
        features, 10, covariance=posterior, scale=0.1, learn_prior=posterior != "point"
    )
    model = InvariantModel(body, head, [box]).to(device)
    rest = [p for p in model.parameters() if p.requires_grad and p is not box.free]
    config = TrainConfig(
        steps=steps, batch_size=BATCH, seed=seed, device=str(device), progress=False
    ).replace(log_every=max(1, steps // 50))
    loss = elbo_loss(len(data), samples=SAMPLES, sampling="sobol", rest=0.1)
    started = clock(device)
    groups = [{"params": rest}, {"params": [box.free], "lr": 0.01}]
    history = train(model, loss, (data.images, data.labels), config, param_groups=groups)
    seconds = clock(device) - started
    bound = {"samples": SAMPLES, "draws": 16}
    train_fit = evaluate(model, [data.images], data.labels, **bound).log_likelihood
    kl = float(model.head.kl() / len(data))
    found = evaluate(model, [test.images], test.labels, samples=16)
    width = float(model.half_width[0].rad2deg())
    row = {
        "set": name,
        "elbo": float(train_fit) - kl,
        "kl": kl,
        "accuracy": 100 * float(found.score),
        "degrees": width,
    }
    print(f"deeper {posterior} {features} {row} {seconds:.1f} s", flush=True)
    return {
        "tag": f"{posterior} {features} {name}",
        "posterior": posterior,
        "features": features,
        "seed": seed,
        "steps": steps,
        "seconds": seconds,
        "runs": [row],
        "widths": [[s, w] for s, w in zip(history.step, history["rotation"], strict=True)],
    }


def sparse_gp(
    folder: str | None, device: torch.device, seed: int, steps: int | None
) -> Iterator[dict[str, object]]:
    """Table 2's first row."""
    for name in MOVED:
        data, test = cached(name, "train", folder), cached(name, "test", folder)
        model = SparseGP(10, seed=seed)
        if steps:  # a trial
            model, data = SparseGP(10, inducing=20, steps=steps), data.subset(torch.arange(200))
        started = clock(device)
        model.fit(data.images.to(device), data.labels.to(device))
        predicted = model.predict(test.images.to(device)).cpu()
        accuracy = 100 * float((predicted == test.labels).float().mean())
        seconds = clock(device) - started
        print(f"sgpr {name} accuracy {accuracy:.2f} {seconds:.1f} s", flush=True)
        row = {"set": name, "row": "sgpr", "accuracy": accuracy, "bound": model.elbo}
        bounds = model.history[:: max(1, model.steps // 20)]
        yield {
            "tag": name, "seed": seed, "inducing": model.inducing, "steps": model.steps,
            "seconds": seconds, "runs": [row], "bounds": bounds,
        }  # fmt: skip
