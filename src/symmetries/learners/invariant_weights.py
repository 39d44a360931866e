r"""How much invariance a task has, learned from the training set alone.

A model averages features over transformations from a box with half-widths eta and has a Gaussian
posterior q over its last layer. The widths maximise a lower bound on the log marginal likelihood,
per example

.. math:: \frac1N \log p(D | \eta) \ge E_{q, T}\left[\log p(y | \bar f(x))\right]
          - \frac1N KL(q || p), \qquad \bar f(x) = \frac1S \sum_s W_2\,\phi(W_1 T_s x)

(van der Ouderaa and van der Wilk 2022, equation 9; logits are averaged over transformations, as in
their Appendix A). Several models that differ in numbers only are trained as one: every tensor has
a leading axis of R runs, losses are summed over it, and all runs share their random numbers, so
that a run gives the same numbers alone as among others.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from symmetries.checks import invalid
from symmetries.distributions.box import Sampling
from symmetries.nn.invariant_model import InvariantModel
from symmetries.nn.natural import NaturalLinear
from symmetries.nn.variational import sample_outputs

if TYPE_CHECKING:
    from symmetries.training.step import Step
    from symmetries.training.update import Loss


def log_likelihood(
    model: InvariantModel,
    mean: Tensor,
    variance: Tensor,
    targets: Tensor,
    draws: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Expected log-likelihood (R, B) of the targets, for outputs N(mean, variance).

    Args:
        model: whose task and noise count.
        mean: (R, B, outputs).
        variance: (R, B, outputs).
        targets: class numbers (B,), or values (B, outputs).
        draws: samples of the outputs; regression needs none, its expectation is closed.
        generator: source of randomness.
    """
    if model.task == "regression":
        precision = (-2 * model.log_noise).exp()[:, None]
        square = ((targets - mean).square() + variance) * precision
        terms = -0.5 * (math.log(2 * math.pi) + square) - model.log_noise[:, None]
        return terms.sum(-1)
    log_p = sample_outputs(mean, variance, draws, generator).log_softmax(-1)
    index = targets[None, None, :, None].expand(*log_p.shape[:-1], 1)
    return log_p.gather(-1, index)[..., 0].mean(0)


def images_of(batch: Sequence[Tensor], sets: Sequence[int] | None = None) -> Tensor:
    """The images of each run: those of the only set, or of the set that belongs to each run.

    Args:
        batch: one or several tensors (B, C, H, W).
        sets: for each run the number of its tensor; None where there is one for all.
    """
    if len(batch) == 1 and sets is None:
        return batch[0]
    if sets is None or max(sets) >= len(batch):
        raise invalid("sets", "the number of a set for each run", sets, "name them all")
    return torch.stack([batch[number] for number in sets])


def elbo_loss(
    examples: int,
    *,
    samples: int = 32,
    sampling: Sampling = "random",
    draws: int = 1,
    sets: Sequence[int] | None = None,
) -> "Loss":
    """The negative ELBO per example, summed over runs, for :func:`symmetries.training.train`.

    A batch is one tensor of images (or several, see :func:`images_of`) and the targets.

    Args:
        examples: N, of the training set.
        samples: S transformations, shared by the batch.
        sampling: "random", "sobol" or "grid".
        draws: L samples of the weights.
        sets: which tensor of images belongs to each run.
    """

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: "Step") -> dict[str, Tensor]:
        model = cast(InvariantModel, model)
        images = images_of(batch[:-1], sets)
        phi = model.features(images, samples, sampling, step.generator)
        mean, variance = model.head(phi)
        fit = log_likelihood(model, mean, variance, batch[-1], draws, step.generator).mean(1)
        kl = model.head.kl() / examples
        numbers = {"loss": (kl - fit).sum(), "log_likelihood": fit.mean(), "kl": kl.mean()}
        width = model.half_width
        return numbers | {name: width[0, i] for i, name in enumerate(model.group.names)}

    return loss


def augerino_loss(
    strength: float = 0.01, *, samples: int = 1, sampling: Sampling = "random"
) -> "Loss":
    """Cross-entropy minus strength times the norm of the widths (Benton et al. 2020).

    The baseline that learns widths of a point estimate by rewarding them outright. Augerino's
    density is U(-w/2, w/2): its w is twice our half-width.
    """

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: "Step") -> dict[str, Tensor]:
        model = cast(InvariantModel, model)
        phi = model.features(images_of(batch[:-1]), samples, sampling, step.generator)
        mean, variance = model.head(phi)
        fit = log_likelihood(model, mean, variance, batch[-1]).mean(1)
        reward = strength * torch.linalg.vector_norm(2 * model.half_width, dim=1)
        return {"loss": -(fit + reward).sum(), "log_likelihood": fit.mean()}

    return loss


@dataclass(frozen=True)
class NaturalConfig:
    """How :func:`fit_natural` trains.

    Args:
        steps: number of steps.
        batch_size: examples per step; large batches suit natural gradients.
        samples: S transformations.
        sampling: "random", "sobol" or "grid".
        draws: samples of the outputs.
        rate: largest rate of the natural-gradient steps.
        memory: how many times the training set the last layer remembers: the rate falls as
            1 / (step + 1) to batch_size / (memory N).
        lr: of Adam on the widths, in the group's own units; falls to 0 as a cosine.
        body_lr: of Adam on filters, networks and noise, where they are learned; falls too.
        head_every: steps between two updates of the last layer, which cost a factorisation.
        warmup: first steps, in which only the last layer is learned (at every step).
        body_warmup: first steps, in which filters and networks rest while widths are learned: a
            network that is trained from the start fits what it sees, and its widths stay small.
        seed: of all random numbers and of the order of examples.
    """

    steps: int = 300
    batch_size: int = 2000
    samples: int = 32
    sampling: Sampling = "sobol"
    draws: int = 8
    rate: float = 0.3
    memory: float = 1.0
    lr: float = 0.03
    body_lr: float = 1e-3
    head_every: int = 1
    warmup: int = 10
    body_warmup: int = 0
    seed: int = 0


def fit_natural(
    model: InvariantModel,
    images: Sequence[Tensor],
    targets: Tensor,
    config: NaturalConfig,
    *,
    sets: Sequence[int] | None = None,
    on_step: Callable[[int, Tensor], None] | None = None,
) -> list[list[float]]:
    """Maximise the ELBO: natural-gradient steps on the last layer, Adam on everything else.

    Args:
        model: with a ``NaturalLinear`` head; trained in place, where its parameters are.
        images: one or several tensors (N, C, H, W) on that device, see :func:`images_of`.
        targets: (N,) or (N, outputs), on that device.
        config: everything else.
        sets: which tensor of images belongs to each run.
        on_step: called with the step's number and the expected log-likelihoods (R,).

    Returns:
        The half-widths along the way, at most about a hundred looks: [step, run 0, run 1, ...]
        with all parameters of a run in turn.
    """
    head = model.head
    if not isinstance(head, NaturalLinear):
        remedy = "train other posteriors with elbo_loss and symmetries.training.train"
        raise invalid("model.head", "a NaturalLinear", type(head).__name__, remedy)
    device, count = model.half_width.device, len(targets)
    batch_size = min(config.batch_size, count)
    generator = torch.Generator(device).manual_seed(config.seed)
    order = torch.Generator().manual_seed(config.seed)
    adam = _adam(model, config)
    looks: list[Tensor] = []
    places = torch.empty(0, dtype=torch.long, device=device)
    for step in range(config.steps):
        if len(places) < batch_size:
            places = torch.cat((places, torch.randperm(count, generator=order).to(device)))
        index, places = places[:batch_size], places[batch_size:]
        y = targets[index]
        pictures = images_of([tensor[index] for tensor in images], sets)
        moving = adam is not None and step >= config.warmup
        with torch.set_grad_enabled(moving):
            phi = model.features(pictures, config.samples, config.sampling, generator)
            mean, variance = head(phi)
            fit = log_likelihood(model, mean, variance, y, config.draws, generator).mean(1)
        share = 0.5 * (1 + math.cos(math.pi * step / config.steps))
        if adam is not None and moving:
            adam.zero_grad()
            (-fit.sum()).backward()
            for group in adam.param_groups:
                group["lr"] = group["peak"] * share * (step >= group["rest"])
            adam.step()
        if step % config.head_every == 0 or step < config.warmup:
            if step == 0:  # from the weights 0, not from the prior: there a step would go too far
                mean, variance = torch.zeros_like(mean), torch.zeros_like(variance)
            # While few examples were seen, they count as that many and not as all N.
            seen = min(count, batch_size * (step + 1))
            rate = max(1 / (step + 1), batch_size / (config.memory * count))
            rate = min(config.rate, rate)
            _update_head(model, phi, (mean, variance), y, seen, config.draws, rate, generator)
        if step % max(1, config.steps // 100) == 0 or step == config.steps - 1:
            looks.append(
                torch.cat(
                    (torch.tensor([step + 1.0], device=device), model.half_width.detach().flatten())
                )
            )
        if on_step is not None:
            on_step(step, fit.detach())
    return torch.stack(looks).tolist() if looks else []


def _adam(model: InvariantModel, config: NaturalConfig) -> torch.optim.Adam | None:
    """Adam on what is learned besides the last layer: widths, and all the rest."""
    widths = {id(p) for p in model.boxes.parameters()}
    learned = [p for p in model.parameters() if p.requires_grad]
    own = [p for p in learned if id(p) in widths]
    rest = [p for p in learned if id(p) not in widths]
    parts = ((own, config.lr, 0), (rest, config.body_lr, config.body_warmup))
    groups = [{"params": p, "lr": lr, "peak": lr, "rest": wait} for p, lr, wait in parts if p]
    return torch.optim.Adam(groups) if groups else None


@torch.no_grad()
def _update_head(
    model: InvariantModel,
    phi: Tensor,
    outputs: tuple[Tensor, Tensor],
    targets: Tensor,
    examples: int,
    draws: int,
    rate: float,
    generator: torch.Generator,
) -> None:
    """One natural-gradient step on the last layer, with the expected slope and curvature."""
    mean, variance = outputs
    if model.task == "regression":
        curvature = (-2 * model.log_noise).exp()[:, None].expand_as(mean)
        slope = (targets - mean) * curvature
    else:
        p = sample_outputs(mean, variance, draws, generator).softmax(-1)
        observed = torch.zeros_like(mean[0]).scatter_(1, targets[:, None], 1.0)
        slope, curvature = observed - p.mean(0), (p * (1 - p)).mean(0)
    scale = examples / len(targets)
    head = cast(NaturalLinear, model.head)
    head.update(phi, (curvature * mean + slope) * scale, curvature * scale, rate)


@dataclass(frozen=True)
class Evaluation:
    """A model on a labelled set: one number for each run.

    Args:
        log_likelihood: expected, per example.
        score: accuracy; for regression the mean square error.
        mean: of the outputs, (R, N, outputs).
        variance: of the outputs, (R, N, outputs).
    """

    log_likelihood: Tensor
    score: Tensor
    mean: Tensor
    variance: Tensor


@torch.no_grad()
def evaluate(
    model: InvariantModel,
    images: Sequence[Tensor],
    targets: Tensor,
    *,
    samples: int = 32,
    sampling: Sampling = "sobol",
    draws: int = 16,
    sets: Sequence[int] | None = None,
    chunk: int = 1000,
    seed: int = 0,
    half_width: Tensor | None = None,
) -> Evaluation:
    """Expected log-likelihood and accuracy.

    Transformations are shared by all examples; "random" ones by those of a chunk.

    Args:
        model: to evaluate.
        images: one or several tensors (N, C, H, W), see :func:`images_of`.
        targets: (N,) or (N, outputs).
        samples: S.
        sampling: "random", "sobol" or "grid".
        draws: samples of the outputs.
        sets: which tensor of images belongs to each run.
        chunk: examples at a time.
        seed: of all random numbers.
        half_width: (R, dim) in place of the model's own.
    """
    device = model.half_width.device
    means, variances, fits = [], [], []
    generator = torch.Generator(device)
    for first in range(0, len(targets), chunk):
        part = slice(first, first + chunk)
        pictures = images_of([tensor[part].to(device) for tensor in images], sets)
        # Random transformations are part of the bound: new ones for every chunk.
        generator.manual_seed(seed + first if sampling == "random" else seed)
        phi = model.features(pictures, samples, sampling, generator, half_width)
        mean, variance = model.head(phi)
        target = targets[part].to(device)
        fits.append(log_likelihood(model, mean, variance, target, draws, generator))
        means.append(mean)
        variances.append(variance)
    mean, y = torch.cat(means, 1), targets.to(device)
    if model.task == "classification":
        score = (mean.argmax(-1) == y).float().mean(1)
    else:
        score = (mean - y).square().mean((1, 2))
    return Evaluation(torch.cat(fits, 1).mean(1), score, mean, torch.cat(variances, 1))
