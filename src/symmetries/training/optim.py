"""Construction of the optimiser: parameter groups, clipping, and the schedule of its rate."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from symmetries._validation.checks import invalid
from symmetries.ops.triangular_adam import adam_class
from symmetries.training.config import TrainConfig

ParamGroups = Sequence[Mapping[str, Any]]
_KEYS = frozenset({"params", "lr", "lr_multiplier", "weight_decay", "clip"})


def build_optimizer(
    model: nn.Module, config: TrainConfig, param_groups: ParamGroups | None, lr_tensor: bool
) -> Optimizer:
    """Build the optimiser that ``config`` names, for a model that is on its device.

    Args:
        model: model whose parameters are trained.
        config: configuration of the run.
        param_groups: None trains all parameters that require a gradient. Otherwise each group is
            a mapping with "params" (parameters of the model), and any of "lr" (its own peak rate)
            or "lr_multiplier" (of ``config.lr``), "weight_decay", and "clip" (False excludes the
            group from the norm and its clipping). Parameters in no group are not trained.
        lr_tensor: whether the step will be captured as a CUDA graph: then the learning rate is a
            tensor on the device, and Adam counts its steps there.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> groups = [{"params": [layer.weight]}, {"params": [layer.bias], "lr_multiplier": 10.0}]
        >>> config = TrainConfig(steps=1, batch_size=1, lr=0.1)
        >>> optimizer = build_optimizer(layer, config, groups, lr_tensor=False)
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 1.0]
    """
    if param_groups is None:
        param_groups = [{"params": [p for p in model.parameters() if p.requires_grad]}]
    own = {id(parameter) for parameter in model.parameters()}
    groups = [_group(group, own, config, lr_tensor) for group in param_groups]
    parameters = [parameter for group in groups for parameter in group["params"]]
    if not parameters:
        remedy = "set requires_grad, or add parameters"
        raise invalid("model", "parameters to train", "none", remedy)
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
    if config.optimiser.algorithm == "sgd":
        return SGD(groups, lr=config.lr, momentum=config.optimiser.momentum, fused=fused)
    kind = adam_class(
        parameters,
        decoupled=config.optimiser.algorithm != "adam",
        capturable=lr_tensor,
        clips=config.optimiser.clip is not None,
    )
    return kind(
        groups, lr=config.lr, betas=config.optimiser.betas, fused=fused, capturable=lr_tensor
    )


def _group(
    group: Mapping[str, Any], own: set[int], config: TrainConfig, lr_tensor: bool
) -> dict[str, Any]:
    unknown = sorted(set(group) - _KEYS)
    if unknown or "params" not in group:
        expected = f"'params' and any of {sorted(_KEYS - {'params'})}"
        raise invalid("param_groups", expected, f"keys {sorted(group)}", "rename or remove keys")
    if "lr" in group and "lr_multiplier" in group:
        raise invalid("param_groups", "'lr' or 'lr_multiplier'", "both", "give only one of them")
    parameters = list(group["params"])
    if any(id(parameter) not in own for parameter in parameters):
        remedy = "register them in the model: only its parameters are moved and saved"
        raise invalid("param_groups", "parameters of the model", "other parameters", remedy)
    peak = float(group.get("lr", config.lr * group.get("lr_multiplier", 1.0)))
    device = parameters[0].device if parameters else None
    return {
        "params": parameters,
        "lr": torch.tensor(peak, dtype=torch.float32, device=device) if lr_tensor else peak,
        "peak_lr": peak,
        "weight_decay": float(group.get("weight_decay", config.optimiser.weight_decay)),
        "clip": bool(group.get("clip", True)),
    }


def set_lr(optimizer: Optimizer, factor: float) -> None:
    """Set each group's rate to ``factor`` times its peak, in place if it is a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(group["peak_lr"] * factor)
        else:
            group["lr"] = group["peak_lr"] * factor


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's state as tensors named "INDEX.KEY", indexed over all groups."""
    return {
        f"{index}.{key}": value
        for index, entries in optimizer.state_dict()["state"].items()
        for key, value in entries.items()
        if value is not None
    }


def load_optimizer_tensors(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state returned by :func:`optimizer_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )


def lr_factor(step: int, config: TrainConfig) -> float:
    r"""Return the learning rate of a step as a multiple of ``config.lr``.

    Warm-up, for step < w: (step + 1) / w. Then, with t = (step - w) / (steps - w),
    "cosine" is f + (1 - f) (1 + cos(pi t)) / 2 where f = ``final``, and "constant" is 1.

    Args:
        step: from 0 to ``config.steps`` - 1.
        config: configuration of the run.

    Example:
        >>> config = TrainConfig(steps=10, batch_size=1).replace(warmup=0.2)
        >>> [round(lr_factor(step, config), 2) for step in (0, 1, 2, 6, 9)]
        [0.5, 1.0, 1.0, 0.5, 0.04]
    """
    warmup, final = config.warmup_steps, config.optimiser.final
    if step < warmup:
        return (step + 1) / warmup
    if config.optimiser.schedule == "constant":
        return 1.0
    progress = (step - warmup) / (config.steps - warmup)
    return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * progress))
