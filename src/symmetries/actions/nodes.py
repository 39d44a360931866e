"""Action of matrix groups on points that carry features: scalars, vectors, tensors."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import check_tensors, invalid
from symmetries._validation.placement import exact_products
from symmetries.actions.base import Action
from symmetries.actions.points import PointAction
from symmetries.groups.base import Group

KINDS = ("point", "vector", "pseudovector", "tensor", "scalar")


class NodeAction(Action):
    """Action on rows of points and features, each of which moves in its own way.

    With x' = A x + t for points, vectors (velocities, forces) become A v, pseudovectors (spins,
    magnetic fields) det(A) A v, tensors (stresses, or the rows of a unit cell) A M A', and scalars
    (charges, numbers of atoms) stay.

    Args:
        group: a group of matrices, such as ``SE3`` or ``O3``.
        layout: what the columns are, in order: "point", "vector" and "pseudovector" have D columns
            each, "tensor" D x D, "scalar" one. D is the group's number of coordinates.

    Example:
        >>> from symmetries.groups import SE3
        >>> act = NodeAction(SE3(), ("point", "vector", "scalar"))
        >>> nodes = torch.tensor([[[0.0, 0, 0, 1, 0, 0, 7]]])
        >>> shift = SE3().exp(torch.tensor([1.0, 2, 3, 0, 0, 0]))
        >>> act(shift, nodes)[0, 0].tolist()  # the point moves, the vector and the charge do not
        [1.0, 2.0, 3.0, 1.0, 0.0, 0.0, 7.0]
    """

    def __init__(self, group: str | Group[Any], layout: Sequence[str]) -> None:
        self._points = PointAction(group)
        self.group: Group[Any] = self._points.group
        unknown = [kind for kind in layout if kind not in KINDS]
        if unknown or not layout:
            got = ", ".join(unknown) or "nothing"
            raise invalid("layout", f"some of {', '.join(KINDS)}", got, "name the columns in order")
        if self.group.coordinates is None:
            remedy = "use a group of a plane or of space, such as SE3"
            raise invalid("group", "one with a number of coordinates", repr(self.group), remedy)
        self.layout = tuple(layout)
        d = self.group.coordinates
        sizes = {"scalar": 1, "tensor": d * d}
        self._sizes = [sizes.get(kind, d) for kind in self.layout]

    def __call__(self, element: Tensor, data: Tensor) -> Tensor:
        """Return the rows moved by one shared element, or by one element per set.

        Args:
            element: as :class:`PointAction` takes it.
            data: sets of rows (N, P, C), or one row each, (N, C).
        """
        check_tensors(nodes=data)
        total = sum(self._sizes)
        if data.ndim not in (2, 3) or not data.is_floating_point() or data.shape[-1] != total:
            got = f"shape {tuple(data.shape)}, {data.dtype}"
            named = ", ".join(self.layout)
            expected = f"floating-point (N, P, {total}) or (N, {total}) for {named}"
            raise invalid("nodes", expected, got, "give one column for each number of the layout")
        rows = data if data.ndim == 3 else data[:, None]
        linear = linear_part(self._points, element, rows)
        parts = zip(self.layout, rows.split(self._sizes, -1), strict=True)
        with exact_products(data):
            moved = [self._moved(kind, element, part, linear) for kind, part in parts]
        return torch.cat(moved, -1).reshape(data.shape)

    def _moved(self, kind: str, element: Tensor, part: Tensor, linear: Tensor) -> Tensor:
        if kind == "scalar":
            return part
        if kind == "point":
            return self._points(element, part)
        if kind == "tensor":
            d = linear.shape[-1]
            square = part.unflatten(-1, (d, d))
            matrix = linear[:, None]
            return (matrix @ square @ matrix.mT).flatten(-2)
        turned: Tensor = part @ linear.mT
        if kind == "pseudovector":
            turned = torch.linalg.det(linear)[:, None, None] * turned
        return turned


def linear_part(action: PointAction, element: Tensor, like: Tensor) -> Tensor:
    """The linear parts (N, D, D) of one shared element or one for each of N: what moves vectors.

    Args:
        action: how points move.
        element: as the action takes it.
        like: (N, ..., D) or wider, which gives N, the dtype and the device.
    """
    d = action.group.coordinates or like.shape[-1]
    basis = torch.eye(d, dtype=like.dtype, device=like.device).expand(len(like), d, d)
    origin = torch.zeros_like(basis[:, :1])
    return (action(element, basis) - action(element, origin)).mT
