r"""What each layer adds to the error of the whole: one layer at a time is moved, the rest is not.

A layer h that is equivariant equals its conjugate :math:`h_g = g^{-1} h g`. So the conjugate is put
into the network in place of h, the input stays as it is, and the change of the output is what this
layer adds, as the rest of the network passes it on. If all other layers are equivariant, it is the
error of the whole.
"""

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.placement import call_model
from symmetries.actions.base import Action
from symmetries.actions.images import ImageAction
from symmetries.auditing.answers import named_modules, plain
from symmetries.auditing.elements import Moves, make_moves
from symmetries.auditing.layers import layer_laws
from symmetries.auditing.models import model_device, untouched
from symmetries.groups.base import Group
from symmetries.results import LayerError

EXAMPLES = 8
ELEMENTS = 3


def layer_contributions(
    model: nn.Module,
    x: Tensor,
    group: str | Group[Any] | Action,
    *,
    half_width: float | Any = None,  # noqa: ANN401 - as make_moves takes it
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """How much each layer adds to the output's error, and what resampling alone adds there.

    Both are relative to the norm of the output: |f_k(x) - f(x)| / |f(x)|, with f_k the model whose
    layer k is replaced by its conjugate, over a few examples and elements. Maps (N, C, H, W) move
    like the images, other outputs stay. A conjugate resamples once before the layer and once behind
    it; resampling alone is the root mean square of moving its input, and its output, there and
    back.

    Args:
        model: a module of images.
        x: (N, C, H, W), of which a few are used.
        group: a group, its name, or an action on images.
        half_width: of the box that elements of a continuous group are drawn from.
        seed: random seed of the elements.

    Returns:
        By name, for every layer without children that takes one tensor and gives one; empty if the
        group does not act on images.

    Example:
        >>> from symmetries.groups import CyclicShift
        >>> _ = torch.manual_seed(0)
        >>> conv = nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")
        >>> zeros = nn.Conv2d(2, 2, 3, padding=1)  # whose padding does not move along
        >>> pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> net = nn.Sequential(conv, nn.ReLU(), zeros, nn.ReLU(), pool)
        >>> added = layer_contributions(net, torch.rand(4, 1, 6, 6), CyclicShift("x", 3))
        >>> max(added, key=lambda name: added[name][0])
        '2'
    """
    few = x[torch.arange(min(EXAMPLES, len(x))) * len(x) // min(EXAMPLES, len(x))]
    moves = make_moves(group, few, samples=ELEMENTS, half_width=half_width, seed=seed)
    if not isinstance(moves.action, ImageAction):
        return {}
    batch = few.to(model_device(model, few))
    leaves = {n: m for n, m in named_modules(model).items() if n and not [*m.children()]}
    every = list(moves.of(0, len(batch), batch.device))
    elements = [every[i * len(every) // min(ELEMENTS, len(every))] for i in range(
        min(ELEMENTS, len(every))
    )]  # fmt: skip
    found: dict[str, tuple[float, float]] = {}
    with untouched(model), torch.no_grad():
        still = _flat(model, batch)
        size = float(still.norm()) or 1.0
        for name, layer in leaves.items():
            squares = torch.zeros(3, dtype=torch.float64)
            for element in elements:
                outputs = _outputs(model, layer, batch, moves, element)
                if outputs is None:
                    break
                squares += torch.stack([(y - still).norm().square() for y in outputs]).cpu()
            else:
                added, before, behind = (squares / len(elements) / size**2).tolist()
                found[name] = (added**0.5, ((before + behind) / 2) ** 0.5)
    return found


def with_contributions(
    rows: tuple[LayerError, ...],
    model: nn.Module,
    x: Tensor,
    group: str | Group[Any] | Action,
    **options: Any,  # noqa: ANN401 - of layer_contributions
) -> tuple[LayerError, ...]:
    """Rows of layers with what each adds.

    Where channels stand for poses (the regular law), layers are not ranked: how a single input of
    such a layer moves cannot be told from its shape.
    """
    if any(row.law == "regular" for row in rows):
        return rows
    found = layer_contributions(model, x, group, **options)
    return tuple(
        row.model_copy(update={"added": found[row.name][0], "added_alone": found[row.name][1]})
        if row.name in found
        else row
        for row in rows
    )


def _outputs(
    model: nn.Module,
    layer: nn.Module,
    x: Tensor,
    moves: Moves,
    element: Any,  # noqa: ANN401 - elements differ by group
) -> list[Tensor] | None:
    """Outputs with the conjugate of a layer, and with its input or output moved there and back."""

    def run(z: Tensor) -> Tensor:
        output: Tensor = layer.forward(z)
        return output

    def trip(h: Tensor) -> Tensor:
        return _move(moves, element, _move(moves, element, h, False), True)

    changes: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda z, _: _move(moves, element, run(_move(moves, element, z, False)), True),
        lambda z, _: run(trip(z)),
        lambda _, h: trip(h),
    ]
    outputs = []
    for change in changes:
        try:
            with _changed(layer, change) as done:
                outputs.append(_flat(model, x))
        except ValueError:  # a map of a size that the group cannot move
            return None
        if not done:
            return None
    return outputs


@contextmanager
def _changed(layer: nn.Module, change: Callable[[Tensor, Tensor], Tensor]) -> Any:  # noqa: ANN401
    """A layer whose output is ``change(input, output)``; gives a list of its calls."""
    inputs: list[Tensor | None] = []
    done: list[bool] = []

    def before(_layer: nn.Module, arguments: tuple[Any, ...]) -> None:
        one = arguments[0] if len(arguments) == 1 else None
        whole = isinstance(one, Tensor) and one.is_floating_point() and one.ndim >= 2
        inputs.append(one.clone() if whole and isinstance(one, Tensor) else None)

    def after(_layer: nn.Module, _arguments: tuple[Any, ...], output: Any) -> Any:  # noqa: ANN401
        z = inputs.pop() if inputs else None
        if z is None or not isinstance(output, Tensor) or not output.is_floating_point():
            return output
        done.append(True)
        return change(z, output)

    handles = [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]
    try:
        yield done
    finally:
        for handle in handles:
            handle.remove()


def _move(moves: Moves, element: Any, h: Tensor, back: bool) -> Tensor:  # noqa: ANN401
    """A map moved like the images, or back; anything else as it is."""
    if h.ndim != 4 or h.shape[-2:] == (1, 1) or next(iter(layer_laws(moves, h))) != "equivariance":
        return h
    return moves.back(element, h) if back else moves.place(element, h)


def _flat(model: nn.Module, x: Tensor) -> Tensor:
    output = plain(call_model(model, x))
    parts = [output] if isinstance(output, Tensor) else _tensors(output)
    return torch.cat([part.double().flatten() for part in parts])


def _tensors(output: Any) -> list[Tensor]:  # noqa: ANN401 - whatever a model gives
    values = list(output.values()) if isinstance(output, Mapping) else output
    if not isinstance(values, tuple | list):
        return []
    return [v for v in values if isinstance(v, Tensor) and v.is_floating_point()]
