"""How far each transformation moves an image, compared with the distances in the data.

For each parameter of a group, on its own: the root-mean-square change ``g x - x`` of a pixel along
the orbit, compared with the distance between an image and its nearest neighbour in the data.
No model and no training: a first look at a data set under a group.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import check_number, check_whole, invalid
from symmetries.actions.images import ImageAction
from symmetries.analysis.inputs import Readable, read_images, resolve_background, without_constant
from symmetries.analysis.pictures import example_indices, example_labels, for_display, to_bytes
from symmetries.analysis.progress import progress_bar
from symmetries.analysis.provenance import data_summary
from symmetries.analysis.settings import Session
from symmetries.groups.base import Group
from symmetries.groups.names import as_group, group_name
from symmetries.results import OrbitCurve, OrbitResult
from symmetries.results.pictures import OrbitPictures

EXAMPLES = 6
STEPS = 41  # positions along each parameter; odd, so that the middle one changes nothing
COMPARED = 256  # images, drawn without replacement, that curves and distances are computed from
PIXELS_AT_ONCE = 2**24


@dataclass(frozen=True)
class OrbitStudy:
    """What :func:`study_orbits` found.

    Args:
        curves: one per parameter.
        neighbour_distance: median distance between an image and its nearest neighbour.
        frames: by name of the parameter, (examples, steps, C, H, W).
    """

    curves: tuple[OrbitCurve, ...]
    neighbour_distance: float
    frames: dict[str, Tensor]


def orbit(
    data: Readable,
    group: str | Group[Any] = "affine",
    *,
    fill: float | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: bool = True,
) -> OrbitResult:
    """Draw the orbits of images under a group, and how much each transformation changes them.

    Args:
        data: a name ("digits"), a file or a folder; or a tensor or array (N, C, H, W), an
            :class:`~symmetries.data.ImageSet`, a ``DataLoader``, or a pair (images, labels).
        group: with continuous parameters, or its name.
        fill: background value from 0 to 1; None looks for it at the borders.
        seed: of the images that are compared.
        device: "auto", "cpu", "cuda", ...
        progress: show a bar.

    Returns:
        A curve of change for each parameter; ``to_html`` and ``plot`` show the result.
    """
    given = {"data": data, "group": group, "fill": fill, "seed": seed}
    run = Session.of_call("orbit", given, seed, device, progress=progress)
    return describe_orbits(data, group, fill, run)


def describe_orbits(
    data: Readable, group: str | Group[Any], fill: float | None, run: Session
) -> OrbitResult:
    """Return the curves and the pictures of :func:`orbit`.

    Arguments are those of :func:`orbit`; ``info`` gives what is recorded of the run, ``say`` is
    called with a message if a background was found, and ``reading`` says how data is read.
    """
    group = as_group(group)
    images = without_constant(read_images(data, **run.reading))
    fill = resolve_background(images, fill, run.say)
    chosen = example_indices(images, EXAMPLES)
    with progress_bar("orbits", total=group.dim, quiet=not run.progress) as advance:
        study = study_orbits(
            images.images.to(run.place),
            group,
            examples=for_display(images.images[chosen].to(run.place)),
            fill=fill,
            seed=run.seed,
            on_parameter=advance,
        )
    result = OrbitResult(
        group=tuple(group_name(group).split(",")),
        data=data_summary(images),
        neighbour_distance=study.neighbour_distance,
        transformations=study.curves,
        run=run.info(),
    )
    frames = {name: to_bytes(frame) for name, frame in study.frames.items()}
    return result.attach(OrbitPictures(example_labels(images, chosen), frames))


def study_orbits(
    images: Tensor,
    group: Group[Any],
    *,
    examples: Tensor,
    steps: int = STEPS,
    sample: int = COMPARED,
    fill: float = 0.0,
    seed: int = 0,
    on_parameter: Callable[[str], None] | None = None,
) -> OrbitStudy:
    """Walk along each parameter of the group, from one bound to the other.

    Args:
        images: (N, C, H, W) from 0 to 1, N at least 2.
        group: with continuous parameters.
        examples: (E, C, H, W) images to keep the frames of; of any size.
        steps: positions along each parameter, an odd number.
        sample: number of images that are drawn.
        fill: background value of the images.
        seed: of the draw.
        on_parameter: called with each parameter's name when it is done.

    Example:
        >>> from symmetries.groups import Affine2
        >>> images = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> study = study_orbits(images, Affine2("rotation"), examples=images[:2], steps=5)
        >>> study.curves[0].values, study.curves[0].change[2] < 1e-6
        ((-180.0, -90.0, 0.0, 90.0, 180.0), True)
    """
    if "step" in group.units:
        remedy = "name continuous parameters, such as rotation or affine"
        raise invalid("group", "continuous parameters", group_name(group), remedy)
    check_number(fill, "fill")
    check_whole(seed, "seed", 0, 2**63 - 1)
    generator = torch.Generator().manual_seed(seed)
    chosen = images[torch.randperm(len(images), generator=generator)[:sample]]
    distance = neighbour_distance(chosen)
    _warn_of_copies(chosen)
    act = ImageAction(group, interpolation="bicubic", fill=fill)
    curves, frames = [], {}
    for index, parameter in enumerate(group.parameters):
        values = torch.linspace(-parameter.bound, parameter.bound, steps, dtype=torch.float64)
        eta = torch.zeros(steps, group.dim, dtype=images.dtype, device=images.device)
        eta[:, index] = values
        element = group.exp(eta)
        frames[parameter.name] = act.orbit(element, examples).clamp(0, 1)
        change = _change(act, element, chosen, steps)
        side = max(images.shape[-2:])
        shown = [parameter.display(value, side) for value in values.tolist()]
        curves.append(_curve(parameter.name, shown, change, distance))
        if on_parameter is not None:
            on_parameter(parameter.name)
    return OrbitStudy(tuple(curves), distance, frames)


def neighbour_distance(images: Tensor) -> float:
    """Median over the images of the root-mean-square distance to the nearest other image.

    Example:
        >>> neighbour_distance(torch.tensor([0.0, 0.5, 0.75]).view(3, 1, 1, 1).expand(3, 1, 8, 8))
        0.25
    """
    if len(images) < 2:
        raise invalid("images", "at least 2 images", len(images), "give more images")
    flat = images.flatten(1).to(torch.promote_types(images.dtype, torch.float32))
    distances = torch.cdist(flat, flat).fill_diagonal_(torch.inf)
    return float(distances.amin(1).median() / math.sqrt(flat.shape[1]))


def _warn_of_copies(images: Tensor) -> None:
    """Warn if the median distance is 0: most images have a duplicate."""
    _, place, count = images.flatten(1).unique(dim=0, return_inverse=True, return_counts=True)
    copied = int((count[place] > 1).sum())
    if 2 * copied > len(images):
        text = f"images: {copied} of {len(images)} have a copy among them, at a distance of 0"
        warnings.warn(f"{text}; leave out copies to compare", RuntimeWarning, stacklevel=3)


def _change(act: ImageAction, element: Any, images: Tensor, steps: int) -> Tensor:  # noqa: ANN401
    """Root-mean-square change (N, S) of a pixel along an orbit, some images at a time."""
    at_once = max(1, PIXELS_AT_ONCE // (steps * images[0].numel()))
    parts = [
        (act.orbit(element, part).clamp(0, 1) - part[:, None]).square().mean((2, 3, 4)).sqrt()
        for part in images.split(at_once)
    ]
    return torch.cat(parts)


def _curve(
    name: str, shown: list[tuple[float, str]], change: Tensor, distance: float
) -> OrbitCurve:
    values = tuple(value for value, _ in shown)
    quantiles = torch.tensor([0.1, 0.9], dtype=change.dtype, device=change.device)
    low, high = change.quantile(quantiles, dim=0)
    mean = tuple(change.mean(0).tolist())
    return OrbitCurve(
        name=name,
        unit=shown[0][1],
        values=values,
        change=mean,
        change_low=tuple(low.tolist()),
        change_high=tuple(high.tolist()),
        reach=reach(values, mean, distance),
    )


def reach(
    values: tuple[float, ...], change: tuple[float, ...], level: float
) -> tuple[float, float] | None:
    """Return the interval around the middle value in which ``change`` stays below ``level``.

    Linear between the values; None if that is all of them.

    Example:
        >>> reach((-2.0, -1.0, 0.0, 1.0, 2.0), (4.0, 2.0, 0.0, 1.0, 1.5), level=1.0)
        (-0.5, 1.0)
    """
    middle = len(values) // 2
    ends = []
    for direction in (-1, 1):
        i = middle
        while 0 <= i + direction < len(values) and change[i + direction] <= level:
            i += direction
        end = values[i]
        if 0 <= i + direction < len(values):
            part = (level - change[i]) / (change[i + direction] - change[i])
            end += part * (values[i + direction] - values[i])
        ends.append(end)
    return None if ends == [values[0], values[-1]] else (ends[0], ends[1])
