r"""Rigid motions of space, SE(3), and with the inversion, E(3).

.. math:: \exp\begin{pmatrix}K & b\\ 0 & 0\end{pmatrix} =
          \begin{pmatrix}R & V b\\ 0 & 1\end{pmatrix}, \qquad
          V = I + \frac{1 - \cos\theta}{\theta^2} K + \frac{\theta - \sin\theta}{\theta^3} K^2.
"""

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats
from symmetries.groups.base import Parameter
from symmetries.groups.matrix_base import ClosedMatrixGroup
from symmetries.groups.rotations import (
    ANGLES,
    INVERSION,
    cross_matrix,
    rotation_matrix,
    rotation_vector,
    sign_of_inversion,
    split_inversion,
)
from symmetries.groups.special import check_eta, cubic_root, half_cot_root, versine_root

SHIFTS = tuple(Parameter(f"shift_{axis}", "length", 1.0) for axis in "xyz")


class SE3(ClosedMatrixGroup):
    """Rotations and translations of space, as matrices (..., 4, 4): T = exp(sum_i eta_i G_i).

    The parameters are shift_x, shift_y, shift_z in the units of the data, and the rotation of
    :class:`~symmetries.groups.rotations.SO3`. ``log`` is accurate, with gradients, for angles up
    to pi.

    Example:
        >>> moved = SE3().exp(torch.tensor([1.0, 2.0, 3.0, 0.0, 0.0, 0.0]))
        >>> moved[:3, 3].tolist()
        [1.0, 2.0, 3.0]
    """

    side = 4
    parameters = (*SHIFTS, *ANGLES)  # shifts along x, y and z, rotations about x, y and z
    coordinates = 3

    def exp(self, eta: Tensor) -> Tensor:
        """Return the matrices (..., 4, 4) of eta (..., 6)."""
        check_eta(eta, 6)
        check_floats(eta, "eta", "...")
        return rigid_matrix(eta)

    def log(self, element: Tensor) -> Tensor:
        """Return the principal logarithm (..., 6)."""
        self.check(element)
        return rigid_vector(element[..., :3, :3], element[..., :3, 3])

    def inverse(self, element: Tensor) -> Tensor:
        """Return the inverse, (R, t)^-1 = (R', -R' t)."""
        self.check(element)
        return rigid_inverse(element)


class E3(ClosedMatrixGroup):
    """Rigid motions of space and the inversion, as matrices (..., 4, 4).

    The parameters are those of :class:`SE3` and ``inversion``, 0 or 1: the inversion x -> -x comes
    first, then the proper motion.

    Example:
        >>> E3().exp(torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))[0].int().tolist()
        [-1, 0, 0, 1]
    """

    side = 4
    parameters = (*SHIFTS, *ANGLES, INVERSION)  # shifts, rotations and the inversion
    coordinates = 3

    negation_inverts = False  # an inversion and a shift do not commute

    def exp(self, eta: Tensor) -> Tensor:
        """Return the matrices (..., 4, 4) of eta (..., 7)."""
        check_eta(eta, 7)
        check_floats(eta, "eta", "...")
        proper = rigid_matrix(eta[..., :6])
        sign = sign_of_inversion(eta[..., 6])[..., None, None]
        return affine_matrix(sign * proper[..., :3, :3], proper[..., :3, 3])

    def log(self, element: Tensor) -> Tensor:
        """Return (..., 7): shifts, rotations, and 0 or 1 for the inversion."""
        self.check(element)
        proper, inversion = split_inversion(element[..., :3, :3])
        return torch.cat((rigid_vector(proper, element[..., :3, 3]), inversion[..., None]), -1)

    def inverse(self, element: Tensor) -> Tensor:
        """Return the inverse, (A, t)^-1 = (A', -A' t)."""
        self.check(element)
        return rigid_inverse(element)


def rigid_inverse(element: Tensor) -> Tensor:
    """Return the inverse of matrices (..., 4, 4) whose linear part is orthogonal."""
    turned = element[..., :3, :3].mT
    return affine_matrix(turned, -(turned @ element[..., :3, 3:])[..., 0])


def affine_matrix(linear: Tensor, shift: Tensor) -> Tensor:
    """Return homogeneous matrices (..., 4, 4) from linear parts (..., 3, 3) and shifts (..., 3)."""
    top = torch.cat((linear, shift[..., None]), -1)
    zero = torch.zeros_like(top[..., :1, :3])
    last = torch.cat((zero, torch.ones_like(zero[..., :1])), -1)
    return torch.cat((top, last), -2)


def rigid_matrix(eta: Tensor) -> Tensor:
    """Return the exponential (..., 4, 4) of shifts and rotations (..., 6)."""
    shift, turn = eta[..., :3], eta[..., 3:]
    s = turn.square().sum(-1)[..., None, None]
    k = cross_matrix(turn)
    v = versine_root(s) * k + cubic_root(s) * (k @ k)
    return affine_matrix(rotation_matrix(turn), shift + (v @ shift[..., None])[..., 0])


def rigid_vector(rotation: Tensor, shift: Tensor) -> Tensor:
    """Return the logarithm (..., 6) of a rotation (..., 3, 3) followed by a shift (..., 3)."""
    turn = rotation_vector(rotation)
    s = turn.square().sum(-1)[..., None, None]
    k = cross_matrix(turn)
    v = half_cot_root(s) * (k @ k) - k / 2
    return torch.cat((shift + (v @ shift[..., None])[..., 0], turn), -1)
