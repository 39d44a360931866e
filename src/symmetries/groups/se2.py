r"""Group SE(2) of rotations and translations of the plane.

.. math:: \exp\begin{pmatrix}0 & -\theta & b_x\\ \theta & 0 & b_y\\ 0 & 0 & 0\end{pmatrix} =
          \begin{pmatrix}R_\theta & V_\theta b\\ 0 & 1\end{pmatrix}, \qquad
          V_\theta = \int_0^1 R_{t\theta}\,dt = \mathrm{sinc}(\theta/2)\,R_{\theta/2}.
"""

import math

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats
from symmetries._validation.placement import check_same
from symmetries.groups.base import Parameter
from symmetries.groups.matrix_base import PlaneGroup
from symmetries.groups.special import (
    check_eta,
    check_matrices,
    matrix_from_rows,
    sinc,
    wrap_angle,
    x_cot_x,
)
from symmetries.ops.affine_exp import exp_by_squaring, few


class SE2(PlaneGroup):
    """The rigid motions of the plane, without reflections: T = exp(sum_i eta_i G_i).

    It has the same elements and parameters as ``Affine2("rotation", "translation")``. Because the
    2 x 2 block is known to be a rotation, it is cheaper and accurate for any angle. Elements have
    shape (..., 3, 3); ``log`` is the principal logarithm, with a rotation in [-pi, pi).

    Example:
        >>> group = SE2()
        >>> eta = torch.tensor([0.5, -0.2, 1.0])
        >>> torch.allclose(group.log(group.exp(eta)), eta)
        True
        >>> group.names
        ('shift_x', 'shift_y', 'rotation')
    """

    def __repr__(self) -> str:
        return "SE2()"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the group: shift_x, shift_y, rotation."""
        x, y = (Parameter(name, "half-image", 1.0) for name in ("shift_x", "shift_y"))
        return (x, y, Parameter("rotation", "rad", math.pi, angle=True))

    closed = True

    def exp(self, eta: Tensor) -> Tensor:
        """Return the matrices (..., 3, 3) of eta (..., 3)."""
        check_eta(eta, 3)
        check_floats(eta, "eta", "...")
        if few(eta):
            return exp_by_squaring(eta, (0, 1, 2, -1, -1, -1))
        bx, by, angle = eta.unbind(-1)
        half = angle / 2
        chord = sinc(half)
        c, s = chord * torch.cos(half), chord * torch.sin(half)
        return self.element(angle, c * bx - s * by, s * bx + c * by)

    def log(self, element: Tensor) -> Tensor:
        """Return the principal logarithm (..., 3); V^-1 = (h cot h) I - h J with h = theta / 2."""
        angle = self.angle(element)
        half = angle / 2
        cot = x_cot_x(half)
        x, y = element[..., 0, 2], element[..., 1, 2]
        return torch.stack((cot * x + half * y, cot * y - half * x, angle), -1)

    def angle(self, element: Tensor) -> Tensor:
        """Return the angle of rotation in [-pi, pi)."""
        check_matrices(element)
        return wrap_angle(torch.atan2(element[..., 1, 0], element[..., 0, 0]))

    def element(self, angle: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return matrices (..., 3, 3) that rotate by an angle, then translate by (x, y)."""
        check_same(angle=angle, x=x, y=y)
        c, s = torch.cos(angle), torch.sin(angle)
        return matrix_from_rows((c, -s, x), (s, c, y))
