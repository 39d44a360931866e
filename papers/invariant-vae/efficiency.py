"""Figure 9 of Allingham et al. 2024: VAEs against training size and added rotation."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import measures
import numpy as np
import sets
import torch
from augmentation import fixed_augmentation
from framed import Framed, moments
from joint import AFFINE, NEW, seen_of, training
from prototype_sizes import at_mean_size
from setting import WHOLE, Setting
from torch import Tensor
from versions import drawn_ahead, fit_versions, planted_anew, scores_of_versions

from symmetries.actions.images import ImageAction
from symmetries.data import ImageSet
from symmetries.groups.names import parse_group
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.learners.vae import VAE, InvVAE
from symmetries.training import Recipe

SMALLEST = 12_500
TEST = 3000  # loaded in all experiments; the first of them are scored
PROPOSAL_IMAGES = 128  # held out, by which proposals for eta are chosen; small runs have fewer
HELD_OUT_IMAGES, HELD_OUT_SAMPLES = 1000, 100  # of the bound that settings are chosen by
TRAINED = 500  # images that were learned from, for the bound on them
CHUNK = 2048
COPIES = 8  # turned, of an image, whose prototypes are compared
# Symmetry models of MNIST, as on their own page; the sizes of their networks are the paper's.
OURS = SymmetryConfig.preset("paper").replace(
    angles="circle",
    moments="centre",
    loss="one-sided",
    alignment=1.0,
    idempotence=0.2,
    idempotence_form="norm",
    idempotence_range=0.05,
    affine_jitter=0.25,
    holdout=0.1,
    matmul_precision="bf16",
    interpolation="bilinear",
)
FITTED: dict[tuple[Any, ...], tuple[SymmetryModel, dict[str, Any]]] = {}  # of this process
# The control: rotation within 15 degrees, shifts within 1.4 pixels, sizes within 10 %.
FIXED = ("rotation,translation,zoom", (0.1, 0.1, 0.26, 0.1))


def symmetry_model(
    data: ImageSet, setting: Setting, seed: int
) -> tuple[SymmetryModel, dict[str, Any]]:
    """A symmetry model whose prototypes are as large as images, and how its training went.

    It resamples by cubic B-splines, as the sets were made.
    """
    first, second = setting.symmetry
    config = OURS if setting.source in WHOLE else SymmetryConfig.preset("quick")
    batch = config.inference.batch_size
    config = config.replace(
        inference=Recipe(steps=first, batch_size=batch, lr=1e-3, warmup=0.1),
        generative=Recipe(
            steps=second, batch_size=batch, lr=3e-3, warmup=0.1, final=0.03, clip=2.0
        ),
    )
    shape = tuple(data.images.shape[1:])
    model = SymmetryModel(setting.group, shape, config, seed=seed)
    run: dict[str, Any] = {"device": setting.device, "progress": False, "log_every": 500}
    histories = model.fit(data, stages=("inference",), **run).stages
    trained: dict[str, Any] = {"zoom": at_mean_size(model, data.images)}
    histories |= model.fit(data, stages=("generative",), **run).stages
    model.act = ImageAction(model.group, interpolation="bspline", fill=model.act.fill)
    trained |= {name: training(history) for name, history in histories.items()}
    return model, trained


@torch.no_grad()
def orbit_variance(model: SymmetryModel, x: Tensor) -> float:
    """Variance of prototypes over turned copies of an image, as a share of that over images."""
    angles = math.pi * (
        2 * torch.rand(len(x) * COPIES, generator=torch.Generator().manual_seed(0)) - 1
    )
    copies = measures.turned(x.repeat_interleave(COPIES, 0), angles.to(x.device), "bspline")
    prototypes = model.prototype(copies).unflatten(0, (len(x), COPIES))
    return float(prototypes.var(1).mean() / prototypes.flatten(0, 1).var(0).mean())


def runs(
    setting: Setting, done: Callable[[dict[str, Any]], bool]
) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """Rows of results, the first seed and the smallest sets first.

    A symmetry model sees the first 12,500 images only, or the VAE's own: none profits from images
    that are not its own.
    """
    for seed in setting.seeds:
        for added in setting.added:
            where = {"source": setting.source, "folder": setting.folder}
            whole = sets.load("train", added, images=setting.images, **where)
            test = sets.load("test", added, images=TEST, **where)
            test = test.subset(torch.arange(min(setting.count, len(test))))
            small = whole.subset(torch.arange(min(SMALLEST, len(whole))))
            steps = setting.vae.training.steps
            cell = {"source": setting.source, "added": added, "seed": seed, "steps": steps}
            cell |= {"channels": list(setting.vae.network.channels), "lr": setting.vae.training.lr}
            cell |= {"half": setting.vae.network.half, "hidden": setting.vae.network.hidden}
            cell |= {name: True for name in ("live", "own") if getattr(setting, name)}
            keys = [
                {**cell, "size": size, "kind": kind}
                for size in setting.sizes
                for kind in setting.kinds
            ]
            for key in keys:
                if done(key):
                    continue
                symmetry, trained = None, {}
                data = whole.subset(torch.arange(min(key["size"], len(whole))))
                if key["kind"] in ("AugVAE", "InvVAE"):
                    learned = data.subset(torch.arange(seen_of(data))) if setting.own else small
                    symmetry, trained = fitted_symmetry(key, learned, test, setting)
                row, arrays = one_vae(key, data, test, symmetry, setting)
                row |= {"symmetry": trained} if symmetry is not None else {}
                yield key | row, arrays


def fitted_symmetry(
    key: dict[str, Any], data: ImageSet, test: ImageSet, setting: Setting
) -> tuple[SymmetryModel, dict[str, Any]]:
    """The symmetry model of some images, a rotation and a seed, fitted once in a process."""
    name = (setting.source, setting.symmetry, setting.group, key["added"], key["seed"], len(data))
    if name not in FITTED:
        symmetry, trained = symmetry_model(data, setting, key["seed"])
        trained["images"] = len(data)
        few = test.images[:200].to(symmetry.device)
        trained["orbit_variance"] = orbit_variance(symmetry, few)
        FITTED[name] = symmetry, trained
    return FITTED[name]


def one_vae(
    key: dict[str, Any],
    data: ImageSet,
    test: ImageSet,
    symmetry: SymmetryModel | None,
    setting: Setting,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """One VAE, trained and scored on test images."""
    model, row = fit_vae(key, data, symmetry, setting)
    vae = model.vae if isinstance(model, InvVAE) else model
    held = data.images[seen_of(data) :]
    device = vae.device
    x = test.images.to(device)
    generator = torch.Generator(device).manual_seed(0)
    held = held[:HELD_OUT_IMAGES].to(device)
    if isinstance(model, InvVAE):
        held = model.prototype(held)
    row["least_noise"] = setting.vae.least_noise
    row["bound_held_out"] = float(vae.bound(held, HELD_OUT_SAMPLES, generator).mean())
    generator.manual_seed(0)
    row["bound"] = float(model.bound(x, setting.samples, generator).mean())
    row["reconstruction_error"] = float(model.reconstruction_error(x).mean())
    arrays = {"examples": x[:20], "reconstructions": model.reconstruct(x[:20])}
    generator.manual_seed(0)
    if isinstance(model, InvVAE):
        row["prototype_bound"] = float(model.prototype_bound(x, setting.samples, generator).mean())
        row["prototype_error"] = float(model.reconstruction_error(x, "prototype").mean())
        row["content_kept"] = symmetry.content_kept(x[:500])
        if isinstance(model.symmetry, Framed):
            row["frame"] = model.symmetry.frame.tolist()
            row["moments"] = [part.tolist() for part in moments(model.prototype(x))]
        row["spread"] = model.spread.tolist()
        new, prototypes = model.sample(NEW, generator)
        arrays |= {"new": new, "new_prototypes": prototypes, "prototypes": model.prototype(x[:20])}
    else:
        few = data.images[:TRAINED].to(device)
        row["bound_train"] = float(vae.bound(few, setting.samples, generator).mean())
        arrays["new"] = vae.sample(NEW, generator)
    return row, {name: part.float().cpu().numpy() for name, part in arrays.items()}


def fit_vae(
    key: dict[str, Any], data: ImageSet, symmetry: SymmetryModel | None, setting: Setting
) -> tuple[VAE | InvVAE, dict[str, Any]]:
    """One VAE, trained; its noise is found on images held out."""
    kind, seed = key["kind"], key["seed"]
    shape = tuple(data.images.shape[1:])
    run: dict[str, Any] = {"device": setting.device, "progress": False}
    run["log_every"] = max(1, setting.vae.training.steps // 10)
    seen = seen_of(data)
    learned, held = data.images.split((seen, len(data) - seen))
    model: VAE | InvVAE
    if kind == "InvVAE":
        framed = Framed(symmetry, data.images[:SMALLEST]) if setting.group == AFFINE else symmetry
        model = InvVAE(framed, setting.vae, seed=seed)
    else:
        model = VAE(shape, setting.vae, seed=seed)
    vae = model.vae if isinstance(model, InvVAE) else model
    if kind == "fixed":
        act = ImageAction(parse_group(FIXED[0]), interpolation="bspline")
        run["augment"] = fixed_augmentation(act, FIXED[1])
    if kind == "planted":
        run["augment"] = planted_anew(key["added"])
        raw = sets.load("train", 0.0, setting.folder, "mnist-once", setting.images)
        learned = raw.images[:seen]
    if kind == "AugVAE" and setting.live:
        history = fit_versions(vae, symmetry, learned, setting.versions, **run)
    else:
        if kind == "AugVAE":
            learned = drawn_ahead(symmetry, learned, setting.versions, seed)
        if isinstance(model, InvVAE):  # as its fit does it; noise and proposal follow below
            parts = [model.prototype(x.to(symmetry.device)) for x in learned.split(CHUNK)]
            learned = torch.cat(parts)
        history = vae.fit(learned, **run)
        model.to(vae.device)
    del learned
    vae.encoder.half_precision = vae.decoder.half_precision = False  # errors as small as noise
    row = training(history) | {
        "samples": setting.samples,
        "batch_size": setting.vae.training.batch_size,
    }
    if kind == "AugVAE":
        few = (HELD_OUT_IMAGES, HELD_OUT_SAMPLES)
        row["versions"] = scores_of_versions(vae, symmetry, held, *few)
    model.fit_noise(held)
    if isinstance(model, InvVAE):
        model.fit_spread(held[: min(PROPOSAL_IMAGES, setting.count // 10)])
    return model, row
