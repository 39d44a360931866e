"""Density of the codes of images, from which new codes are drawn.

After training, the codes of images are not distributed as the prior. On request, a density fitted
to samples of q(z | x) of the training images replaces it: for new images, and in the bound,
which is then that of another model (Dai and Wipf 2019; Ghosh et al. 2020).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor

from symmetries._validation.checks import check_choice, invalid
from symmetries.distributions.mixture import COMPONENTS, GaussianMixture, fit_mixture, points_needed
from symmetries.nn.diagonal_gaussian import GaussianPrior

MOST_CODES = 50_000  # more codes make the fit slower and hardly better
CHUNK = 512  # number of images encoded at once
CODES = ("prior", "fitted")


class Coded(Protocol):
    """An autoencoder with continuous codes: a prior, and possibly a density fitted to codes."""

    prior: Any
    codes: GaussianMixture | None

    @property
    def device(self) -> torch.device:
        """Device of the model."""

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and scale, each (N, latent), of q(z | x)."""


@torch.no_grad()
def draw_codes(model: Coded, images: Tensor, seed: int = 0) -> Tensor:
    """Draw one code (N, latent) from q(z | x) of each image, or of 50,000 evenly spaced images."""
    count = min(len(images), MOST_CODES)
    places = torch.arange(count) * len(images) // count
    generator = torch.Generator(model.device).manual_seed(seed)
    parts = []
    for part in places.split(CHUNK):
        mean, scale = model.encode(images[part].to(model.device))
        noise = torch.randn(mean.shape, generator=generator, device=mean.device)
        parts.append(mean + scale * noise)
    return torch.cat(parts)


def fit_codes(
    model: Coded, images: Tensor, components: Sequence[int] = COMPONENTS, *, seed: int = 0
) -> GaussianMixture:
    """Fit a density to the codes of images and store it with the model: see ``fit_mixture``."""
    points = draw_codes(model, images, seed)
    if len(points) < (least := points_needed(points.shape[1])):
        expected = f"at least {least} for codes of {points.shape[1]} numbers"
        raise invalid("images", expected, len(points), "give those of the training set")
    model.codes = fit_mixture(points, components, seed=seed)
    return model.codes


def density_of(model: Coded, codes: str) -> GaussianPrior | GaussianMixture:
    """Return the distribution of new codes: the "prior", or the density "fitted" to codes."""
    check_choice(codes, CODES, "codes")
    if codes == "prior":
        return model.prior
    if model.codes is None:
        raise invalid("codes", "a model with a fitted density", "none", "call fit_codes first")
    return model.codes


@contextmanager
def fitted_prior(model: Coded) -> Iterator[None]:
    """Use the density fitted to codes as the model's prior inside the block.

    ``bound`` is then a bound on the likelihood of that other model, and ``sample`` draws from it.

    Args:
        model: a ``VAE``, an ``InvariantVAE``, or the ``vae`` of an ``InvVAE``.
    """
    before, model.prior = model.prior, density_of(model, "fitted")
    try:
        yield
    finally:
        model.prior = before


def check_own_prior(model: Coded) -> None:
    """Raise an error inside :func:`fitted_prior`, for functions that need the learned prior."""
    if not isinstance(model.prior, GaussianPrior):
        remedy = "leave the block of fitted_prior first"
        raise invalid("prior", "the model's own", "the density fitted to codes", remedy)


def make_room(model: Coded, state: Mapping[str, Tensor], prefix: str, *_: object) -> None:
    """Before a state is loaded, create a density of the stored size, or remove it.

    For ``nn.Module.register_load_state_dict_pre_hook``.
    """
    stored = state.get(prefix + "codes.mean")
    model.codes = None if stored is None else GaussianMixture(*stored.shape).to(model.device)
