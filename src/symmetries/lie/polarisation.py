r"""The polarisation matrix of a function, and its spectrum of defects.

A field v = C phi is a symmetry of f if df(v) = 0 (invariant), df(v) = B f (equivariant), or, where
f is the velocity of a dynamical system, df(v) = dv(f). These are linear in the unknown numbers, one
row for each point and output. The defect of a field is

.. math:: \sqrt{\frac{\mathrm{E}\,|df(v) - B f|^2}
          {\mathrm{E}\,|df|^2 |v|^2 / d + \mathrm{E}\,|B f|^2}},

in coordinates in which data has unit covariance, with every output divided by its standard
deviation: how much f changes along v, relative to how much it would change along directions drawn
at random with the same speed. It is 0 for a symmetry and about 1 for a field that has nothing to do
with f. Where f is a log-density, div v is added to df(v), and f is not scaled. For dynamics B f is
dv(f), and :math:`|df|^2 + |f|^2` takes the place of :math:`|df|^2`, since a uniform flow has no
slope.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries._validation.checks import check_choice, invalid
from symmetries.lie.charts import RANK
from symmetries.lie.fields import FieldFamily
from symmetries.lie.functions import Function, value_and_jacobian
from symmetries.lie.triangular import TriangularFactor, right_singular

LAWS = ("invariant", "equivariant", "dynamics", "density")
NUMBERS = 2**24  # that rows of one batch may have


@dataclass(frozen=True)
class Moments:
    """Triangular factors of a set of points: all that spectra need to know of it.

    Args:
        violation: of the rows df(v_k) - ..., (n m, p).
        speed: of the features times |df| / sqrt(d), (n, q).
        answer: of what the fields are compared with: f (n, m), or dphi(f) (n, q).
        points: number n.
    """

    violation: TriangularFactor
    speed: TriangularFactor
    answer: TriangularFactor
    points: int

    def merge(self, other: "Moments") -> "Moments":
        """Return the moments of both sets."""
        return Moments(
            self.violation.merge(other.violation),
            self.speed.merge(other.speed),
            self.answer.merge(other.answer),
            self.points + other.points,
        )


@dataclass(frozen=True)
class Spectrum:
    """Defects of a family of fields, ascending, and the fields that have them.

    Args:
        defects: (k,).
        theta: coefficients (k, p) of the fields, orthonormal in the denominator of the defect.
        vanishing: number of combinations of fields that are zero on all data, which are left out.
    """

    defects: Tensor
    theta: Tensor
    vanishing: int


@dataclass(frozen=True)
class Problem:
    """The linear equations of the symmetries of one function.

    Args:
        function: from coordinates z (n, r) to outputs (n, m), of unit size where ``law`` is not
            "dynamics".
        family: in which fields are looked for.
        law: "invariant", "equivariant", "dynamics" or "density".
        outputs: number m.
    """

    function: Function
    family: FieldFamily
    law: str
    outputs: int

    def __post_init__(self) -> None:
        check_choice(self.law, LAWS, "law")

    @property
    def unknowns(self) -> int:
        """Number of unknown numbers: p, and m^2 for the outputs of equivariant functions."""
        return self.family.size + (self.outputs**2 if self.law == "equivariant" else 0)

    @property
    def answers(self) -> int:
        """Number of columns of :attr:`Moments.answer`."""
        if self.law == "dynamics":
            return self.family.coefficients.shape[2]
        return self.outputs if self.law == "equivariant" else 0

    def empty(self) -> Moments:
        """Return the moments of no points."""
        features = self.family.coefficients.shape[2]
        factors = (TriangularFactor(n) for n in (self.unknowns, features, self.answers))
        violation, speed, answer = factors
        return Moments(violation, speed, answer, 0)

    def measure(self, points: Tensor) -> Moments:
        """Return the moments of points (n, r)."""
        found = self.empty()
        for violation, speed, answer in self._rows(points):
            found.violation.add(violation.flatten(0, 1))
            found.speed.add(speed)
            if self.answers:
                found.answer.add(answer)
        return Moments(found.violation, found.speed, found.answer, len(points))

    def velocity(self, theta: Tensor, points: Tensor) -> Tensor:
        """Return velocities (n, r) of points along the field of coefficients (p,)."""
        return self.family.features(points) @ self.family.combine(theta[: self.family.size]).T

    def violations(self, points: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Squares of violation and of its denominator, (n, k) each, of k fields at each point."""
        above, below = [], []
        columns = self._denominator_columns(theta)
        for violation, speed, answer in self._rows(points):
            above.append((violation @ theta.T).square().sum(1))
            parts = torch.cat((speed, answer), -1)
            below.append(torch.einsum("nq,kqi->nki", parts, columns).square().sum(-1))
        return torch.cat(above), torch.cat(below)

    def spectrum(self, moments: Moments) -> Spectrum:
        """Return defects of the family by the rows of these moments."""
        rows = moments.violation.rows
        if rows < self.unknowns:
            expected = f"at least {self.unknowns} rows (points times outputs)"
            raise invalid("x", expected, rows, "give more points, or a smaller family of fields")
        return generalised_spectrum(moments, self.denominator(moments))

    def denominator(self, moments: Moments) -> Tensor:
        """Return a factor (any, p) of the quadratic form in the denominator of the defect."""
        unit = torch.eye(self.unknowns, dtype=torch.float64)
        columns = self._denominator_columns(unit)  # (p, q + answers, i)
        features = self.family.coefficients.shape[2]
        parts = [moments.speed.matrix() @ columns[:, :features]]
        if self.answers:
            parts.append(moments.answer.matrix() @ columns[:, features:])
        stacked = torch.cat(parts, 1).flatten(1).T / moments.points**0.5
        factor = TriangularFactor(self.unknowns)
        factor.add(stacked)
        return factor.matrix()

    def _denominator_columns(self, theta: Tensor) -> Tensor:
        """(k, q + answers, i): rows (speed, answer) times this have the denominator's squares."""
        p, d = self.family.size, self.family.dim
        field = self.family.combine(theta[:, :p]).mT  # (k, q, d)
        if self.law in ("invariant", "density"):
            return field
        if self.law == "dynamics":
            nothing = torch.zeros_like(field)
            return torch.cat((torch.cat((field, nothing), -1), torch.cat((nothing, field), -1)), 1)
        m, k = self.outputs, len(theta)
        answer = theta[:, p:].reshape(k, m, m).mT
        upper = torch.cat((field, field.new_zeros(k, field.shape[1], m)), -1)
        return torch.cat((upper, torch.cat((field.new_zeros(k, m, d), answer), -1)), 1)

    def _rows(self, points: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield violations (n, m, p), weighted features (n, q) and answers (n, a), in batches."""
        each = max(self.unknowns, self.family.coefficients[:1].numel())
        batch = max(1, NUMBERS // max(1, self.outputs * each))
        for z in points.split(min(batch, 4096)):
            value, jacobian = value_and_jacobian(self.function, z)
            features = self.family.features(z)
            products = torch.einsum("nmi,nj->nmij", jacobian, features).flatten(2)
            violation = products @ self.family.coefficients.flatten(1).T
            slope = jacobian.square().sum((1, 2))
            if self.law == "dynamics":  # a uniform flow has slopes of zero
                slope = slope + value.square().sum(1)
            weight = (slope / self.family.dim).sqrt()
            answer = value[:, :0]
            if self.law == "equivariant":
                unit = torch.eye(self.outputs, dtype=z.dtype)
                outer = torch.einsum("ij,nl->nijl", unit, value).flatten(2)
                violation, answer = torch.cat((violation, -outer), -1), value
            elif self.law == "density":  # linear or affine fields, whose divergence is constant
                square = self.family.coefficients[:, :, : self.family.dim]
                violation = violation + square.diagonal(dim1=1, dim2=2).sum(-1)
            elif self.law == "dynamics":
                answer = torch.func.jvp(self.family.features, (z,), (value,))[1]
                violation = violation - torch.einsum(
                    "kij,nj->nik", self.family.coefficients, answer
                )
            yield violation, weight[:, None] * features, answer


def generalised_spectrum(moments: Moments, below: Tensor) -> Spectrum:
    """Defects by these moments, for a factor (any, p) of the denominator's quadratic form."""
    size, axes = right_singular(below)
    kept = size > RANK * size[0]
    whitening = axes[kept].T / size[kept]
    scaled = moments.violation.matrix() / moments.points**0.5 @ whitening
    defects, fields = right_singular(scaled, full=True)
    short = whitening.shape[1] - len(defects)
    defects = torch.cat((defects, defects.new_zeros(short)))
    theta = (whitening @ fields.T).T
    return Spectrum(defects.flip(0), theta.flip(0), int((~kept).sum()))


def merged(parts: Sequence[Moments]) -> Moments:
    """Return the moments of all parts together."""
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.merge(part)
    return whole
