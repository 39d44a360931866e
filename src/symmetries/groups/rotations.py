r"""Rotations of space, SO(3), and with the inversion x -> -x, O(3).

.. math:: \exp(K) = I + \frac{\sin\theta}{\theta} K + \frac{1 - \cos\theta}{\theta^2} K^2, \qquad
          K x = \eta \times x, \quad \theta = |\eta|.
"""

import math

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats
from symmetries.groups.base import Dtype, Generator, Parameter
from symmetries.groups.finite import principal_steps
from symmetries.groups.matrix_base import ClosedMatrixGroup
from symmetries.groups.special import angle_over_sine, check_eta, sinc_root, versine_root

ANGLES = tuple(Parameter(f"rotation_{axis}", "rad", math.pi) for axis in "xyz")
INVERSION = Parameter("inversion", "step", 1.0, angle=True)


class SO3(ClosedMatrixGroup):
    """The rotations of space, as matrices (..., 3, 3): R = exp(K), K x = eta cross x.

    eta is the axis times the angle; a positive angle turns counter-clockwise as seen from the tip
    of the axis. ``log`` gives the one with |eta| <= pi, accurate and with gradients up to half
    turns (where eta and -eta are the same rotation, it gives one of them).

    Example:
        >>> turn = SO3().exp(torch.tensor([0.0, 0.0, math.pi / 2]))
        >>> (turn @ torch.tensor([1.0, 0.0, 0.0])).int().tolist()  # x goes to y
        [0, 1, 0]
    """

    side = 3
    parameters = ANGLES  # rotations about x, y and z: the components of axis times angle
    coordinates = 3

    def exp(self, eta: Tensor) -> Tensor:
        """Return the matrices (..., 3, 3) of eta (..., 3)."""
        check_eta(eta, 3)
        check_floats(eta, "eta", "...")
        return rotation_matrix(eta)

    def log(self, element: Tensor) -> Tensor:
        """Return axis times angle (..., 3), the angle in [0, pi]."""
        self.check(element)
        return rotation_vector(element)

    def inverse(self, element: Tensor) -> Tensor:
        """Return the transpose."""
        self.check(element)
        return element.mT

    def haar(self, *batch: int, generator: Generator = None, dtype: Dtype = None) -> Tensor:
        """Return rotations (*batch, 3, 3) drawn uniformly."""
        return random_rotations(*batch, generator=generator, dtype=dtype)


class O3(ClosedMatrixGroup):
    """Rotations of space and the inversion x -> -x, as matrices (..., 3, 3) of determinant 1 or -1.

    The parameters are those of :class:`SO3` and ``inversion``, 0 or 1: exp(eta) = (-1)^inversion R.
    A reflection is an inversion and a half turn.

    Example:
        >>> mirror = O3().exp(torch.tensor([0.0, 0.0, math.pi, 1.0]))
        >>> torch.linalg.det(mirror).round().item(), mirror.diagonal().round().tolist()
        (-1.0, [1.0, 1.0, -1.0])
    """

    side = 3
    parameters = (*ANGLES, INVERSION)  # rotations about x, y and z, and the inversion
    coordinates = 3

    def exp(self, eta: Tensor) -> Tensor:
        """Return the matrices (..., 3, 3) of eta (..., 4)."""
        check_eta(eta, 4)
        check_floats(eta, "eta", "...")
        return sign_of_inversion(eta[..., 3])[..., None, None] * rotation_matrix(eta[..., :3])

    def log(self, element: Tensor) -> Tensor:
        """Return (..., 4): axis times angle, and 0 or 1 for the inversion."""
        self.check(element)
        proper, inversion = split_inversion(element)
        return torch.cat((rotation_vector(proper), inversion[..., None]), -1)

    def distance_to_identity(self, element: Tensor) -> Tensor:
        """Return the distance of the proper part from the identity, plus 1 for an inversion."""
        proper, inversion = split_inversion(element)
        return super().distance_to_identity(proper) + inversion

    def inverse(self, element: Tensor) -> Tensor:
        """Return the transpose."""
        self.check(element)
        return element.mT

    def haar(self, *batch: int, generator: Generator = None, dtype: Dtype = None) -> Tensor:
        """Return rotations drawn uniformly, half of them with the inversion."""
        turn = random_rotations(*batch, generator=generator, dtype=dtype)
        sign = 2 * torch.randint(2, batch, generator=generator) - 1
        return sign[..., None, None].to(turn.dtype) * turn


def random_rotations(
    *batch: int, generator: torch.Generator | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Return rotations (*batch, 3, 3) drawn uniformly: unit quaternions of a Gaussian."""
    q = torch.randn(*batch, 4, generator=generator, dtype=dtype)
    return matrix_of_quaternion(q / torch.linalg.vector_norm(q, dim=-1, keepdim=True))


def cross_matrix(v: Tensor) -> Tensor:
    """Return the matrices (..., 3, 3) of x -> v cross x, for v (..., 3)."""
    x, y, z = v.unbind(-1)
    zero = torch.zeros_like(x)
    rows = torch.stack((zero, -z, y, z, zero, -x, -y, x, zero), -1)
    return rows.reshape(*x.shape, 3, 3)


def rotation_matrix(eta: Tensor) -> Tensor:
    """Rodrigues' formula: matrices (..., 3, 3) of axis times angle (..., 3)."""
    s = eta.square().sum(-1)[..., None, None]
    k = cross_matrix(eta)
    one = torch.eye(3, dtype=eta.dtype, device=eta.device)
    return one + sinc_root(s) * k + versine_root(s) * (k @ k)


def matrix_of_quaternion(q: Tensor) -> Tensor:
    """Return the rotation (..., 3, 3) of a unit quaternion (..., 4), its real part first."""
    w, v = q[..., :1, None], q[..., 1:]
    one = torch.eye(3, dtype=q.dtype, device=q.device)
    k = cross_matrix(v)
    return one + 2 * w * k + 2 * (k @ k)


def rotation_vector(matrix: Tensor) -> Tensor:
    """Return the axis times angle (..., 3) of rotations (..., 3, 3), the angle in [0, pi].

    Through the unit quaternion q: each row of the symmetric matrix 4 q q' is linear in the
    rotation, and the row with the largest norm determines q without cancellation at any angle.
    """
    m = matrix
    trace = m.diagonal(dim1=-2, dim2=-1).sum(-1)
    skew = torch.stack(
        (m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]), -1
    )
    one = torch.eye(3, dtype=m.dtype, device=m.device)
    block = m + m.mT + (1 - trace)[..., None, None] * one
    first = torch.cat(((1 + trace)[..., None], skew), -1)[..., None, :]
    rows = torch.cat((first, torch.cat((skew[..., :, None], block), -1)), -2)  # 4 q q'
    best = rows.diagonal(dim1=-2, dim2=-1).argmax(-1)
    row = rows.gather(-2, best[..., None, None].expand(*best.shape, 1, 4))[..., 0, :]
    q = row / torch.linalg.vector_norm(row, dim=-1, keepdim=True)
    q = torch.where(q[..., :1] < 0, -q, q)
    v = q[..., 1:]
    return 2 * angle_over_sine(v.square().sum(-1), q[..., 0])[..., None] * v


def sign_of_inversion(inversion: Tensor) -> Tensor:
    """1 or -1, for an even or odd number of inversions."""
    steps = principal_steps(inversion.detach().round().long(), 2)
    return (1 + 2 * steps).to(inversion.dtype)


def split_inversion(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The proper part of orthogonal matrices (..., 3, 3), and 0 or 1 (...) for the inversion."""
    a, b, c = matrix.detach().unbind(-2)
    improper = (torch.linalg.cross(a, b) * c).sum(-1) < 0
    sign = torch.where(improper, -1.0, 1.0).to(matrix.dtype)
    return sign[..., None, None] * matrix, improper.to(matrix.dtype)
