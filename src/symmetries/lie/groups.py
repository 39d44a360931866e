"""The group that found generators make."""

from collections.abc import Sequence

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats
from symmetries.groups.matrix import MatrixGroup, eigenvalues

CLOSED = 0.1  # brackets of learned generators may leave their span by as much


def learned_group(
    matrices: Tensor, names: Sequence[str] | None = None, tolerance: float = CLOSED
) -> MatrixGroup:
    """Return the group of generators that were found, as homogeneous matrices (k, d + 1, d + 1).

    Without translations its elements are d x d matrices. Generators of rotations are scaled so that
    their fastest rotation has an angle as its parameter; others so that their largest entry is 1.
    Generators that are almost closed under brackets count as closed; their products then leave the
    group by as much as the error of closure.

    Args:
        matrices: linearly independent, the last row zero.
        names: of the parameters.
        tolerance: of closure.

    Example:
        >>> turn = torch.zeros(1, 3, 3)
        >>> turn[0, 0, 1], turn[0, 1, 0] = -0.7071, 0.7071
        >>> group = learned_group(turn)
        >>> group.exp(torch.tensor([torch.pi])).round(decimals=3).tolist()
        [[-1.0, 0.0], [0.0, -1.0]]
    """
    check_floats(matrices, "matrices", "k", "n", "n")
    dim = matrices.shape[-1] - 1
    whole = matrices.double()
    inner = whole if bool(whole[:, :dim, dim].abs().max() > 1e-12) else whole[:, :dim, :dim]
    return MatrixGroup(torch.stack([_unit(g) for g in inner]), names, tolerance=tolerance)


def _unit(generator: Tensor) -> Tensor:
    values = eigenvalues(generator)
    fastest = float(values.imag.abs().max())
    turns = fastest > 0.5 * float(values.abs().max()) and fastest > 1e-6
    return generator / (fastest if turns else float(generator.abs().max()))
