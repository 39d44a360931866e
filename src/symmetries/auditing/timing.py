"""Expected duration of an audit, from a few passes of the model."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from symmetries.auditing.contributions import EXAMPLES, contribution_passes
from symmetries.auditing.elements import Moves
from symmetries.auditing.models import Model, model_device, untouched

PROBE, MANY = 4, 64  # examples of a timed pass, and of one of a small model
SHORT = 0.05  # seconds of a pass of a small model, whose time is that of calls and not of examples
LAYER_SAMPLES = 4  # elements that the table of layers draws of a continuous group


@dataclass(frozen=True)
class Seconds:
    """Expected time of an audit, in seconds.

    Args:
        outputs: the model's outputs on all examples, moved by every element.
        looks: saliency, sensitivity and layers, on those that are looked at closely.
    """

    outputs: float
    looks: float

    def __str__(self) -> str:
        """Return the expected times in words."""
        outputs, looks = in_words(self.outputs), in_words(self.looks)
        return f"outputs take about {outputs}, saliency, sensitivity and layers about {looks}"


def expected_seconds(
    model: Model,
    x: Tensor,
    moves: Moves,
    *,
    closely: int,
    steps: int,
    gradients: bool = True,
    layers: int = 256,
) -> Seconds:
    """Time a few passes, and multiply by the number of passes that an audit needs.

    Args:
        model: from inputs to logits.
        x: (N, ...).
        moves: the elements.
        closely: examples for saliency, sensitivity and round trips.
        steps: of the integrated gradients.
        gradients: whether the model has any.
        layers: examples for the table of layers; 0 for none.
    """
    device = model_device(model, x)
    some = x[:PROBE].to(device)
    with untouched(model):
        forward, classes = _forward(model, some)
        if forward * len(some) < SHORT:
            some = x[:MANY].to(device)
            forward, classes = _forward(model, some)
        both = _both(model, some) if gradients else 0.0
    n, s = len(x), len(moves)
    resampled = not _exact(moves, x[:1])
    trips = 2 * s if resampled else s
    looks = closely * (1 + trips) * steps * both
    looks += closely * min(classes, 64) * both if gradients else 0.0
    elements = s if moves.shared else LAYER_SAMPLES
    has_layers = layers > 0
    if has_layers and isinstance(model, nn.Module):
        looks += min(n, layers) * (1 + 2 * elements) * forward
        moved = sum(not isinstance(module, nn.Sequential) for module in model.modules())
        looks += moved * contribution_passes(moves) * min(n, EXAMPLES) * forward
    outputs = (n * (1 + s) + (closely * s if resampled else 0)) * forward
    return Seconds(outputs, looks)


def in_words(seconds: float) -> str:
    """Return a duration in one number and its unit.

    Example:
        >>> in_words(0.4), in_words(42.0), in_words(200.0), in_words(9000.0)
        ('1 s', '42 s', '3.3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.2g} min" if seconds < 5400 else f"{seconds / 3600:.2g} h"


def _forward(model: Model, x: Tensor) -> tuple[float, int]:
    """Return seconds for one example, and number of outputs."""
    with torch.no_grad():
        times = []
        for _ in range(2):  # the shorter one: the first may find a cold machine
            start = time.perf_counter()
            classes = model(x).shape[1]
            wait_for(x)
            times.append(time.perf_counter() - start)
        return min(times) / len(x), classes


def _both(model: Model, x: Tensor) -> float:
    """Return seconds for one example, forwards and backwards."""
    start = time.perf_counter()
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        torch.autograd.grad(model(leaf).amax(1).sum(), leaf)
    wait_for(x)
    return (time.perf_counter() - start) / len(x)


def wait_for(x: Tensor) -> None:
    """Wait until the device of a tensor has computed everything that was begun there."""
    if x.is_cuda:
        torch.cuda.synchronize(x.device)


def _exact(moves: Moves, x: Tensor) -> bool:
    element = next(iter(moves.rows(0, 1).of(0, 1, x.device)))
    return torch.equal(moves.there_and_back(element, x), x)
