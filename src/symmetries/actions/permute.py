"""Actions that permute: pixels under finite groups, items of a set, places of a sequence."""

from typing import Any

import torch
from torch import Tensor

from symmetries._utils.caching import constant
from symmetries._validation.checks import check_tensors, invalid, wrong_type
from symmetries.actions.base import Action
from symmetries.groups.finite import Cyclic, CyclicShift, Dihedral, FiniteGroup, Flip
from symmetries.groups.names import named_group
from symmetries.groups.permutation import Permutation


def permutes_pixels(group: FiniteGroup, height: int, width: int) -> bool:
    """Return whether every element permutes the pixels of an image of this size.

    Example:
        >>> permutes_pixels(Cyclic(4), 28, 28), permutes_pixels(Cyclic(4), 28, 32)
        (True, False)
    """
    if isinstance(group, CyclicShift):
        side = width if group.axis == "x" else height
        if side % group.fold:
            expected = f"a side divisible by {group.fold}"
            raise invalid("images", expected, f"{side} pixels along {group.axis}", "resize or pad")
        return True
    if isinstance(group, Flip):
        return True
    if isinstance(group, Cyclic | Dihedral):
        return group.n <= 2 or (group.n == 4 and height == width)
    return False


def permute(group: FiniteGroup, element: Tensor, images: Tensor) -> Tensor:
    """Return the images moved by permuting their pixels.

    Args:
        group: a group for which :func:`permutes_pixels` holds.
        element: indices; () or (N,), or (N, S) or (1, S) for S versions of each image.
        images: (N, C, H, W).

    Returns:
        (N, C, H, W), or (N, S, C, H, W) for two-dimensional ``element``.
    """
    n, c, height, width = images.shape
    sources = _sources(group, height, width, images.device)[element]
    flat = images.flatten(2)
    if element.ndim == 0:
        return flat[..., sources].reshape(images.shape)
    if element.ndim == 1:
        return flat.gather(2, sources[:, None].expand(n, c, -1)).reshape(images.shape)
    versions = element.shape[1]
    index = sources[:, :, None].expand(n, versions, c, -1)
    moved = flat[:, None].expand(n, versions, c, -1).gather(3, index)
    return moved.reshape(n, versions, c, height, width)


@constant
def _sources(group: FiniteGroup, height: int, width: int, device: torch.device) -> Tensor:
    """Return (order, H W): for each element and output pixel, the index of its source pixel."""
    rows, columns = torch.arange(height)[:, None], torch.arange(width)[None, :]
    elements = group.elements()
    if isinstance(group, CyclicShift):
        steps = elements[:, None, None]
        # Rows are numbered downwards: moving up by s rows reads from s rows further down.
        if group.axis == "x":
            columns = (columns - steps * (width // group.fold)) % width
        else:
            rows = (rows + steps * (height // group.fold)) % height
        table = (rows * width + columns).expand(len(elements), height, width)
    else:
        # Twice the coordinates of pixel centres are integers, with x right and y up.
        matrix = group.matrix(group.inverse(elements)).round().long()  # type: ignore[attr-defined]
        x = (2 * columns + 1 - width).expand(height, width)
        y = (height - 1 - 2 * rows).expand(height, width)
        source = matrix[:, :2, :2] @ torch.stack((x, y)).reshape(2, -1)
        column, row = (source[:, 0] + width - 1) // 2, (height - 1 - source[:, 1]) // 2
        table = row * width + column
    return table.reshape(len(elements), -1).to(device)


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
            raise invalid("axes", "axes from 1, after the examples", axes, "use (1,), or (1, 2)")
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
            expected, got = f"shape ({n},) or ({len(data)}, {n})", f"shape {tuple(element.shape)}"
            raise invalid("element", expected, got, "give one for each example")
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
            remedy = "give one for each sequence"
            raise invalid("element", f"one element, or {len(data)}", got, remedy)
        places = torch.arange(data.shape[1], device=data.device)
        steps = element[..., None].to(data.device)
        if isinstance(self.group, Flip):
            source = torch.where(steps % 2 == 1, data.shape[1] - 1 - places, places)
        else:
            source = (places - steps * (data.shape[1] // fold)) % data.shape[1]
        shape = (len(data), data.shape[1], *[1] * (data.ndim - 2))
        source = source.expand(len(data), data.shape[1]).reshape(shape)
        return data.gather(1, source.expand_as(data))
