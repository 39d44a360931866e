"""The log evidence of an averaged network on a set of examples, and its slope along the widths."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from symmetries._utils.eval_mode import eval_mode
from symmetries.actions.images import ImageAction
from symmetries.learners.invariant_network.jacobians import (
    Weights,
    averaged,
    jacobian_rows,
    plain_attention,
    pulled_back,
    trained,
)
from symmetries.learners.invariant_network.likelihoods import (
    Likelihood,
    log_likelihood,
    unwhitened,
    whitened,
)
from symmetries.learners.invariant_network.posterior import Posterior, log_det, posterior

CHUNK = {"cpu": (2**19, 2**24), "cuda": (2**24, 2**28)}  # pixels and derivatives at a time
GAP = 0.5  # of the difference of two bounds, by which the evidence is above the better one
EXACT = {"cpu": (2500, 2**25), "cuda": (16_000, 2**30)}  # sides and elements of all rows, at most
TRACED = 10_000  # examples whose traces are added up, at most: a sample of them stands for more
SIGNED = 8  # times as many outputs as rows are traced by one random mixture for each example
FORWARD = 8192  # views at a time, where only outputs are


@dataclass(frozen=True)
class LaplaceEvidence:
    r"""Laplace log evidence of f(x) = mean over s of module(T_s x), as a function of the widths.

    Args:
        module: images (N, C, H, W) to outputs (N, K); used in eval mode.
        action: of the group on images.
        likelihood: "categorical" or "gaussian".
        precision: of the prior, for each layer by name: a layer is what owns parameters.
        noise: standard deviation of the Gaussian.
        shares: from the number S of transformations to how much each counts in each output (S, K);
            None is the mean.

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> group, network = Affine2("rotation"), nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        >>> evidence = LaplaceEvidence(network, ImageAction(group), "categorical", {"1": 1.0})
        >>> x, y = torch.rand(9, 1, 8, 8), torch.arange(9) % 3
        >>> eta = torch.linspace(-1, 1, 5)[:, None]
        >>> bool(evidence.total(x, y, eta) < evidence.fit(x, y, eta))
        True
    """

    module: nn.Module
    action: ImageAction
    likelihood: Likelihood
    precision: dict[str, Tensor]
    noise: Tensor | float = 1.0
    shares: Callable[[int], Tensor] | None = None

    @property
    def weights(self) -> Weights:
        """Trained parameters by name."""
        return trained(self.module)

    def precisions(self) -> Tensor:
        """Delta (P,): the precision of each weight."""
        parts = [
            torch.as_tensor(self.precision[layer_of(name)]).to(value).expand(value.numel())
            for name, value in self.weights.items()
        ]
        return torch.cat(parts)

    def penalty(self) -> Tensor:
        """theta^T Delta theta / 2."""
        flat = torch.cat([value.flatten() for value in self.weights.values()])
        return 0.5 * (self.precisions() * flat.square()).sum()

    def views(self, images: Tensor, eta: Tensor) -> Tensor:
        """Return images (N, S, C, H, W) moved by transformations eta (S, dim)."""
        return self.action.orbit(self.action.group.exp(eta), images)

    def outputs(self, weights: Weights, images: Tensor, eta: Tensor) -> Tensor:
        """Averaged outputs (N, K) for given weights."""
        shares = self.shares and self.shares(len(eta))
        return averaged(self.module, weights, self.views(images, eta), shares)

    def fit(self, images: Tensor, targets: Tensor, eta: Tensor) -> Tensor:
        """Sum of log p(y | f) over examples."""
        weights, size = self.weights, max(1, FORWARD // len(eta))
        with eval_mode(self.module):
            parts = [self.outputs(weights, part, eta) for part in images.split(size)]
        return log_likelihood(self.likelihood, torch.cat(parts), targets, self.noise).sum()

    @torch.no_grad()
    def rows(self, images: Tensor, eta: Tensor, mixed: Tensor | None = None) -> Iterator[Tensor]:
        """Parts of the rows L_n^T J_n Delta^{-1/2}, K for each example or k mixtures of them."""
        scale, weights = self.precisions().rsqrt(), self.weights
        pixels, elements = CHUNK.get(images.device.type, CHUNK["cpu"])
        with eval_mode(self.module):
            each = mixed if mixed is not None else averaged(self.module, weights, images[:1, None])
            size = pixels // (len(eta) * images[0].numel())
            size = max(1, min(size, elements // (each.shape[1] * len(scale))))
            for first in range(0, len(images), size):
                here = slice(first, first + size)
                views, mixtures = (
                    self.views(images[here], eta),
                    None if mixed is None else mixed[here],
                )
                shares = self.shares and self.shares(len(eta))
                found = jacobian_rows(self.module, weights, views, self._whiten, mixtures, shares)
                yield found * scale

    @torch.no_grad()
    def posterior(
        self,
        images: Tensor,
        eta: Tensor,
        count: int | None = None,
        mixed: Tensor | None = None,
    ) -> Posterior:
        """Return the posterior given images, of which each stands for count / N of all examples.

        Args:
            images: (N, C, H, W).
            eta: (S, dim).
            count: number of all examples; None is N.
            mixed: see :func:`~symmetries.learners.invariant_network.jacobians.jacobian_rows`.
        """
        share = (count or len(images)) / len(images)
        parts = [share**0.5 * part for part in self.rows(images, eta, mixed)]
        return posterior(parts, self.precisions().rsqrt())

    @torch.no_grad()
    def sampled_posterior(
        self,
        images: Tensor,
        eta: Tensor,
        outputs: int,
        rows: int,
        generator: torch.Generator,
        count: int | None = None,
    ) -> Posterior:
        """Return the posterior from about ``rows`` gradients, drawn from all examples.

        As many examples as there are rows, with random mixtures of their outputs where all of them
        would be too many: at equal cost the bound is tighter than with fewer examples and all
        outputs (``benchmarks/network_curvature.py``).

        Args:
            images: all training images (N, C, H, W), on any device.
            eta: (S, dim).
            outputs: K.
            rows: at least so many as the number of weights that data determine.
            generator: on the device of eta.
            count: number of all examples, if the images are some of them.
        """
        part, mixed = self._drawn(images, eta, outputs, rows, generator)
        return self.posterior(part, eta, count or len(images), mixed)

    @staticmethod
    def _drawn(
        images: Tensor, eta: Tensor, outputs: int, rows: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """Return examples for about ``rows`` gradients, and mixtures of their outputs, if any."""
        chosen = torch.randperm(len(images), generator=generator, device=eta.device)[:rows]
        each, mixed = max(1, rows // len(chosen)), None
        if each < outputs:
            mixed = random_signs(eta, generator, len(chosen), each, outputs) / each**0.5
        return images[chosen.to(images.device)].to(eta), mixed

    @torch.no_grad()
    def estimate(
        self,
        images: Tensor,
        targets: Tensor,
        eta: Tensor,
        outputs: int,
        rows: int,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """Return the log evidence itself where its matrix fits, else an extrapolation of bounds.

        A posterior of fewer rows gives a looser bound, and looser at narrow widths, where data
        determine more weights. By how much follows from the bound of half of the rows: the evidence
        lies above the bound by about half of their difference, which was found with small networks
        (``benchmarks/network_curvature.py``), to within 2 to 4 nats of about 90. It is no bound
        any more. The second number is how far it was extrapolated, in nats.

        Args:
            images: all training images (N, C, H, W).
            targets: (N,) or (N, K).
            eta: (S, dim).
            outputs: K.
            rows: several times the number of weights that data determine.
            generator: on the device of eta.
        """
        whole, weights = len(images) * outputs, len(self.precisions())
        side, elements = EXACT.get(eta.device.type, EXACT["cpu"])
        if min(whole, weights) <= side and whole * weights <= elements:
            exact = self.total(images, targets, eta)
            return exact, torch.zeros_like(exact)
        traced, weight = images, 1.0
        if len(images) > TRACED:
            some = torch.randperm(len(images), generator=generator, device=eta.device)[:TRACED]
            traced, weight = images[some.to(images.device)], len(images) / TRACED
        rows = min(rows, whole)
        part, mixed = self._drawn(images, eta, outputs, rows, generator)
        share = (len(images) / len(part)) ** 0.5
        found, scale = (
            share * torch.cat(list(self.rows(part, eta, mixed))),
            self.precisions().rsqrt(),
        )
        half = len(part) // 2 * (len(found) // len(part))
        both = [posterior([found], scale)]
        both.append(posterior([(len(found) / half) ** 0.5 * found[:half]], scale))
        signs = None
        if len(traced) * outputs > SIGNED * rows:
            signs = random_signs(eta, generator, len(traced), 1, outputs)
        traces = torch.zeros(2, dtype=torch.float64, device=eta.device)
        for each in self.rows(traced, eta, signs):
            traces += weight * torch.stack([known.trace(each) for known in both])
        dets = torch.stack([known.log_det - known.retained().sum() for known in both]) + traces
        missing = 1 - len(found) / whole  # of all rows; with all of them the bound is the evidence
        further = 0.5 * GAP * missing * (dets[1] - dets[0])
        bound = self.fit(images, targets, eta) - self.penalty() - 0.5 * dets[0]
        return bound + further, further

    @torch.no_grad()
    def total(
        self,
        images: Tensor,
        targets: Tensor,
        eta: Tensor,
        known: Posterior | None = None,
        count: int | None = None,
    ) -> Tensor:
        """Return the log evidence, or the lower bound of a posterior from some of the examples.

        Args:
            images: (N, C, H, W).
            targets: (N,) or (N, K).
            eta: (S, dim).
            known: the posterior whose bound is computed; None computes the evidence itself.
            count: number of all examples, for which these stand; None is N.
        """
        scale = (count or len(images)) / len(images)
        fixed = scale * self.fit(images, targets, eta) - self.penalty()
        if known is None:
            return fixed - 0.5 * log_det(scale**0.5 * part for part in self.rows(images, eta))
        trace = sum(known.trace(part) for part in self.rows(images, eta))
        return fixed - 0.5 * (known.log_det - known.retained().sum() + scale * trace)

    def width_objective(
        self, images: Tensor, targets: Tensor, eta: Tensor, known: Posterior, signs: Tensor
    ) -> Tensor:
        r"""Return the part of the bound that depends on the widths, for some examples.

        .. math:: \sum_n \log p(y_n | f_n)
                  - \tfrac12 \operatorname{mean}_u\ q_u^T (I + R^T R)^{-1} q_u, \qquad
                  q_u = \Delta^{-1/2} \sum_n J_n^T L_n u_n

        With independent u_n of mean 0 and covariance I the second term is the trace of the bound in
        expectation, since products of different examples cancel; it costs one backward pass for
        each u. Where eta is a function of the widths, so is this, also through L_n and J_n.

        Args:
            images: (B, C, H, W).
            targets: (B,) or (B, K).
            eta: (S, dim).
            known: the posterior, held.
            signs: u (draws, B, K), such as random signs.
        """
        weights = {name: value.requires_grad_() for name, value in self.weights.items()}
        spread = torch.zeros((), device=images.device)
        with eval_mode(self.module), plain_attention():
            outputs = self.outputs(weights, images, eta)
            for u in signs:
                cotangents = unwhitened(self.likelihood, outputs, u, self.noise)
                q = pulled_back(outputs, weights, cotangents) * known.scale
                spread = spread + known.trace(q[None])
        fit = log_likelihood(self.likelihood, outputs, targets, self.noise).sum()
        return fit - 0.5 * spread / len(signs)

    def _whiten(self, outputs: Tensor, change: Tensor) -> Tensor:
        return whitened(self.likelihood, outputs, change, self.noise)


def random_signs(like: Tensor, generator: torch.Generator | None, *shape: int) -> Tensor:
    """Return 1 or -1 with equal probability, of the dtype and on the device of ``like``."""
    return 2 * torch.randint(2, shape, generator=generator, device=like.device).to(like) - 1


def layer_of(name: str) -> str:
    """Return the name of the layer that owns a parameter; "" is the module itself.

    Example:
        >>> layer_of("0.conv.weight"), layer_of("scale")
        ('0.conv', '')
    """
    return name.rpartition(".")[0]
