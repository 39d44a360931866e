"""New versions of training images at every step: of a symmetry model, or as they were planted."""

import math

import sets
import torch
import torch.nn.functional as F
from framed import moments_of_each
from torch import Tensor

from symmetries._utils.per_example_random import per_example_random
from symmetries.actions.images import ImageAction
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.learners.vae import VAE
from symmetries.learners.vae.model import Augment, elbo_loss
from symmetries.training import History, Step
from symmetries.training.ensemble import TrainJob, TrainJobs, fit_alone
from symmetries.training.step import mix

CHUNK = 1024


@torch.no_grad()
def transformations(symmetry: SymmetryModel, images: Tensor, total: int, seed: int) -> Tensor:
    """T_eta T_f(x)^-1 with eta from p(eta | x_hat): (N, n, 3, 3), about ``total`` of them.

    A symmetry model does not change while AugVAE learns, so it is asked ahead.
    """
    each = max(1, round(total / len(images)))
    group = symmetry.group
    generator = torch.Generator(symmetry.device).manual_seed(seed)
    parts = []
    for x in images.split(CHUNK):
        x = x.to(symmetry.device)
        back = group.inverse(symmetry.element(x))[:, None]
        parts.append(group.compose(group.exp(symmetry.sample_eta(x, each, generator)), back))
    return torch.cat(parts)


@torch.no_grad()
def drawn_ahead(symmetry: SymmetryModel, images: Tensor, total: int, seed: int) -> Tensor:
    """About ``total`` new versions of images, as many of each, on the model's device.

    More of them than a decoder could know by heart.
    """
    moves = transformations(symmetry, images, total, seed)
    versions = torch.empty(moves.shape[:2].numel(), *images.shape[1:], device=moves.device)
    each = moves.shape[1]
    parts = zip(images.split(CHUNK), moves.split(CHUNK), versions.split(CHUNK * each), strict=True)
    for x, part, out in parts:
        out.copy_(symmetry.act.orbit(part, x.to(moves.device)).flatten(0, 1).clamp_(0, 1))
    return versions


def fit_versions(
    vae: VAE, symmetry: SymmetryModel, images: Tensor, total: int, **run: object
) -> History:
    """AugVAE whose steps all see other versions of their images: of ``total`` transformations."""
    moves = transformations(symmetry, images, total, vae.seed)

    def loss(model: VAE, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
        x, place = batch
        with torch.no_grad():
            which = (moves.shape[1] * step.rand(len(x))).long()
            x = symmetry.act(moves[place, which], x).clamp(0, 1)
        return elbo_loss(model, x, step)

    def train_jobs() -> TrainJobs[History]:
        config = vae.config.training.train_config(seed=mix(vae.seed, 0), **run)
        history = yield TrainJob(
            vae, loss, (images, torch.arange(len(images))), config, products="tf32"
        )
        vae.eval()
        return history

    return fit_alone(train_jobs())


def planted_anew(added: float) -> Augment:
    """Digits as they come, turned and shifted as ``sets.load`` has it, by new numbers each time.

    What a symmetry model would give that knew how the set was made.
    """
    act = ImageAction(sets.ROTATION, interpolation="bspline")

    def augment(batch: Tensor, generator: torch.Generator) -> Tensor:
        shape = (len(batch), 4)
        unit = 2 * per_example_random(torch.rand, shape, 0, generator, device=batch.device) - 1
        first = math.pi * unit[:, :1]
        second = sets.ROTATION.exp(math.radians(added) * unit[:, 1:2] - first)
        second = second + F.pad(unit[:, 2:, None] / batch.shape[-1], (2, 0, 0, 1))
        once = act(sets.ROTATION.exp(first), batch).clamp(0, 1)
        return act(second, once).clamp(0, 1)

    return augment


@torch.no_grad()
def scores_of_versions(
    vae: VAE, symmetry: SymmetryModel, held: Tensor, count: int, samples: int
) -> dict[str, float]:
    """The bound on new versions of images held out, with their own noise; and what they are like.

    What AugVAE would reach if images were what it has learned from.
    """
    generator = torch.Generator(vae.device).manual_seed(0)
    parts = [symmetry.sample(x.to(vae.device), 1, generator)[:, 0] for x in held.split(CHUNK)]
    new = torch.cat(parts).clamp(0, 1)
    vae.fit_noise(new)
    bound = vae.bound(new[:count], samples, generator).mean()
    scores = {"bound": float(bound)}
    for name, x in (("", new), ("_of_images", held.to(vae.device))):
        centres, second = moments_of_each(x)
        length, width = torch.linalg.eigvalsh(second).log().mT.flip(0)
        scores[f"roughness{name}"] = sets.roughness(x)
        scores[f"size{name}"] = float(second.diagonal(dim1=1, dim2=2).sum(1).mean())
        for what, part in (("place", centres), ("log_length", length), ("log_width", width)):
            scores[f"deviation_of_{what}{name}"] = float(part.std(0).mean())
    return scores
