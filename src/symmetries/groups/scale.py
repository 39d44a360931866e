"""Scalings of all coordinates by one factor."""

from torch import Tensor

from symmetries._validation.checks import check_floats
from symmetries.groups.base import Parameter
from symmetries.groups.matrix_base import ClosedMatrixGroup
from symmetries.groups.special import check_eta


class Scale1(ClosedMatrixGroup):
    """The group of positive factors, as matrices (..., 1, 1); eta is the logarithm of the factor.

    It acts on points of any number of coordinates.

    Example:
        >>> import torch
        >>> Scale1().exp(torch.tensor([[0.6931472]])).round(decimals=3).tolist()
        [[[2.0]]]
    """

    side = 1
    parameters = (Parameter("scale", "log-factor", 1.0),)  # the logarithm of the factor

    def exp(self, eta: Tensor) -> Tensor:
        """Return the factors (..., 1, 1) of eta (..., 1)."""
        check_eta(eta, 1)
        check_floats(eta, "eta", "...")
        return eta.exp()[..., None]

    def log(self, element: Tensor) -> Tensor:
        """Return the logarithms (..., 1)."""
        self.check(element)
        return element[..., 0].log()

    def inverse(self, element: Tensor) -> Tensor:
        """Return the reciprocal factors."""
        self.check(element)
        return 1 / element
