"""Simple bases of certified generators of vectors, with their names and intervals."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from symmetries.analysis.settings import Session
from symmetries.lie.bases import (
    field_text,
    large_terms,
    latex_matrix,
    rounded,
    scaled,
    simple_basis,
    thresholded,
)
from symmetries.lie.certificates import Certificates, each_level
from symmetries.lie.fields import monomial_count
from symmetries.lie.fitting import LOOKED_AT, MOST_COEFFICIENTS
from symmetries.lie.frames import ShownFrame
from symmetries.lie.intervals import TINY
from symmetries.lie.names import AlgebraName, name_algebra
from symmetries.lie.search import DEGREES, Search
from symmetries.lie.surfaces import vanishing
from symmetries.results.generators import FieldDefect, FieldGenerator, GeneratorResult

FAINT = 0.3  # times epsilon
ALONG = 0.05  # defect, below which a field counts as tangent to a surface
FEW = 0.02  # part of the rows
SOME = 8  # fields whose violations are looked at


def certified_basis(
    found: Search, answers: Certificates, frame: ShownFrame, epsilon: float, level: float
) -> tuple[Tensor, tuple[FieldGenerator, ...], AlgebraName]:
    """Return a simple basis of what was certified, with an interval for each of its members."""
    theta = answers.theta[: answers.least]
    has_matrices = found.family.kind in ("linear", "affine")
    side = len(frame.names) + 1
    if not has_matrices or len(theta) == 0:
        text = f"{len(theta)} fields" if len(theta) else "no symmetry"
        name = AlgebraName(text, rf"\text{{{text}}}", (), 0, 0, 0.0)
        inner = matrices = torch.zeros(0, side, side, dtype=torch.float64)
        basis = theta
    else:
        inner, basis = _simplest(found, answers, frame, epsilon, level)
        matrices = frame.outward(inner)
        unit = frame.of(found.chart.single or found.chart)
        name = name_algebra(_pure_translations(found, frame, inner), frame.names, unit)
    if has_matrices:
        texts = [field_text(part, frame.names) for part in inner]
    else:
        texts = [_field_words(found, frame, row) for row in basis]
    shown = certified_fields(answers, basis, matrices if has_matrices else None, texts, level)
    return matrices, shown, name


def certified_fields(
    answers: Certificates, basis: Tensor, matrices: Tensor | None, texts: list[str], level: float
) -> tuple[FieldGenerator, ...]:
    """The members (k, p) of a basis with their texts, matrices if they have any, and intervals."""
    each = 1 - (1 - level) / 2 / max(1, len(basis))
    intervals = answers.judge(list(basis[:, None]), each) if answers.judge else answers.worst
    return tuple(
        FieldGenerator(
            text=text,
            matrix=None if matrices is None else tuple(map(tuple, matrices[i].tolist())),
            latex="" if matrices is None else latex_matrix(scaled(matrices[i])),
            defect=interval.value,
            low=interval.low,
            high=interval.high,
        )
        for i, (text, interval) in enumerate(zip(texts, intervals, strict=False))
    )


Certified = tuple[
    Certificates, tuple[FieldGenerator, ...], AlgebraName, float, float, Session
]  # certificates, generators, their name, epsilon, level, run


def certified_result(certified: Certified, **others: Any) -> GeneratorResult:  # noqa: ANN401
    """Return the result of ``generators``; ``others`` are its fields that are not certified."""
    answers, shown, name, epsilon, level, run = certified
    return GeneratorResult(
        epsilon=epsilon,
        level=level,
        dimension=(answers.least, answers.most),
        name=name.text,
        latex=name.latex,
        levi=name.levi,
        radical=name.radical,
        closure=name.closure,
        generators=shown,
        spectrum=tuple(
            FieldDefect(defect=s.value, low=s.low, high=s.high, verdict=answers.verdict(i))
            for i, s in enumerate(answers.spectrum)
        ),
        reason=answers.reason,
        run=run.info(),
        **others,
    )


def rests_on_few(found: Search, answers: Certificates, epsilon: float) -> str:
    """Return a warning if fields are symmetries for few rows only, or an empty string.

    Rows far out, where slopes are large, carry the mean that a defect is. If few of them carry half
    of it, and it is more than twice epsilon over the half of all rows that carry least, answers are
    about the former only.
    """
    if not answers.least:
        return ""
    some = answers.theta[: answers.least][-SOME:]  # those with the largest defects
    above, below = found.problem.violations(found.coordinates, some)
    size, order = below.sum(1).sort(descending=True)
    few = int((size.cumsum(0) < size.sum() / 2).sum()) + 1
    light = order[len(order) // 2 :]
    defect = float((above[light].sum(0) / below[light].sum(0).clamp_min(TINY)).max().sqrt())
    if few > FEW * len(order) or defect <= 2 * epsilon:
        return ""
    return (
        f"{few} of {len(order)} rows, those with the largest slopes and speeds, carry half of what "
        f"defects are relative to. Over the half of the rows that carry least, a defect is "
        f"{defect:.2g}, and not {epsilon:g}. Leave few rows out, or use logarithms of the columns."
    )


def faintly_ignored(found: Search, epsilon: float) -> str:
    """A warning if directions count as ignored that the function depends on, or an empty string."""
    if found.faint < FAINT * epsilon:
        return ""
    return (
        f"The function changes along {found.ignored} of {found.chart.dim} directions by up to "
        f"{found.faint:.2g} of what it does along random ones. As that is less than epsilon, it "
        "counts as not depending on them: fields that mix them with others were not searched, and "
        f"the name leaves them out. An epsilon below {found.faint / 2:.1g} keeps them."
    )


def leaves_surface(found: Search, answers: Certificates) -> str:
    """Return a warning if a model's certified fields move data off a surface, or an empty string.

    Where all data satisfies equations of degree 2 (a sphere, columns of two values), a model has
    not seen anything else, and its slopes across the surface are its own, not those of the task.
    """
    z = found.coordinates[:: -(-len(found.coordinates) // LOOKED_AT)]
    count = monomial_count(found.chart.dim, 2)
    if not answers.least or count > min(len(z), MOST_COEFFICIENTS):
        return ""
    equations = vanishing(z, 2)
    if equations is None:
        return ""
    number = equations.coefficients.shape[1]
    crossing = replace(found.problem, function=equations, law="invariant", outputs=number)
    theta = answers.theta[: answers.least, : found.family.size]
    above, below = crossing.violations(z, theta)
    if float((above.sum(0) / below.sum(0).clamp_min(TINY)).max().sqrt()) <= ALONG:
        return ""
    return (
        f"Data satisfies {number} polynomial equation{'s' if number > 1 else ''} of degree 2 (a "
        "curved surface, or columns of few values), and certified fields move it off that surface. "
        "There the answer is about the model only, not about data: it may have learned nothing."
    )


def _simplest(
    found: Search, answers: Certificates, frame: ShownFrame, epsilon: float, level: float
) -> tuple[Tensor, Tensor]:
    """Return a simple basis (k, d + 1, d + 1) in shown coordinates, and its coefficients (k, p).

    Its entries are rounded, or small ones left out, where the data that judges does not tell the
    difference: the largest defect of the simpler span is within the interval of the span that was
    found, and certified to be at most epsilon, too.
    """
    theta = answers.theta[: answers.least]
    spanned = frame.inward(found.matrices(theta))
    matrices = simple_basis(spanned)
    basis = _coefficients(spanned, matrices) @ theta
    if answers.judge is None or found.problem.unknowns > found.family.size:
        return matrices, basis
    unit = torch.eye(found.problem.unknowns, dtype=torch.float64)
    every = frame.inward(found.matrices(unit))
    for simple in (rounded(matrices), thresholded(matrices)):
        if simple is None:
            continue
        inside = _coefficients(every, simple)
        error = torch.einsum("kp,pab->kab", inside, every) - simple
        if float(error.norm()) > 1e-8:
            continue
        worst = answers.judge([inside], (1 + each_level(level)) / 2)[0]  # two tests
        if worst.value <= answers.worst[answers.least - 1].high and worst.high <= epsilon:
            return simple, inside
    return matrices, basis


def _pure_translations(found: Search, frame: ShownFrame, matrices: Tensor) -> Tensor:
    """Fields that shift all data equally, up to 1 %, without their linear part: translations."""
    chart = found.chart.single or found.chart
    x = chart.offset + found.coordinates.reshape(-1, chart.dim) @ chart.frame.T
    u = (x - frame.centre) / frame.scale
    mean = u.mean(0)
    scatter = (u - mean).T @ (u - mean) / len(u)
    linear = matrices[:, :-1, :-1]
    shifts = linear @ mean + matrices[:, :-1, -1]  # mean of the field
    turns = torch.einsum("kij,jl,kil->k", linear, scatter, linear)
    same = turns < 1e-4 * (turns + shifts.square().sum(1))
    cleaned = matrices.clone()
    cleaned[same, :-1, :-1] = 0
    cleaned[same, :-1, -1] = shifts[same]
    return cleaned


def _coefficients(spanning: Tensor, matrices: Tensor) -> Tensor:
    """Return coefficients (k, p) of matrices in others (p, n, n), by least squares."""
    left, right = (part.reshape(len(part), -1).T for part in (spanning, matrices))
    solution: Tensor = torch.linalg.lstsq(left, right, driver="gelsd").solution
    return solution.T


def _field_words(found: Search, frame: ShownFrame, theta: Tensor) -> str:
    """Return a polynomial field as text, or a sum of the user's fields; large terms only."""
    family = found.family
    if family.kind == "polynomial":
        degree = DEGREES[found.kind]
        return frame.polynomial_text(found.chart, family, theta, degree)
    return " ".join(large_terms(theta[: family.size], family.names))
