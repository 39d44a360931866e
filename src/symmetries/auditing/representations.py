"""How outputs should move when inputs are moved, and how far they are from it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from symmetries._validation.checks import check_choice, invalid
from symmetries.actions.base import Action
from symmetries.actions.images import ImageAction
from symmetries.actions.permute import PermutationAction
from symmetries.actions.points import PointAction
from symmetries.actions.volumes import VolumeAction
from symmetries.auditing.answers import KINDS
from symmetries.auditing.boxes import (
    kept_in_frame,
    map_boxes,
    match_boxes,
    point_errors,
    points_alone,
    read_boxes,
)
from symmetries.auditing.elements import Moves
from symmetries.auditing.energies import energy_errors, read_energies
from symmetries.auditing.layer_laws import turned_vectors
from symmetries.auditing.sequences import read_sequences, sequence_errors

INNER = 0.8  # share of the side of a map that is not called border
Errors = dict[str, Tensor]


@dataclass(frozen=True)
class Representation:
    """What an output is, and the law that it should keep.

    Args:
        kind: its name.
        read: from what the model gives for N examples to a tensor or a list of N.
        compare: errors (N,) by name, of f(x) and f(g x), for a batch of inputs x.
        alone: the same of f(x) and f(g^-1 g x), which resampling alone explains.
    """

    kind: str
    read: Callable[[Any, int], Any]
    compare: Callable[[Moves, Any, Any, Any, Tensor], Errors]
    alone: Callable[[Moves, Any, Any, Any, Tensor], Errors]


def representation(kind: str | Action | Callable[[Any, Tensor], Tensor]) -> Representation:
    """Return the representation of a kind of output, or one of your own.

    - "embedding": stays; cosine and relative error;
    - "scalar": stays; error in its own units, and as a share of its spread over the examples;
    - "energy": energies stay and forces turn; errors in their units, per atom, and relative;
    - "vector": turns with the linear part of the group; error in its units, and relative;
    - "points": positions, in pixels over images, that move along; distance in their units;
    - "map": moves like an image; relative error, inside and near borders, agreement by pixel;
    - "boxes": mapped back and matched; share of boxes with a partner, their overlap, and share
      with a partner of the same class where there are labels;
    - "sequence", "ctc": stays; edit distance, and share of equal ones.

    Args:
        kind: one of these, an action on outputs, or a function act(element, output).

    Example:
        >>> representation("scalar").kind
        'scalar'
    """
    if callable(kind) and not isinstance(kind, str):
        return Representation(
            "own",
            _floats,
            lambda moves, g, still, moved, _: vector_errors(_by_own_law(kind, g, still), moved),
            lambda moves, g, still, again, _: vector_errors(still, again),
        )
    check_choice(kind, KINDS, "output")
    return Representation(kind, *LAWS[kind])


def _by_own_law(act: Callable[[Any, Tensor], Tensor], element: Any, still: Tensor) -> Tensor:  # noqa: ANN401
    found = act(element, still)
    if not isinstance(found, Tensor) or found.shape != still.shape:
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        expected = f"act(element, output) of the output's shape {tuple(still.shape)}"
        raise invalid("output", expected, got, "return one moved output for each example")
    return found


def embedding_errors(still: Tensor, moved: Tensor) -> Errors:
    """Cosine of both, and norm of the difference relative to that of the first, (N,) each."""
    a, b = still.flatten(1).double(), moved.flatten(1).double()
    return {"cosine": F.cosine_similarity(a, b, dim=1), "relative_error": _relative(a, b)}


def scalar_errors(still: Tensor, moved: Tensor) -> Errors:
    """Absolute difference (N,), in the units of the output."""
    difference = (still - moved).double().reshape(len(still), -1)
    return {"absolute_error": difference.abs().mean(1)}


def vector_errors(expected: Tensor, found: Tensor) -> Errors:
    """Errors (N,) of vectors (N, ..., D): mean length in their units, relative, largest length."""
    a, b = (v.double().reshape(len(v), -1, v.shape[-1]) for v in (expected, found))
    length = torch.linalg.vector_norm(a - b, dim=-1)
    return {
        "absolute_error": length.mean(1),
        "largest_error": length.amax(1),
        "relative_error": _relative(a.flatten(1), b.flatten(1)),
    }


def _without(errors: Callable[[Any, Any], Errors]) -> Callable[..., Errors]:
    """Return errors of an output that should stay; the group is not needed."""
    return lambda moves, element, still, moved, x: errors(still, moved)


def _floats(output: Any, count: int) -> Tensor:  # noqa: ANN401 - whatever a model gives
    found = torch.as_tensor(output)
    if found.ndim == 0 or len(found) != count or not found.is_floating_point():
        got = f"shape {tuple(found.shape)}, {found.dtype}"
        remedy = "return one tensor, rows first; of class numbers, torch.nn.functional.one_hot"
        raise invalid("model", f"{count} rows of floats", got, remedy)
    return found[:, None] if found.ndim == 1 else found


def _maps(output: Any, count: int) -> Tensor:  # noqa: ANN401
    found = _floats(output, count)
    found = found[:, None] if found.ndim == 3 else found
    if found.ndim not in (4, 5):
        expected = "a dense map (N, C, H, W), or (N, C, D, H, W) over volumes"
        remedy = "return that; for other outputs give another kind"
        raise invalid("model", expected, f"shape {tuple(found.shape)}", remedy)
    return found


def _relative(a: Tensor, b: Tensor) -> Tensor:
    size = torch.linalg.vector_norm(a, dim=1).clamp_min(torch.finfo(a.dtype).tiny)
    return torch.linalg.vector_norm(a - b, dim=1) / size


def _compare_vectors(moves: Moves, element: Any, still: Any, moved: Any, x: Tensor) -> Errors:  # noqa: ANN401
    return vector_errors(_turned(moves, element, still), moved)


def _turned(moves: Moves, element: Any, vectors: Tensor) -> Tensor:  # noqa: ANN401
    """Return vectors (N, ..., D) turned by the linear part of the group, or refused."""
    d = moves.action.group.coordinates
    if d is None or vectors.shape[-1] != d:
        got = f"shape {tuple(vectors.shape)} under {moves.action.group!r}"
        remedy = 'give a function act(element, output), or output="embedding" if it should stay'
        raise invalid("output", f"vectors (N, ..., {d or 'D'})", got, remedy)
    return turned_vectors(PointAction(moves.action.group), element, vectors)


def _compare_energies(moves: Moves, element: Any, still: Any, moved: Any, x: Tensor) -> Errors:  # noqa: ANN401
    """Return energies stay; forces turn, or change places with permuted atoms."""

    def turn(forces: Tensor) -> Tensor:
        if isinstance(moves.action, PermutationAction):
            return moves.action(element, forces)
        return _turned(moves, element, forces)

    return energy_errors(still, moved, turn)


def _compare_maps(moves: Moves, element: Any, still: Any, moved: Any, x: Tensor) -> Errors:  # noqa: ANN401
    _check_maps(moves, still)
    expected = moves.place(element, still)
    inside = inner_mask(moves, element, still)
    return map_errors(expected, moved, inside)


def _maps_alone(moves: Moves, element: Any, still: Any, again: Any, x: Tensor) -> Errors:  # noqa: ANN401
    back = moves.back(element, moves.place(element, again))
    return map_errors(still, back, inner_mask(moves, element, still))


def _check_maps(moves: Moves, maps: Tensor) -> None:
    if not isinstance(moves.action, ImageAction if maps.ndim == 4 else VolumeAction):
        raise _no_law("maps over images or volumes", moves)


def _no_law(expected: str, moves: Moves) -> ValueError:
    remedy = "give a function act(element, output) that says how they move"
    return invalid("output", expected, repr(moves.action.group), remedy)


def inner_mask(moves: Moves, element: Any, maps: Tensor) -> Tensor:  # noqa: ANN401
    """(N, 1, H, W), or of volumes: what is away from the border, before the move and after it."""
    mask = torch.zeros_like(maps[:, :1])
    edges = [round(side * (1 - INNER) / 2) for side in maps.shape[2:]]
    sides = zip(edges, maps.shape[2:], strict=True)
    inner: list[Any] = [slice(edge, side - edge) for edge, side in sides]
    mask[(..., *inner)] = 1
    moved = moves.place(element, mask)
    return (moved > 0.999) & (mask > 0)


def map_errors(expected: Tensor, found: Tensor, inside: Tensor) -> Errors:
    """Relative errors (N,) of maps (N, C, ...): whole, inside and at the border; agreement inside.

    Agreement is the share of inner pixels whose largest channel is the same; only where there are
    several channels.
    """
    a, b = expected.double(), found.double()
    tiny = torch.finfo(a.dtype).tiny
    square = (a - b).square().sum(1, keepdim=True)
    total, inner = square.flatten(1).sum(1), (square * inside).flatten(1).sum(1)
    size, size_inside = (
        values.flatten(1).sum(1).clamp_min(tiny) for values in (a.square(), a.square() * inside)
    )
    errors = {
        "relative_error": (total / size).sqrt(),
        "relative_error_inside": (inner / size_inside).sqrt(),
        "share_at_the_border": (total - inner) / total.clamp_min(1e-300),
    }
    if a.shape[1] > 1:
        same = (a.argmax(1) == b.argmax(1)) & inside[:, 0]
        errors["agreement"] = same.flatten(1).sum(1) / inside.flatten(1).sum(1).clamp_min(1)
    return errors


def _compare_boxes(moves: Moves, element: Any, still: Any, moved: Any, x: Tensor) -> Errors:  # noqa: ANN401
    if not isinstance(moves.action, ImageAction):
        raise _no_law("boxes in images", moves)
    size = (x.shape[-2], x.shape[-1])
    back = moves.inverse(element)
    found = []
    for i, (a, b) in enumerate(zip(still, moved, strict=True)):
        rows = torch.tensor([i])
        g, inverse = (moves.some(one, rows.to(x.device)) for one in (element, back))
        g, inverse = (part.cpu().double() if part.is_floating_point() else part.cpu()
                      for part in (g, inverse))  # fmt: skip
        kept = kept_in_frame(a, moves.action, g, size)
        returned = kept_in_frame(map_boxes(moves.action, inverse, b, size), moves.action, g, size)
        found.append(match_boxes(kept, returned))
    return _stacked(found)


def _boxes_alone(moves: Moves, element: Any, still: Any, again: Any, x: Tensor) -> Errors:  # noqa: ANN401
    return _stacked([match_boxes(a, b) for a, b in zip(still, again, strict=True)])


def _stacked(rows: list[dict[str, float]]) -> Errors:
    values = {name: [row[name] for row in rows] for name in rows[0]}
    return {name: torch.tensor(column, dtype=torch.float64) for name, column in values.items()}


_read_ctc = partial(read_sequences, blank=0)
# How outputs of a kind are read, how they are compared, and what resampling alone explains.
LAWS: dict[str, tuple[Any, Any, Any]] = {
    "embedding": (_floats, _without(embedding_errors), _without(embedding_errors)),
    "scalar": (_floats, _without(scalar_errors), _without(scalar_errors)),
    "vector": (_floats, _compare_vectors, _without(vector_errors)),
    "points": (_floats, point_errors, points_alone),
    "energy": (read_energies, _compare_energies, _without(energy_errors)),
    "map": (_maps, _compare_maps, _maps_alone),
    "boxes": (read_boxes, _compare_boxes, _boxes_alone),
    "sequence": (read_sequences, _without(sequence_errors), _without(sequence_errors)),
    "ctc": (_read_ctc, _without(sequence_errors), _without(sequence_errors)),
}
