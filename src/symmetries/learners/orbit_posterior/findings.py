"""Everything that a report on an orbit posterior shows, in plain numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symmetries._validation.checks import check_classes
from symmetries.learners.orbit_posterior.crossing import Crossed, possible, usable_pictures
from symmetries.learners.orbit_posterior.reading import Densities
from symmetries.learners.orbit_posterior.summary import OrbitSummary, summarise
from symmetries.learners.orbit_posterior.symmetric import contents_repeat
from symmetries.learners.orbit_posterior.verdicts import LearningCurve, headline
from symmetries.training.step import mix

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

FEWEST = 20  # pictures of a class for a width of its own


@dataclass(frozen=True)
class PictureFinding:
    """One picture: its density for each parameter, around the centre of its smallest set.

    Args:
        index: of the picture in the data.
        widths: 90 % widths by parameter, in the units of a person.
        centres: of the smallest sets, as moves from the picture as it is.
        densities: by parameter, over the edges that the summary has; they add up to one.
    """

    index: int
    widths: dict[str, float]
    centres: dict[str, float]
    densities: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class OrbitFindings:
    """A summary, and the pictures behind it.

    Args:
        summary: widths, intervals, verdicts, the self-test, warnings.
        surest: pictures with the narrowest densities, by the fits that have not seen them.
        least_sure: pictures with the widest ones.
        per_class: by parameter and class, the width of told pictures and its interval.
        all_widths: by parameter, of all pictures that were read.
        rows: which pictures these are.
    """

    summary: OrbitSummary
    surest: tuple[PictureFinding, ...]
    least_sure: tuple[PictureFinding, ...]
    per_class: dict[str, dict[str, tuple[float, float, float]]]
    all_widths: dict[str, tuple[float, ...]]
    rows: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def findings(
    model: "OrbitPosterior",
    images: Tensor,
    labels: Tensor | None = None,
    class_names: Sequence[str] | None = None,
    *,
    examples: int = 8,
    seed: int = 0,
) -> OrbitFindings:
    """What a fitted model says about the pictures of its fit.

    Args:
        model: fitted.
        images: (N, C, H, W) of its fit, in their order, shrunk as the model's network wants them.
        labels: (N,) for widths by class.
        class_names: of the labels.
        examples: how many of the surest and of the least sure pictures.
        seed: of views, samples and the bootstrap.
    """
    summary, found = summarise(model, images, seed)
    side = max(model.shape[1:])
    widths = {d.coordinate.name: d.widths() for d in found.reading}
    first = found.reading[0].coordinate.name if len(widths) == 1 else None
    # With several parameters pictures are ordered by the mean of their relative widths.
    relative = [w / w.median().clamp_min(1e-9) for w in widths.values()]
    order = (widths[first] if first else torch.stack(relative).mean(0)).argsort()
    picked = [order[:examples].tolist(), order.flip(0)[:examples].tolist()]
    every = {
        d.coordinate.name: tuple(
            d.coordinate.display(w, side)[0] for w in widths[d.coordinate.name].tolist()
        )
        for d in found.reading
    }
    return OrbitFindings(
        summary=summary,
        surest=tuple(_picture(found, place, side) for place in picked[0]),
        least_sure=tuple(_picture(found, place, side) for place in picked[1]),
        per_class=_by_class(model, found, images, labels, class_names, seed),
        all_widths=every,
        rows=tuple(found.rows.tolist()),
    )


def _picture(found: Crossed, place: int, side: int) -> PictureFinding:
    own = {
        d.coordinate.name: Densities(d.coordinate, d.mass[place : place + 1], d.samples)
        for d in found.reading
    }
    return PictureFinding(
        index=int(found.rows[place]),
        widths={n: d.coordinate.display(float(d.widths()), side)[0] for n, d in own.items()},
        centres={n: d.coordinate.display(float(d.centres()), side)[0] for n, d in own.items()},
        densities={n: tuple(d.mass[0].tolist()) for n, d in own.items()},
    )


def _by_class(
    model: "OrbitPosterior",
    found: Crossed,
    images: Tensor,
    labels: Tensor | None,
    names: Sequence[str] | None,
    seed: int,
) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Widths of told pictures of each class, and their intervals."""
    if labels is None:
        return {}
    check_classes(labels, len(images))
    usable = usable_pictures(model, images, found)[0]
    classes = labels[found.rows].cpu()
    side, rule = max(model.shape[1:]), model.config.reading
    plain = model.frame.plain
    repeats = plain and contents_repeat(images[found.rows], model.chart, model.frame)
    curve = LearningCurve(model.smaller_share, repeats)
    tables: dict[str, Mapping[str, tuple[float, float, float]]] = {}
    for choosing, reading, fewer in zip(found.choosing, found.sets, found.fewer, strict=True):
        coordinate, table = choosing.coordinate, {}
        for value in sorted(set(classes.tolist())):
            own = usable & (classes == value)
            if int(own.sum()) < FEWEST:
                continue
            line = headline(
                choosing.widths()[own],
                reading[own],
                fewer[own[: len(fewer)]],
                found.folds[own],
                rule,
                0.02 if coordinate.kind == "finite" else choosing.cell,
                mix(seed, value),
                curve,
            )
            line = possible(line, coordinate)
            low, high = (coordinate.display(end, side)[0] for end in (line.low, line.high))
            name = names[value] if names else str(value)
            table[name] = (coordinate.display(line.width, side)[0], low, high)
        tables[coordinate.name] = table
    return {name: dict(table) for name, table in tables.items()}
