r"""Symmetries of pictures: planar vector fields and colour matrices, which nobody named.

A planar field v moves a picture I by :math:`-v \cdot \nabla I`, a colour matrix A by A I in every
pixel. Both are linear in the unknown numbers. They are symmetries of a function f of pictures if
:math:`df(-v \cdot \nabla I) = 0`, and of a distribution of pictures if no statistic of it changes:
:math:`\mathrm{E}\, d\varphi_j(-v \cdot \nabla I) = 0` for all test functions, here cosines of
random projections of the pictures. The defect is the size of the violation, relative to fields of
the same family that are drawn at random: for a function, those that change pictures as fast; for a
distribution, those that change the statistics of single pictures as fast.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from symmetries._validation.checks import check_choice, invalid
from symmetries.lie.fields import monomial_values, monomials, polynomial_name
from symmetries.lie.functions import Function, value_and_jacobian
from symmetries.lie.polarisation import Moments, Problem, Spectrum, generalised_spectrum
from symmetries.lie.triangular import TriangularFactor

DEGREES = {"affine": 1, "quadratic": 2, "cubic": 3}
KINDS = (*DEGREES, "fourier", "colour")
BATCH = 64
SMALLEST = 16  # pixels; finite differences of smaller pictures are too coarse
WAVES = 2  # highest frequency of fields of the Fourier basis
TESTS = 256  # test functions of a distribution
COARSE = 8  # pictures are averaged over such a grid for the test functions


@dataclass(frozen=True)
class PictureFields:
    """A family of velocities of pictures, linear in the picture.

    Args:
        kind: "affine", "quadratic", "cubic", "fourier" or "colour".
        names: of the fields.
        weights: values (p, 2, H, W) of planar fields, or matrices (p, C, C).
    """

    kind: str
    names: tuple[str, ...]
    weights: Tensor

    @property
    def size(self) -> int:
        """Number p of fields."""
        return len(self.weights)

    @property
    def rows(self) -> int:
        """Components of a field: 2 of planar ones, C of colours."""
        return self.weights.shape[1]

    def velocities(self, pictures: Tensor) -> Tensor:
        """Return velocities (n, p, C H W) of pictures (n, C, H, W)."""
        if self.kind == "colour":
            return torch.einsum("pcd,ndhw->npchw", self.weights, pictures).flatten(2)
        right, up = gradients(pictures)
        moved = torch.einsum("phw,nchw->npchw", self.weights[:, 0], right)
        moved = moved + torch.einsum("phw,nchw->npchw", self.weights[:, 1], up)
        return -moved.flatten(2)


def picture_fields(kind: str, shape: tuple[int, int, int]) -> PictureFields:
    """Return all fields of a kind for pictures of a shape (C, H, W).

    Planar coordinates are x to the right and y upwards, 0 in the middle and 1 at the border of the
    longer side.

    Example:
        >>> picture_fields("cubic", (1, 16, 16)).size
        20
        >>> picture_fields("affine", (1, 16, 16)).names[:2]
        ('d/dx', 'x d/dx')
    """
    check_choice(kind, KINDS, "fields")
    channels, height, width = shape
    if kind == "colour":
        if channels < 2:
            got = f"{channels} channel"
            raise invalid("fields", "pictures with colours", got, "look for planar fields")
        unit = torch.eye(channels**2, dtype=torch.float64)
        letters = "rgb" if channels == 3 else tuple(f"c{i + 1}" for i in range(channels))
        names = tuple(f"{b} d/d{a}" for a in letters for b in letters)
        return PictureFields(kind, names, unit.reshape(-1, channels, channels))
    if min(height, width) < SMALLEST:
        got = f"{height} x {width} pixels"
        remedy = "take larger pictures: these have no slopes to speak of"
        raise invalid("pictures", f"at least {SMALLEST} pixels along each side", got, remedy)
    points = plane_points(height, width)
    if kind == "fourier":
        values, words = fourier_values(points)
    else:
        exponents = monomials(2, DEGREES[kind])
        values = monomial_values(points, exponents)
        words = [polynomial_name(row, ("x", "y")) for row in exponents.tolist()]
    weights = torch.zeros(2, len(words), 2, height, width, dtype=torch.float64)
    for axis in range(2):
        weights[axis, :, axis] = values.T.reshape(-1, height, width)
    names = tuple(f"{word}d/d{axis}" for axis in "xy" for word in words)
    return PictureFields(kind, names, weights.flatten(0, 1))


def plane_points(height: int, width: int) -> Tensor:
    """Return coordinates (H W, 2) of the centres of the pixels."""
    half = max(height, width) / 2
    x = (torch.arange(width, dtype=torch.float64) + 0.5 - width / 2) / half
    y = -(torch.arange(height, dtype=torch.float64) + 0.5 - height / 2) / half
    return torch.stack(torch.meshgrid(y, x, indexing="ij")[::-1], -1).reshape(-1, 2)


def fourier_values(points: Tensor) -> tuple[Tensor, list[str]]:
    """Products of waves of x and of y at points (n, 2), and their names; the constant first."""
    columns, words = [], []
    pairs = [(i, j) for i in range(WAVES + 1) for j in range(-WAVES * (i > 0), WAVES + 1)]
    for i, j in pairs:
        phase = math.pi * (i * points[:, 0] + j * points[:, 1])
        columns.append(phase.cos())
        words.append("" if i == j == 0 else f"cos({i}x{j:+d}y) ")
        if (i, j) != (0, 0):
            columns.append(phase.sin())
            words.append(f"sin({i}x{j:+d}y) ")
    return torch.stack(columns, 1), words


def gradients(pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Return derivatives (n, C, H, W) to the right and upwards, by central differences."""
    half = max(pictures.shape[-2:]) / 2
    down, right = torch.gradient(pictures, dim=(-2, -1))
    return half * right, -half * down


@dataclass(frozen=True)
class PictureProblem:
    """The linear equations of the symmetries of a function of pictures.

    It answers the questions of :class:`~symmetries.lie.polarisation.Problem`.

    Args:
        function: from pictures (n, C, H, W) to outputs (n, m) of unit size.
        family: in which fields are looked for.
        outputs: number m.
        sensitivity: mean square change of the outputs along a random field of unit speed.
    """

    function: Function
    family: PictureFields
    outputs: int
    sensitivity: float = 1.0

    @property
    def unknowns(self) -> int:
        """Number of unknown numbers."""
        return self.family.size

    def empty(self) -> Moments:
        """Return the moments of no pictures."""
        violation, speed, answer = (TriangularFactor(n) for n in (self.unknowns, self.unknowns, 0))
        return Moments(violation, speed, answer, 0)

    def measure(self, points: Tensor) -> Moments:
        """Return the moments of pictures (n, C, H, W)."""
        found = self.empty()
        for violation, velocity, _ in self.rows(points):
            found.violation.add(violation.flatten(0, 1))
            found.speed.add(velocity.mT.flatten(0, 1))
        return replace(found, points=len(points))

    def spectrum(self, moments: Moments) -> Spectrum:
        """Return defects of the family by these moments."""
        return generalised_spectrum(moments, self.denominator(moments))

    def denominator(self, moments: Moments) -> Tensor:
        """Return a factor (any, p) of the quadratic form in the denominator of the defect."""
        factor: Tensor = moments.speed.matrix() * (self.sensitivity / moments.points) ** 0.5
        return factor

    def velocity(self, theta: Tensor, points: Tensor) -> Tensor:
        """Return velocities (n, C, H, W) of pictures along the field of coefficients (p,)."""
        whole = torch.einsum("p,p...->...", theta, self.family.weights)
        return replace(self.family, weights=whole[None]).velocities(points).reshape(points.shape)

    def violations(self, points: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return squares of violation and of its denominator, (n, k) each, of k fields."""
        above, below = [], []
        for violation, velocity, _ in self.rows(points):
            above.append((violation @ theta.T).square().sum(1))
            speed = torch.einsum("npi,kp->nki", velocity, theta).square().sum(-1)
            below.append(self.sensitivity * speed)
        return torch.cat(above), torch.cat(below)

    def rows(self, points: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Violations (n, m, p), velocities (n, p, C H W), mean square slopes (n,), in batches."""
        for part in points.split(BATCH):
            pictures = part.double()
            velocity = self.family.velocities(pictures)
            inner = _of_rows(self.function, pictures.shape[1:])
            _, jacobian = value_and_jacobian(inner, pictures.flatten(1))
            slope = jacobian.square().mean(2).sum(1)
            yield torch.einsum("nmi,npi->nmp", jacobian, velocity), velocity, slope

    def with_units(self, points: Tensor) -> "PictureProblem":
        """Return the same with the sensitivity that these pictures show.

        It is the mean over the fields of the family, or over random changes of pixels where that is
        more, so that a function which no field changes has a scale as well.
        """
        plain = replace(self, sensitivity=1.0)
        slope = torch.cat([part[2] for part in plain.rows(points)]).mean()
        if not float(slope) > 0:
            got = "the same output for all pictures"
            raise invalid("model", "a function that varies", got, "every field is a symmetry of it")
        fields = plain.spectrum(plain.measure(points)).defects.square().mean()
        return replace(self, sensitivity=float(torch.maximum(fields, slope)))


Equations = Problem | PictureProblem  # of the symmetries of a function of vectors, or of pictures


@dataclass(frozen=True)
class PictureEquations:
    """The equations of the symmetries of a function of pictures, and the pictures."""

    problem: PictureProblem
    coordinates: Tensor


def _of_rows(function: Function, shape: torch.Size) -> Function:
    return lambda x: function(x.reshape(-1, *shape))


@dataclass(frozen=True)
class CosineTests:
    """Test functions of a distribution of pictures: cosines of projections of averaged pictures.

    Args:
        middle: mean of the averaged pictures, (q,).
        waves: of the projections, (q, m).
        phases: (m,).
    """

    middle: Tensor
    waves: Tensor
    phases: Tensor

    def changes(self, family: PictureFields, pictures: Tensor) -> Tensor:
        """Return derivatives (n, m, p) of the test functions along the fields."""
        parts = []
        for part in pictures.split(BATCH):
            one = part.double()
            slopes = -((_coarse(one).flatten(1) - self.middle) @ self.waves + self.phases).sin()
            velocity = family.velocities(one).reshape(-1, *one.shape[1:])
            along = _coarse(velocity).flatten(1) @ self.waves  # averages are linear
            parts.append(along.reshape(len(one), family.size, -1).mT * slopes[..., None])
        return torch.cat(parts)


def cosine_tests(pictures: Tensor, generator: torch.Generator) -> CosineTests:
    """Random test functions of a distribution of pictures.

    Pictures are averaged over a coarse grid, so that neither noise nor the grid of pixels matters.
    Means of the cosines over a distribution determine it, as far as these averages do.

    Args:
        pictures: (n, C, H, W), which scale the projections.
        generator: draws them.
    """
    few = _coarse(pictures[:2000].double()).flatten(1)
    total = float((few - few.mean(0)).square().sum(1).mean().sqrt())
    if not total > 0:
        raise invalid("pictures", "pictures that differ", "copies of one", "give more pictures")
    # Also along directions in which pictures do not vary: fields may move them there.
    draws = torch.randn(few.shape[1], TESTS, generator=generator, dtype=torch.float64)
    scales = 0.5 + 1.5 * torch.rand(TESTS, generator=generator, dtype=torch.float64)
    phases = 2 * math.pi * torch.rand(TESTS, generator=generator, dtype=torch.float64)
    return CosineTests(few.mean(0), draws * scales / total, phases)


def _coarse(pictures: Tensor) -> Tensor:
    height, width = (min(COARSE, n) for n in pictures.shape[-2:])
    return torch.nn.functional.adaptive_avg_pool2d(pictures, (height, width))
