"""The invariant VAE: prototypes, transformations and new images from one joint model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._utils.eval_mode import eval_mode
from symmetries._validation.checks import check_generator, check_image_shape, check_whole
from symmetries._validation.diagnose import diagnose_values
from symmetries._validation.placement import check_like
from symmetries.actions.base import Action
from symmetries.data.base import ImageSet, images_to_learn, warn_if_large
from symmetries.distributions.categorical import ConditionalCategorical
from symmetries.distributions.mixture import COMPONENTS, GaussianMixture
from symmetries.groups.base import Group
from symmetries.groups.names import group_name
from symmetries.learners.base import ImageLearner, generative_numbers, run_options
from symmetries.learners.invariant_vae.config import InvariantVAEConfig
from symmetries.learners.invariant_vae.losses import (
    joint_loss,
    left_over,
    log_weights,
    moved_back,
    posterior_samples,
    prior_samples,
    views_of,
)
from symmetries.learners.invariant_vae.networks import Posterior, Prior
from symmetries.learners.invariant_vae.summary import (
    InvariantVAESummary,
    prior_spread,
    warn_if_collapsed,
)
from symmetries.nn.autoencoder import ConvDecoder, ConvEncoder
from symmetries.nn.codes import check_own_prior, density_of, fit_codes, make_room
from symmetries.nn.diagonal_gaussian import (
    GaussianPrior,
    free_scale,
    importance_bound,
    inverse_softplus,
    split_gaussian,
)
from symmetries.training import History, Step
from symmetries.training.ensemble import TrainJob, TrainJobs, fit_alone
from symmetries.training.recipe import plain_settings
from symmetries.training.step import mix, seeded

ROWS = 30_000  # decoded images at a time
VIEWS = 32  # of each image, outside of training
INITIAL_PROTOTYPE_NOISE = 0.1
NO_NOISE = -20.0  # whose softplus is 2e-9


class InvariantVAE(ImageLearner):
    r"""z -> prototype and transformation -> x, learned jointly (Allingham et al. 2022).

    .. math:: z \sim N(m, t^2), \quad \hat x \sim p(\hat x | z), \quad \eta \sim p(\eta | z), \quad
              x \sim N(T_\eta \hat x, \sigma^2)

    with q(eta | x), and q(z | x) whose mean and scale are averaged over transformations of x
    (equation 19), so that z cannot know them. Trained by the joint ELBO (equation 17).

    Args:
        action: how the transformations to look for move images: an ``ImageAction``, a group or its
            name.
        shape: (C, H, W) of the images.
        config: a preset, "quick", "default" or "paper", or an :class:`InvariantVAEConfig`.
        bounds: how far each parameter goes, in the group's units; the group's own by default.
        fill: background value; that of the action by default.
        seed: random seed of the initial weights and of training.

    Example:
        >>> model = InvariantVAE("rotation", (1, 8, 8), "quick")
        >>> x = torch.rand(4, 1, 8, 8)
        >>> model.prototype(x).shape, model.sample_eta(x, 3).shape, model.bound(x, 5).shape
        (torch.Size([4, 1, 8, 8]), torch.Size([4, 3, 1]), torch.Size([4]))
    """

    name = "invariant_vae"
    kind = InvariantVAEConfig
    config: InvariantVAEConfig

    def __init__(
        self,
        action: Action | Group[Any] | str,
        shape: tuple[int, int, int],
        config: InvariantVAEConfig | str = "default",
        *,
        bounds: Mapping[str, float] | Sequence[float] | None = None,
        fill: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(action, shape, config, bounds, fill, seed)
        c, objective = self.config.network, self.config.objective
        options: dict[str, Any] = {"channels": c.channels, "strides": c.strides}
        options |= {"hidden": c.hidden, "half": c.half}
        with seeded(seed):
            self.encoder = ConvEncoder(shape, 2 * c.latent, **options)
            self.decoder = ConvDecoder(shape, c.latent, **options)
            self.prior_eta = Prior(self.group, self.bounds, self.config)
            self.posterior = Posterior(shape, self.group, self.bounds, self.config, self.act)
        self.prior = GaussianPrior(c.latent)
        self.codes: GaussianMixture | None = None
        self.register_load_state_dict_pre_hook(make_room)  # type: ignore[no-untyped-call]
        self.register_buffer("limit", objective.invariance * torch.tensor(self.bounds))
        self.limit: Tensor
        start = inverse_softplus(max(objective.noise - objective.least_noise, 1e-6))
        self.free_noise = nn.Parameter(torch.full(shape, start), objective.learn_noise)
        free = torch.tensor(inverse_softplus(INITIAL_PROTOTYPE_NOISE))
        self.free_prototype_noise = nn.Parameter(free, objective.sampled)
        self.eval()

    @property
    def noise(self) -> Tensor:
        """Standard deviation (C, H, W) of each pixel, given prototype and transformation."""
        return self.config.objective.least_noise + F.softplus(self.free_noise)

    @property
    def prototype_noise(self) -> Tensor:
        """Standard deviation of p(x_hat | z), one number."""
        return F.softplus(self.free_prototype_noise)

    @property
    def finite(self) -> bool:
        """Whether the group is finite."""
        return self.group.finite

    def fit(self, images: Tensor | ImageSet, **run: Any) -> History:  # noqa: ANN401
        """Learn all networks at once.

        Args:
            images: (N, C, H, W), values in [0, 1] as a rule, or a set of images.
            run: fields of :class:`symmetries.training.TrainConfig`: the folder ``out`` for
                checkpoints and metrics, ``resume``, ``device``, ``progress``, ``log_every``,
                ``devices``, ``nodes``, ``graph``.
        """
        return fit_alone(self.train_jobs(images, **run))

    def train_jobs(self, images: Tensor | ImageSet, **run: Any) -> TrainJobs[History]:  # noqa: ANN401
        """Yield the training job of :meth:`fit`, for :func:`symmetries.training.fit_many`."""
        check_own_prior(self)
        data = warn_if_large(images_to_learn(images, self.shape))
        self.posterior.features.standardise(data)
        self.codes = None  # training changes the codes

        def loss(model: Any, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:  # noqa: ANN401
            return joint_loss(model, batch[0], step)

        known = {"group": group_name(self.group), "bounds": self.bounds, "fill": self.act.fill}
        run = run_options(run)
        run |= {"given_seed": self.seed, "settings": plain_settings(self.config, **known)}
        config = self.config.training.train_config(seed=mix(self.seed, 0), **run)
        history = yield TrainJob(self, loss, (data,), config, products="tf32")
        self.eval()
        warn_if_collapsed(self, data)
        self.history = history
        return history

    def encode(
        self, x: Tensor, views: int = VIEWS, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return mean and scale, each (N, latent), of q(z | x), averaged over views of each image.

        Args:
            x: (N, C, H, W).
            views: transformations of each image, uniform within the bounds; all elements of a
                finite group.
            generator: source of randomness; the same views at every call without one.
        """
        check_image_shape(x, self.shape, "x")
        check_whole(views, "views")
        check_like(x, self.free_noise, "x")
        check_generator(generator)
        seen = views_of(self, x, views, generator)
        mean, scale = split_gaussian(self.encoder(seen.flatten(0, 1)))
        count = seen.shape[:2]
        return mean.unflatten(0, count).mean(1), scale.unflatten(0, count).mean(1)

    def decode(self, z: Tensor) -> Tensor:
        """Return the means (N, C, H, W) of p(x_hat | z)."""
        return self.decoder(z)

    def log_posterior(self, x: Tensor) -> Tensor:
        """Return log q(g | x) of all elements of a finite group, (N, order)."""
        context, _ = self.posterior(x)
        return cast(ConditionalCategorical, self.posterior.distribution).log_probs(context)

    def log_prior(self, z: Tensor) -> Tensor:
        """Return log p(g | z) of all elements of a finite group, (N, order)."""
        context = self.prior_eta(z)
        return cast(ConditionalCategorical, self.prior_eta.distribution).log_probs(context)

    @torch.no_grad()
    def prototype(self, x: Tensor) -> Tensor:
        """Return prototypes (N, C, H, W): decoded mean codes, invariant to transformations."""
        check_image_shape(x, self.shape, "x")
        return torch.cat([self.decode(self.encode(part)[0]) for part in x.split(ROWS // VIEWS)])

    @torch.no_grad()
    def sample_eta(self, x: Tensor, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw transformations (N, n, dim) from q(eta | x); whole steps for finite groups."""
        check_image_shape(x, self.shape, "x")
        check_whole(n, "n")
        check_like(x, self.free_noise, "x")
        check_generator(generator)
        parts = x.split(max(1, ROWS // n))
        with diagnose_values(x, "x"):
            return torch.cat([posterior_samples(self, part, n, generator) for part in parts])

    @torch.no_grad()
    def sample_prior_eta(
        self, x: Tensor, n: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw transformations (N, n, dim) from p(eta | z) at the mean codes of images."""
        check_image_shape(x, self.shape, "x")
        check_whole(n, "n")
        check_generator(generator)
        parts = x.split(max(1, ROWS // max(n, VIEWS)))
        codes = [self.encode(part)[0] for part in parts]
        return torch.cat([prior_samples(self, z, n, generator) for z in codes])

    @torch.no_grad()
    def reconstruct(self, x: Tensor) -> Tensor:
        """Return prototypes moved back (N, C, H, W), by the likeliest of some samples of eta."""
        prototypes = self.prototype(x)
        parts = zip(x.split(512), prototypes.split(512), strict=True)
        return torch.cat([moved_back(self, part, hat) for part, hat in parts])

    def reconstruction_error(self, x: Tensor) -> Tensor:
        """Return the mean square difference (N,) between images and their reconstructions."""
        return (self.reconstruct(x) - x).square().mean((1, 2, 3))

    def fit_codes(
        self, images: Tensor | ImageSet, components: Sequence[int] = COMPONENTS, *, seed: int = 0
    ) -> GaussianMixture:
        """Fit a density to the codes of images: see ``symmetries.learners.vae.VAE.fit_codes``."""
        return fit_codes(self, images_to_learn(images, self.shape), components, seed=seed)

    @torch.no_grad()
    def sample(
        self, n: int, generator: torch.Generator | None = None, codes: str = "prior"
    ) -> tuple[Tensor, Tensor]:
        """Draw new images and their prototypes, each (n, C, H, W): z -> prototype -> eta -> x.

        Codes z are from the "prior", or from the density "fitted" by :meth:`fit_codes`.
        """
        check_whole(n, "n")
        check_generator(generator)
        z = density_of(self, codes).sample(n, generator)
        prototypes = self.decode(z)
        eta = prior_samples(self, z, 1, generator)[:, 0]
        return self.act(self.group.exp(eta), prototypes), prototypes

    @torch.no_grad()
    def bound(
        self, x: Tensor, samples: int = 300, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Return an importance-weighted lower bound (N,) on log p(x) in nats, of K joint samples.

        .. math:: \log \frac1K \sum_k \frac{N(x; T_{\eta_k} \hat x_k, \sigma^2)\, p(\eta_k | z_k)\,
                  p(z_k)}{q(\eta_k | x)\, q(z_k | x)}

        with the prototypes x_hat_k drawn from p(x_hat | z_k) (equation 16). In a finite group the
        sum over its elements takes the place of q(g | x).

        Args:
            x: (N, C, H, W), on the model's device.
            samples: K.
            generator: source of randomness, on that device.
        """
        check_image_shape(x, self.shape, "x")
        check_whole(samples, "samples")
        check_generator(generator)
        order = self.group.order if self.finite else 1
        parts = x.split(max(1, ROWS // (samples * order)))
        with eval_mode(self), diagnose_values(x, "x"):
            return torch.cat(
                [importance_bound(log_weights(self, p, samples, generator)) for p in parts]
            )

    @torch.no_grad()
    def fit_noise(self, images: Tensor | ImageSet, least: float | None = None) -> None:
        """Set the noise of each pixel to the root mean square residual, at least ``least``.

        The mean of (x - T_eta mu(z))^2, z from q(z | x) and eta the likeliest of some from
        q(eta | x): as :meth:`symmetries.learners.vae.VAE.fit_noise` does it, for bounds that can be
        set beside each other. All noise is that of pixels then: prototypes lose theirs.
        """
        data = images_to_learn(images, self.shape)
        least = self.config.objective.least_noise if least is None else least
        scale = left_over(self, data).clamp_min(least)
        self.free_noise.copy_(free_scale(scale, self.config.objective.least_noise))
        self.free_prototype_noise.fill_(NO_NOISE)

    def summary(
        self, images: Tensor | ImageSet, *, most: int = 512, samples: int = 100, seed: int = 0
    ) -> InvariantVAESummary:
        """Return how well the model describes images (N, C, H, W), and how far p(eta | z) spreads.

        Of a random choice of ``most`` images; ``samples`` are those of the bound and of p(eta | z).
        """
        options = {"most": most, "samples": samples, "seed": seed}
        found, x = generative_numbers(self, images, self.shape, self.device, **options)
        return InvariantVAESummary(**found, spread=prior_spread(self, x, samples, seed))

    def save(self, folder: Path | str) -> Path:
        """Write the model: weights and what is needed to build it again."""
        check_own_prior(self)
        return super().save(folder)
