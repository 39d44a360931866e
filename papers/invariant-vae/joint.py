"""The experiments with the joint model: rotation (Figures 5, 6), affine, three ablations."""

import math
import time
from pathlib import Path
from typing import Any

import measures
import numpy as np
import sets
import shapes
import torch

from symmetries.data import ImageSet
from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig
from symmetries.learners.invariant_weights import augerino_loss
from symmetries.nn.invariant_model import shallow_model
from symmetries.training import History, TrainConfig, train

AFFINE = "shift_x,shift_y,rotation,scale_x,scale_y"
AFFINE_BOUNDS = {name: 0.25 for name in ("shift_x", "shift_y", "scale_x", "scale_y")}
SAMPLES = 300
HELD_OUT = 0.1  # of the training images: the noise is found on them, as for the VAEs
NEW = 200  # images drawn and kept


def fit(
    group: str,
    data: ImageSet,
    config: InvariantVAEConfig,
    device: str,
    bounds: dict[str, float] | None = None,
    seed: int = 0,
) -> tuple[InvariantVAE, dict[str, Any]]:
    """A model fitted to all images but those held out, and how its training went."""
    model = InvariantVAE(group, tuple(data.images.shape[1:]), config, bounds=bounds, seed=seed)
    every = max(1, config.training.steps // 20)
    seen = data.images[: seen_of(data)]
    history = model.fit(seen, device=device, progress=False, log_every=every)
    return model, training(history)


def seen_of(data: ImageSet) -> int:
    """How many of the images are trained on; the rest is held out."""
    return round((1 - HELD_OUT) * len(data))


def training(history: History) -> dict[str, Any]:
    """Time and last numbers of a training."""
    first = 1 if len(history.step) > 2 else 0  # the first steps set everything up
    steps = history.step[-1] - history.step[first]
    late = 1e3 * (history.times[-1] - history.times[first]) / max(1, steps)
    return {
        "steps": history.step[-1],
        "seconds": history.seconds,
        "ms_per_step": late,
        "last": history.last,
    }


def score(model: InvariantVAE, train_set: ImageSet, test: ImageSet, count: int) -> dict[str, float]:
    """Bound on x and reconstruction error; noise per pixel found on images held out."""
    model.encoder.half_precision = model.decoder.half_precision = False  # errors as small as noise
    x = test.images[:count]
    generator = torch.Generator(x.device).manual_seed(0)
    result = {"bound_own_noise": float(model.bound(x[:500], SAMPLES, generator).mean())}
    held = train_set.images[seen_of(train_set) :]
    generator.manual_seed(0)
    few = held[:1000].to(model.device)
    result["bound_held_out"] = float(model.bound(few, 100, generator).mean())
    model.fit_noise(held)
    generator.manual_seed(0)
    result["bound"] = float(model.bound(x, SAMPLES, generator).mean())
    result["reconstruction_error"] = float(model.reconstruction_error(x).mean())
    result["pixel_variance"] = float(x.var(0, correction=0).mean())
    return result


def rotation_run(
    added: float,
    config: InvariantVAEConfig,
    both: tuple[ImageSet, ImageSet],
    device: str,
    base: dict[int, torch.Tensor] | None,
    count: int,
    group: str = "rotation",
    seed: int = 0,
) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[int, torch.Tensor]]:
    """One planted range: widths, agreement of prototypes, bound, pictures."""
    train_set, test = both
    bounds = AFFINE_BOUNDS if group == AFFINE else None
    model, row = fit(group, train_set, config, device, bounds=bounds, seed=seed)
    test = measures.on(test, model.device)
    samples = measures.rotation_samples(model, test)
    row["width90"] = measures.widths(samples)
    base = samples if added == 0 else base
    if base is not None:
        row |= compared(row["width90"], base, added)
    most = 45.0 if added == 0 else min(added, 157.5)
    row["agreement"] = measures.agreement(model, test.images[: min(200, count)], most)
    row |= score(model, train_set, test, count)
    return row, pictures(model, test, samples), samples


def compared(
    width90: dict[str, float], base: dict[int, torch.Tensor], added: float
) -> dict[str, Any]:
    """Widths against those expected from the angles of each class without added rotation."""
    expected = measures.expected_widths(base, added)
    ratios = {name: width90[name] / expected[name] for name in ("mean", "pooled")}
    return {"expected": expected, "ratio": ratios["mean"], "ratio_pooled": ratios["pooled"]}


@torch.no_grad()
def pictures(
    model: InvariantVAE, test: ImageSet, samples: dict[int, torch.Tensor]
) -> dict[str, np.ndarray]:
    """Arrays of Figures 5 and 6, and new images."""
    generator = torch.Generator(model.device).manual_seed(0)
    x = test.images[:20]
    new, prototypes = model.sample(NEW, generator)
    angles = torch.deg2rad(torch.linspace(-45, 45, 7, device=model.device))
    one = test.images[:6].repeat_interleave(7, 0)
    copies = measures.turned(one, angles.repeat(6))
    arrays = {
        "examples": x,
        "reconstructions": model.reconstruct(x),
        "prototypes": model.prototype(x),
        "new": new,
        "new_prototypes": prototypes,
        "copies": copies,
        "copies_prototypes": model.prototype(copies),
    }
    plain = {name: part.float().cpu().numpy() for name, part in arrays.items()}
    for label, part in samples.items():
        order = torch.randperm(len(part), generator=torch.Generator().manual_seed(0))[:3000]
        plain[f"angles_{label}"] = part[order.to(part.device)].cpu().numpy()
    return plain


def stored_angles(file: Path) -> dict[int, torch.Tensor] | None:
    """The angles of each class that :func:`pictures` kept, if the file is there."""
    if not file.exists():
        return None
    arrays = np.load(file)
    names = [name for name in arrays.files if name.startswith("angles_")]
    return {int(name[7:]): torch.from_numpy(arrays[name]) for name in names}


def augerino_width(data: ImageSet, steps: int, device: str, seed: int = 0) -> dict[str, Any]:
    """The half-width, in degrees, that Augerino's objective learns on a labelled set."""
    shape = tuple(data.images.shape[1:])
    model = shallow_model(
        shape,
        10,
        measures.ROTATION,
        half_widths=(math.radians(30),),
        constraint="softplus",
        posterior="point",
        features=512,
        sigma=0.3,
        kind="relu",
        seed=seed,
    )
    run: dict[str, Any] = {"device": device, "progress": False, "seed": seed}
    config = TrainConfig(steps=steps, batch_size=min(256, len(data)), lr=3e-3, **run)
    widths = {id(p) for p in model.boxes.parameters()}
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if id(p) not in widths]},
        {"params": [p for p in trained if id(p) in widths], "lr": 1e-2},
    ]
    history = train(
        model,
        augerino_loss(0.01, samples=4),
        (data.images, data.labels),
        config,
        param_groups=groups,
    )
    half = math.degrees(float(model.half_width.detach()[0, 0]))
    return {"half_width": half, "seconds": history.seconds, "last": history.last}


PLANTS: dict[str, dict[str, float | sets.Plant]] = {
    "flexible": {"shapes": shapes.two_modes, "mnist": shapes.two_modes},
    "invariance": {"shapes": 45.0, "mnist": 45.0},
    "conditional": {"shapes": shapes.by_kind, "mnist": sets.by_label},
}


def ablation_sets(
    which: str, source: str, images: int, folder: str | None = None
) -> tuple[ImageSet, ImageSet]:
    """Training and test images with planted angles that show one conjecture.

    "flexible": -60 or 60 degrees, two modes. "invariance": within +-45. "conditional": the spread
    depends on what is shown: +-10 for an L and the digits 0 to 4, +-120 for a T and 5 to 9.
    """
    plant = PLANTS[which][source]
    few = 3000 if source == "mnist" else images // 2
    return (
        sets.load("train", plant, folder, source, images),
        sets.load("test", plant, folder, source, few),
    )


ABLATIONS: dict[str, dict[str, dict[str, Any]]] = {
    "flexible": {"splines": {}, "Gaussian": {"flexible": False}},
    "invariance": {
        "full": {},
        "within 22.5 degrees": {"invariance": 0.125},
        "none": {"invariance": 0.0},
    },
    "conditional": {"on z": {}, "independent": {"conditional": False}},
}


def ablation_run(
    which: str,
    changes: dict[str, Any],
    config: InvariantVAEConfig,
    both: tuple[ImageSet, ImageSet],
    device: str,
    count: int,
) -> dict[str, Any]:
    """One side of a comparison."""
    train_set, test = both
    model, row = fit("rotation", train_set, config.replace(**changes), device)
    test = measures.on(test, model.device)
    generator = torch.Generator(model.device).manual_seed(0)
    q = model.sample_eta(test.images, 32, generator)[..., 0]
    p = model.sample_prior_eta(test.images, 32, generator)[..., 0]
    labels = test.labels
    row["width90_q"] = measures.widths({int(c): q[labels == c].flatten() for c in labels.unique()})
    row["width90_p"] = measures.widths({int(c): p[labels == c].flatten() for c in labels.unique()})
    outside = [measures.share_outside(p[labels == c], q[labels == c]) for c in labels.unique()]
    row["share_outside"] = sum(outside) / len(outside)
    row["agreement"] = measures.agreement(model, test.images[: min(100, count)], 45.0)
    return row | score(model, train_set, test, count)


def stamp(start: float, *words: object) -> None:
    """Say something, with the time."""
    print(f"{time.perf_counter() - start:7.1f} s", *words, flush=True)
