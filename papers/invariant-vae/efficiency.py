"""Figure 9 of Allingham et al. 2024: VAEs against training size and added rotation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sets
import torch
from joint import AFFINE, SAMPLES, seen_of, training

from symmetries.actions.images import ImageAction
from symmetries.data import ImageSet
from symmetries.groups.names import parse_group
from symmetries.learners.symmetry_model import PRESETS, Stage, SymmetryModel
from symmetries.learners.vae import PRESETS as VAE_PRESETS
from symmetries.learners.vae import VAE, InvVAE, VAEConfig, fixed_augmentation
from symmetries.learners.vae.symmetric import PROPOSAL_IMAGES

SMALLEST = 12_500  # images that symmetry models see
TEST = 3000  # loaded in all experiments; the first of them are scored
KINDS = ("VAE", "fixed", "AugVAE", "InvVAE")
# InvVAE of another group, which is closed, so that prototypes can be refined.
CLOSED = "InvVAE-similarities"
REFINE = 2
FITTED: dict[tuple[Any, ...], tuple[SymmetryModel, dict[str, Any]]] = {}  # of this process
# The control: rotation within 15 degrees, shifts within 1.4 pixels, sizes within 10 %.
FIXED = ("rotation,translation,zoom", (0.1, 0.1, 0.26, 0.1))


@dataclass(frozen=True)
class Setting:
    """What is run: sizes, added rotations, seeds, steps."""

    sizes: tuple[int, ...]
    added: tuple[float, ...]
    seeds: tuple[int, ...]
    vae: VAEConfig
    symmetry: tuple[int, int]
    group: str
    count: int
    source: str
    folder: str | None
    device: str
    samples: int = SAMPLES
    kinds: tuple[str, ...] = KINDS


def symmetry_model(
    data: ImageSet, setting: Setting, seed: int, group: str
) -> tuple[SymmetryModel, dict[str, Any]]:
    """A symmetry model with few steps; it resamples by cubic B-splines, as the sets were made."""
    first, second = setting.symmetry
    config = PRESETS["default" if setting.source in ("mnist", "mnist-once") else "quick"]
    batch = config.inference.batch_size
    config = replace(
        config,
        inference=Stage(steps=first, batch_size=batch, lr=1e-3, warmup=0.1),
        generative=Stage(steps=second, batch_size=batch, lr=3e-3, warmup=0.1, final=0.03, clip=2.0),
    )
    shape = tuple(data.images.shape[1:])
    model = SymmetryModel(group, shape, config, seed=seed)
    histories = model.fit(data, device=setting.device, progress=False, log_every=500)
    model.act = ImageAction(model.group, interpolation="bspline", fill=model.act.fill)
    return model, {name: training(history) for name, history in histories.items()}


def runs(
    setting: Setting, done: Callable[[dict[str, Any]], bool]
) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """Rows of results, the first seed and the smallest sets first.

    The symmetry model of an added rotation sees the first 12,500 images only, so that no VAE
    profits from images that are not its own.
    """
    for seed in setting.seeds:
        for added in setting.added:
            where = {"source": setting.source, "folder": setting.folder}
            whole = sets.load("train", added, images=max(setting.sizes), **where)
            test = sets.load("test", added, images=TEST, **where)
            test = test.subset(torch.arange(min(setting.count, len(test))))
            small = whole.subset(torch.arange(min(SMALLEST, len(whole))))
            steps = setting.vae.steps
            cell = {"source": setting.source, "added": added, "seed": seed, "steps": steps}
            keys = [
                {**cell, "size": size, "kind": kind}
                for size in setting.sizes
                for kind in setting.kinds
            ]
            for key in keys:
                if done(key):
                    continue
                symmetry, trained = None, {}
                if key["kind"] in ("AugVAE", "InvVAE", CLOSED):
                    group = "similarity" if key["kind"] == CLOSED else setting.group
                    name = (setting.source, setting.symmetry, group, added, seed)
                    if name not in FITTED:
                        FITTED[name] = symmetry_model(small, setting, seed, group)
                    symmetry, trained = FITTED[name]
                data = whole.subset(torch.arange(min(key["size"], len(whole))))
                row, arrays = one_vae(key["kind"], data, test, symmetry, setting, seed)
                row |= {"symmetry": trained} if symmetry is not None else {}
                yield key | row, arrays


def one_vae(
    kind: str,
    data: ImageSet,
    test: ImageSet,
    symmetry: SymmetryModel | None,
    setting: Setting,
    seed: int,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """One VAE, trained and scored on test images."""
    shape = tuple(data.images.shape[1:])
    run: dict[str, Any] = {"device": setting.device, "progress": False}
    run["log_every"] = max(1, setting.vae.steps // 10)
    model: VAE | InvVAE
    if kind in ("InvVAE", CLOSED):
        refine = REFINE if kind == CLOSED else 0
        model = InvVAE(symmetry, setting.vae, refine=refine, seed=seed)
    else:
        model = VAE(shape, setting.vae, seed=seed)
        if kind == "AugVAE":
            run["augment"] = lambda x, generator: symmetry.augment(x, generator).clamp(0, 1)
        elif kind == "fixed":
            group = parse_group(FIXED[0])
            run["augment"] = fixed_augmentation(ImageAction(group), FIXED[1])
    seen = seen_of(data)
    history = model.fit(data.images[:seen], **run)
    vae = model.vae if isinstance(model, InvVAE) else model
    vae.encoder.half_precision = vae.decoder.half_precision = False  # errors as small as noise
    model.fit_noise(data.images[seen:])
    if isinstance(model, InvVAE):
        model.fit_spread(data.images[seen : seen + PROPOSAL_IMAGES])
    device = vae.device
    x = test.images.to(device)
    generator = torch.Generator(device).manual_seed(0)
    row = training(history) | {"samples": setting.samples, "batch_size": setting.vae.batch_size}
    row["half"] = setting.vae.half
    row["bound"] = float(model.bound(x, setting.samples, generator).mean())
    row["reconstruction_error"] = float(model.reconstruction_error(x).mean())
    few = data.images[: setting.count].to(device)
    generator.manual_seed(0)
    row["bound_train"] = float(model.bound(few[:500], setting.samples, generator).mean())
    arrays = {"examples": x[:20], "reconstructions": model.reconstruct(x[:20])}
    if isinstance(model, InvVAE):
        generator.manual_seed(0)
        fixed = model.bound(x, setting.samples, generator, noise="image")
        row["bound_image_noise"] = float(fixed.mean())
        generator.manual_seed(0)
        row["prototype_bound"] = float(model.prototype_bound(x, setting.samples, generator).mean())
        row["prototype_error"] = float(model.reconstruction_error(x, "prototype").mean())
        row["content_kept"] = symmetry.content_kept(x[:500])
        row["spread"] = model.spread.tolist()
        new, prototypes = model.sample(60, generator)
        arrays |= {"new": new, "new_prototypes": prototypes, "prototypes": model.prototype(x[:20])}
    else:
        arrays["new"] = model.sample(60, generator)
    return row, {name: part.float().cpu().numpy() for name, part in arrays.items()}


def figure9_setting(arguments: Any) -> Setting:  # noqa: ANN401 - argparse's
    """The grid that the command line asks for."""
    if arguments.quick:
        vae = replace(VAE_PRESETS["quick"], steps=60)
        return Setting(
            (700,),
            (90.0,),
            (0,),
            vae,
            (40, 20),
            "rotation",
            100,
            "digits",
            None,
            arguments.device,
            30,
        )
    if arguments.small:
        vae = replace(
            VAE_PRESETS["quick"],
            latent=10,
            initial_noise=0.08,
            least_noise=0.01,
            kl_warmup=0.5,
            steps=500,
        )
        sizes, added = (1000, 4000), (0.0, 180.0)
        where = ("mnist-14", arguments.data, arguments.device)
        return Setting(sizes, added, (0,), vae, (600, 200), "rotation", 200, *where, 100)
    steps = arguments.vae_steps
    return Setting(
        tuple(arguments.sizes),
        tuple(arguments.rotations),
        tuple(range(arguments.seeds)),
        VAEConfig(
            steps=steps,
            initial_noise=0.2,
            batch_size=arguments.vae_batch,
            half=not arguments.full_precision,
        ),
        tuple(arguments.symmetry_steps),
        AFFINE,
        2000,
        arguments.source,
        arguments.data,
        arguments.device,
        kinds=tuple(arguments.kinds),
    )
