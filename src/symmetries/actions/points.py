"""Action of matrix groups on point sets and on vectors."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from symmetries._validation.checks import check_tensors, invalid
from symmetries._validation.placement import exact_products
from symmetries.actions.base import Action
from symmetries.groups.base import Group
from symmetries.groups.names import named_group


class PointAction(Action):
    """Action of matrices on points: x' = A x + t, or x' = A x if the matrix has no translation.

    Args:
        group: a group whose elements are matrices, such as ``Affine2``, ``SE3`` or ``Lorentz``, or
            which has a method ``matrix``, such as ``Cyclic``. Points with D coordinates need D x D
            matrices (linear) or (D + 1) x (D + 1) matrices (affine, with last row 0, ..., 0, 1);
            1 x 1 matrices scale points of any D. Points of another space than the group's
            (``group.coordinates``) are refused.

    Example:
        >>> import torch
        >>> from symmetries.groups.finite import Cyclic
        >>> act = PointAction(Cyclic(4))
        >>> right = torch.tensor([[1.0, 0.0]])
        >>> act(torch.tensor([1]), right).tolist()  # a quarter turn: right goes up
        [[0.0, 1.0]]
    """

    def __init__(self, group: str | Group[Any]) -> None:
        self.group: Group[Any] = named_group(group)
        self._matrix: Callable[..., Tensor] | None = getattr(self.group, "matrix", None)

    def __call__(self, element: Tensor, data: Tensor) -> Tensor:
        """Return the points moved by one shared element, or by one element per set.

        Args:
            element: matrices, or the argument of ``group.matrix``; one, or one for each of N.
            data: point sets (N, P, D), or one vector each, (N, D).
        """
        check_tensors(points=data)
        if not isinstance(element, tuple):
            check_tensors(element=element)
        if data.ndim not in (2, 3) or not data.is_floating_point():
            got = f"shape {tuple(data.shape)}, {data.dtype}"
            raise invalid("points", "floating-point (N, P, D) or (N, D)", got, "reshape it")
        n, d = len(data), data.shape[-1]
        matrix = (
            element.to(data.dtype) if self._matrix is None else self._matrix(element, data.dtype)
        )
        self._check_space(data)
        sides = ((d, d), (d + 1, d + 1), (1, 1))
        if matrix.shape[-2:] not in sides or matrix.shape[:-2] not in ((), (n,)):
            expected = f"matrices of side {d} or {d + 1}, one or {n} of them"
            got = f"shape {tuple(matrix.shape)}"
            raise invalid("element", expected, got, "give one element, or one for each point set")
        points = data if data.ndim == 3 else data[:, None]
        if matrix.shape[-1] == 1 and d > 1:
            return (points * matrix).reshape(data.shape)
        with exact_products(data):
            moved = points @ matrix[..., :d, :d].mT
        if matrix.shape[-1] > d:
            moved = moved + matrix[..., None, :d, d]
        return moved.reshape(data.shape)

    def _check_space(self, data: Tensor) -> None:
        """Raise an error for points of another space than the one that the group moves."""
        expected = self.group.coordinates
        if expected is not None and data.shape[-1] != expected:
            others = {2: "Affine2, SE2", 3: "SO3, SE3", 4: "Lorentz (energy first)"}
            remedy = f"for {data.shape[-1]} coordinates use {others.get(data.shape[-1], 'Scale1')}"
            remedy += "; columns that are not coordinates need NodeAction"
            got = f"shape {tuple(data.shape)}"
            want = f"{expected} coordinates, which {self.group!r} moves"
            raise invalid("points", want, got, remedy)
