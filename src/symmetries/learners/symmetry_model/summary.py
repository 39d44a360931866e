"""What symmetries were found: widths that do not depend on where prototypes happen to sit."""

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from symmetries.groups.affine import SIX, Affine2
from symmetries.groups.base import Parameter
from symmetries.groups.finite import FiniteGroup
from symmetries.groups.product import Product
from symmetries.learners.symmetry_model.health import content_kept

if TYPE_CHECKING:
    from symmetries.learners.symmetry_model.model import SymmetryModel

Verdict = Literal["absent", "partial", "full"]
MASS = 0.9
ABSENT_NOISE = 2.0  # times the noise floor
ABSENT_DEGREES = 5.0
ABSENT_PIXELS = 0.5
ABSENT_FACTOR = 1.03
FULL_SHARE = 0.8  # of the width that a uniform angle has
VERSIONS = 32  # random versions of each image for the noise floor
MOST_REPEATED = 256
BINS = 72


@dataclass(frozen=True)
class TransformationSummary:
    """One parameter, in the units of a person: degrees, pixels, factors, steps.

    Args:
        name: of the parameter.
        unit: "degrees", "pixels", "factor" or "step". A width in factors is the ratio of the
            ends: 1.2 means sizes that vary by 20 %.
        width90: length of the smallest set that holds 90 % of p(eta_i | x_hat), averaged over the
            data; eta is counted from the image, so that it does not depend on the prototype.
        noise_floor: the same length for repeated inference of one image.
        verdict: "absent", "partial" or "full".
        edges: of the histogram.
        density: of eta, counted from the prototype, averaged over the data; per unit of the
            parameter (per logarithm of a factor).
        per_class: width90 by class.
    """

    name: str
    unit: str
    width90: float
    noise_floor: float
    verdict: Verdict
    edges: tuple[float, ...]
    density: tuple[float, ...]
    per_class: dict[str, float]


@dataclass(frozen=True)
class SymmetrySummary:
    """All parameters, and how much of the pictures the prototypes keep (1: everything)."""

    transformations: tuple[TransformationSummary, ...]
    images: int
    content_kept: float

    def __getitem__(self, name: str) -> TransformationSummary:
        return next(t for t in self.transformations if t.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def highest_density_width(samples: Tensor, period: float | None = None) -> Tensor:
    """Length of the smallest set that holds 90 % of the samples' distribution.

    The sorted samples are cut into groups of about S / 48; each gap between groups holds the same
    mass, and the shortest gaps that together hold 90 % make up the set, which may be in pieces.

    Args:
        samples: (..., S).
        period: circumference, for angles: the gap across the seam counts too.

    Returns:
        (...).

    Example:
        >>> two_modes = torch.cat((torch.randn(5000) * 0.01 - 1, torch.randn(5000) * 0.01 + 1))
        >>> bool(highest_density_width(two_modes) < 0.1)
        True
    """
    count = samples.shape[-1]
    step = max(1, count // 48)
    if period is not None:
        samples = torch.remainder(samples, period)
    ordered = samples.sort(-1).values
    knots = ordered[..., ::step]
    if period is None:
        knots = torch.cat((knots, ordered[..., -1:]), -1) if (count - 1) % step else knots
    else:
        knots = torch.cat((knots, ordered[..., :1] + period), -1)
    gaps = knots.diff(dim=-1)
    # All gaps hold the same mass but the last, which may hold less.
    whole = count - 1 if period is None else count
    mass = torch.full_like(gaps, step / whole)
    mass[..., -1] = 1 - (gaps.shape[-1] - 1) * step / whole
    order = (mass / gaps.clamp_min(1e-12)).argsort(-1, descending=True)
    gaps, mass = gaps.gather(-1, order), mass.gather(-1, order)
    before = mass.cumsum(-1) - mass
    share = ((MASS - before) / mass).clamp(0, 1)
    return (gaps * share).sum(-1)


@lru_cache(maxsize=8)
def _small_sample_factor(count: int) -> float:
    """True width of a normal distribution over the mean width of samples of that size.

    Small samples look narrower than what they come from, as the set follows their chance gaps.
    """
    normal = torch.randn(4000, count, generator=torch.Generator().manual_seed(0))
    return 2 * 1.6449 / float(highest_density_width(normal).mean())


def verdict_of(parameter: Parameter, width: float, noise: float, side: int) -> Verdict:
    """The verdict on a width in the parameter's own unit.

    Absent: below twice the noise floor, or below 5 degrees, half a pixel or 3 %. Full, for angles:
    at least 80 % of what a uniform angle has (90 % of the circle). Partial otherwise.

    Args:
        parameter: what it is the width of.
        width: width90.
        noise: noise floor.
        side: longer side of the images in pixels.
    """
    least = {
        "rad": math.radians(ABSENT_DEGREES),
        "half-image": ABSENT_PIXELS * 2 / side,
        "log-factor": math.log(ABSENT_FACTOR),
    }.get(parameter.unit, 0.0)
    # A uniform angle has noise, too, but no room for twice its noise.
    uniform = MASS * 2 * parameter.bound
    if width < least or width < min(ABSENT_NOISE * noise, FULL_SHARE * uniform):
        return "absent"
    if parameter.angle and width >= FULL_SHARE * uniform:
        return "full"
    return "partial"


def summarise(
    model: "SymmetryModel",
    x: Tensor,
    labels: Tensor | None,
    class_names: tuple[str, ...] | None,
    *,
    n: int,
    seed: int,
) -> SymmetrySummary:
    """The summary of a model on images that are on its device."""
    generator = torch.Generator(x.device).manual_seed(seed)
    if isinstance(model.group, FiniteGroup):
        parts = _finite_parts(model, x, labels, class_names)
    else:
        parts = _lie_parts(model, x, labels, class_names, n, generator)
    return SymmetrySummary(tuple(parts), len(x), content_kept(model, x))


def _lie_parts(
    model: "SymmetryModel",
    x: Tensor,
    labels: Tensor | None,
    class_names: tuple[str, ...] | None,
    n: int,
    generator: torch.Generator,
) -> list[TransformationSummary]:
    side = max(model.shape[1:])
    eta = model.sample_eta(x, n, generator)  # (N, n, dim)
    counted = _counted_from_images(model, x, eta)
    misses = _misses(model, x[:MOST_REPEATED], generator)  # (M, versions, dim)
    small_sample = _small_sample_factor(VERSIONS)
    parts = []
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
        parts.append(
            TransformationSummary(
                name=parameter.name,
                unit=unit,
                width90=parameter.display(width, side)[0],
                noise_floor=parameter.display(noise, side)[0],
                verdict=verdict_of(parameter, width, noise, side),
                edges=tuple(parameter.display(float(e), side)[0] for e in edges),
                density=tuple((counts / counts.sum() / (2 * bound / BINS * scale)).tolist()),
                per_class={
                    name: parameter.display(float(widths[chosen].mean()), side)[0]
                    for name, chosen in _classes(labels, class_names)
                },
            )
        )
    return parts


@torch.no_grad()
def _counted_from_images(model: "SymmetryModel", x: Tensor, eta: Tensor) -> Tensor:
    """Samples of p(eta | x_hat) as transformations of x itself: log(e e_x^-1), (N, n, dim).

    Another choice of prototype, x_hat' = T_c^-1 x_hat, turns e to e c and e_x to e_x c, so this
    does not depend on it. A digit that only ever turns about its centre then shows no shift, even
    where its prototype sits off the centre, and its e must move it back.
    """
    group = model.group
    back = repeat_elements(group.inverse(model.element(x)), eta.shape[1])
    counted = named_log(group, group.compose(group.exp(eta), back))
    plain = eta - model.infer(x)[:, None]  # where a matrix has no real logarithm
    return torch.where(torch.isfinite(counted), counted, plain)


@torch.no_grad()
def _misses(model: "SymmetryModel", x: Tensor, generator: torch.Generator) -> Tensor:
    """How far repeated inference misses: log(r^-1 e_r e_x^-1), e_r found on x moved by r.

    (N, VERSIONS, dim), zero if f is equivariant. In the parameters of the group also where it is
    not closed (then the full logarithm is taken and its own columns kept).
    """
    limit = torch.tensor(model.bounds, device=x.device)
    rows = x.repeat_interleave(VERSIONS, 0)
    shape = (len(rows), len(model.bounds))
    random = limit * (2 * torch.rand(shape, generator=generator, device=x.device) - 1)
    group = model.group
    found = model.element(model.act(group.exp(random), rows))
    start = model.element(rows)
    gap = group.compose(group.exp(-random), found, group.inverse(start))
    misses = named_log(group, gap)
    # No real logarithm: as wrong as can be.
    misses = torch.where(torch.isfinite(misses), misses, limit)
    return misses.reshape(len(x), VERSIONS, -1)


def repeat_elements(element: Any, n: int) -> Any:  # noqa: ANN401 - elements differ by group
    """Elements with leading shape (N,) as (N, n)."""
    if isinstance(element, tuple):
        return tuple(repeat_elements(part, n) for part in element)
    return element[:, None].expand(len(element), n, *element.shape[1:])


def named_log(group: Any, element: Any) -> Tensor:  # noqa: ANN401 - elements differ by group
    """Logarithm (..., dim) in the group's own parameters, the rest of an open family dropped."""
    if isinstance(group, Product):
        pairs = zip(group.factors, element, strict=True)
        return torch.cat([named_log(f, e) for f, e in pairs], -1)
    eta = torch.as_tensor(group.log(element))
    if isinstance(group, Affine2) and not group.closed:
        columns = [SIX.index("scale_x" if name == "zoom" else name) for name in group.names]
        return eta[..., columns]
    return eta


@torch.no_grad()
def _finite_parts(
    model: "SymmetryModel",
    x: Tensor,
    labels: Tensor | None,
    class_names: tuple[str, ...] | None,
) -> list[TransformationSummary]:
    """One part for the whole group: how many elements hold 90 %."""
    group: Any = model.group
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
    mean = p.mean(0).cpu()
    return [
        TransformationSummary(
            name=",".join(group.names),
            unit="elements",
            width90=width,
            noise_floor=noise,
            verdict=verdict,
            edges=tuple(float(i) - 0.5 for i in range(order + 1)),
            density=tuple(mean.tolist()),
            per_class={
                name: float(counts[chosen].mean()) for name, chosen in _classes(labels, class_names)
            },
        )
    ]


def _classes(
    labels: Tensor | None, class_names: tuple[str, ...] | None
) -> list[tuple[str, Tensor]]:
    if labels is None:
        return []
    present = sorted(set(labels.tolist()))
    names = {i: class_names[i] if class_names else str(i) for i in present}
    return [(names[i], labels == i) for i in present]
