"""The convolutional VAE: bounds on the likelihood of images, and new images."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._utils.sampling import some_of
from symmetries._validation.checks import check_generator, check_image_shape, check_whole
from symmetries._validation.placement import check_like
from symmetries.data.base import ImageSet, images_to_learn, warn_if_large
from symmetries.distributions.mixture import COMPONENTS, GaussianMixture
from symmetries.learners.base import (
    GenerativeSummary,
    LearnerModule,
    generative_numbers,
    run_options,
)
from symmetries.learners.vae.config import VAEConfig
from symmetries.nn.autoencoder import ConvDecoder, ConvEncoder
from symmetries.nn.codes import check_own_prior, density_of, fit_codes, make_room
from symmetries.nn.diagonal_gaussian import (
    GaussianPrior,
    free_scale,
    gaussian_log_prob,
    importance_bound,
    inverse_softplus,
    split_gaussian,
)
from symmetries.training import History, Step
from symmetries.training.ensemble import TrainJob, TrainJobs, fit_alone
from symmetries.training.recipe import plain_settings
from symmetries.training.step import mix, seeded

Augment = Callable[[Tensor, torch.Generator], Tensor]
ROWS = 30_000  # decoded images at a time
CHUNK = 2048
NOISE_IMAGES = 10_000


class VAE(LearnerModule):
    r"""p(x) = \int N(x; mu(z), diag s^2) N(z; m, t^2) dz, with q(z | x) Gaussian.

    Means come from a convolutional decoder, the noise s is one learned number for each pixel, the
    prior's m and t are learned. Trained by the ELBO, E_q[log p(x | z)] - KL(q || p(z)) (Kingma and
    Welling 2014; Allingham et al. 2024, Appendix C.4).

    Args:
        shape: (C, H, W) of the images.
        config: "paper", "quick", or a :class:`VAEConfig`.
        seed: of the initial weights and of training.

    Example:
        >>> vae = VAE((1, 8, 8), "quick")
        >>> x = torch.rand(4, 1, 8, 8)
        >>> vae.bound(x, 10).shape, vae.reconstruct(x).shape, vae.sample(3).shape
        (torch.Size([4]), torch.Size([4, 1, 8, 8]), torch.Size([3, 1, 8, 8]))
    """

    name = "vae"
    kind = VAEConfig
    config: VAEConfig

    def __init__(
        self, shape: tuple[int, int, int], config: VAEConfig | str = "paper", *, seed: int = 0
    ) -> None:
        super().__init__()
        self.config = VAEConfig.resolve(config)
        self.shape = shape
        self.seed = seed
        c = self.config.network
        options: dict[str, Any] = {"channels": c.channels, "strides": c.strides}
        options |= {"hidden": c.hidden, "half": c.half}
        with seeded(seed):
            self.encoder = ConvEncoder(shape, 2 * c.latent, **options)
            self.decoder = ConvDecoder(shape, c.latent, **options)
        self.prior = GaussianPrior(c.latent)
        self.codes: GaussianMixture | None = None
        self.history: History | None = None
        self.register_load_state_dict_pre_hook(make_room)  # type: ignore[no-untyped-call]
        free = inverse_softplus(self.config.initial_noise - self.config.least_noise)
        self.free_noise = nn.Parameter(torch.full(shape, free))
        self.eval()

    @property
    def noise(self) -> Tensor:
        """Standard deviation (C, H, W) of each pixel."""
        return self.config.least_noise + F.softplus(self.free_noise)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and scale, each (N, latent), of q(z | x)."""
        check_image_shape(x, self.shape, "x")
        check_like(x, self.free_noise, "x")
        return split_gaussian(self.encoder(x))

    def decode(self, z: Tensor) -> Tensor:
        """Return the means (N, C, H, W) of p(x | z)."""
        return self.decoder(z)

    def fit(
        self,
        images: Tensor | ImageSet,
        *,
        augment: Augment | None = None,
        **run: Any,  # noqa: ANN401 - fields of TrainConfig
    ) -> History:
        """Learn from images.

        Args:
            images: (N, C, H, W), values in [0, 1] as a rule, or a set of images.
            augment: images and a generator to new versions, at every step. With a symmetry
                model's ``augment`` this is AugVAE.
            run: fields of :class:`symmetries.training.TrainConfig`: the folder ``out`` for
                checkpoints and metrics, ``resume``, ``device``, ``progress``, ``log_every``,
                ``devices``, ``nodes``, ``graph``.
        """
        return fit_alone(self.train_jobs(images, augment=augment, **run))

    def train_jobs(
        self,
        images: Tensor | ImageSet,
        *,
        augment: Augment | None = None,
        **run: Any,  # noqa: ANN401
    ) -> TrainJobs[History]:
        """Yield the training job of :meth:`fit`, for :func:`symmetries.training.fit_many`."""
        check_own_prior(self)
        data = warn_if_large(images_to_learn(images, self.shape))
        self.codes = None  # training changes the codes

        def loss(model: Any, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:  # noqa: ANN401
            x = batch[0]
            if augment is not None:
                with torch.no_grad():
                    x = augment(x, step.generator)
            return elbo_loss(model, x, step)

        run = run_options(run)
        run |= {"given_seed": self.seed, "settings": plain_settings(self.config)}
        config = self.config.training.train_config(seed=mix(self.seed, 0), **run)
        history = yield TrainJob(self, loss, (data,), config, products="tf32")
        self.eval()
        self.fit_noise(some_of(data, NOISE_IMAGES))
        warn_if_collapsed(self, data)
        self.history = history
        return history

    @torch.no_grad()
    def fit_noise(self, images: Tensor | ImageSet) -> None:
        """Set the noise to its optimum: s^2 is the mean of (x - mu(z))^2, z ~ q(z | x).

        Gradient steps bring it down from its start slowly, a bit less at pixels that never vary;
        :meth:`fit` ends with this, so that bounds do not depend on how long it was trained.
        """
        data = images_to_learn(images, self.shape)
        generator = torch.Generator(self.device).manual_seed(0)
        total = torch.zeros_like(self.free_noise)
        for x in data.split(CHUNK):
            x = x.to(self.device)
            z, _ = self.draw(x, 1, generator)
            total += (x - self.decode(z[:, 0])).square().sum(0)
        self.free_noise.copy_(free_scale((total / len(data)).sqrt(), self.config.least_noise))

    @torch.no_grad()
    def bound(
        self, x: Tensor, samples: int = 300, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Return an importance-weighted bound (N,) on log p(x) in nats: the ELBO for one sample.

        .. math:: \log \frac1K \sum_k \frac{p(x | z_k) p(z_k)}{q(z_k | x)}, \qquad z_k \sim q(z | x)

        Args:
            x: (N, C, H, W), on the model's device.
            samples: K.
            generator: source of randomness, on that device.
        """
        self._check(x, samples)
        parts = [self._bound(part, samples, generator) for part in in_parts(x, samples)]
        return torch.cat(parts)

    def _bound(self, x: Tensor, k: int, generator: torch.Generator | None) -> Tensor:
        z, log_ratio = self.draw(x, k, generator)
        means = self.decode(z.flatten(0, 1)).unflatten(0, (len(x), k))
        log_likelihood = gaussian_log_prob(x[:, None], means, self.noise).sum((2, 3, 4))
        return importance_bound(log_likelihood + log_ratio)

    def draw(
        self, x: Tensor, k: int, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw codes (N, k, latent) from q(z | x), and log p(z) - log q(z | x), (N, k)."""
        check_whole(k, "k")
        check_generator(generator)
        mean, scale = (part[:, None] for part in self.encode(x))
        shape = (len(x), k, self.config.network.latent)
        z = mean + scale * torch.randn(shape, generator=generator, device=x.device)
        return z, self.prior.log_prob(z) - gaussian_log_prob(z, mean, scale).sum(-1)

    @torch.no_grad()
    def reconstruct(self, x: Tensor) -> Tensor:
        """Return the means (N, C, H, W) at the mean codes of images."""
        self._check(x, 1)
        return torch.cat([self.decode(self.encode(part)[0]) for part in in_parts(x, 1)])

    def reconstruction_error(self, x: Tensor) -> Tensor:
        """Return the mean square difference (N,) between images and their reconstructions."""
        return (self.reconstruct(x) - x).square().mean((1, 2, 3))

    def fit_codes(
        self, images: Tensor | ImageSet, components: Sequence[int] = COMPONENTS, *, seed: int = 0
    ) -> GaussianMixture:
        """Fit a density to the codes of images, for ``sample(n, codes="fitted")``.

        The prior does not describe the codes that images have, and its new images look less like
        the training images than those of a density fitted to their codes after training (Dai and
        Wipf 2019; Ghosh et al. 2020). It is saved with the model, and forgotten by :meth:`fit`.
        :func:`symmetries.nn.codes.fitted_prior` puts it in the prior's place in the bound.

        Args:
            images: those the model was fitted to; codes are drawn for at most 50,000 of them.
            components: numbers of Gaussians to try; the best on codes held out is kept.
            seed: of the draws, and of the fit.
        """
        return fit_codes(self, images_to_learn(images, self.shape), components, seed=seed)

    @torch.no_grad()
    def sample(
        self, n: int, generator: torch.Generator | None = None, codes: str = "prior"
    ) -> Tensor:
        """Return new images (n, C, H, W): means at new codes, without pixel noise.

        Args:
            n: how many.
            generator: source of randomness, on the model's device.
            codes: from the "prior", or from the density "fitted" by :meth:`fit_codes`.
        """
        check_whole(n, "n")
        check_generator(generator)
        return self.decode(density_of(self, codes).sample(n, generator))

    def summary(
        self, images: Tensor | ImageSet, *, most: int = 512, samples: int = 100, seed: int = 0
    ) -> GenerativeSummary:
        """Return how well the model describes images.

        Args:
            images: (N, C, H, W), or a set of images.
            most: number of images to look at, a random choice.
            samples: of the bound.
            seed: random seed of the samples.
        """
        options = {"most": most, "samples": samples, "seed": seed}
        found, _ = generative_numbers(self, images, self.shape, self.device, **options)
        return GenerativeSummary(**found)

    def save(self, folder: Path | str) -> Path:
        """Write the model: weights and what is needed to build it again."""
        check_own_prior(self)
        return super().save(folder)

    def _check(self, x: Tensor, samples: int) -> None:
        check_image_shape(x, self.shape, "x")
        check_whole(samples, "samples")


def elbo_loss(model: VAE, x: Tensor, step: Step) -> dict[str, Tensor]:
    """Return minus the mean ELBO of a batch (B, C, H, W), with one sample of z for each image.

    At the start of training the KL counts less, see ``kl_warmup``.
    """
    mean, scale = model.encode(x)
    z = mean + scale * step.randn(*mean.shape)
    fit = gaussian_log_prob(x, model.decode(z), model.noise).sum((1, 2, 3)).mean()
    kl = model.prior.kl(mean, scale).mean()
    share = model.config.kl_warmup
    weight = (step.progress / share).clamp_max(1.0) if share else 1.0
    return {"loss": weight * kl - fit, "log_likelihood": fit, "kl": kl}


def in_parts(x: Tensor, samples: int) -> tuple[Tensor, ...]:
    """Return the images in parts, so that not too many are decoded at once."""
    return x.split(max(1, ROWS // samples))


LOOKED_AT = 256
LEAST_KL = 0.1  # nats


@torch.no_grad()
def code_kl(model: VAE, x: Tensor) -> Tensor:
    """Return the mean KL of q(z | x) to the prior in nats: how much codes say about images."""
    return model.prior.kl(*model.encode(x)).mean()


def warn_if_collapsed(model: VAE, images: Tensor) -> None:
    """Warn if codes say nothing about images: then every reconstruction is the mean image."""
    kl = float(code_kl(model, some_of(images, LOOKED_AT).to(model.device)))
    if kl < LEAST_KL:
        warnings.warn(
            f"the codes say nothing about the images (KL {kl:.2g} nats): the posterior has "
            "collapsed; train longer, lower the learning rate, or check that images differ",
            RuntimeWarning,
            stacklevel=6,  # who called fit
        )
