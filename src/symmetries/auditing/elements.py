"""The group elements of an audit: all of a finite group, or a sample of a continuous one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import (
    check_held,
    check_tensors,
    check_whole,
    invalid,
    wrong_type,
)
from symmetries.actions.base import Action
from symmetries.actions.images import ImageAction
from symmetries.actions.permute import PermutationAction, SequenceAction
from symmetries.actions.points import PointAction
from symmetries.actions.signals import SignalAction
from symmetries.actions.volumes import VolumeAction
from symmetries.groups.base import Group, map_element
from symmetries.groups.colour import Colour
from symmetries.groups.finite import CyclicShift, Flip
from symmetries.groups.names import named_group
from symmetries.groups.permutation import Permutation
from symmetries.groups.product import Product
from symmetries.groups.signal import Signal


@dataclass(frozen=True)
class Moves:
    """The elements that transform every example.

    Args:
        action: action on the data.
        elements: S elements. For a finite group each is shared by all examples; for a continuous
            group each holds one element for each of the N examples.
        shared: whether elements are shared by all examples.
    """

    action: Action
    elements: tuple[Any, ...]
    shared: bool

    def __len__(self) -> int:
        return len(self.elements)

    def of(self, start: int, stop: int, device: torch.device) -> Iterator[Any]:
        """Yield the elements for examples start, ..., stop - 1, one after the other."""
        for element in self.elements:
            part = element if self.shared else map_element(lambda t: t[start:stop], element)
            yield map_element(lambda t: t.to(device), part)

    def rows(self, start: int, stop: int) -> "Moves":
        """Return the moves of examples start, ..., stop - 1 alone."""
        if self.shared:
            return self
        own = tuple(map_element(lambda t: t[start:stop], one) for one in self.elements)
        return replace(self, elements=own)

    def some(self, element: Any, indices: Tensor) -> Any:  # noqa: ANN401
        """Return the element of the examples at ``indices`` of a batch."""
        return element if self.shared else map_element(lambda t: t[indices], element)

    def inverse(self, element: Any) -> Any:  # noqa: ANN401 - elements differ by group
        """Return the inverse element."""
        return self.action.group.inverse(element)

    def there_and_back(self, element: Any, data: Tensor) -> Tensor:  # noqa: ANN401
        """Return g^-1 (g x): x if the action permutes pixels, otherwise x resampled twice."""
        return _undo(self.action, element, self.action(element, data))

    def place(self, element: Any, maps: Tensor) -> Tensor:  # noqa: ANN401
        """Move maps over the data (saliency, features) by g: positions change, colours do not."""
        action, part = positions_only(self.action, element)
        return maps if action is None else action(part, maps)

    def back(self, element: Any, maps: Tensor) -> Tensor:  # noqa: ANN401
        """Move maps over the data by g^-1."""
        action, part = positions_only(self.action, element)
        return maps if action is None else _undo(action, part, maps)


def make_moves(
    group: str | Group[Any] | Action,
    x: Tensor,
    *,
    identity: bool = False,
    samples: int = 16,
    half_width: float | Sequence[float] | None = None,
    seed: int = 0,
) -> Moves:
    """Choose the elements: all of a finite group, ``samples`` per example of a continuous one.

    Elements of a continuous group are exp(eta) with eta uniform in the box of half-widths w; of a
    compact group that can (rotations of space, permutations), uniform without half-widths.

    Args:
        group: a group or its name, which then acts in its usual way on data of this shape; or an
            action.
        x: the data, (N, ...).
        identity: whether the identity of a finite group counts (the mean is then smaller by the
            factor (|G| - 1) / |G| for LI and DI).
        samples: number of elements per example of a continuous group.
        half_width: half-widths w, one or one per parameter; the group's bounds by default.
        seed: random seed of the sample.
    """
    action = resolve_action(group, x)
    acting = action.group
    every = _all_elements(acting)
    if every is None:
        check_whole(samples, "samples", most=10**6)
        elements = _sample(acting, x, samples, half_width, seed)
    else:
        elements = every if identity else every[1:]
        if not elements:
            raise invalid("group", "more than the identity", repr(acting), "try identity=True")
    moves = Moves(action, elements, every is not None)
    _check_acts(moves, x)
    return moves


def resolve_action(group: str | Group[Any] | Action, x: Tensor) -> Action:
    """The action as given, or the usual one of a group, or of its name, on data of this shape."""
    found = named_group(group)
    return found if isinstance(found, Action) else _usual_action(found, x)


def check_moves(x: Tensor, moves: Moves, batch_size: int) -> None:
    """Raise an error unless ``x`` is a tensor with at least one example and ``moves`` are Moves."""
    check_tensors(x=x)
    if x.ndim == 0 or len(x) == 0:
        raise invalid("x", "at least one example", f"shape {tuple(x.shape)}", "check the loader")
    check_held(x, "x")
    check_whole(batch_size, "batch_size")
    if not isinstance(moves, Moves):
        raise wrong_type("moves", "Moves", moves, "see make_moves")


def _undo(action: Action, element: Any, data: Tensor) -> Tensor:  # noqa: ANN401
    """Return g^-1 x; for a product, whose factors act one after the other, undo the last first."""
    if isinstance(action, ImageAction):
        return action.undo(element, data)
    return action(action.group.inverse(element), data)


def positions_only(action: Action, element: Any) -> tuple[Action | None, Any]:  # noqa: ANN401
    """Return the part of an action that moves positions, with background 0, or None."""
    if isinstance(action, SignalAction):
        both = torch.tensor([True, True, False, False], device=element.device)
        times = torch.where(both, element, action.group.identity().to(element))
        how: dict[str, Any] = {"interpolation": action.interpolation, "padding": action.padding}
        return SignalAction(Signal(*action.group.names), **how), times
    if isinstance(action, VolumeAction):
        return VolumeAction(action.group, interpolation=action.interpolation), element
    if not isinstance(action, ImageAction):
        return action, element
    group = action.group
    if isinstance(group, Product):
        pairs = zip(group.factors, element, strict=True)
        kept = [pair for pair in pairs if not isinstance(pair[0], Colour)]
        element = tuple(part for _, part in kept)
        group = Product(*(factor for factor, _ in kept)) if kept else Colour()
    if isinstance(group, Colour):
        return None, element
    options: dict[str, Any] = {"interpolation": action.interpolation, "padding": action.padding}
    return ImageAction(group, **options), element


def _usual_action(group: object, x: Tensor) -> Action:
    if not isinstance(group, Group):
        raise wrong_type("group", "a Group or an Action", group, "try Cyclic(4)")
    if isinstance(group, Signal) and x.ndim != 4:
        return SignalAction(group)
    if isinstance(group, Permutation):
        if x.ndim > 2 and x.shape[1] == x.shape[2] == group.n:
            got = f"{group!r} on data of shape {tuple(x.shape)}, which fits sets and graphs"
            remedy = "give PermutationAction(group), or PermutationAction(group, axes=(1, 2))"
            raise invalid("group", "an action on sets or on graphs", got, remedy)
        return PermutationAction(group)
    along = isinstance(group, Flip | CyclicShift) and group.axis == "x"
    if along and x.ndim in (2, 3) and x.shape[-1] != group.coordinates:
        return SequenceAction(group)  # type: ignore[arg-type]
    if x.ndim == 5 and group.coordinates == 3:
        return VolumeAction(group)
    if x.ndim == 4:
        return ImageAction(group)
    return PointAction(group)


def _all_elements(group: Group[Any]) -> tuple[Any, ...] | None:
    """Return all elements, the identity first; None if there are infinitely many."""
    if group.finite:
        return tuple(group.elements().unbind())
    if isinstance(group, Product):
        factors = [_all_elements(factor) for factor in group.factors]
        if None not in factors:
            return tuple(product(*(factor or () for factor in factors)))
    return None


def half_widths(group: Group[Any], half_width: float | Sequence[float] | None) -> Tensor:
    """Return half-widths (dim,) from one number, one for each parameter, or None for the bounds."""
    if half_width is None:
        return torch.tensor(group.bounds)
    widths = [half_width] * group.dim if isinstance(half_width, int | float) else half_width
    if len(widths) != group.dim or min(widths) < 0:
        expected = f"one number >= 0, or {group.dim} for {', '.join(group.names)}"
        raise invalid("half_width", expected, half_width, "give one for each parameter")
    return torch.tensor([float(width) for width in widths])


def _sample(
    group: Group[Any],
    x: Tensor,
    samples: int,
    half_width: float | Sequence[float] | None,
    seed: int,
) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(seed)
    if half_width is None:  # a compact group has a uniform distribution of its own
        drawn = [group.haar(len(x), generator=generator, dtype=x.dtype) for _ in range(samples)]
        if all(element is not None for element in drawn):
            return tuple(drawn)
    width = half_widths(group, half_width)
    eta = (2 * torch.rand(samples, len(x), group.dim, generator=generator) - 1) * width
    return tuple(group.exp(part) for part in eta.to(x.dtype))


def _check_acts(moves: Moves, x: Tensor) -> None:
    """Move one example, so that a group that cannot act on the data fails early."""
    try:
        element = next(moves.of(0, 1, x.device))
        moved = moves.there_and_back(element, x[:1])
    except (ValueError, TypeError, RuntimeError, AttributeError, IndexError) as error:
        got = f"{moves.action.group!r} on data of shape {tuple(x.shape)}"
        raise invalid("group", "a group that acts on this data", got, str(error) or _HOW) from error
    if moved.shape != x[:1].shape:
        got = f"{tuple(moved.shape)} from {tuple(x[:1].shape)}"
        raise invalid("group", "an action that keeps the shape of the data", got, _HOW)


_HOW = "give an Action that moves such data, for example ImageAction(group) for (N, C, H, W)"
