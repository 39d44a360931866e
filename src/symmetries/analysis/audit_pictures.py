"""Pictures of an audit: outputs of the model along orbits, and saliency maps."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from symmetries.actions import ImageAction
from symmetries.analysis.pictures import (
    element_labels,
    example_indices,
    example_labels,
    for_display,
    spread_indices,
    to_bytes,
)
from symmetries.auditing.elements import make_moves
from symmetries.auditing.models import Model, untouched
from symmetries.auditing.saliency import saliency_map
from symmetries.data import ImageSet
from symmetries.groups import Group
from symmetries.results.pictures import AuditPictures, Track

EXAMPLES = 5
SHOWN = 6
STEPS = 25
CURVE_EXAMPLES = 256


def draw_audit(
    model: Model,
    images: ImageSet,
    act: ImageAction,
    device: torch.device,
    seed: int,
    without_gradients: str | None = None,
    half_width: Sequence[float] | None = None,
    curve_examples: int = CURVE_EXAMPLES,
) -> AuditPictures:
    """Return orbits of some examples with the model's outputs, and aligned saliency maps.

    Args:
        model: from images to logits.
        images: labelled.
        act: how they are moved.
        device: of the model.
        seed: of the poses.
        without_gradients: why the model has no gradients; None if it has.
        half_width: how far each parameter goes; the group's bounds by default.
        curve_examples: number of images for the curves of answers, spread over all.
    """
    chosen = example_indices(images, EXAMPLES)
    with untouched(model):
        tracks = orbit_tracks(model, images, act, chosen, device, half_width, curve_examples)
        maps = None
        if without_gradients is None:
            maps = saliency_rows(model, images, act, chosen, device, seed, half_width)
    names = example_labels(images, chosen)
    count = min(curve_examples, len(images))
    return AuditPictures(names, tracks, maps, without_gradients, count)


def few_for_curves(group: Group[Any], passes: int) -> int:
    """Return how many images the curves may average, within a twentieth of the given passes."""
    finite = group.finite
    steps = len(group.elements()) if finite else STEPS * group.dim
    return max(EXAMPLES, passes // (20 * steps))


def orbit_tracks(
    model: Model,
    images: ImageSet,
    act: ImageAction,
    chosen: list[int],
    device: torch.device,
    half_width: Sequence[float] | None = None,
    curve_examples: int = CURVE_EXAMPLES,
) -> list[Track]:
    """Return the probability of the right class along each parameter, or for each element.

    Where there are no labels, the right class is the one predicted for the image as it is.
    """
    group = act.group
    side = max(images.images.shape[-2:])
    walks: list[tuple[str, str, list[float], Any]] = []
    if group.finite:
        elements = group.elements(device)
        places = [float(i) for i in range(len(elements))]
        walks.append((",".join(group.names), "elements", places, elements))
    else:
        for i, parameter in enumerate(group.parameters):
            eta = torch.zeros(STEPS, group.dim, device=device)
            end = parameter.bound if half_width is None else half_width[i]
            eta[:, i] = torch.linspace(-end, end, STEPS, device=device)
            shown = [parameter.display(float(v), side) for v in eta[:, i]]
            walks.append((parameter.name, shown[0][1], [v for v, _ in shown], group.exp(eta)))
    rows = spread_indices(len(images), curve_examples)
    x = images.images[rows].to(device)
    y = explained_classes(model, x, images.labels, rows)
    examples = for_display(images.images[chosen].to(device))
    tracks = []
    for name, unit, values, element in walks:
        p, right = answers_along(model, act, element, x, y)
        frames = to_bytes(act.orbit(element, examples))
        names = element_labels(group)
        tracks.append(Track(name, unit, values, p.tolist(), right.tolist(), frames, names))
    return tracks


def explained_classes(model: Model, x: Tensor, labels: Tensor | None, rows: list[int]) -> Tensor:
    """Return the labels of some images, or the classes that the model predicts for them."""
    if labels is not None:
        return labels[rows].to(x.device)
    with torch.no_grad():
        return model(x).argmax(1)


def answers_along(
    model: Model,
    act: ImageAction,
    element: Any,  # noqa: ANN401 - elements differ by group
    x: Tensor,
    y: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the mean probability of the right class and accuracy (S,) at each of S elements."""
    with torch.no_grad():
        orbit = act.orbit(element, x)
        logits = torch.stack([model(orbit[:, s]) for s in range(orbit.shape[1])])
    p = logits.softmax(-1).gather(-1, y.expand(len(logits), -1)[..., None])[..., 0]
    return p.mean(1).cpu(), (logits.argmax(-1) == y).float().mean(1).cpu()


def saliency_rows(
    model: Model,
    images: ImageSet,
    act: ImageAction,
    chosen: list[int],
    device: torch.device,
    seed: int,
    half_width: Sequence[float] | None = None,
) -> NDArray[np.uint8]:
    """Return rows (E, 1 + M, H, W, C): the picture, then where the model looks when it is moved."""
    x = images.images[chosen].to(device)
    y = explained_classes(model, x, images.labels, chosen)
    moves = make_moves(act, x, identity=True, samples=SHOWN, half_width=half_width, seed=seed)
    columns = [for_display(x)[:, :1].cpu()]
    for element in list(moves.of(0, len(x), device))[:SHOWN]:
        found = saliency_map(model, moves.action(element, x), y, baseline=act.fill, threshold=0.2)
        back = moves.back(element, found).sum(1, keepdim=True)
        scaled = back / back.flatten(1).amax(1).clamp_min(1e-12)[:, None, None, None]
        columns.append(for_display(scaled.detach()).cpu())
    return to_bytes(torch.stack(columns, 1))
