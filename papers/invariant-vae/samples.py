"""New images of VAEs and of the joint model: from the prior, and from a density fitted to codes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import efficiency
import joint
import likeness
import numpy as np
import sets
import torch
from setting import Setting
from torch import Tensor

from symmetries.data import ImageSet
from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig
from symmetries.learners.vae import VAE, InvVAE
from symmetries.nn.codes import MOST_CODES, fitted_prior

KINDS = ("VAE", "AugVAE", "InvVAE", "joint")
TURNED = 45.0  # degrees, of the joint model's digits
NEW, KEPT = 2000, 60  # images that a classifier looks at; of which pictures are kept
SCORED, SAMPLES = 1000, 100  # test images, and samples, of bounds
Model = VAE | InvVAE | InvariantVAE


def runs(
    setting: Setting,
    config: InvariantVAEConfig,
    noises: tuple[float, ...],
    done: Callable[[dict[str, Any]], bool],
) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """Rows of results for each kind of model, each least noise and each seed."""
    for seed in setting.seeds:
        for kind in setting.kinds:
            for least in noises:
                key = {"source": setting.source, "kind": kind, "seed": seed, "least_noise": least}
                key |= {"steps": (config if kind == "joint" else setting.vae).training.steps}
                key |= {"added": TURNED if kind == "joint" else 0.0, "size": setting.sizes[-1]}
                if not done(key):
                    yield one_model(key, setting, config)


def one_model(
    key: dict[str, Any], setting: Setting, config: InvariantVAEConfig
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """One model, trained; its new images, judged by a classifier of such digits."""
    where = {"source": setting.source, "folder": setting.folder}
    data = sets.load("train", key["added"], images=setting.sizes[-1], **where)
    test = sets.load("test", key["added"], images=efficiency.TEST, **where)
    model, row = fitted(key, data, test, setting, config)
    judge = likeness.classifier(data, setting.device)
    sizes = (min(SCORED, setting.count), min(SAMPLES, setting.samples))
    scores, arrays = judged(model, judge, data, test, *sizes)
    return key | row | scores, arrays


def fitted(
    key: dict[str, Any],
    data: ImageSet,
    test: ImageSet,
    setting: Setting,
    config: InvariantVAEConfig,
) -> tuple[Model, dict[str, Any]]:
    """The model that is asked for, and how its training went."""
    least = key["least_noise"]
    if key["kind"] == "joint":
        learned = {"learn_noise": True, "least_noise": least}  # from where it is otherwise fixed
        config = config.replace(**(learned if least < config.objective.noise else {"noise": least}))
        model, row = joint.fit("rotation", data, config, setting.device, seed=key["seed"])
        model.encoder.half_precision = model.decoder.half_precision = False
        return model, row
    start = max(0.2, 1.5 * least)
    setting = replace(setting, vae=setting.vae.replace(least_noise=least, initial_noise=start))
    symmetry = None
    if key["kind"] in ("AugVAE", "InvVAE"):
        small = data.subset(torch.arange(min(efficiency.SMALLEST, len(data))))
        symmetry, _ = efficiency.fitted_symmetry(key, small, test, setting)
    return efficiency.fit_vae(key, data, symmetry, setting)


@torch.no_grad()
def judged(
    model: Model,
    judge: torch.nn.Module,
    data: ImageSet,
    test: ImageSet,
    count: int = SCORED,
    samples: int = SAMPLES,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Shares of images that a classifier is sure of, bounds, and some new images.

    Args:
        model: a VAE or the joint model.
        judge: a classifier of such digits.
        data: of which nine tenths were trained on; the density is fitted to their codes.
        test: images that neither has seen.
        count: how many of them are scored by bounds, reconstructed, and compared with training.
        samples: of bounds.
    """
    coded = model.vae if isinstance(model, InvVAE) else model
    seen = data.images[: joint.seen_of(data)]
    density = model.fit_codes(seen)
    few = test.images[:count].to(coded.device)
    generator = torch.Generator(coded.device)
    row: dict[str, Any] = {"new": NEW, "components": len(density.mean), "samples": samples}
    row["codes"] = min(len(seen), MOST_CODES)
    row["bound"] = float(model.bound(few, samples, generator.manual_seed(0)).mean())
    with fitted_prior(coded):
        row["bound_fitted"] = float(model.bound(few, samples, generator.manual_seed(0)).mean())
    arrays = {"examples": test.images[:KEPT]}
    pictures = {"test": test.images, "reconstructed": model.reconstruct(few)}
    for codes in ("prior", "fitted"):
        new = model.sample(NEW, generator.manual_seed(0), codes)
        pictures[codes] = new if isinstance(new, Tensor) else new[0]
        arrays[codes] = pictures[codes][:KEPT]
    for name, images in pictures.items():
        row |= likeness.scores(judge, images.float(), name)
        row[f"nearest_{name}"] = likeness.nearest(images.float()[:count], seen)
    row["accuracy"] = likeness.accuracy(judge, test)
    return row, {name: part.float().cpu().numpy() for name, part in arrays.items()}
