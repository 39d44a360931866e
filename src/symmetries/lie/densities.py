r"""Polynomial log-densities of unlabelled data, by score matching.

The model log p = sum_k c_k m_k(x) + const has the score s = sum_k c_k grad m_k, and the objective

.. math:: J = \mathrm{E}\left[\tfrac12 |s|^2 + \Delta \log p\right]

(Hyvarinen, 2005) is quadratic in c, so that its minimum is the solution of linear equations,
without normalising constants, for densities that vanish at the border. A field v leaves p as it is
if s.v + div v = 0.
"""

import math

import torch
from torch import Tensor

from symmetries._validation.checks import check_finite, invalid
from symmetries.lie.fields import monomial_count, monomial_values, monomials
from symmetries.lie.fitting import PER_COEFFICIENT, FitQuality
from symmetries.lie.functions import SINGULAR, Polynomial
from symmetries.lie.search import Search

DEGREES = (2, 4, 6, 8, 10)
BATCH = 8192
NEIGHBOURS = 5
TIMES = (0.07, 0.13, 0.24, 0.43, 0.79)  # of the test along the flow, in standard deviations
COMPARED, APART = 2000, 3.5  # points in each sample of the test; standard errors


def fit_log_density(points: Tensor, degree: int) -> Polynomial:
    """Return the polynomial of a degree that is the log-density of points up to a constant.

    Args:
        points: (n, d).
        degree: the highest total degree; even ones can be normalised.

    Example:
        >>> x = torch.randn(4000, 1, generator=torch.Generator().manual_seed(0)).double()
        >>> log_density = fit_log_density(x, 2)  # of a normal distribution: -x^2 / 2
        >>> two = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
        >>> abs(float(log_density(two).diff(dim=0)) + 2) < 0.2
        True
    """
    exponents = monomials(points.shape[1], degree)[1:]
    if len(points) < 2 * len(exponents):
        expected = f"at least {2 * len(exponents)} points for degree {degree}"
        raise invalid("x", expected, len(points), "give more data, or a lower degree")
    centre, scale = points.mean(0), points.std(0)
    scale = torch.where(scale > 0, scale, 1.0)
    gram = torch.zeros(len(exponents), len(exponents), dtype=torch.float64)
    curved = torch.zeros(len(exponents), dtype=torch.float64)
    for part in ((points - centre) / scale).split(BATCH):
        slopes, second = monomial_derivatives(part, exponents)
        gram += torch.einsum("nqi,nri->qr", slopes, slopes)
        curved += second.sum(0)
    size = gram.diagonal().sqrt().clamp_min(1e-300)
    scaled = gram / size / size[:, None]
    solved = torch.linalg.lstsq(scaled, -curved / size, driver="gelsd", rcond=SINGULAR).solution
    return Polynomial(exponents, (solved / size)[:, None], centre, scale)


def monomial_derivatives(points: Tensor, exponents: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradients (n, q, d) and Laplacians (n, q) of monomials with exponents (q, d)."""
    slopes, second = [], torch.zeros(len(points), len(exponents), dtype=points.dtype)
    for i in range(points.shape[1]):
        power = exponents[:, i]
        lower = exponents.clone()
        lower[:, i] = (power - 1).clamp_min(0)
        slopes.append(power * monomial_values(points, lower))
        lower[:, i] = (power - 2).clamp_min(0)
        second = second + power * (power - 1) * monomial_values(points, lower)
    return torch.stack(slopes, -1), second


def score_losses(log_density: Polynomial, points: Tensor) -> Tensor:
    """The objective of score matching at each point, (n,), in standard deviations of the fit."""
    scaled = (points - log_density.centre) / log_density.scale
    slopes, second = monomial_derivatives(scaled, log_density.exponents)
    weights = log_density.coefficients[:, 0]
    score = torch.einsum("nqi,q->ni", slopes, weights)
    return score.square().sum(1) / 2 + second @ weights


def choose_density_degree(points: Tensor, first: Tensor, degree: int | None) -> FitQuality:
    """Choose the degree of a log-density on the first half of the data.

    Two more than the smallest degree that is within one standard error of the best on data held
    out; where the highest degree is needed, it may not be enough, which counts as structure.

    Args:
        points: (n, d).
        first: indices of the data that may choose.
        degree: as given; None chooses.
    """
    check_finite(points, "x")
    fitted, held_out = first[: len(first) // 2], first[len(first) // 2 :]
    limit = len(fitted) // PER_COEFFICIENT
    known = [n for n in DEGREES if monomial_count(points.shape[1], n) <= limit]
    if len(known) < 2:
        least = 4 * PER_COEFFICIENT * monomial_count(points.shape[1], DEGREES[1])
        raise invalid("x", f"at least {least} points", len(points), "give more data, or outputs y")
    losses = [score_losses(fit_log_density(points[fitted], n), points[held_out]) for n in known]
    best = min(range(len(known)), key=lambda i: float(losses[i].mean()))
    needed = known[best]
    for n, loss in zip(known, losses, strict=True):
        excess = loss - losses[best]
        if float(excess.mean()) <= float(excess.std()) / math.sqrt(len(excess)):
            needed = n
            break
    used = degree or min(needed + 2, known[-1])
    structure = math.inf if degree is None and needed == known[-1] else 0.0
    return FitQuality(used, needed, 1.0, structure)


def flow_structure(points: Tensor, moved: Tensor) -> float:
    """Return how different two samples are, by their nearest neighbours, in standard errors.

    The share of the neighbours of each point that are of its own sample, compared with one half
    (Schilling, 1986).

    Args:
        points: (n, d).
        moved: another sample (n, d) of the same distribution, moved along a flow.

    Example:
        >>> x = torch.randn(600, 2, generator=torch.Generator().manual_seed(0)).double()
        >>> abs(flow_structure(x[:300], x[300:])) < 3, flow_structure(x[:300], x[300:] + 1) > 5
        (True, True)
    """
    count = min(len(points), len(moved))
    both = torch.cat((points[:count], moved[:count]))
    own = torch.arange(2 * count) < count
    near = torch.cdist(both, both).fill_diagonal_(torch.inf).topk(NEIGHBOURS, largest=False).indices
    share = (own[near] == own[:, None]).double()
    usual = (count - 1) / (2 * count - 1)
    return float(share.mean() - usual) / math.sqrt(0.25 / share.numel() * 2)


def keeps_data(found: Search, theta: Tensor, rows: Tensor) -> bool:
    """Whether data that is moved along each of several fields looks like data that is not.

    Fields are followed for several times, as a finite rotation can be a symmetry by itself.

    Args:
        found: the equations, with the coordinates of all data.
        theta: coefficients (k, p) of linear or affine fields.
        rows: indices of data that has not chosen the fields.
    """
    z = found.coordinates[rows[: 2 * COMPARED]]
    still, other = z[: len(z) // 2], z[len(z) // 2 :]
    extended = torch.cat((other, torch.ones_like(other[:, :1])), 1)
    for field in found.family.combine(theta):
        whole = torch.zeros(z.shape[1] + 1, z.shape[1] + 1, dtype=z.dtype)
        whole[:-1, : field.shape[1]] = field
        speed = float((extended @ whole.T).square().sum(1).mean().sqrt())
        for time in TIMES:
            moved = extended @ torch.linalg.matrix_exp(time / speed * whole).T
            if flow_structure(still, moved[:, :-1]) > APART:
                return False
    return True
