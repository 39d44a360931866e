"""Actions on ordered data: permutations of items and graphs, shifts and reversals of sequences."""

from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import check_tensors, invalid, wrong_type
from symmetries.actions.base import Action
from symmetries.groups.finite import CyclicShift, Flip
from symmetries.groups.names import named_group
from symmetries.groups.permutation import Permutation


class PermutationAction(Action):
    """Permutes items: the item at place i goes to place p[i] along each of the given axes.

    Args:
        group: :class:`~symmetries.groups.permutation.Permutation`, or its name ("s5").
        axes: the axes of the items: (1,) for sets (N, P, ...), (1, 2) for graphs as adjacency
            matrices (N, P, P, ...).

    Example:
        >>> act = PermutationAction("s3")
        >>> act(torch.tensor([2, 0, 1]), torch.tensor([[10, 20, 30]])).tolist()
        [[20, 30, 10]]
    """

    def __init__(self, group: str | Permutation, axes: tuple[int, ...] = (1,)) -> None:
        found: Any = named_group(group)
        if not isinstance(found, Permutation):
            raise wrong_type("group", "a Permutation", found, "try Permutation(5), or 's5'")
        if not axes or min(axes) < 1:
            raise invalid("axes", "axes from 1, behind the examples", axes, "use (1,), or (1, 2)")
        self.group: Permutation = found
        self.axes = axes

    def __call__(self, element: Tensor, data: Tensor) -> Tensor:
        """Return the items permuted by one shared element, or by one per example.

        Args:
            element: places (n,), or (N, n).
            data: (N, ...), with n items along each axis.
        """
        check_tensors(data=data, element=element)
        n = self.group.n
        for axis in self.axes:
            if axis >= data.ndim or data.shape[axis] != n:
                got = f"shape {tuple(data.shape)}"
                remedy = "permute the axis of the items, with a group of their number"
                raise invalid("data", f"{n} items along axis {axis}", got, remedy)
        if element.shape not in ((n,), (len(data), n)):
            got = f"shape {tuple(element.shape)}"
            raise invalid("element", f"shape ({n},) or ({len(data)}, {n})", got, "give one each")
        source = self.group.inverse(element).expand(len(data), n)
        for axis in self.axes:
            shape = [1] * data.ndim
            shape[0], shape[axis] = len(data), n
            data = data.gather(axis, source.reshape(shape).expand_as(data))
        return data


class SequenceAction(Action):
    """Shifts or reverses sequences (N, T, ...) of numbers, tokens or features.

    Args:
        group: ``CyclicShift("x", fold)``, periodic shifts by T / fold places, forwards for positive
            steps; or ``Flip("x")``, the reversal; or their names ("t4", "flip_x").

    Example:
        >>> tokens = torch.tensor([[1, 2, 3, 4]])
        >>> SequenceAction("t4")(torch.tensor(1), tokens).tolist()
        [[4, 1, 2, 3]]
        >>> SequenceAction("flip_x")(torch.tensor(1), tokens).tolist()
        [[4, 3, 2, 1]]
    """

    def __init__(self, group: str | CyclicShift | Flip) -> None:
        found: Any = named_group(group)
        if not isinstance(found, CyclicShift | Flip) or found.axis != "x":
            remedy = "try CyclicShift('x', 8), or Flip('x') for the reversal"
            raise invalid("group", "shifts or a flip along x", repr(found), remedy)
        self.group: CyclicShift | Flip = found

    def __call__(self, element: Tensor, data: Tensor) -> Tensor:
        """Return the sequences moved by one shared element, or by one per example."""
        check_tensors(data=data, element=element)
        fold = self.group.order
        if data.ndim < 2 or (isinstance(self.group, CyclicShift) and data.shape[1] % fold):
            got = f"shape {tuple(data.shape)}"
            expected = f"sequences (N, T, ...), T a multiple of {fold}"
            raise invalid("data", expected, got, "cut or pad the sequences")
        if element.shape not in ((), (len(data),)):
            got = f"shape {tuple(element.shape)}"
            raise invalid("element", f"one element, or {len(data)}", got, "give one each")
        places = torch.arange(data.shape[1], device=data.device)
        steps = element[..., None].to(data.device)
        if isinstance(self.group, Flip):
            source = torch.where(steps % 2 == 1, data.shape[1] - 1 - places, places)
        else:
            source = (places - steps * (data.shape[1] // fold)) % data.shape[1]
        shape = (len(data), data.shape[1], *[1] * (data.ndim - 2))
        source = source.expand(len(data), data.shape[1]).reshape(shape)
        return data.gather(1, source.expand_as(data))
