"""What is measured on trained networks: the table, the drift, the spectra, Proposition 3.1."""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from fitting import Fit, Task
from torch import Tensor, nn

from symmetries.auditing import (
    distribution_invariance,
    drift_curve,
    largest_singular_value,
    logit_invariance,
    saliency_map,
    saliency_similarity,
)

MEASURES = ("accuracy", "li", "nli", "di", "si", "sigma_max")


def table_row(task: Task, fitted: Fit, examples: int, steps: int) -> dict[str, Any]:
    """Mean, standard deviation and single values over the seeds of each measure.

    Networks are evaluated in double precision: what is left of an exactly invariant one is then
    its theory and not the order of its sums.

    Args:
        task: the data.
        fitted: the networks.
        examples: test images for saliency, invariance and spectrum (accuracy uses all of them).
        steps: of the integrated gradients.
    """
    rows = [_one(task, model, examples, steps) for model in fitted.models]
    row: dict[str, Any] = {
        name: {
            "mean": float(np.mean([r[name] for r in rows])),
            "std": float(np.std([r[name] for r in rows], ddof=1)) if len(rows) > 1 else 0.0,
            "seeds": [r[name] for r in rows],
        }
        for name in MEASURES
    }
    return row | {
        "validation": fitted.validation,
        "validation_si": fitted.similarity,
        "nu": fitted.nu,
        "step": fitted.chosen,
        "seconds": fitted.seconds,
    }


def _one(task: Task, model: nn.Sequential, examples: int, steps: int) -> dict[str, float]:
    x, y = task.test
    right = sum(
        int((predicted(model, a) == b).sum())
        for a, b in zip(x.split(5000), y.split(5000), strict=True)
    )
    exact = copy.deepcopy(model).double()
    some, labels = x[:examples].double(), y[:examples]
    look = partial(saliency_map, steps=steps)
    similarity = saliency_similarity(exact, some, task.group, labels, saliency=look, batch_size=512)
    return {
        "accuracy": 100 * right / len(x),
        "li": logit_invariance(exact, some, task.group).mean,
        "nli": logit_invariance(exact, some, task.group, normalised=True).mean,
        "di": distribution_invariance(exact, some, task.group).mean,
        "si": similarity.mean,
        "sigma_max": float(largest_singular_value(model, x[:examples]).mean()),
    }


def predicted(model: nn.Sequential, x: Tensor) -> Tensor:
    """Predicted classes, without gradients."""
    with torch.no_grad():
        return model(x).argmax(1)


def drift(task: Task, fitted: Fit, examples: int, steps: int) -> dict[str, list[float]]:
    """Figure 4: the measures as the test images drift to the other set, mean over the seeds."""
    first, y = task.test[0][:examples], task.test[1][:examples]
    second = task.other[:examples]
    curves = [
        drift_curve(model, first, second, y, task.group, steps=steps) for model in fitted.models
    ]

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values))

    points = list(zip(*curves, strict=True))
    return {
        "beta": [column[0].beta for column in points],
        "accuracy_ratio": [mean([p.accuracy_ratio for p in column]) for column in points],
        "li": [mean([p.logit_invariance.mean for p in column]) for column in points],
        "di": [mean([p.distribution_invariance.mean for p in column]) for column in points],
        "si": [mean([p.saliency_similarity.mean for p in column]) for column in points],
    }


def proposition(task: Task, trials: int = 20, steps: int = 400) -> dict[str, float]:
    """Proposition 3.1: minimising LI of a linear network never raises its largest singular value.

    For W(t) under gradient descent on 1/2 |W (x - g x)|^2, compared with the closed form
    W(0) exp(-t e e^T) = W(0) (I - (1 - exp(-t |e|^2)) e e^T / |e|^2), e = x - g x.
    """
    generator = torch.Generator().manual_seed(0)
    x = task.test[0][:trials].flatten(1).double().cpu()
    moved = x[:, task.table[1].cpu()]
    worst_rise, worst_gap, ratio = -np.inf, 0.0, []
    for e in x - moved:
        w = torch.randn(9, len(e), generator=generator, dtype=torch.float64) / len(e) ** 0.5
        first = torch.linalg.matrix_norm(w, 2)
        size = e.square().sum()
        rate = 0.02 / size
        unit = e / size.sqrt()
        current, previous = w.clone(), first
        for _ in range(steps):
            current = current - rate * torch.outer(current @ e, e)
            norm = torch.linalg.matrix_norm(current, 2)
            worst_rise = max(worst_rise, float((norm - previous) / first))
            previous = norm
        flow = w - torch.outer((w @ unit) * (1 - torch.exp(-rate * steps * size)), unit)
        worst_gap = max(worst_gap, float((current - flow).norm() / w.norm()))
        ratio.append(float(previous / first))
    return {
        "largest_rise_per_step": worst_rise,
        "largest_gap_to_gradient_flow": worst_gap,
        "sigma_ratio_mean": float(np.mean(ratio)),
        "sigma_ratio_max": float(np.max(ratio)),
        "trials": trials,
    }


def pictures(task: Task, fits: dict[str, Fit], examples: int, steps: int) -> dict[str, Any]:
    """Arrays behind Figures 1 to 3: saliency along orbits, features of the last hidden layer."""
    x, y = task.test[0][:4], task.test[1][:4]
    orbit = x.flatten(1)[:, task.table].unflatten(2, x.shape[1:])  # (4, |G|, C, H, W)
    arrays: dict[str, Any] = {"orbit": orbit[:, :, 0].cpu().numpy()}
    back = task.group.inverse(task.group.elements(x.device))
    for name, fitted in fits.items():
        labels = y.repeat_interleave(orbit.shape[1])
        maps = saliency_map(fitted.models[0], orbit.flatten(0, 1), labels, steps=steps)
        maps = maps.reshape(orbit.shape)
        arrays[f"raw_{name}"] = maps[:, :, 0].cpu().numpy()
        flat = maps.flatten(2)
        aligned = torch.stack([flat[:, g][:, task.table[back[g]]] for g in range(len(back))], 1)
        arrays[f"aligned_{name}"] = aligned.reshape(orbit.shape)[:, :, 0].cpu().numpy()
    some, labels = task.test[0][:examples], task.test[1][:examples]
    turned = some.flatten(1)[:, task.table].flatten(0, 1)
    with torch.no_grad():
        features = fits["DA"].models[0][:-1](turned)
    arrays["features"] = features.half().cpu().numpy()
    arrays["feature_labels"] = labels.repeat_interleave(len(task.table)).cpu().numpy()
    arrays["order"] = np.array(len(task.table))
    return arrays
