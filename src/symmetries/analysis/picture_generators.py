"""Unnamed symmetries of pictures: planar vector fields and matrices of colours."""

from typing import Literal

import torch
from torch import Tensor

from symmetries._utils.sampling import some_of
from symmetries._utils.text import printable
from symmetries._validation.checks import check_choice, check_number, check_whole, invalid, short
from symmetries.analysis.certified_bases import certified_fields, certified_result
from symmetries.analysis.settings import Session
from symmetries.data.base import ImageSet
from symmetries.lie.bases import field_text, large_terms, rounded, simple_basis
from symmetries.lie.certificates import Certificates, certify_function, each_level
from symmetries.lie.functions import Function, as_function
from symmetries.lie.groups import learned_group
from symmetries.lie.names import AlgebraName, name_algebra
from symmetries.lie.picture_certificates import certify_distribution
from symmetries.lie.pictures import (
    KINDS,
    TESTS,
    PictureEquations,
    PictureFields,
    PictureProblem,
    cosine_tests,
    picture_fields,
)
from symmetries.lie.planar_names import ALIKE, SAME, flow_lines, nearest_named
from symmetries.lie.predictors import Predictor
from symmetries.lie.slopes import where_slopes_explain
from symmetries.lie.units import split_halves
from symmetries.results.generators import GeneratorResult, VectorSummary
from symmetries.results.pictures import OrbitCurves

EPSILON = 0.1  # pixels and interpolation alone cost some per cent
PUSHED = 500  # pictures that tell whether a model jumps
MOST = 2**25  # numbers of a distribution's changes, which are held in memory


def describe_picture_generators(
    data: ImageSet,
    model: Function | Predictor | None,
    fields: object,
    epsilon: float | None,
    level: float,
    run: Session,
) -> GeneratorResult:
    """Return the result of ``generators`` for pictures.

    Args:
        data: the pictures.
        model: from pictures to outputs (n, m); None asks about the distribution of the pictures.
        fields: "affine", "quadratic", "cubic", "fourier" or "colour".
        epsilon: largest defect of a symmetry.
        level: probability that all that is said holds.
        run: its seed is that of the halves, of the test functions and of the resampling.
    """
    pictures = data.images
    epsilon = EPSILON if epsilon is None else epsilon
    check_choice(fields, KINDS, "fields")
    kind = str(fields)
    check_number(epsilon, "epsilon", 1e-12, 1)
    check_number(level, "level", 0.5, 0.9999)
    check_whole(run.seed, "seed", 0, 2**63 - 1)
    family = picture_fields(kind, (pictures.shape[1], pictures.shape[2], pictures.shape[3]))
    units = pictures.flatten(1).unique(dim=0, return_inverse=True)[1]  # copies are one unit
    if model is None:  # they count once
        order = units.argsort(stable=True)
        first = order[units[order].diff(prepend=units.new_tensor([-1])) > 0].sort().values
        pictures = pictures[some_of(first, MOST // (TESTS * family.size))]
        units = torch.arange(len(pictures))
    halves = split_halves(units, run.seed)
    law: Literal["invariant", "density"] = "density" if model is None else "invariant"
    if model is None:
        generator = torch.Generator().manual_seed(run.seed)
        tests = cosine_tests(pictures[halves[0]] if len(halves[0]) else pictures, generator)
        answers = certify_distribution(tests, family, pictures, halves, epsilon, level, run.seed)
        outputs = TESTS
    else:
        problem = _task(model, family, pictures, halves[0])
        found = PictureEquations(problem, pictures)
        answers = certify_function(found, units, halves, epsilon, level, farther=False)
        answers = where_slopes_explain(problem, some_of(pictures, PUSHED), answers, epsilon)
        outputs = problem.outputs
    basis = _basis(family, answers, epsilon, level)
    matrices = _matrices(family, basis)
    words = [_word(family, row, answers, epsilon, level, len(basis)) for row in basis]
    title = _name(family, words, matrices)
    coordinates = _coordinates(family)
    texts = []
    for word, row in zip(words, basis, strict=True):
        text = field_words(family, row)
        texts.append(f"{word}: {text}" if word else text)
    shown = certified_fields(answers, basis, matrices, texts, level)
    result = certified_result(
        (answers, shown, title, epsilon, level, run),
        data=VectorSummary(
            name=printable(data.name),
            count=len(pictures),
            inputs=coordinates,
            outputs=outputs,
            units=len(units.unique()),
        ),
        source="model" if model is not None else f"{TESTS} statistics of the pictures",
        fields="colour" if kind == "colour" else f"planar {kind}",
        law=law,
        span=len(coordinates),
        ignored=0,
    )
    group = None
    if matrices is not None and len(matrices):
        group = learned_group(matrices)
        if kind == "affine" and not group.planar:
            group = group.homogeneous()
    drawn = () if family.kind == "colour" else zip(basis[:6], texts, strict=False)
    curves = tuple(flow_lines(family, row, text) for row, text in drawn)
    return result.attach(OrbitCurves(curves), group)


def _task(
    model: Function | Predictor, family: PictureFields, pictures: Tensor, first: Tensor
) -> PictureProblem:
    """Return the equations of a function of pictures, with outputs of unit size."""
    function = as_function(model, pictures)
    with torch.no_grad():
        outputs = torch.cat([function(part.double()) for part in pictures[first].split(256)])
    size = outputs.std(0)
    varies = size > 1e-12 * outputs.abs().amax(0)
    if not bool(varies.any()):
        got = "the same output for all pictures"
        raise invalid("model", "a function that varies", got, "give another model")
    kept = varies.nonzero()[:, 0]
    problem = PictureProblem(lambda x: function(x)[:, kept] / size[kept], family, len(kept))
    return problem.with_units(pictures[first][:1000])


def _basis(family: PictureFields, answers: Certificates, epsilon: float, level: float) -> Tensor:
    """A simple basis (k, p) of certified fields; rounded if the data cannot tell the difference."""
    theta = answers.theta[: answers.least]
    if len(theta) == 0:
        return theta
    basis = simple_basis(theta.reshape(len(theta), family.rows, -1))
    simple = rounded(basis)
    if len(theta) == 1 and family.kind != "colour":  # one with a name, if it does as well
        alike, _, named = nearest_named(family, theta[0])
        simple = named.reshape(1, family.rows, -1) if alike > 0.5 else simple
    if simple is not None and answers.judge is not None:
        worst = answers.judge([simple.flatten(1)], each_level(level))[0]
        if worst.value <= answers.worst[answers.least - 1].high and worst.high <= epsilon:
            return simple.flatten(1)
    return basis.flatten(1)


def _matrices(family: PictureFields, basis: Tensor) -> Tensor | None:
    """Return homogeneous matrices of affine fields or of colours; None for other fields."""
    if family.kind not in ("affine", "colour"):
        return None
    inner = basis.reshape(len(basis), family.rows, family.size // family.rows)
    size = family.rows + 1
    whole = torch.zeros(len(basis), size, size, dtype=torch.float64)
    if family.kind == "colour":
        whole[:, :-1, :-1] = inner
    else:  # columns 1, x, y
        whole[:, :-1, :-1], whole[:, :-1, -1] = inner[..., 1:], inner[..., 0]
    return whole


def _word(
    family: PictureFields,
    row: Tensor,
    answers: Certificates,
    epsilon: float,
    level: float,
    count: int,
) -> str:
    """The word for a planar field, or nothing; of one that it is like only if that passes, too."""
    if family.kind == "colour":
        return ""
    alike, word, named = nearest_named(family, row)
    if alike <= ALIKE:
        return ""
    if alike < SAME and answers.judge is not None:
        each = 1 - (1 - level) / 2 / count
        return word if answers.judge([named[None]], each)[0].high <= epsilon else f"like {word}"
    return word


def _name(family: PictureFields, words: list[str], matrices: Tensor | None) -> AlgebraName:
    if not words:
        return AlgebraName("no symmetry", r"\text{no symmetry}", (), 0, 0, 0.0)
    if matrices is not None:
        return name_algebra(matrices, _coordinates(family))
    text = ", ".join(word or "another field" for word in words)
    return AlgebraName(text, rf"\text{{{text}}}", (), 0, 0, 0.0)


def _coordinates(family: PictureFields) -> tuple[str, ...]:
    if family.kind != "colour":
        return ("x", "y")
    return ("r", "g", "b") if family.rows == 3 else tuple(f"c{i + 1}" for i in range(family.rows))


def field_words(family: PictureFields, theta: Tensor) -> str:
    """Return a field as text, large terms only."""
    matrices = _matrices(family, theta[None])
    if matrices is not None:
        return field_text(matrices[0], _coordinates(family))
    terms = large_terms(theta, family.names)
    return " ".join(terms[:8]) + (" ..." if len(terms) > 8 else "")


def refuse_table_options(**given: object) -> None:
    """Raise an error for options that only tables and trajectories have."""
    for name, value in given.items():
        if value is not None and value != ():
            remedy = "leave it out; a task with labels needs a trained model"
            raise invalid(name, "nothing for pictures", short(value), remedy)
