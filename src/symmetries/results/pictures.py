"""Pictures of a result in memory: pages show them, and files do not contain them.

Pixels are numpy arrays of bytes (..., H, W, C). They are annotated as ``Pixels`` because this
package imports neither numpy nor torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Pixels = Any


@dataclass(frozen=True)
class OrbitPictures:
    """Examples along each parameter of a group.

    Args:
        labels: a name for each of the E examples.
        frames: by name of the parameter, (E, S, H, W, C).
    """

    labels: Sequence[str]
    frames: Mapping[str, Pixels]


@dataclass(frozen=True)
class Film:
    """Examples moved along one parameter.

    Args:
        values: (S,) offsets from the middle of the poses, in the unit of the parameter.
        frames: (E, S, H, W, C).
        weights: (E, S), density as a share of the largest of each example.
        labels: names of the steps, for finite groups.
    """

    values: Sequence[float]
    frames: Pixels
    weights: Any
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class SymmetryPictures:
    """Examples with their prototypes, and examples moved along each parameter.

    Args:
        labels: a name for each of the E examples.
        gallery: (E, 2 + V, H, W, C): example, prototype, new versions.
        films: one per transformation.
    """

    labels: Sequence[str]
    gallery: Pixels
    films: Sequence[Film]


@dataclass(frozen=True)
class Portrait:
    """One picture with the density of its poses.

    Args:
        label: a name for it.
        picture: (H, W, C).
        widths: 90 % width by name of the parameter.
        densities: by name of the parameter, around the centre of the picture's smallest set, or
            around the picture as it is where there are several poses.
    """

    label: str
    picture: Pixels
    widths: Mapping[str, float]
    densities: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class PosePictures:
    """Examples with new versions, examples along each parameter, and how sure their poses are.

    Args:
        labels: a name for each of the E examples.
        gallery: (E, 1 + V, H, W, C): example, new versions.
        films: one per transformation.
        surest: pictures with the narrowest densities.
        least_sure: pictures with the widest ones.
    """

    labels: Sequence[str]
    gallery: Pixels
    films: Sequence[Film]
    surest: Sequence[Portrait]
    least_sure: Sequence[Portrait]


@dataclass(frozen=True)
class WrapPictures:
    """Examples before and after the canonicaliser.

    Args:
        labels: a name for each of the E examples.
        frames: (E, 3, H, W, C): of the reference, moved, as the model sees it.
    """

    labels: Sequence[str]
    frames: Pixels


@dataclass(frozen=True)
class WatchPictures:
    """Pictures of the reference (E, H, W, C), and the latest ones of the stream."""

    reference: Pixels
    stream: Pixels


@dataclass(frozen=True)
class EdgePictures:
    """Examples at the edges of what is prescribed.

    Args:
        labels: a name for each of the E examples.
        amounts: by name of the move, how far each example goes.
        frames: by name of the move, (E, 3, H, W, C): one edge, as it is, the other edge.
    """

    labels: Sequence[str]
    amounts: Mapping[str, Sequence[float]]
    frames: Mapping[str, Pixels]


@dataclass(frozen=True)
class Bank:
    """Filters of a layer, each in several poses.

    Args:
        name: of the transformation, or of the layer.
        poses: a value and its unit for each of the S poses.
        frames: (F, S, H, W, C).
    """

    name: str
    poses: Sequence[tuple[float, str]]
    frames: Pixels


@dataclass(frozen=True)
class FitPictures:
    """Examples along each parameter of the group, and filters.

    Args:
        labels: a name for each of the E examples.
        frames: by name of the parameter, (E, S, H, W, C).
        values: by name of the parameter, its value at each step.
        banks: filters of the first layers.
    """

    labels: Sequence[str]
    frames: Mapping[str, Pixels]
    values: Mapping[str, Sequence[float]]
    banks: Sequence[Bank] = ()


@dataclass(frozen=True)
class Track:
    """Outputs of a model along one parameter, or along the elements of a finite group.

    Args:
        name: of the parameter.
        unit: of the values; "elements" for numbers of elements.
        values: (S,).
        probability: (S,) mean probability of the correct class.
        accuracy: (S,).
        frames: (E, S, H, W, C) of some examples.
        labels: names of the steps, for finite groups.
    """

    name: str
    unit: str
    values: Sequence[float]
    probability: Sequence[float]
    accuracy: Sequence[float]
    frames: Pixels
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class AuditPictures:
    """Outputs of a model along orbits, and saliency maps.

    Args:
        labels: a name for each of the E examples.
        tracks: one per parameter.
        saliency: (E, 1 + M, H, W, C): the picture, then its saliency map for M poses, turned back;
            None for a model without gradients.
        left_out: why measures that need gradients are missing; None if they are not.
        averaged: number of images that the curves of the tracks are means of, where it is known.
    """

    labels: Sequence[str]
    tracks: Sequence[Track]
    saliency: Pixels | None
    left_out: str | None = None
    averaged: int | None = None


@dataclass(frozen=True)
class OrbitCurves:
    """Orbits of generators through points, in two coordinates each.

    Args:
        panels: for each generator its text, the names of the two coordinates, points (n, 2) and
            curves (n, steps, 2), as numpy arrays.
    """

    panels: Sequence[tuple[str, tuple[str, ...], Any, Any]]
