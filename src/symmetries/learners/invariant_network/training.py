"""Training of an invariant network: weights by the posterior mode, widths by the evidence."""

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from symmetries.groups.names import group_name
from symmetries.learners.invariant_network.convolutions import convolutions_as_products
from symmetries.learners.invariant_network.evidence import random_signs
from symmetries.learners.invariant_network.likelihoods import log_likelihood
from symmetries.training import Batch, History, Step, TrainConfig, TrainJob
from symmetries.training.ensemble import TrainJobs
from symmetries.training.optim import lr_factor
from symmetries.training.recipe import plain_settings
from symmetries.training.step import mix
from symmetries.training.update import Metrics

if TYPE_CHECKING:
    from symmetries.learners.invariant_network.model import InvariantNetwork

LEAST, MOST = 1e-6, 1e8  # of precisions: a layer without effect would leave them unbounded
BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam for the widths


def train_jobs(
    learner: "InvariantNetwork",
    images: Tensor,
    targets: Tensor,
    run: dict[str, Any],
    *,
    learn: bool = False,
    order: int = 0,
) -> TrainJobs[History]:
    """Yield the training of weights and precisions, and of the widths if ``learn``.

    Args:
        learner: trained in place.
        images: (N, C, H, W).
        targets: (N,) or (N, K).
        run: fields of :class:`symmetries.training.TrainConfig`.
        learn: whether the widths follow their gradient.
        order: another number gives another order of the batches.
    """
    config = learner.config
    settings = plain_settings(config, group=group_name(learner.group))
    options = {**run, "given_seed": learner.seed, "settings": settings}
    training = config.training.train_config(seed=mix(learner.seed, order), **options)
    training = training.replace(batch_size=min(training.batch_size, len(images)))
    learner.network.box.free.requires_grad_(False)  # it is moved between steps
    groups = [{"params": [p for p in learner.module.parameters() if p.requires_grad]}]
    updates = HyperUpdates(learner, images, targets, training, learn=learn)
    loss, data = WeightsLoss(len(images)), (images, targets)
    try:
        return (yield TrainJob(learner, loss, data, training, param_groups=groups, on_step=updates))
    finally:
        learner.network.box.free.requires_grad_(config.learn)


def from_first(value: Tensor, processes: int) -> Tensor:
    """Return the first process's value: rounding must not make several processes differ."""
    if processes > 1:
        torch.distributed.broadcast(value, 0)
    return value


class WeightsLoss:
    r"""Minus the log posterior of the weights, for one batch, with widths and precisions held.

    .. math:: -\frac1B \sum_{n \in B} \log p(y_n | f_n) + \frac{1}{2N} \theta^T \Delta\,\theta

    It reads no value in Python, so that the step can be captured as a CUDA graph.

    Args:
        count: N, the number of training images.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, model: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return the loss and what is logged."""
        learner: InvariantNetwork = model  # type: ignore[assignment]
        images, targets = batch
        config, box = learner.config, learner.network.box
        noise = box.noise(config.samples, config.sampling, step.generator)
        with convolutions_as_products(images.device):
            outputs = learner.averaged(images, learner.spread(noise, box.half_width))
        fit = log_likelihood(config.likelihood, outputs, targets, learner.noise).mean()
        penalty = learner.penalty() / self.count
        widths = zip(learner.group.names, box.half_width, strict=True)
        return {
            "loss": penalty - fit,
            "log_likelihood": fit,
            "penalty": penalty,
            "log_evidence": learner.log_evidence.clone(),
            **{f"half_width.{name}": width for name, width in widths},
        }


class HyperUpdates:
    r"""Updates of precisions, noise and widths between the steps of the weights.

    Every ``every`` steps after the burn-in the posterior is computed from some examples, precisions
    and noise move to their fixed points, and the widths follow the slope of the bound
    (:meth:`LaplaceEvidence.width_objective`) with weights held, which at the mode is the slope of
    the log posterior with the weights fitted anew, plus that of the log-determinant. What is left
    out is how the log-determinant changes because the weights follow the widths. Of several
    processes each does the same; DDP shares the buffers of the first.

    Args:
        learner: updated in place; what must survive an interruption is in its buffers.
        images: all training images (N, C, H, W).
        targets: (N,) or (N, K).
        training: of the weights, whose schedule the widths share.
        learn: whether the widths move.
    """

    def __init__(
        self,
        learner: "InvariantNetwork",
        images: Tensor,
        targets: Tensor,
        training: TrainConfig,
        *,
        learn: bool,
    ) -> None:
        self.learner, self.training, self.learn = learner, training, learn
        self.images, self.targets = images, targets
        self.first = int(learner.config.evidence.burn_in * training.steps)

    def __call__(self, step: Step, metrics: Metrics) -> None:
        """Update after a step, if it is its turn."""
        after, every = step.index - self.first, self.learner.config.evidence.every
        if after < 0 or after % every:
            return
        learner, device = self.learner, self.learner.device
        self.images, self.targets = self.images.to(device), self.targets.to(device)
        generator = torch.Generator(device).manual_seed(mix(step.seed, step.index, 1))
        slope = self._update(learner, generator)
        if self.learn:
            rate = learner.config.evidence.width_lr * lr_factor(step.index, self.training)
            self._move_widths(learner, slope, after // every + 1, rate)

    def _update(self, learner: "InvariantNetwork", generator: torch.Generator) -> Tensor:
        """Update precisions and noise; return the slope of the bound per example by the widths."""
        config, box, count = learner.config, learner.network.box, len(self.images)
        chosen = torch.randperm(count, generator=generator, device=self.images.device)
        chosen = chosen[: self.training.batch_size]
        images, targets = self.images[chosen], self.targets[chosen]
        width = box.half_width.detach().requires_grad_(self.learn)
        eta = learner.spread(box.noise(config.samples, config.sampling, generator), width)
        evidence = learner.evidence()
        known = evidence.sampled_posterior(
            self.images, eta.detach(), learner.outputs, config.evidence.curvature_rows, generator
        )
        draws = config.evidence.draws if self.learn else 1
        signs = random_signs(images, generator, draws, len(images), learner.outputs)
        scale = count / len(images)
        objective = scale * evidence.width_objective(images, targets, eta, known, signs)
        retained = known.retained()
        constant = evidence.penalty() + 0.5 * (known.log_det - retained.sum())
        learner.log_evidence.copy_((objective.detach() - constant) / count)
        learner.effective_parameters.copy_(retained.sum())
        self._set_precisions(learner, retained)
        if config.likelihood == "gaussian":
            fit = scale * evidence.fit(images, targets, eta.detach())
            self._set_noise(learner, fit.detach(), retained.sum())
        if not self.learn:
            return torch.zeros_like(width)
        (slope,) = torch.autograd.grad(objective / count, width)
        return slope

    @torch.no_grad()
    def _set_precisions(self, learner: "InvariantNetwork", retained: Tensor) -> None:
        r"""Move precisions half of the way to gamma_l / |theta_l|^2, on a log scale."""
        weights = learner.evidence().weights
        norms = torch.zeros_like(learner.log_precision)
        gammas = torch.zeros_like(learner.log_precision)
        parts = retained.split([value.numel() for value in weights.values()])
        for (name, value), part in zip(weights.items(), parts, strict=True):
            layer = learner.layer_index(name)
            norms[layer] += value.square().sum()
            gammas[layer] += part.sum()
        new = (gammas / norms.clamp_min(1e-30)).clamp(LEAST, MOST).log()
        learner.log_precision.lerp_(new, 0.5)

    @torch.no_grad()
    def _set_noise(self, learner: "InvariantNetwork", fit: Tensor, gamma: Tensor) -> None:
        """Move the noise half of the way to the mean square error over N K - gamma."""
        values = learner.outputs * len(self.images)
        noise2 = learner.noise.square()
        error = noise2 * (-2 * fit - values * (2 * math.pi * noise2).log())
        free = (values - gamma).clamp_min(1.0)
        learner.log_noise.lerp_(0.5 * (error / free).log().to(learner.log_noise), 0.5)

    @torch.no_grad()
    def _move_widths(
        self, learner: "InvariantNetwork", slope: Tensor, number: int, rate: float
    ) -> None:
        """Move the widths up the slope, by Adam."""
        box, (first, second) = learner.network.box, learner.width_moments
        free = box.free.detach().requires_grad_()
        with torch.enable_grad():  # the sign of reflected widths
            (slope,) = torch.autograd.grad(box.constrained(free), free, slope)
        first.lerp_(slope, 1 - BETAS[0])
        second.lerp_(slope.square(), 1 - BETAS[1])
        mean, square = first / (1 - BETAS[0] ** number), second / (1 - BETAS[1] ** number)
        box.free.add_(rate * mean / (square.sqrt() + EPSILON))
        machine = self.training.hardware
        from_first(box.free, machine.devices * machine.nodes)
