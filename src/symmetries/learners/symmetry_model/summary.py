"""Summary of the symmetries found: widths that do not depend on the pose of the prototypes."""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries._utils.sampling import some_of
from symmetries.groups.base import Parameter
from symmetries.learners.symmetry_model.coordinates import (
    content_centre,
    read_motions,
    repeat_elements,
    split_elements,
)
from symmetries.learners.symmetry_model.health import content_kept
from symmetries.learners.symmetry_model.quarter_turns import (
    has_turns,
    turns_of,
    with_turns,
    without_turns,
)
from symmetries.learners.symmetry_model.widths import (
    FULL_SHARE,
    MASS,
    highest_density_width,
    small_sample_factor,
    verdict_of,
)
from symmetries.results import ClassSymmetries, Histogram, SymmetrySummary, Transformation
from symmetries.results.symmetries import Verdict

if TYPE_CHECKING:
    from symmetries.learners.symmetry_model.model import SymmetryModel

VERSIONS = 32  # random versions of each image for the noise floor
MOST_REPEATED = 256
BINS = 72

# By parameter: the width of each image (N,), and how a width is shown to a person.
Widths = dict[str, tuple[Tensor, Callable[[float], float]]]


def summarise(
    model: "SymmetryModel",
    x: Tensor,
    labels: Tensor | None,
    class_names: tuple[str, ...] | None,
    *,
    n: int,
    seed: int,
) -> SymmetrySummary:
    """Return the summary of a model on images that are on its device."""
    generator = torch.Generator(x.device).manual_seed(seed)
    if model.group.finite:
        parts, widths = _finite_parts(model, x)
    else:
        parts, widths = _lie_parts(model, x, n, generator)
    return SymmetrySummary(
        transformations=tuple(parts),
        images=len(x),
        content_kept=content_kept(model, x),
        classes=_classes(widths, labels, class_names),
    )


def _lie_parts(
    model: "SymmetryModel", x: Tensor, n: int, generator: torch.Generator
) -> tuple[list[Transformation], Widths]:
    side = max(model.shape[1:])
    eta = model.sample_eta(x, n, generator)  # (N, n, dim)
    counted = counted_from_images(model, x, eta)
    misses = _misses(model, some_of(x, MOST_REPEATED), generator)  # (M, versions, dim)
    small_sample = small_sample_factor(VERSIONS)
    parts = []
    shown_widths: Widths = {}
    for i, parameter in enumerate(model.group.parameters):
        period = 2 * parameter.bound if parameter.angle else None
        widths = highest_density_width(counted[..., i], period).cpu()
        noise = small_sample * float(highest_density_width(misses[..., i], period).mean())
        width = float(widths.mean())
        bound = model.bounds[i]
        values = eta[..., i].flatten().cpu()
        if period is not None:
            values = torch.remainder(values + parameter.bound, period) - parameter.bound
        counts = torch.histc(values.float().clamp(-bound, bound), BINS, -bound, bound)
        edges = torch.linspace(-bound, bound, BINS + 1)
        shown, unit = parameter.display(1.0, side)
        scale = 1.0 if unit == "factor" else shown
        density = counts / counts.sum() / (2 * bound / BINS * scale)
        parts.append(
            Transformation(
                name=parameter.name,
                unit=unit,
                width90=parameter.display(width, side)[0],
                noise_floor=parameter.display(noise, side)[0],
                verdict=verdict_of(parameter, width, noise, side),
                histogram=Histogram(
                    edges=tuple(parameter.display(float(e), side)[0] for e in edges),
                    density=tuple(density.tolist()),
                ),
            )
        )
        shown_widths[parameter.name] = widths, partial(_shown, parameter, side)
    return parts, shown_widths


def _shown(parameter: Parameter, side: int, value: float) -> float:
    return parameter.display(value, side)[0]


@torch.no_grad()
def counted_from_images(model: "SymmetryModel", x: Tensor, eta: Tensor) -> Tensor:
    """Samples of p(eta | x_hat) as transformations of x itself, e e_x^-1 in numbers, (N, n, dim).

    Another choice of prototype, x_hat' = T_c^-1 x_hat, turns e to e c and e_x to e_x c, so this
    does not depend on it. Nor on which of several transformations f names where they make the same
    of the picture, see :func:`with_turns`. :func:`read_motions` says what the numbers mean.
    """
    group = model.group
    back = repeat_elements(group.inverse(model.element(x)), eta.shape[1])
    content = content_centre(x, model.act.fill)
    element = group.compose(group.exp(eta), back)
    if has_turns(group):
        element = with_turns(group, element, _turns(model, x))
    counted = read_motions(group, element, content)
    plain = eta - model.infer(x)[:, None]  # where a matrix has no real logarithm
    return torch.where(torch.isfinite(counted), counted, plain)


def _turns(model: "SymmetryModel", x: Tensor) -> tuple[Tensor, Tensor]:
    anywhere = {"shift_x", "shift_y"} <= set(model.group.names)
    return turns_of(x, model.act.fill, anywhere=anywhere)


@torch.no_grad()
def _misses(model: "SymmetryModel", x: Tensor, generator: torch.Generator) -> Tensor:
    """Return the error of repeated inference, r^-1 e_r e_x^-1 as numbers, e_r of x moved by r.

    (N, VERSIONS, dim), zero if f is equivariant. In the parameters of the group also where it is
    not closed (then the full logarithm is taken and its own columns kept). A miss by a turn that
    leaves the picture as it is, a quarter for a square, is none.
    """
    limit = torch.tensor(model.bounds, device=x.device)
    rows = x.repeat_interleave(VERSIONS, 0)
    shape = (len(rows), len(model.bounds))
    random = limit * (2 * torch.rand(shape, generator=generator, device=x.device) - 1)
    group = model.group
    found = model.element(model.act(group.exp(random), rows))
    start = model.element(rows)
    gap = group.compose(group.exp(-random), found, group.inverse(start))
    content = content_centre(x, model.act.fill)
    every = split_elements(gap, len(x))
    if has_turns(group):
        every = without_turns(group, every, _turns(model, x))
    misses = read_motions(group, every, content)
    # No real logarithm: as wrong as can be.
    return torch.where(torch.isfinite(misses), misses, limit)


@torch.no_grad()
def _finite_parts(model: "SymmetryModel", x: Tensor) -> tuple[list[Transformation], Widths]:
    """Return one part for the whole group: the number of elements that hold 90 %."""
    group = model.group
    prototypes = model.prototype(x)
    p = model.generative.distribution.log_probs(model.generative(prototypes)).exp()  # type: ignore[operator]
    order = group.order
    ordered = p.sort(-1, descending=True).values
    before = ordered.cumsum(-1) - ordered
    counts = (before < MASS).sum(-1).float().cpu()  # elements needed for 90 %
    every = group.elements(x.device)
    moved = model.act.orbit(every, x).flatten(0, 1)
    found = model.element(moved).unflatten(0, (len(x), order))
    same = group.compose(group.inverse(every)[None], found) == model.element(x)[:, None]
    missed = 1 - float(same.float().mean())
    width = float(counts.mean())
    noise = 1 + missed * (order - 1)
    verdict: Verdict = "partial"
    if float((p.amax(-1) >= MASS).float().mean()) > 0.5:
        verdict = "absent"
    elif width >= FULL_SHARE * math.ceil(MASS * order):
        verdict = "full"
    name = ",".join(group.names)
    part = Transformation(
        name=name,
        unit="elements",
        width90=width,
        noise_floor=noise,
        verdict=verdict,
        histogram=Histogram(
            edges=tuple(float(i) - 0.5 for i in range(order + 1)), density=tuple(p.mean(0).tolist())
        ),
    )
    return [part], {name: (counts, float)}


def _classes(
    widths: Widths, labels: Tensor | None, class_names: tuple[str, ...] | None
) -> dict[str, ClassSymmetries]:
    """Return the mean widths of the images of each class."""
    if labels is None:
        return {}
    found = {}
    for label in sorted(set(labels.tolist())):
        chosen = labels == label
        found[class_names[label] if class_names else str(label)] = ClassSymmetries(
            images=int(chosen.sum()),
            width90={n: show(float(w[chosen].mean())) for n, (w, show) in widths.items()},
            density={},
        )
    return found
