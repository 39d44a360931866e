"""Conserved quantities of Hamiltonian systems, from the symmetries of the Hamiltonian (Noether)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats, invalid
from symmetries.lie.algebra import null_space


@dataclass(frozen=True)
class ConservedQuantity:
    """Q(z) = z'Sz / 2 + s'z of places and momenta z = (q, p), which the motion does not change.

    Args:
        quadratic: S, symmetric (2 n, 2 n).
        linear: s, (2 n,).
    """

    quadratic: Tensor
    linear: Tensor

    def __call__(self, states: Tensor) -> Tensor:
        """Return values (...,) at states (..., 2 n)."""
        z = states.to(self.quadratic)
        return ((z @ self.quadratic) * z).sum(-1) / 2 + z @ self.linear


def conserved_quantities(generators: Tensor, tolerance: float = 1e-3) -> list[ConservedQuantity]:
    """Return what a system conserves whose Hamiltonian has these symmetries.

    A field v that leaves H(q, p) as it is and is itself of the form v = J grad Q, with the matrix J
    of dz/dt = J grad H, has dQ/dt = 0. Fields A z + b are of this form if S = -J A is symmetric.
    Combinations of the generators that are not, such as a rotation of places alone, conserve
    nothing and are left out.

    Args:
        generators: homogeneous matrices (k, 2 n + 1, 2 n + 1) of fields of z = (q, p), as
            ``symmetries.generators(z, model=H).fitted.generators`` has them, or (k, 2 n, 2 n).
        tolerance: largest part of S that is not symmetric, relative to S.

    Example:
        >>> turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
        >>> (angular_momentum,) = conserved_quantities(torch.block_diag(turn, turn)[None])
        >>> bool((angular_momentum(torch.tensor([1.0, 0.0, 0.0, 2.0])) / 2).abs() > 0.4)
        True
    """
    check_floats(generators, "generators", "k", "side", "side")
    side = generators.shape[-1]
    if generators.shape[1] != side or side < 2:
        got = f"shape {tuple(generators.shape)}"
        raise invalid("generators", "square matrices (k, n, n)", got, "give those of a group")
    dim = side // 2 * 2
    linear = generators[:, :dim, :dim].double()
    shift = torch.zeros(len(linear), dim, dtype=torch.float64)
    if side > dim:
        shift = generators[:, :dim, dim].double()
    half = torch.eye(dim // 2, dtype=torch.float64)
    symplectic = torch.kron(torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64), half)
    forms, slopes = -symplectic @ linear, -shift @ symplectic.T
    skew = (forms - forms.mT).flatten(1) / 2
    size = float(torch.cat((forms.flatten(1), slopes), 1).norm(dim=1).max()) if len(forms) else 1.0
    found = []
    for weights in null_space(skew.T / size, tolerance):
        form = torch.einsum("k,kij->ij", weights, forms)
        found.append(ConservedQuantity((form + form.T) / 2, weights @ slopes))
    return found
