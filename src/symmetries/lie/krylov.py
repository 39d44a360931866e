r"""Symmetries among very many fields: the ones with the smallest defects, without a matrix.

A field A phi(z) of d coordinates has d q unknown numbers, and certificates need some sixty spectra
of their triangular factor. Above 1,000 unknowns an iterative solver (LOBPCG; Knyazev, 2001) finds
the few fields with the smallest defects instead. Products of the equations df(A phi) with blocks of
fields take n d q operations each, in float64. The quadratic form, plus a multiple of the identity,
is factorised once in single precision, and its inverse is what makes ten steps enough. Brackets of
symmetries are symmetries too, and complete them; the solver looks for more among fields that are
orthogonal to all of them. Their span is then searched and certified as any family is.
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

COUNT = 12  # fields that are looked for at a time
SPARE = 6  # more in a block, so that those converge
MOST_FOUND = 200  # symmetries, after which no more are looked for
ROUNDS, STEPS = 20, 5
MOST_FACTORISED = 24_000  # unknown numbers, whose factor has 2.3 gigabytes in single precision
ROWS = 2  # for each unknown number, that the factor is computed from
LEAST = 1e-10  # squares of defects that products in double precision can tell from 0
CONVERGED = 1e-6  # of the square of a defect that counts as one of a symmetry
SHIFT = 1e-5  # of the largest entry of the quadratic form, which single precision can tell from 0
PART = 512  # rows of a product, which stay in the cache
NEW = 0.03  # of the largest bracket: what leaves the span by less is an error of the solver
BATCH = 4096
Block = NDArray[np.float64]  # fields as columns, in units of the denominator of the defect


def best_fields(
    function: Function,
    points: Tensor,
    kind: str,
    first: Tensor,
    kept: Tensor,
    ignored: Tensor,
    epsilon: float,
) -> tuple[FieldFamily, bool]:
    """Return the span of the fields with the smallest defects on a part of the data.

    Args:
        function: of coordinates (n, r), invariant ones are looked for.
        points: coordinates of all data, (n, r).
        kind: "linear" or "affine".
        first: indices of the data that may choose fields.
        kept: orthonormal axes (r', r) that the function depends on; fields move along these.
        ignored: the other axes, along which affine fields translate.
        epsilon: defects above 1.4 times this need not be exact.

    Returns:
        The family, and whether the defects of all other fields are larger than epsilon.
    """
    z = points[first]
    chosen = affine_features if kind == "affine" else linear_features
    features = chosen(z @ kept.T)
    unknowns = len(kept) * features.shape[1]
    if unknowns > MOST_FACTORISED:
        remedy = "use fewer coordinates, such as principal ones"
        raise invalid("x", f"at most {MOST_FACTORISED} unknown numbers", f"{unknowns}", remedy)
    slopes = torch.cat([value_and_jacobian(function, part)[1] for part in z.split(BATCH)])
    if len(first) * slopes.shape[1] < unknowns:
        least = 2 * -(-unknowns // slopes.shape[1])
        raise invalid("x", f"at least {least} points", len(points), "give more, or fewer columns")
    fields, complete = smallest(slopes @ kept.T, features, epsilon)
    moved = torch.einsum("ia,kij->kaj", kept, fields)
    whole = torch.cat((moved[..., : len(kept)] @ kept, moved[..., len(kept) :]), -1)
    if kind == "affine":
        shifts = torch.zeros(len(ignored), *whole.shape[1:], dtype=whole.dtype)
        shifts[..., -1] = ignored
        whole = torch.cat((whole, shifts))
    names = tuple(f"field {k + 1}" for k in range(len(whole)))
    return FieldFamily(kind, chosen, whole, names), complete


def smallest(slopes: Tensor, features: Tensor, epsilon: float) -> tuple[Tensor, bool]:
    """Fields (k, d, q) of the smallest defects, and whether all others are larger than epsilon.

    Args:
        slopes: of the function, (n, m, d).
        features: of the points, (n, q).
        epsilon: fields with defects up to 1.4 times this are looked for, and twelve more.
    """
    equations = _Equations(slopes, features)
    limit = max(2 * epsilon**2, LEAST)  # of squares of defects
    factor = equations.factor(limit)
    found = np.zeros((equations.size, 0))
    while found.shape[1] < MOST_FOUND:
        values, block = equations.solve(found, limit, factor)
        more = block[:, values <= limit]
        rest = block[:, values > limit]
        found = equations.completed(np.hstack((found, more)), more, limit)
        if rest.shape[1]:  # all that is orthogonal to them is larger
            break
    complete = found.shape[1] < MOST_FOUND
    both = np.hstack((found, rest)) if complete else found[:, :MOST_FOUND]
    return equations.fields(np.linalg.qr(both)[0]), complete


class _Equations:
    """The equations df(A phi) = 0 as products with blocks of fields.

    Columns of a block are fields in coordinates in which the denominator of the defect is the sum
    of squares, so that their Rayleigh quotients are squares of defects.
    """

    def __init__(self, slopes: Tensor, features: Tensor) -> None:
        n, _, self.dim = slopes.shape
        weights = slopes.square().sum((1, 2)) / self.dim
        size, axes = torch.linalg.eigh(features.T @ (weights[:, None] * features) / n)
        sound = size > RANK**2 * size[-1]
        self.whitening = axes[:, sound] / size[sound].sqrt()
        self.unwhitening = axes[:, sound] * size[sound].sqrt()
        self.slopes, self.white = slopes, features @ self.whitening
        self.size = self.dim * self.white.shape[1]

    def fields(self, block: Block) -> Tensor:
        """Return matrices (k, d, q) of the fields of a block."""
        rows = torch.from_numpy(np.ascontiguousarray(block.T))
        found: Tensor = rows.reshape(-1, self.dim, self.white.shape[1]) @ self.whitening.T
        return found

    def block(self, fields: Tensor) -> Block:
        """Return the block of fields (k, d, q)."""
        columns: Block = (fields @ self.unwhitening).flatten(1).numpy().T
        return columns

    def normal(self, block: Block) -> Block:
        """Return the product of the quadratic form of violations with a block."""
        count, q = block.shape[1], self.white.shape[1]
        fields = torch.from_numpy(np.ascontiguousarray(block.T, dtype=np.float64))
        columns = fields.reshape(count, self.dim, q).permute(2, 0, 1).flatten(1)  # (q, k d)
        total = torch.zeros_like(columns)
        for slope, feature in zip(self.slopes.split(PART), self.white.split(PART), strict=True):
            moved = (feature @ columns).reshape(len(feature), count, self.dim)
            pulled = moved @ slope.mT @ slope
            total.addmm_(feature.T, pulled.flatten(1))
        product: Block = total.reshape(q, count, self.dim).permute(1, 2, 0).flatten(1).numpy().T
        return product / len(self.slopes)

    def factor(self, shift: float) -> Tensor:
        """Cholesky factor (p, p) of the quadratic form plus about ``shift``, in single precision.

        Its blocks are E s_i s_j phi phi', symmetric in both pairs: a quarter of them are computed.
        """
        d, q = self.dim, self.white.shape[1]
        rows, columns = torch.tril_indices(d, d), torch.tril_indices(q, q)
        total = torch.zeros(rows.shape[1], columns.shape[1])
        count = min(len(self.slopes), -(-ROWS * self.size // self.slopes.shape[1]))
        some = (part[:count].float().split(PART) for part in (self.slopes, self.white))
        for slope, feature in zip(*some, strict=True):
            pairs = (slope.mT @ slope)[:, rows[0], rows[1]]
            total.addmm_(pairs.T, feature[:, columns[0]] * feature[:, columns[1]])
        place = torch.empty(q, q, dtype=torch.long)
        place[columns[0], columns[1]] = place[columns[1], columns[0]] = torch.arange(total.shape[1])
        form = torch.empty(d, q, d, q)
        for (i, j), values in zip(rows.T.tolist(), total / count, strict=True):
            form[i, :, j] = form[j, :, i] = values[place]
        square = form.view(self.size, self.size)
        diagonal = square.diagonal()
        diagonal += max(shift, SHIFT * float(diagonal.max()))
        factor: Tensor = torch.linalg.cholesky(square)
        return factor

    def solve(self, found: Block, limit: float, factor: Tensor) -> tuple[Block, Block]:
        """Return the twelve smallest squares of defects among fields orthogonal to those found."""

        def inverse(block: Block) -> Block:
            columns = torch.from_numpy(block.reshape(self.size, -1)).float()
            solved: Block = torch.cholesky_solve(columns, factor).double().numpy()
            return solved

        shape = (self.size, self.size)
        product = LinearOperator(
            shape, matvec=lambda v: self.normal(v.reshape(-1, 1)), matmat=self.normal, dtype=float
        )
        scaled = LinearOperator(shape, matvec=inverse, matmat=inverse, dtype=float)
        block = np.random.default_rng(found.shape[1]).normal(size=(self.size, COUNT + SPARE))
        others = found if found.shape[1] else None
        for _ in range(ROUNDS):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of spare fields that have not converged
                values, block = lobpcg(
                    *(product, block), M=scaled, Y=others, largest=False, tol=1e-12, maxiter=STEPS
                )
            order = np.argsort(values)
            values, block = values[order], block[:, order]
            some, best = values[:COUNT], block[:, :COUNT]
            missed = np.linalg.norm(self.normal(best) - best * some, axis=0)  # bounds their errors
            exact = (missed <= 0.01 * some) | (some <= CONVERGED * limit)
            if bool((exact | (some - missed > limit)).all()):
                return some, best
        got = f"residuals of up to {missed.max():.1g} after {ROUNDS * STEPS} steps"
        remedy = "give more rows, fewer columns, or a larger epsilon"
        raise invalid("x", "equations that iteration solves", got, remedy)

    def completed(self, found: Block, more: Block, limit: float) -> Block:
        """Fields with their brackets, as far as squares of defects of these are below a limit."""
        while more.shape[1] and found.shape[1] < MOST_FOUND:
            some, others = (self._square(part) for part in (found[:, :COUNT], more))
            brackets = some[:, None] @ others - others @ some[:, None]
            drawn = self.block(brackets[..., : self.dim, :].flatten(0, 1))
            for _ in range(2):  # once more for what rounding has left
                drawn = drawn - found @ (found.T @ drawn)
            axes, size, _ = np.linalg.svd(drawn, full_matrices=False)
            whole = float(torch.linalg.matrix_norm(brackets).max())
            axes = axes[:, size > max(NEW * size[0], RANK * whole)]
            values, turned = np.linalg.eigh(axes.T @ self.normal(axes))
            more = (axes @ turned)[:, values <= limit]
            found = np.hstack((found, more))
        return found

    def _square(self, block: Block) -> Tensor:
        """Fields as square matrices, which have brackets: affine ones with a row of zeros."""
        fields = self.fields(block)
        missing = fields.shape[2] - fields.shape[1]
        return torch.nn.functional.pad(fields, (0, 0, 0, missing))
