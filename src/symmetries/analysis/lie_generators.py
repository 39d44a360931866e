"""Unknown symmetries of a function of vectors: generators, name and certificates."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from symmetries._validation.checks import as_path, check_number, check_whole, invalid
from symmetries.analysis.certified_bases import (
    certified_basis,
    certified_result,
    faintly_ignored,
    leaves_surface,
    rests_on_few,
)
from symmetries.analysis.picture_generators import describe_picture_generators, refuse_table_options
from symmetries.analysis.settings import Session
from symmetries.analysis.table_fits import fit_table
from symmetries.analysis.tables import (
    TableData,
    VectorTable,
    far_away,
    nearly_dependent,
    read_table,
)
from symmetries.data.base import ImageSet
from symmetries.data.convert import Images, as_image_set
from symmetries.groups.matrix import MatrixGroup
from symmetries.lie.certificates import certify_fit, certify_function
from symmetries.lie.densities import keeps_data
from symmetries.lie.fields import Field
from symmetries.lie.fitting import FitQuality
from symmetries.lie.frames import shown_frame
from symmetries.lie.functions import Function
from symmetries.lie.groups import learned_group
from symmetries.lie.predictors import Predictor
from symmetries.lie.search import search
from symmetries.lie.slopes import where_slopes_explain
from symmetries.lie.units import split_halves
from symmetries.results.generators import FitSummary, GeneratorResult, Law
from symmetries.results.pictures import OrbitCurves

__all__ = ["describe_generators", "generators", "load_group"]

# One random network in 1,000 is this symmetric by chance, see docs/generators.md; slopes of fits
# are not known as well.
EPSILON = {"model": 0.005, "fit": 0.01}
MOVED = "data that is moved along the fields does not look like data that is not"
MISFIT = (
    "the fit misses part of the function, whose symmetries are not those of the fit; "
    "a trained model can be given instead"
)
STRAYS = "most of the variance of the outputs is that of a few rows that are far from the fit"
NOISE = "polynomials explain the outputs no better than a constant does"
SURFACE = (
    "data lies on a curved surface or has columns of few values, and slopes between them are not "
    "known; a degree or a model can be given if the function is known to be one"
)

DRAWN, STEPS, PANELS = 40, 25, 6  # points, steps and generators


def generators(
    data: TableData | ImageSet | DataLoader[Any],
    y: NDArray[Any] | Tensor | None = None,
    *,
    model: Function | Predictor | None = None,
    fields: str | Sequence[Field] = "affine",
    law: str | None = None,
    epsilon: float | None = None,
    level: float = 0.95,
    degree: int | None = None,
    target: Sequence[str] = (),
    time_step: float | None = None,
    vectors: int = 1,
    units: NDArray[Any] | Tensor | None = None,
    seed: int = 0,
) -> GeneratorResult:
    """Find the continuous symmetries of a function of vectors, name them, and certify them.

    The function is ``model``, or a polynomial that is fitted to (x, y), or the velocity of the
    system that made the trajectories, or the log-density of x. A field v is a symmetry if the
    function does not change along it (a density if the flow keeps it); its defect is how much it
    does change, relative to directions drawn at random. Pictures are moved by planar fields, or
    their colours by matrices; without a model the question is what keeps their distribution.

    Args:
        data: x (n, d), a pair (x, y), trajectories (N, T, d), or the path of an .npz or .csv file;
            pictures (n, C, H, W), a set of images or a ``DataLoader`` of them.
        y: outputs (n,) or (n, m).
        model: a module, a differentiable function of torch tensors (n, d), one row at a time, or a
            fitted estimator of scikit-learn, whose slopes are finite differences.
        fields: "affine", "linear", "quadratic", "cubic", or functions from points to velocities;
            for pictures "affine", "quadratic", "cubic", "fourier" or "colour".
        law: "invariant", "equivariant" (outputs change by a linear map), "dynamics" or "density"
            (of unlabelled data, by linear or affine fields); by default "dynamics" for
            trajectories and "invariant" for tables.
        epsilon: largest defect of what counts as a symmetry; by default 0.005 for models, 0.01
            for functions that are fitted, 0.1 for pictures.
        level: probability that all that is said holds.
        degree: of the polynomials; chosen on data held out by default.
        target: columns of a .csv file that are outputs.
        time_step: between the states of trajectories; 1 by default.
        vectors: number of vectors that x consists of and that one field moves together, such as 2
            for pairs of particles; generators are then those of one vector.
        units: number of the unit (n,) that each row belongs to, where rows depend on each other,
            such as repeated measurements; units are split and resampled as a whole.
        seed: of the halves into which data is split, and of the resampling.

    Returns:
        Generators with intervals for their defects, the name of the algebra and bounds on its
        dimension. ``fitted`` is the group of the generators, ready for actions on points.

    Example:
        >>> x = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
        >>> found = generators(x, model=lambda x: x.square().sum(-1), fields="linear")
        >>> found.name, found.dimension
        ('so(3)', (3, 3))
    """
    given = {"data": data, "fields": fields, "law": law, "epsilon": epsilon, "level": level}
    run = Session.of_call("generators", {**given, "degree": degree, "seed": seed}, seed, "cpu")
    if isinstance(data, ImageSet | DataLoader) or getattr(data, "ndim", 0) == 4:
        images = as_image_set(cast(Images, data))
        refuse_table_options(
            y=y, law=law, degree=degree, time_step=time_step, units=units, target=tuple(target)
        )
        return describe_picture_generators(images, model, fields, epsilon, level, run)
    table = read_table(data, y, target=target, time_step=time_step, units=units)
    return describe_generators(table, model, fields, law, epsilon, level, degree, vectors, run)


def load_group(path: str | Path, pictures: bool = False) -> MatrixGroup:
    """Return the group of the generators in a file that ``symmetries generators`` wrote.

    Args:
        path: of generators.json.
        pictures: whether it is to move pictures: generators of two coordinates, x to the right and
            y upwards, with 0 in the middle and 1 at the border, as 3 x 3 matrices.
    """
    file = as_path(path, "path").expanduser()
    if not file.is_file():
        got = repr(str(path))
        raise invalid("path", "an existing generators.json", got, "write one with generators --out")
    result = GeneratorResult.load(file)
    if pictures:
        return planar_group(result, "path")
    return _group_of(result, "path")


def planar_group(result: GeneratorResult, name: str) -> MatrixGroup:
    """Return the group of generators of two coordinates, which moves pictures, as 3 x 3 matrices.

    Args:
        result: with linear or affine generators.
        name: of the argument, for messages.
    """
    group = _group_of(result, name)
    side = len(next(part.matrix for part in result.generators if part.matrix is not None))
    if side != 3:
        got = f"generators of {side - 1} coordinates"
        raise invalid(name, "generators of two coordinates", got, "give generators of the plane")
    return group if group.planar else group.homogeneous()


def _group_of(result: GeneratorResult, name: str) -> MatrixGroup:
    matrices = [part.matrix for part in result.generators if part.matrix is not None]
    if not matrices:
        got = f"none: {result.answer}"
        raise invalid(name, "a result with linear or affine generators", got, "see its report")
    sizes = {len(part) for matrix in matrices for part in (matrix, *matrix)}
    largest = [
        max((abs(value) for row in matrix for value in row), default=0.0) for matrix in matrices
    ]
    if len(sizes) > 1 or min(sizes) < 2 or not 1e-100 < min(largest) <= max(largest) < 1e100:
        got = f"{len(matrices)} of sizes {sorted(sizes)}, up to {max(largest):g}"
        raise invalid(name, "square matrices of one size, not 0", got, "write the file anew")
    return learned_group(torch.tensor(matrices, dtype=torch.float64))


def describe_generators(
    table: VectorTable,
    model: Function | Predictor | None,
    fields: str | Sequence[Field],
    law: str | None,
    epsilon: float | None,
    level: float,
    degree: int | None,
    vectors: int,
    run: Session,
) -> GeneratorResult:
    """Return the result of :func:`generators` for a table."""
    epsilon = EPSILON["fit" if model is None else "model"] if epsilon is None else epsilon
    check_number(epsilon, "epsilon", 1e-12, 1)
    check_number(level, "level", 0.5, 0.9999)
    check_whole(run.seed, "seed", 0, 2**63 - 1)
    check_whole(vectors, "vectors", 1, table.x.shape[1])
    if degree is not None:
        check_whole(degree, "degree", 1, 20)
    rule = law or ("invariant" if table.trajectories is None else "dynamics")
    halves = split_halves(table.units, run.seed)
    if model is not None:
        source, quality = "model", None
        found = search(model, table.x, fields, rule, epsilon, halves[0], vectors)
        answers = certify_function(found, table.units, halves, epsilon, level)
        answers = where_slopes_explain(found.problem, found.coordinates, answers, epsilon)
    else:
        fitted = fit_table(table, rule, degree, halves[0])
        source, quality = fitted.source, fitted.quality
        found = search(
            *(fitted.fit(halves[0]), table.x, fields, rule, epsilon, halves[0], vectors),
            fitted.surface,
        )
        answers = certify_fit(
            found, fitted.fit, table.x, table.units, halves, epsilon, level, run.seed
        )
        told, certified = not answers.reason, answers.theta[: answers.least]
        if told and not quality.adequate(epsilon):
            reason = SURFACE if quality.undetermined else MISFIT
            reason = STRAYS if quality.strayed else reason
            answers = answers.untold(NOISE if quality.explained < 3 else reason)
        elif told and rule == "density" and not keeps_data(found, certified, halves[1]):
            answers = answers.untold(MOVED)
    answers = replace(answers, most=answers.most + found.unsearched)
    asked = (
        nearly_dependent(table.x, table.names),
        far_away(table.x, table.names),
        rests_on_few(found, answers, epsilon),
        faintly_ignored(found, epsilon),
        leaves_surface(found, answers) if model is not None else "",
        quality.stray_warning(epsilon) if quality else "",
    )
    doubts = tuple(filter(None, asked))
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=3)
    names = table.names[: len(table.names) // vectors]
    frame = shown_frame(table.x.reshape(-1, len(names)), names)
    matrices, shown, name = certified_basis(found, answers, frame, epsilon, level)
    result = certified_result(
        (answers, shown, name, epsilon, level, run),
        data=table.summary(found.problem.outputs if table.y is None else table.y.shape[1]),
        source=source,
        fields=fields if isinstance(fields, str) else ", ".join(found.family.names),
        law=cast(Law, rule),  # checked by the search
        span=found.chart.span,
        ignored=found.ignored,
        fit=None if quality is None else _summary(quality, epsilon),
        coordinates=frame.note,
        warnings=doubts,
    )
    group = learned_group(matrices) if len(matrices) else None
    texts = [part.text for part in shown]
    return result.attach(orbit_curves(table, matrices, texts), group)


def _summary(quality: FitQuality, epsilon: float) -> FitSummary:
    return FitSummary(
        degree=quality.degree,
        needed=quality.needed,
        unexplained=max(quality.unexplained, 0.0),
        adequate=quality.adequate(epsilon),
    )


def orbit_curves(table: VectorTable, matrices: Tensor, texts: Sequence[str]) -> OrbitCurves:
    """Orbits through some of the points, in the two coordinates that each generator moves most.

    Args:
        table: the data.
        matrices: generators, homogeneous matrices (k, d + 1, d + 1).
        texts: the generators as text.
    """
    panels = []
    points = table.x[:: max(1, len(table.x) // DRAWN)][:DRAWN]
    points = points[:, : matrices.shape[-1] - 1]  # the first, where a row has several vectors
    whole = torch.cat((points, torch.ones(len(points), 1, dtype=points.dtype)), 1)
    for matrix, text in zip(matrices[:PANELS], texts, strict=False):
        speed = (whole @ matrix.T)[:, :-1].square().mean(0)
        axes = sorted(speed.argsort(descending=True)[:2].tolist())
        axes = axes if len(axes) == 2 else [axes[0], axes[0]]
        size = float(points[:, axes].std() / (whole @ matrix.T)[:, axes].norm(dim=1).mean())
        times = torch.linspace(-0.6, 0.6, STEPS, dtype=points.dtype) * size
        flow = torch.linalg.matrix_exp(times[:, None, None] * matrix)
        curves = torch.einsum("tab,nb->nta", flow, whole)[..., axes]
        labels = tuple(table.names[i] for i in axes)
        panels.append((text, labels, points[:, axes].numpy(), curves.numpy()))
    return OrbitCurves(tuple(panels))
