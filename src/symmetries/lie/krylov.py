r"""Symmetries among very many fields: the ones with the smallest defects, without a matrix.

A field A phi(z) of d coordinates has d q unknown numbers, and the triangular factor of their
equations d^2 q^2 / 2. Above some 12,000 unknowns it is not formed. Products of the equations
df(A phi) with blocks of fields take n d q operations each, and an iterative solver (LOBPCG;
Knyazev, 2001) finds the few fields with the smallest defects. Their span is then searched and
certified as any family is.
"""

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, lobpcg
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.lie.charts import RANK
from symmetries.lie.fields import FieldFamily, affine_features, linear_features
from symmetries.lie.functions import Function, value_and_jacobian

COUNT = 12  # fields that are looked for
SPARE = 6  # more in a block, so that those converge
ROUNDS, STEPS = 12, 25
TOLERANCE = 1e-9  # of residuals of squares of defects
BATCH = 4096


def best_fields(
    function: Function,
    points: Tensor,
    kind: str,
    first: Tensor,
    kept: Tensor,
    ignored: Tensor,
    epsilon: float,
) -> FieldFamily:
    """The span of the fields with the smallest defects on a part of the data and on all of it.

    A spectrum on either of these has the same smallest defects in this span as among all fields.

    Args:
        function: of coordinates (n, r), invariant ones are looked for.
        points: coordinates of all data, (n, r).
        kind: "linear" or "affine".
        first: indices of the data that may choose fields.
        kept: orthonormal axes (r', r) that the function depends on; fields move along these.
        ignored: the other axes, along which affine fields translate.
        epsilon: defects above twice this need not be exact.
    """
    slopes = torch.cat([value_and_jacobian(function, part)[1] for part in points.split(BATCH)])
    slopes = slopes @ kept.T
    inside = points @ kept.T
    chosen = affine_features if kind == "affine" else linear_features
    features = chosen(inside)
    unknowns = len(kept) * features.shape[1]
    rows = len(first) * slopes.shape[1]
    if rows < unknowns:
        least = 2 * -(-unknowns // slopes.shape[1])
        raise invalid("x", f"at least {least} points", len(points), "give more, or fewer columns")
    halves = ((slopes[first], features[first]), (slopes, features))
    parts = [smallest(*half, epsilon=epsilon) for half in halves]
    basis = torch.linalg.qr(torch.cat(parts).flatten(1).T).Q.T
    fields = basis.reshape(-1, len(kept), features.shape[1])
    moved = torch.einsum("ia,kij->kaj", kept, fields)
    whole = torch.cat((moved[..., : len(kept)] @ kept, moved[..., len(kept) :]), -1)
    if kind == "affine":
        shifts = torch.zeros(len(ignored), *whole.shape[1:], dtype=whole.dtype)
        shifts[..., -1] = ignored
        whole = torch.cat((whole, shifts))
    return FieldFamily(kind, chosen, whole, tuple(f"field {k + 1}" for k in range(len(whole))))


def smallest(slopes: Tensor, features: Tensor, count: int = COUNT, epsilon: float = 1.0) -> Tensor:
    """Fields (count, d, q) of the smallest defects, by slopes (n, m, d) and features (n, q).

    Args:
        slopes: of the function.
        features: of the points.
        count: number of fields.
        epsilon: defects above twice this need not be exact.
    """
    n, _, d = slopes.shape
    weights = slopes.square().sum((1, 2)) / d
    size, axes = torch.linalg.eigh(features.T @ (weights[:, None] * features) / n)
    sound = size > RANK**2 * size[-1]
    whitening = axes[:, sound] / size[sound].sqrt()
    white = features @ whitening  # in which the denominator of the defect is the sum of squares
    q = white.shape[1]

    def normal(block: NDArray[np.float64]) -> NDArray[np.float64]:
        fields = torch.from_numpy(np.ascontiguousarray(block.T, dtype=np.float64)).reshape(-1, d, q)
        total = torch.zeros_like(fields)
        for slope, feature in zip(slopes.split(BATCH), white.split(BATCH), strict=True):
            moved = torch.einsum("nq,kdq->nkd", feature, fields)
            change = torch.einsum("nmd,nkd->nmk", slope, moved)
            pulled = torch.einsum("nmk,nmd->nkd", change, slope)
            total += torch.einsum("nkd,nq->kdq", pulled, feature)
        return total.flatten(1).numpy().T / n

    operator = LinearOperator(
        (d * q, d * q), matvec=lambda v: normal(v.reshape(-1, 1)), matmat=normal, dtype=np.float64
    )
    block = np.random.default_rng(0).normal(size=(d * q, count + SPARE))
    for _ in range(ROUNDS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of spare fields that have not converged
            values, block = lobpcg(operator, block, largest=False, tol=TOLERANCE, maxiter=STEPS)
        values, block = values[np.argsort(values)], block[:, np.argsort(values)]
        some, best = values[:count], block[:, :count]
        missed = np.linalg.norm(normal(best) - best * some, axis=0)  # bounds the errors of values
        exact = missed <= 0.01 * some + 10 * TOLERANCE
        if bool((exact | (some - missed > 4 * epsilon**2)).all()):
            white_fields = torch.from_numpy(np.ascontiguousarray(best.T)).reshape(-1, d, q)
            found: Tensor = white_fields @ whitening.T
            return found
    got = f"residuals of up to {missed.max():.1g} after {ROUNDS * STEPS} steps"
    raise invalid("x", "equations that iteration solves", got, "give more rows, or fewer columns")
