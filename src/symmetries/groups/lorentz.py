r"""The proper, orthochronous Lorentz group SO+(1, 3) of boosts and rotations.

Elements are closed forms of SL(2, C): with Pauli matrices :math:`\sigma`,

.. math:: A = \exp\tfrac12(\zeta - i\theta)\cdot\sigma = \cosh z + \frac{\sinh z}{z}\,M, \quad
          M = \tfrac12(\zeta - i\theta)\cdot\sigma,\ z^2 = -\det M, \qquad
          \Lambda^\mu{}_\nu = \tfrac12\,\mathrm{tr}\,\sigma_\mu A \sigma_\nu A^\dagger.
"""

import math

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats
from symmetries.groups.base import Parameter
from symmetries.groups.matrix_base import ClosedMatrixGroup
from symmetries.groups.rotations import ANGLES
from symmetries.groups.special import check_eta

BOOSTS = tuple(Parameter(f"boost_{axis}", "rapidity", 1.0) for axis in "xyz")
_PAULI = (((1, 0), (0, 1)), ((0, 1), (1, 0)), ((0, -1j), (1j, 0)), ((1, 0), (0, -1)))
_NEAR = 0.25  # |z|^2 below which the series are used
_COSH = tuple(1 / math.factorial(2 * n) for n in range(9))
_SINH = tuple(1 / math.factorial(2 * n + 1) for n in range(9))


class Lorentz(ClosedMatrixGroup):
    """Boosts and rotations of four-vectors (E, x, y, z), as matrices (..., 4, 4).

    The parameters are boost_x, boost_y, boost_z, a rapidity along each axis (positive: the vector
    gains momentum along it), and the rotation of :class:`~symmetries.groups.rotations.SO3`; an
    element is one exponential of their sum. ``log`` is accurate, with gradients, for rotations up
    to pi.

    Example:
        >>> boost = Lorentz().exp(torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]))
        >>> at_rest = torch.tensor([1.0, 0.0, 0.0, 0.0])
        >>> [round(v, 3) for v in (boost @ at_rest).tolist()]  # cosh 1 and sinh 1
        [1.543, 0.0, 0.0, 1.175]
    """

    side = 4
    parameters = (*BOOSTS, *ANGLES)  # boosts along x, y and z, rotations about x, y and z
    coordinates = 4  # energy and momentum

    def exp(self, eta: Tensor) -> Tensor:
        """Return the matrices (..., 4, 4) of eta (..., 6)."""
        check_eta(eta, 6)
        check_floats(eta, "eta", "...")
        half = torch.complex(eta[..., :3], -eta[..., 3:]) / 2
        square = half.square().sum(-1)  # z^2 = -det M
        sigma = _pauli(half)
        m = torch.einsum("...k,kab->...ab", half, sigma[1:])
        cosh, sinh = _cosh_sinh(square)
        a = cosh[..., None, None] * sigma[0] + sinh[..., None, None] * m
        return lorentz_matrix(a)

    def log(self, element: Tensor) -> Tensor:
        """Return boosts and rotations (..., 6)."""
        self.check(element)
        a = spin_matrix(element)
        cosh = (a[..., 0, 0] + a[..., 1, 1]) / 2
        sign = torch.where(cosh.real < 0, -1.0, 1.0)
        cosh = cosh * sign
        sigma = _pauli(a)
        # sinh(z) / z times half of zeta - i theta
        part = torch.einsum("...ab,kba->...k", a, sigma[1:]) / 2 * sign[..., None]
        half = part * _over_sinh(part.square().sum(-1), cosh)[..., None]
        return torch.cat((2 * half.real, -2 * half.imag), -1)

    def inverse(self, element: Tensor) -> Tensor:
        """Return the inverse, g L' g with the metric g = diag(1, -1, -1, -1)."""
        self.check(element)
        metric = _metric(element)
        return metric[:, None] * element.mT * metric


def lorentz_matrix(a: Tensor) -> Tensor:
    """Return the Lorentz matrices (..., 4, 4) of matrices (..., 2, 2) of SL(2, C)."""
    sigma = _pauli(a)
    moved = torch.einsum("...ab,vbc,...dc->...vad", a, sigma, a.conj())
    return torch.einsum("mda,...vad->...mv", sigma, moved).real / 2


def spin_matrix(element: Tensor) -> Tensor:
    """Return a matrix (..., 2, 2) of SL(2, C) for each element; its negative has the same element.

    sum_v (A s_v A+) M s_v = 2 tr(A+ M) A for every M: of M = 1, s_1, s_2, s_3 the one with the
    largest factor is used, so that half turns are no exception.
    """
    sigma = _pauli(torch.complex(element, torch.zeros_like(element)))
    moved = torch.einsum("...mv,mab->...vab", element.to(sigma.dtype), sigma)
    every = torch.einsum("...vab,kbc,vcd->...kad", moved, sigma, sigma)
    best = every.detach().abs().square().sum((-2, -1)).argmax(-1)
    index = best[..., None, None, None].expand(*best.shape, 1, 2, 2)
    chosen = every.gather(-3, index)[..., 0, :, :]
    det = chosen[..., 0, 0] * chosen[..., 1, 1] - chosen[..., 0, 1] * chosen[..., 1, 0]
    return chosen / det.sqrt()[..., None, None]


def _pauli(like: Tensor) -> Tensor:
    """The unit matrix and the three of Pauli, (4, 2, 2), as the complex numbers of ``like``."""
    return torch.tensor(_PAULI, dtype=like.dtype, device=like.device)


def _metric(like: Tensor) -> Tensor:
    return torch.tensor((1.0, -1.0, -1.0, -1.0), dtype=like.dtype, device=like.device)


def _cosh_sinh(square: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosh z and sinh(z) / z of z^2, smooth at zero."""
    near = square.detach().abs() < _NEAR
    z = torch.where(near, torch.ones_like(square), square).sqrt()
    small = torch.where(near, square, torch.zeros_like(square))
    cosh = torch.where(near, _series(small, _COSH), torch.cosh(z))
    return cosh, torch.where(near, _series(small, _SINH), torch.sinh(z) / z)


def _over_sinh(square: Tensor, cosh: Tensor) -> Tensor:
    """Return z / sinh z from sinh(z)^2 and cosh z, Re cosh z >= 0, smooth at zero."""
    near = (square.detach().abs() < _NEAR**2) & (cosh.detach().real > 0.5)
    small = torch.where(near, square, torch.zeros_like(square))
    coefficients = [
        (-1) ** n * math.factorial(2 * n) / (4**n * math.factorial(n) ** 2 * (2 * n + 1))
        for n in range(14)
    ]
    sinh = torch.where(near, torch.ones_like(square), square).sqrt()
    # z = log(cosh z + sinh z): of both roots the one that does not cancel
    away = torch.where((cosh + sinh).detach().abs() < (cosh - sinh).detach().abs(), -sinh, sinh)
    far = (cosh + away).log() / away
    return torch.where(near, _series(small, coefficients), far)


def _series(x: Tensor, coefficients: "list[float] | tuple[float, ...]") -> Tensor:
    total = torch.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = coefficient + x * total
    return total
