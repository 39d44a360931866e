"""A VAE of the prototypes of a symmetry model, and the full generative model of images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from symmetries._utils.eval_mode import eval_mode
from symmetries._utils.sampling import some_of
from symmetries._validation.checks import (
    as_folder,
    check_choice,
    check_generator,
    check_image_shape,
    check_whole,
    invalid,
)
from symmetries.actions.images import ImageAction
from symmetries.data.base import ImageSet, images_to_learn
from symmetries.distributions.mixture import COMPONENTS, GaussianMixture
from symmetries.learners.base import GenerativeSummary, LearnerModule, generative_numbers
from symmetries.learners.vae.config import VAEConfig
from symmetries.learners.vae.model import CHUNK, VAE, in_parts
from symmetries.learners.vae.proposal import log_weights, set_noise, settled, squares
from symmetries.learners.vae.symmetry_like import SymmetryLike, as_module
from symmetries.nn.codes import check_own_prior
from symmetries.nn.diagonal_gaussian import importance_bound
from symmetries.training import History, load_learner
from symmetries.training.checkpoint import module_state, write_state

MOST_REFINEMENTS = 1000
NOISE_IMAGES, PROPOSAL_IMAGES = 5000, 32  # used by fit: each image takes many warps
PROPOSAL_SAMPLES = 50
SPREADS = (0.01, 0.03, 0.1, 0.3)  # tried for the proposal, shares of the bounds
STRETCHES = (1.0, 1.25, 1.6, 2.0)  # and of its standard deviations


class InvVAE(LearnerModule):
    r"""A VAE of prototypes, and with the symmetry model a generative model of images.

    The VAE is trained on x_hat = T_f(x)^-1 x. The full model is z -> prototype -> eta -> x,

    .. math:: p(x) = \int\!\!\int N(x; T_\eta \mu(z), T_\eta S^2)\, p(\eta | \mu(z))\, p(z)\,
              dz\, d\eta,

    where S is a noise for each pixel of the prototype, which moves with it; it is found on the
    training images. With colours, or with ``noise="image"``, S is a noise for each pixel of x
    instead, the same wherever the prototype is moved: turned images then need more of it, as
    every pixel is sometimes at the edge of a stroke. Two bounds are on offer.
    :meth:`prototype_bound` is that of Allingham et al. 2024: the VAE's own, on x_hat. It has no
    Jacobian term (a warp of a pixel grid has none), so it is no bound on log p(x) and must not be
    set beside the bound of another model on x. :meth:`bound` is one on log p(x) of the model above.

    Args:
        symmetry: a fitted symmetry model.
        config: of the VAE.
        refine: how many times prototypes are refined.
        seed: of the VAE's initial weights and training.
    """

    def __init__(
        self,
        symmetry: SymmetryLike,
        config: VAEConfig | str = "paper",
        *,
        refine: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        as_module(symmetry)
        check_whole(refine, "refine", least=0, most=MOST_REFINEMENTS)
        if refine and not symmetry.group.closed:
            remedy = "composed elements have no parameters there: take 0, or a closed group"
            raise invalid("refine", f"0, as {symmetry.group!r} is not closed", refine, remedy)
        self.symmetry = symmetry
        self.vae = VAE(symmetry.shape, config, seed=seed)
        self.refine = refine
        self.history: History | None = None
        self.register_buffer("noise", torch.ones(symmetry.shape))
        self.register_buffer("prototype_noise", torch.ones(symmetry.shape))
        self.register_buffer("spread", 0.1 * torch.tensor(symmetry.bounds))
        self.noise: Tensor
        self.prototype_noise: Tensor
        self.register_buffer("stretch", torch.ones(()))
        self.spread: Tensor
        self.stretch: Tensor
        # Variances stay positive, and go on beyond the frame.
        self.act_on_noise = ImageAction(symmetry.group, padding="border")
        self.eval()

    @property
    def finite(self) -> bool:
        """Whether the group is finite."""
        return self.symmetry.group.finite

    @property
    def moves_pixels(self) -> bool:
        """Whether the group only moves pixels, so that noise can move with a prototype."""
        return not self.symmetry.group.changes_values

    def fit(self, images: Tensor | ImageSet, **run: Any) -> History:  # noqa: ANN401 - of VAE.fit
        """Learn the VAE on the prototypes of images; then find the noise of images themselves.

        Args:
            images: (N, C, H, W), or a set of images: those the symmetry model was fitted to.
            run: see :meth:`VAE.fit`.
        """
        data = images_to_learn(images, self.symmetry.shape)
        here = next(as_module(self.symmetry).parameters()).device
        prototypes = [self.prototype(part.to(here)).cpu() for part in data.split(CHUNK)]
        self.history = history = self.vae.fit(torch.cat(prototypes), **run)
        as_module(self.symmetry).to(self.vae.device)
        self.to(self.vae.device).eval()
        self._fit_moved_noise(some_of(data, NOISE_IMAGES))  # the VAE has found its own
        if not self.finite:
            self.fit_spread(some_of(data, PROPOSAL_IMAGES))
        return history

    @torch.no_grad()
    def fit_noise(self, images: Tensor | ImageSet) -> None:
        r"""Set S^2 to the mean of l = (x - T_eta mu(z))^2 over images, z ~ q(z | x_hat).

        eta is f(x) at first, and then drawn as :meth:`bound` does it, with the noise found so far.
        That is the noise of pixels of x. The noise that moves is the one that makes images
        likeliest, where l / T_eta S^2 is 1 on average at every pixel of the prototype,

        .. math:: S^2 \leftarrow S^2 \cdot \mathrm{mean}\; T_\eta^{-1} (l / T_\eta S^2),

        some times over, the mean over those images that have the pixel in their frame. The VAE's
        own noise is found on their prototypes. Images that the VAE has not seen give larger noise,
        and better bounds.
        """
        data, here = images_to_learn(images, self.symmetry.shape), self.vae.device
        self.vae.fit_noise(torch.cat([self.prototype(x.to(here)) for x in data.split(CHUNK)]))
        self._fit_moved_noise(data)

    @torch.no_grad()
    def _fit_moved_noise(self, images: Tensor) -> None:
        set_noise(self, list(squares(self, images, settle=False)))
        if not self.finite:
            set_noise(self, list(squares(self, images, settle=True)))

    @torch.no_grad()
    def fit_spread(self, images: Tensor | ImageSet) -> None:
        """Choose, among a few, the proposal for eta that makes the bound tightest.

        How far eta may be from where it is looked for, as a share of all bounds; then by how much
        the proposal is wider than what the image says (:mod:`symmetries.learners.vae.proposal`).
        """
        x = images_to_learn(images, self.symmetry.shape).to(self.vae.device)
        limit = torch.tensor(self.symmetry.bounds, device=x.device)
        self.stretch.fill_(1.0)
        self._choose(x, self.spread, [share * limit for share in SPREADS])
        self._choose(x, self.stretch, list(torch.tensor(STRETCHES, device=x.device)))

    def _choose(self, x: Tensor, setting: Tensor, choices: list[Tensor]) -> None:
        bounds = []
        for choice in choices:
            setting.copy_(choice)
            generator = torch.Generator(x.device).manual_seed(0)
            bounds.append(float(self.bound(x, PROPOSAL_SAMPLES, generator).mean()))
        setting.copy_(choices[bounds.index(max(bounds))])

    @torch.no_grad()
    def prototype(self, x: Tensor) -> Tensor:
        """Return the prototypes (N, C, H, W): what the VAE sees."""
        return self.symmetry.prototype(x, self.refine)

    def prototype_bound(
        self, x: Tensor, samples: int = 300, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the VAE's bound (N,) on prototypes, as in the paper; it is no bound on p(x)."""
        return self.vae.bound(self.prototype(x), samples, generator)

    @torch.no_grad()
    def bound(
        self,
        x: Tensor,
        samples: int = 300,
        generator: torch.Generator | None = None,
        noise: str | None = None,
    ) -> Tensor:
        r"""Return an importance-weighted lower bound (N,) on log p(x) of the full model, in nats.

        .. math:: \log \frac1K \sum_k \frac{N(x; T_{\eta_k} \mu(z_k), T_{\eta_k} S^2)\,
                  p(\eta_k | \mu(z_k))\, p(z_k)}{r(\eta_k | x, z_k)\, q(z_k | \hat x)}

        with z_k from the encoder's q and eta_k from r, a Gaussian where x and mu(z_k) say that it
        lies (:mod:`symmetries.learners.vae.proposal`): any r gives a bound. In a finite group the
        sum over its elements takes the place of r.

        Args:
            x: (N, C, H, W), on the model's device.
            samples: K, joint samples of z and eta.
            generator: source of randomness, on that device.
            noise: whose pixels have it, the "prototype"'s or the "image"'s; by default the
                prototype's wherever the group moves pixels and does nothing else.
        """
        check_image_shape(x, self.symmetry.shape, "x")
        check_whole(samples, "samples")
        if noise is not None:
            check_choice(noise, ("prototype", "image"), "noise")
        if noise == "prototype" and not self.moves_pixels:
            remedy = "colours of a variance mean nothing: take 'image'"
            raise invalid("noise", f"'image' for {self.symmetry.group!r}", noise, remedy)
        check_generator(generator)
        with eval_mode(self):
            return self._bound(x, samples, generator, self.moves_pixels and noise != "image")

    def _bound(
        self, x: Tensor, samples: int, generator: torch.Generator | None, moves: bool
    ) -> Tensor:
        group = self.symmetry.group
        versions = group.order if group.finite else 1 + group.dim
        parts = in_parts(x, samples * versions)
        starts: list[Tensor | None] = [None] * len(parts)
        if not self.finite:
            looked = [settled(self, part, moves) for part in in_parts(x, versions)]
            starts = list(torch.cat(looked).split(len(parts[0])))
        pairs = zip(parts, starts, strict=True)
        weights = [log_weights(self, part, samples, generator, moves, at) for part, at in pairs]
        return torch.cat([importance_bound(part) for part in weights])

    def scale(self, elements: Any, moves: bool) -> Tensor:  # noqa: ANN401 - elements differ by group
        """Return the noise (S, C, H, W) of images moved by elements, or (C, H, W) of all."""
        if not moves:
            return self.noise
        return self.act_on_noise.orbit(elements, self.prototype_noise.square()[None])[0].sqrt()

    @torch.no_grad()
    def reconstruct(self, x: Tensor, of: str = "image") -> Tensor:
        """Return the reconstructions (N, C, H, W) of images, or of their prototypes.

        Args:
            x: (N, C, H, W).
            of: "image", T_f(x) mu(z); or "prototype", mu(z).
        """
        check_choice(of, ("image", "prototype"), "of")
        means = self.vae.reconstruct(self.prototype(x))
        return means if of == "prototype" else self.symmetry.act(self._element(x), means)

    def reconstruction_error(self, x: Tensor, of: str = "image") -> Tensor:
        """Return the mean square error (N,) of reconstructed images, or of their prototypes."""
        target = self.prototype(x) if of == "prototype" else x
        return (self.reconstruct(x, of) - target).square().mean((1, 2, 3))

    def fit_codes(
        self, images: Tensor | ImageSet, components: Sequence[int] = COMPONENTS, *, seed: int = 0
    ) -> GaussianMixture:
        """Fit a density to the codes of prototypes of images: see :meth:`VAE.fit_codes`."""
        data = images_to_learn(images, self.symmetry.shape)
        here = self.vae.device
        prototypes = [self.prototype(part.to(here)).cpu() for part in data.split(CHUNK)]
        return self.vae.fit_codes(torch.cat(prototypes), components, seed=seed)

    @torch.no_grad()
    def sample(
        self, n: int, generator: torch.Generator | None = None, codes: str = "prior"
    ) -> tuple[Tensor, Tensor]:
        """Draw new images and their prototypes, each (n, C, H, W): z -> prototype -> eta -> x.

        Codes z are from the "prior", or from the density "fitted" by :meth:`fit_codes`.
        """
        symmetry = self.symmetry
        prototypes = self.vae.sample(n, generator, codes)
        context = symmetry.generative(prototypes)
        drawn = symmetry.generative.distribution.sample(context, 1, generator)[:, 0]
        element = drawn if self.finite else symmetry.group.exp(drawn)
        return symmetry.act(element, prototypes), prototypes

    @property
    def config(self) -> VAEConfig:
        """The configuration of the VAE."""
        return self.vae.config

    def summary(
        self, images: Tensor | ImageSet, *, most: int = 128, samples: int = 50, seed: int = 0
    ) -> GenerativeSummary:
        """Return how well the full model describes images; see :meth:`VAE.summary`."""
        options = {"most": most, "samples": samples, "seed": seed}
        shape, device = self.symmetry.shape, self.vae.device
        return GenerativeSummary(**generative_numbers(self, images, shape, device, **options)[0])

    def save(self, folder: Path | str) -> Path:
        """Write the VAE, noises and proposal; the symmetry model has its own ``save``."""
        check_own_prior(self.vae)
        vae = self.vae
        meta = {"learner": "inv_vae", "shape": list(vae.shape), "seed": vae.seed}
        meta |= {"refine": self.refine, "config": vae.config.to_dict()}
        state = module_state(self)
        own = {name: part for name, part in state.items() if not name.startswith("symmetry.")}
        return write_state(as_folder(folder), "model", own, meta)

    @classmethod
    def load(  # type: ignore[override]
        cls, folder: Path | str, symmetry: SymmetryLike, device: torch.device | str = "cpu"
    ) -> Self:
        """Read what :meth:`save` wrote, for the same symmetry model."""
        state, meta = load_learner(folder, "inv_vae", "InvVAE")
        theirs = {f"symmetry.{key}": part for key, part in as_module(symmetry).state_dict().items()}
        if list(symmetry.shape) != meta["shape"]:
            expected = f"one of images of shape {tuple(meta['shape'])}"
            raise invalid("symmetry", expected, tuple(symmetry.shape), "load its own")
        config = VAEConfig.from_dict(meta["config"])
        model = cls(symmetry, config, refine=meta["refine"], seed=meta["seed"])
        model.load_state_dict(theirs | state)
        return model.to(device)

    def _element(self, x: Tensor) -> Any:  # noqa: ANN401 - elements differ by group
        return self.symmetry.element(x, self.refine)
