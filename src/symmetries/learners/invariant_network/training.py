"""The loss of an invariant network: weights by the posterior mode, widths by the evidence."""

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from symmetries.groups.names import group_name
from symmetries.learners.invariant_network.evidence import random_signs
from symmetries.learners.invariant_network.likelihoods import log_likelihood
from symmetries.training import Batch, History, Step, train
from symmetries.training.recipe import plain_settings
from symmetries.training.step import mix

if TYPE_CHECKING:
    from symmetries.learners.invariant_network.model import InvariantNetwork

LEAST, MOST = 1e-6, 1e8  # of precisions: a layer without effect would leave them unbounded


def train_learner(
    learner: "InvariantNetwork",
    images: Tensor,
    targets: Tensor,
    run: dict[str, Any],
    *,
    learn: bool = False,
) -> History:
    """Train weights and precisions, and the widths by their gradient if ``learn``."""
    config, box = learner.config, learner.network.box
    settings = plain_settings(config, group=group_name(learner.group))
    options = {**run, "given_seed": learner.seed, "settings": settings, "graph": "off"}
    training = config.training.train_config(seed=mix(learner.seed, 0), **options)
    training = training.replace(batch_size=min(training.batch_size, len(images)))
    groups: list[dict[str, Any]] = [
        {"params": [p for p in learner.module.parameters() if p.requires_grad]}
    ]
    if learn:
        groups.append({"params": [box.free], "lr": config.evidence.width_lr, "clip": False})
    return train(learner, EvidenceLoss(images), (images, targets), training, param_groups=groups)


class EvidenceLoss:
    r"""Minus the log posterior of the weights, and from time to time minus the evidence's bound.

    Every step moves the weights down

    .. math:: -\frac1B \sum_{n \in B} \log p(y_n | f_n) + \frac{1}{2N} \theta^T \Delta\,\theta

    with widths held. Every ``every`` steps after the burn-in the posterior is computed from some
    examples, precisions and noise move to their fixed points, and the widths follow the slope of
    the bound (:meth:`LaplaceEvidence.width_objective`) with weights held, which at the mode is the
    slope of the log posterior with the weights fitted anew, plus that of the log-determinant. What
    is left out is how the log-determinant changes because the weights follow the widths.

    Args:
        images: all training images (N, C, H, W).
    """

    def __init__(self, images: Tensor) -> None:
        self.images = images

    def __call__(self, model: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return the loss and what is logged."""
        learner: InvariantNetwork = model  # type: ignore[assignment]
        images, targets = batch
        config, box, count = learner.config, learner.network.box, len(self.images)
        noise = box.noise(config.samples, config.sampling, step.generator)
        eta = noise * box.half_width.detach()
        outputs = learner.network.average(images, learner.group.exp(eta))
        fit = log_likelihood(config.likelihood, outputs, targets, learner.noise).mean()
        penalty = learner.penalty() / count
        loss = penalty - fit
        after = step.index - int(config.evidence.burn_in * config.training.steps)
        if after >= 0 and after % config.evidence.every == 0:
            # Its slope only, so that all logged losses are of the weights.
            bound = self._evidence(learner, images, targets, step) / count
            loss = loss + bound - bound.detach()
        widths = zip(learner.group.names, box.half_width.detach(), strict=True)
        return {
            "loss": loss,
            "log_likelihood": fit,
            "penalty": penalty,
            "log_evidence": learner.log_evidence.clone(),
            **{f"half_width.{name}": width for name, width in widths},
        }

    def _evidence(
        self, learner: "InvariantNetwork", images: Tensor, targets: Tensor, step: Step
    ) -> Tensor:
        """Update precisions and noise; return minus the bound, as a function of the widths."""
        config, box, count = learner.config, learner.network.box, len(self.images)
        generator = step.generator
        eta = box.noise(config.samples, config.sampling, generator) * box.half_width
        evidence = learner.evidence()
        known = evidence.sampled_posterior(
            self.images, eta.detach(), learner.outputs, config.evidence.curvature_rows, generator
        )
        draws = config.evidence.draws
        signs = random_signs(images, generator, draws, len(images), learner.outputs)
        scale = count / len(images)
        objective = scale * evidence.width_objective(images, targets, eta, known, signs)
        retained = known.retained()
        constant = evidence.penalty() + 0.5 * (known.log_det - retained.sum())
        learner.log_evidence.copy_((objective.detach() - constant) / count)
        learner.effective_parameters.copy_(retained.sum())
        self._set_precisions(learner, retained, evidence.fit(images, targets, eta.detach()), scale)
        return -objective

    @torch.no_grad()
    def _set_precisions(
        self, learner: "InvariantNetwork", retained: Tensor, fit: Tensor, scale: float
    ) -> None:
        r"""Move precisions half of the way to gamma_l / |theta_l|^2, on a log scale (MacKay 1992).

        The noise likewise, to the mean square error over N K - gamma.
        """
        sizes = [value.numel() for value in learner.evidence().weights.values()]
        norms, gammas = (
            torch.zeros_like(learner.log_precision),
            torch.zeros_like(learner.log_precision),
        )
        pairs = zip(learner.evidence().weights.items(), retained.split(sizes), strict=True)
        for (name, value), part in pairs:
            layer = learner.layer_index(name)
            norms[layer] += value.square().sum()
            gammas[layer] += part.sum()
        new = (gammas / norms.clamp_min(1e-30)).clamp(LEAST, MOST).log()
        learner.log_precision.lerp_(new, 0.5)
        if learner.config.likelihood == "gaussian":
            outputs, count = learner.outputs, len(self.images)
            noise2 = learner.noise.square()
            error = noise2 * (-2 * scale * fit - outputs * count * (2 * math.pi * noise2).log())
            free = (outputs * count - retained.sum()).clamp_min(1.0)
            learner.log_noise.lerp_(0.5 * (error / free).log().to(learner.log_noise), 0.5)
