"""One step of the natural-gradient training: an update of the last layer, gradients for Adam."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from symmetries.learners.invariant_weights.config import NaturalConfig
from symmetries.learners.invariant_weights.objectives import (
    expected_sites,
    images_of,
    log_likelihood,
)
from symmetries.nn.invariant_model import InvariantModel
from symmetries.nn.natural_linear import FULL_PRIOR_STEP, PRIOR_STEP, NaturalLinear

if TYPE_CHECKING:
    from symmetries.training.step import Step


class NaturalLoss:
    """Loss of the training loop; a call also takes a natural-gradient step on the last layer.

    The last layer is part of the model's state, so checkpoints hold it; everything random comes
    from the step. The gradient is summed over chunks here and handed on as a linear function.
    """

    def __init__(self, config: NaturalConfig, count: int, sets: Sequence[int] | None) -> None:
        self.config = config
        self.count = count
        self.sets = sets
        self.fit = torch.empty(0)

    def __call__(
        self, module: nn.Module, batch: tuple[Tensor, ...], step: "Step"
    ) -> dict[str, Tensor]:
        """Update the last layer; return the bound, with gradients for everything else."""
        model, config, index = cast(InvariantModel, module), self.config, step.index
        head = cast(NaturalLinear, model.head)
        learned = self._moving(model, index)
        moves_head = index % config.head.head_every == 0 or index < config.head.head_only
        slopes = [torch.zeros_like(p) for p in learned]
        fit = torch.zeros_like(model.log_noise[:, 0])
        sums, size = None, len(batch[-1])
        for first in range(0, size, config.chunk):
            part = [tensor[first : first + config.chunk] for tensor in batch]
            with torch.set_grad_enabled(bool(learned)):
                pictures = images_of(part[:-1], self.sets)
                phi = model.features(pictures, config.samples, config.sampling, step.generator)
                mean, variance = outputs = head(phi)
                terms = log_likelihood(
                    model, mean, variance, part[-1], config.draws, step.generator
                )
                here = terms.sum(1) / size
            if learned:
                found = torch.autograd.grad(-here.sum(), learned)
                slopes = [a + b for a, b in zip(slopes, found, strict=True)]
            fit += here.detach()
            if moves_head:
                if index == 0 and config.head.fresh:
                    # From the weights 0, not from the prior: it would go too far.
                    outputs = (torch.zeros_like(outputs[0]), torch.zeros_like(outputs[1]))
                sites = expected_sites(model, outputs, part[-1], config.draws, step.generator)
                sums = head.sums(phi.detach(), *sites, into=sums)
        if sums is not None:
            size *= step.world
            for total in sums if step.world > 1 else ():
                torch.distributed.all_reduce(total)
            # While few examples were seen, they count as that many and not as all N.
            seen = min(self.count, size * (index + 1)) if config.head.fresh else self.count
            rate = max(1 / (index + 1), size / (config.head.memory * self.count))
            prior_step = FULL_PRIOR_STEP if size >= self.count else PRIOR_STEP
            head.step(sums, min(config.head.rate, rate), seen / size, prior_step)
        self.fit = fit
        return self._terms(model, learned, slopes)

    def _moving(self, model: InvariantModel, index: int) -> list[nn.Parameter]:
        """Return the parameters that Adam moves at this step."""
        if index < self.config.head.head_only:
            return []
        learned = [p for p in model.parameters() if p.requires_grad]
        idle = model.task == "classification"
        return [p for p in learned if not (idle and p is model.log_noise)]

    def _terms(
        self, model: InvariantModel, learned: list[nn.Parameter], slopes: list[Tensor]
    ) -> dict[str, Tensor]:
        kl = model.head.kl() / self.count
        handle = 0.0 * model.log_noise.sum()
        for parameter, slope in zip(learned, slopes, strict=True):
            handle = handle + (slope * parameter).sum()
        numbers = {
            "loss": (kl - self.fit).sum().detach() + (handle - handle.detach()),
            "log_likelihood": self.fit.mean(),
            "kl": kl.mean(),
        }
        width = model.half_width.detach()
        names = model.group.names
        for run, row in enumerate(width):
            numbers |= {
                f"half_width.{run}.{name}": value for name, value in zip(names, row, strict=True)
            }
        return numbers
