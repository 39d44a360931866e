"""The loss and the training of classifiers with relaxed layers."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import (
    check_classes,
    check_finite,
    check_flag,
    check_held,
    check_images,
    check_module,
    check_number,
    check_some,
    check_whole,
    wrong_type,
)
from symmetries._validation.diagnose import diagnose_labels
from symmetries._validation.placement import call_model, check_together
from symmetries.nn.gconv import turn_grid
from symmetries.nn.relaxation import learned_relaxations, relaxation_penalty, relaxed_layers
from symmetries.training import Batch, History, Step, TrainConfig
from symmetries.training.ensemble import Numbers, TrainJob, TrainJobs, fit_alone

Loss = Callable[[nn.Module, Batch, Step], dict[str, Tensor]]


def relaxed_loss(
    penalty: float | Numbers = 0.0,
    augment: Callable[[Tensor, Step], Tensor] | None = None,
    random_turn: bool = False,
) -> Loss:
    """Cross-entropy + penalty ||omega'||^2, as a loss for :func:`symmetries.training.train`.

    Beside the loss it reports its parts, the accuracy, and what each layer has learned so far (see
    :func:`~symmetries.nn.relaxation.learned_relaxations`), so that a history has them too.

    Args:
        penalty: lambda; or :class:`~symmetries.training.ensemble.Numbers` that hold it.
        augment: ``augment(images, step)``, applied to each batch.
        random_turn: whether each step samples the rotations from an angle of its own on.
    """
    if not isinstance(penalty, Numbers):
        check_number(penalty, "penalty")
    if augment is not None and not callable(augment):
        remedy = "give a function from images to new ones"
        raise wrong_type("augment", "a function of (images, step), or None", augment, remedy)

    def loss(model: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        images, labels = batch
        check_images(images)
        check_classes(labels, len(images))
        check_together(images=images, labels=labels)
        if augment is not None:
            images = augment(images, step)
        if random_turn:
            draw = torch.rand((), generator=step.generator, device=images.device)
            turn_grid(model, 2 * torch.pi * draw)
        logits = model(images)
        with diagnose_labels(labels, logits.shape[1]):
            cross_entropy = F.cross_entropy(logits.float(), labels)
        relaxation = relaxation_penalty(model)
        weight = penalty["penalty"] if isinstance(penalty, Numbers) else penalty
        return {
            "loss": cross_entropy + weight * relaxation,
            "cross_entropy": cross_entropy,
            "accuracy": (logits.argmax(1) == labels).float().mean(),
            "relaxation": relaxation,
            **learned_relaxations(model),
        }

    return loss


def train_jobs(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    config: TrainConfig,
    *,
    penalty: float = 0.0,
    relaxation_lr: float = 1.0,
    augment: Callable[[Tensor, Step], Tensor] | None = None,
    random_turn: bool = False,
) -> TrainJobs[History]:
    """Yield the training job of :func:`fit_relaxed`, for :func:`training.fit_together`."""
    check_module(model)
    check_images(images)
    check_some(images, "images")
    check_classes(labels, len(images))
    check_finite(images, "images")
    check_number(penalty, "penalty", least=0)
    check_number(relaxation_lr, "relaxation_lr", least=0)
    check_flag(random_turn, "random_turn")
    weight = Numbers(penalty=penalty)  # in which runs that train as one may differ
    learned = _relaxation_parameters(model)
    others = [p for p in model.parameters() if p.requires_grad and all(p is not q for q in learned)]
    groups: list[dict[str, Any]] = [{"params": others}]
    if learned:
        groups.append({"params": learned, "lr_multiplier": relaxation_lr, "weight_decay": 0.0})
    loss = relaxed_loss(weight, augment, random_turn)
    data = images, labels
    history = yield TrainJob(model, loss, data, config, param_groups=groups, reads=(weight,))
    turn_grid(model, None)
    return history


def fit_relaxed(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    config: TrainConfig,
    *,
    penalty: float = 0.0,
    relaxation_lr: float = 1.0,
    augment: Callable[[Tensor, Step], Tensor] | None = None,
    random_turn: bool = False,
) -> History:
    """Train a classifier with relaxed layers, and omega' with it where that is learned.

    Args:
        model: images (N, C, H, W) to logits (N, classes).
        images: (N, C, H, W).
        labels: (N,) int64.
        config: of the run.
        penalty: lambda.
        relaxation_lr: learning rate of omega' and of the partial fractions, as a multiple of the
            others'. From a large start take 1: Adam gives the penalty's gradient the size of any
            other, and a faster omega' falls before the weights that multiply it can follow.
        augment: see :func:`relaxed_loss`.
        random_turn: see :func:`relaxed_loss`.

    Returns:
        The logged numbers: "loss", "cross_entropy", "accuracy" of the batch, "relaxation" (the
        squared norm of omega'), and omega' or the fraction of each layer, as "LAYER COORDINATE".
    """
    return fit_alone(
        train_jobs(
            model,
            images,
            labels,
            config,
            penalty=penalty,
            relaxation_lr=relaxation_lr,
            augment=augment,
            random_turn=random_turn,
        )
    )


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor, batch_size: int = 500) -> float:
    """Return the accuracy on labelled images in eval mode; the mode of the model is restored."""
    check_module(model)
    check_images(images)
    check_some(images, "images")
    check_classes(labels, len(images))
    check_whole(batch_size, "batch_size")
    check_held(images, "images")
    check_held(labels, "labels")
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    right = torch.zeros((), device=device)
    for part, truth in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        right += (call_model(model, part.to(device), "images").argmax(1) == truth.to(device)).sum()
    model.train(training)
    return float(right) / len(images)


def _relaxation_parameters(model: nn.Module) -> list[nn.Parameter]:
    found = []
    for layer in relaxed_layers(model).values():
        for name in ("relaxed_frequency", "fraction"):
            value = getattr(layer, name, None)
            if isinstance(value, nn.Parameter):
                found.append(value)
    return found
