"""Pictures of a fitted classifier: examples along its transformations, and its filters."""

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from symmetries.actions import ImageAction
from symmetries.analysis.pictures import example_indices, example_labels, for_display, to_bytes
from symmetries.data import ImageSet
from symmetries.estimators import InvariantClassifier
from symmetries.groups import Cyclic
from symmetries.nn.feature_maps import InvariantFeatures
from symmetries.nn.gconv import PlaneConv2d
from symmetries.results.pictures import Bank, FitPictures

EXAMPLES = 6
STEPS = 41
FILTERS = 6
POSES = 7
LAYERS = 2


def draw_invariant(
    classifier: InvariantClassifier, test: ImageSet, device: torch.device
) -> FitPictures:
    """Return examples along each parameter, across and beyond what the classifier averages over."""
    group = classifier.model_.group
    chosen = example_indices(test, EXAMPLES)
    shown = for_display(test.images[chosen].to(device))
    act = ImageAction(group, interpolation="bicubic", fill=classifier.fill_)
    side = max(classifier.image_size_[1:])
    frames, values = {}, {}
    for i, parameter in enumerate(group.parameters):
        eta = torch.zeros(STEPS, group.dim, device=device)
        eta[:, i] = torch.linspace(-parameter.bound, parameter.bound, STEPS, device=device)
        frames[parameter.name] = to_bytes(act.orbit(group.exp(eta), shown))
        values[parameter.name] = [parameter.display(float(v), side)[0] for v in eta[:, i]]
    shallow = classifier.learn and classifier.network is None
    banks = moved_filters(classifier) if shallow else []
    return FitPictures(example_labels(test, chosen), frames, values, banks)


@torch.no_grad()
def moved_filters(classifier: InvariantClassifier) -> list[Bank]:
    """Return some filters of the first layer in the poses that the classifier averages over."""
    model = classifier.model_
    group, width = model.group, model.half_width[0]
    side = max(classifier.image_size_[1:])
    layer = cast(InvariantFeatures, model.body).layer
    banks = []
    for i, parameter in enumerate(group.parameters):
        eta = torch.zeros(POSES, group.dim).to(width)
        eta[:, i] = torch.linspace(-1, 1, POSES).to(width) * width[i]
        pictures = layer.bank(group.exp(eta))[:, :FILTERS].transpose(0, 1)
        pictures = pictures / pictures.flatten(2).std(2)[..., None, None, None].clamp_min(1e-12)
        labels = [parameter.display(float(v), side) for v in eta[:, i]]
        banks.append(Bank(parameter.name, labels, as_pictures(pictures)))
    return banks


@torch.no_grad()
def draw_relaxed(model: nn.Module, size: tuple[int, int]) -> FitPictures:
    """Return filters of the first layers, with a column for each element of the group.

    Args:
        model: with layers that are equivariant, or nearly.
        size: (H, W) of the images.
    """
    layers = [(name, m) for name, m in model.named_modules() if isinstance(m, PlaneConv2d)]
    banks = []
    for name, layer in layers[:LAYERS]:
        if layer.positional:  # a kernel of its own at each position
            continue
        order = layer.group.order
        weight = layer.sampled(size).weight  # (fields |H|, inputs, k, k), |H| inside
        inputs = 1 if weight.shape[1] >= order else weight.shape[1]  # images, or one field
        kernels = weight[:, :inputs].unflatten(0, (-1, order))[:FILTERS]
        labels = [(float(step), "elements") for step in range(order)]
        if isinstance(layer.group, Cyclic):
            labels = [(360.0 * step / order, "degrees") for step in range(order)]
        banks.append(Bank(name.removeprefix("model."), labels, as_pictures(kernels)))
    return FitPictures([], {}, {}, banks)


def as_pictures(filters: Tensor) -> NDArray[np.uint8]:
    """Filters (F, S, C, H, W) as bytes (F, S, H, W, 1): grey is zero, each row has one scale."""
    rows = filters.float().cpu().mean(2, keepdim=True)
    largest = rows.abs().flatten(1).amax(1).clamp_min(1e-12)
    scaled = (rows / largest[:, None, None, None, None] + 1) / 2
    return to_bytes(for_display(scaled.flatten(0, 1)).unflatten(0, rows.shape[:2]))
