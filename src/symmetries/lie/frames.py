"""Coordinates in which generators are shown: the data's own, unless these hide what they are."""

from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.lie.charts import Chart
from symmetries.lie.fields import FieldFamily, monomial_values, monomials, polynomial_name

FAR = 10.0  # standard deviations between the data and the origin
UNEVEN = 100.0  # ratio of the largest and the smallest standard deviation
SAMPLES = 8  # points for each monomial


@dataclass(frozen=True)
class ShownFrame:
    """Coordinates u of points x = centre + scale u, with names.

    Args:
        centre: (d,).
        scale: (d,).
        names: of the coordinates, with a prime if they are not those of the data.
        note: what the prime means, or an empty string.
    """

    centre: Tensor
    scale: Tensor
    names: tuple[str, ...]
    note: str

    def inward(self, matrices: Tensor) -> Tensor:
        """Return homogeneous matrices of fields of x, (k, d + 1, d + 1), as fields of u."""
        change = self._change()
        inner: Tensor = torch.linalg.solve(change, matrices) @ change
        return inner

    def outward(self, matrices: Tensor) -> Tensor:
        """Return homogeneous matrices of fields of u as fields of x, of unit length."""
        change = self._change()
        moved = change @ matrices @ torch.linalg.inv(change)
        unit: Tensor = moved / moved.norm(dim=(1, 2), keepdim=True)
        return unit

    def _change(self) -> Tensor:
        dim = len(self.centre)
        change = torch.eye(dim + 1, dtype=torch.float64)
        change[:dim, :dim] = self.scale.diag()
        change[:dim, dim] = self.centre
        return change

    def of(self, chart: Chart) -> Tensor:
        """Homogeneous matrix (d + 1, r + 1) from coordinates z of a chart to u."""
        whole = torch.zeros(len(self.centre) + 1, chart.dim + 1, dtype=torch.float64)
        whole[:-1, :-1] = chart.frame / self.scale[:, None]
        whole[:-1, -1] = (chart.offset - self.centre) / self.scale
        whole[-1, -1] = 1
        return whole

    def polynomial_text(self, chart: Chart, family: FieldFamily, theta: Tensor, degree: int) -> str:
        """Return a polynomial field of the chart's coordinates as one of u; large terms only."""
        exponents = monomials(len(self.centre), degree)
        generator = torch.Generator().manual_seed(0)
        count = SAMPLES * len(exponents)
        u = torch.randn(count, len(self.centre), generator=generator, dtype=torch.float64)
        z = chart.coordinates(self.centre + self.scale * u)
        field = family.features(z) @ family.combine(theta[: family.size]).T
        field = field @ chart.frame.T / self.scale
        solved = torch.linalg.lstsq(monomial_values(u, exponents), field).solution.T  # (d, q)
        solved = solved / solved.abs().max()
        terms = [
            f"{float(solved[i, j]):+.2g} {polynomial_name(row, self.names)}d/d{self.names[i]}"
            for i in range(len(solved))
            for j, row in enumerate(exponents.tolist())
            if abs(float(solved[i, j])) >= 0.05
        ]
        return " ".join(terms[:8]) + (" ..." if len(terms) > 8 else "")


def shown_frame(points: Tensor, names: tuple[str, ...]) -> ShownFrame:
    """The data's own coordinates; centred if they are far from 0, scaled if units are uneven.

    Args:
        points: (n, d).
        names: of the coordinates.
    """
    mean, spread = points.mean(0), points.std(0)
    varies = spread > 1e-12 * points.abs().amax(0)
    some = spread[varies]
    far = bool((mean.abs()[varies] > FAR * some).any())
    uneven = len(some) > 0 and bool(some.max() > UNEVEN * some.min())
    centre = mean if far else torch.zeros_like(mean)
    scale = torch.where(varies, spread, 1.0) if uneven else torch.ones_like(mean)
    words = ["distances from the mean"] if far else []
    words += ["in standard deviations"] if uneven else []
    note = f"Primed coordinates are {', '.join(words)}." if words else ""
    return ShownFrame(centre, scale, tuple(n + "'" for n in names) if words else names, note)
