"""Networks compared by their evidence on the training set: which layers, which average."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_images, check_whole, invalid
from symmetries.data.convert import images_and_labels
from symmetries.learners.base import Labelled, Summary, labelled_images
from symmetries.learners.invariant_network.config import InvariantNetworkConfig
from symmetries.learners.invariant_network.model import InvariantNetwork
from symmetries.learners.invariant_network.profile import DROP, UNSURE
from symmetries.nn.named_networks import LAYER_KINDS, layered_network

SEPARATOR = ", "  # between the kinds of the layers of a network


@dataclass(frozen=True)
class NetworkComparison(Summary):
    """Log evidence of several networks on the same images.

    Args:
        names: of the networks.
        values: log evidence in nats, a row for each seed.
        extrapolated: how far each value was extrapolated; see
            :meth:`~symmetries.learners.invariant_network.LaplaceEvidence.estimate`.

    Example:
        >>> found = NetworkComparison(["a", "b"], [[-9.0, -40.0], [-10.0, -43.0]], [[0.0] * 2] * 2)
        >>> found.best, found.advantage(["a"])[0], found.prefers(["a"])
        ('a', 32.0, True)
    """

    names: list[str]
    values: list[list[float]]
    extrapolated: list[list[float]]

    @property
    def best(self) -> str:
        """The network with the highest mean evidence."""
        return self.names[int(np.mean(self.values, 0).argmax())]

    def advantage(self, some: Sequence[str]) -> tuple[float, float]:
        """By how many nats the best of some networks is above the best of the others.

        Returns:
            The mean over seeds, and a doubt: twice its standard error, and half of what one of the
            two was extrapolated further than the other.
        """
        means = np.mean(self.values, 0)
        mine = [i for i, name in enumerate(self.names) if name in some]
        rest = [i for i in range(len(self.names)) if i not in mine]
        if not mine or not rest:
            raise invalid("some", "some of the networks", sorted(some), "see names")
        one, other = (max(part, key=lambda i: means[i]) for part in (mine, rest))
        change = np.array(self.values)[:, one] - np.array(self.values)[:, other]
        error = change.std(ddof=1) / len(change) ** 0.5
        further = np.mean(self.extrapolated, 0)
        doubt = 2 * error + UNSURE * abs(further[one] - further[other])
        return float(change.mean()), float(doubt)

    def prefers(self, some: Sequence[str]) -> bool:
        """Whether some network of these is better than all others, by more than noise explains."""
        gain, doubt = self.advantage(some)
        return gain - doubt > DROP


def compare_networks(
    networks: Mapping[str, Callable[[int], nn.Module]],
    data: Labelled,
    config: InvariantNetworkConfig | str = "default",
    *,
    seeds: int = 3,
    **run: Any,  # noqa: ANN401 - fields of TrainConfig
) -> NetworkComparison:
    """Return the Laplace evidence of networks, each trained with precisions of its own.

    No validation set is needed. Networks may differ in any way: in their layers
    (:func:`choose_layers`), or in whether they are averaged over a finite group, such as flips.

    Args:
        networks: by name, functions from a seed to an untrained module from images to logits.
        data: labelled images.
        config: of training and evidence; widths are not read.
        seeds: number of initial weights and orders of batches, at least 2.
        run: fields of :class:`symmetries.training.TrainConfig`, such as ``device``.

    Example:
        >>> def linear(seed):
        ...     return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
        >>> x, y = torch.rand(30, 1, 4, 4), torch.arange(30) % 2
        >>> short = InvariantNetworkConfig.preset("quick").replace(steps=5)
        >>> both = {"a": linear, "b": linear}
        >>> found = compare_networks(both, (x, y), short, seeds=2, device="cpu", progress=False)
        >>> found.prefers([found.best])
        False
    """
    check_whole(seeds, "seeds", least=2)
    if len(networks) < 2:
        raise invalid("networks", "at least two", len(networks), "add another to compare with")
    fixed = InvariantNetworkConfig.resolve(config).replace(half_width=0.0, learn=False, samples=1)
    pair, shape = _pair(data)
    values, extrapolated = [], []
    for seed in range(seeds):
        models = [
            InvariantNetwork(build(seed), "rotation", shape, fixed, seed=seed)
            for build in networks.values()
        ]
        for model in models:
            model.fit(pair, **run)
        found = torch.stack([torch.stack(model.estimated_evidence(*pair)) for model in models])
        values.append(found[:, 0].tolist())
        extrapolated.append(found[:, 1].tolist())
    return NetworkComparison(list(networks), values, extrapolated)


@dataclass(frozen=True)
class LayerChoice(Summary):
    """Which kind of layer the evidence prefers at each depth.

    Args:
        comparison: of all networks, named by the kinds of their layers.
        kinds: of the layers of the best network, from the image on.
        told: for each layer, whether the best network with this kind is better than all with
            another, by more than noise explains.
        advantage: for each layer, by how many nats.
    """

    comparison: NetworkComparison
    kinds: list[str]
    told: list[bool]
    advantage: list[float]


def choose_layers(
    data: Labelled,
    channels: Sequence[int] = (8, 16),
    kinds: Sequence[str] = ("dense", "convolution"),
    config: InvariantNetworkConfig | str = "default",
    *,
    seeds: int = 3,
    **run: Any,  # noqa: ANN401 - fields of TrainConfig
) -> LayerChoice:
    """Choose the kind of each layer by the evidence of all networks of such layers.

    The question of van der Ouderaa et al. 2023, "Learning layer-wise equivariances automatically
    using gradients", by comparison of all networks instead of gradients, so that no local optimum
    is in the way; with k kinds and L layers it takes k^L trainings for each seed.

    Args:
        data: labelled images.
        channels: of each layer, which also halves the sides of the image.
        kinds: "dense" (all pixels and channels connected), "convolution", and "group convolution"
            (filters in four orientations, the largest response).
        config: of training and evidence.
        seeds: see :func:`compare_networks`.
        run: fields of :class:`symmetries.training.TrainConfig`, such as ``device``.
    """
    unknown = [kind for kind in kinds if kind not in LAYER_KINDS]
    if unknown or len(set(kinds)) < 2:
        remedy = f"take some of {', '.join(LAYER_KINDS)}"
        raise invalid("kinds", "at least two kinds of layers", list(kinds), remedy)
    (_, labels), shape = _pair(data)
    outputs = int(labels.max()) + 1
    networks = {
        SEPARATOR.join(each): lambda seed, each=each: layered_network(
            each, shape, channels, outputs, seed
        )
        for each in itertools.product(kinds, repeat=len(channels))
    }
    found = compare_networks(networks, data, config, seeds=seeds, **run)
    best = found.best.split(SEPARATOR)
    told, gains = [], []
    for layer, kind in enumerate(best):
        same = [name for name in found.names if name.split(SEPARATOR)[layer] == kind]
        told.append(found.prefers(same))
        gains.append(found.advantage(same)[0])
    return LayerChoice(found, best, told, gains)


def _pair(data: Labelled) -> tuple[tuple[Tensor, Tensor], tuple[int, int, int]]:
    """Return images and labels, checked, and the shape (C, H, W)."""
    given = images_and_labels(data, "data")
    check_images(given[0])
    shape = (given[0].shape[1], given[0].shape[2], given[0].shape[3])
    return labelled_images(given, shape), shape
