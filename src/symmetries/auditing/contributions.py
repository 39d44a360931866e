r"""What each layer adds to the error of the whole: one layer at a time is moved, the rest is not.

A layer h that is equivariant equals its conjugate :math:`h_g = g^{-1} h g`. So the conjugate is put
into the network in place of h, the input stays as it is, and the change of the output is what this
layer adds, as the rest of the network passes it on. If all other layers are equivariant, it is the
error of the whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.placement import call_model
from symmetries.actions.base import Action
from symmetries.actions.images import ImageAction
from symmetries.actions.signals import SignalAction
from symmetries.auditing.answers import named_modules, plain
from symmetries.auditing.elements import Moves, half_widths, make_moves, resolve_action
from symmetries.auditing.layer_laws import (
    Act,
    chosen_law,
    layer_laws,
    main_tensor,
    stays,
    undo,
    with_main,
)
from symmetries.auditing.lie import is_smooth, one_parameter
from symmetries.auditing.models import model_device, untouched
from symmetries.groups.base import Group
from symmetries.results import LayerError

EXAMPLES = 4
ELEMENTS = 3
STEP = 0.01  # of the small elements, as a share of each bound


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
    layer k is replaced by its conjugate, over a few examples and elements. Over images, maps
    (N, C, H, W) move like these and other tensors stay; over points and permuted items each input
    and output of a layer moves by the law that fits it best when the model's input is moved (see
    :func:`~symmetries.auditing.layer_laws.layer_laws`). A conjugate resamples once before the layer
    and once behind it; resampling alone is the root mean square of moving its inputs, and its
    output, there and back.

    Under a continuous group of images or signals, resampling would hide what layers add. So the
    conjugates are those of small elements, and the rate of change along each parameter is
    multiplied by its half-width: the layer's term in the Lie derivative (Gruver et al. 2022).

    Args:
        model: a module.
        x: (N, ...), of which a few are used.
        group: a group, its name, or an action on images, signals, points or items.
        half_width: of the box that elements of a continuous group are drawn from.
        seed: random seed of the elements.

    Returns:
        By name, for every layer without children that takes tensors and gives one.

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
    batch = few.to(model_device(model, few))
    action = resolve_action(group, batch)
    local = isinstance(action, ImageAction | SignalAction) and is_smooth(action.group)
    if local:
        kind: Any = type(action)
        action = kind(action.group, interpolation="bicubic", padding="border")
    moves = make_moves(action, batch, samples=ELEMENTS, half_width=half_width, seed=seed)
    widths = half_widths(action.group, half_width).tolist()
    pairs = _small(action.group, widths, batch) if local else _large(moves, batch)
    leaves = {n: m for n, m in named_modules(model).items() if n and not [*m.children()]}
    found: dict[str, tuple[float, float]] = {}
    with untouched(model), torch.no_grad():
        laws = _call_laws(model, leaves, batch, moves, pairs[0][0])
        still = _flat(model, batch)
        size = float(still.norm()) or 1.0
        for name, layer in leaves.items():
            squares = torch.zeros(3, dtype=torch.float64)
            for plus, minus, factor in pairs:
                ends = [
                    None
                    if g is None
                    else _outputs(model, layer, laws.get(name, []), batch, moves, g)
                    for g in (plus, minus)
                ]
                if ends[0] is None:
                    break
                others = ends[1] or [still] * 3
                changes = [(a - b).norm() * factor for a, b in zip(ends[0], others, strict=True)]
                squares += torch.stack(changes).square().cpu()
            else:
                added, before, behind = (squares / len(pairs) / size**2).tolist()
                found[name] = (added**0.5, ((before + behind) / 2) ** 0.5)
    return found


def contribution_passes(moves: Moves) -> int:
    """How many passes of the model :func:`layer_contributions` makes for each layer."""
    group = moves.action.group
    if isinstance(moves.action, ImageAction | SignalAction) and is_smooth(group):
        return 6 * sum(unit != "step" for unit in group.units)
    return 3 * min(ELEMENTS, len(moves))


def _large(moves: Moves, x: Tensor) -> list[tuple[Any, Any, float]]:
    """A few of the elements, each against the identity."""
    every = list(moves.of(0, len(x), x.device))
    count = min(ELEMENTS, len(every))
    return [(every[i * len(every) // count], None, 1.0) for i in range(count)]


def _small(group: Group[Any], widths: Sequence[float], x: Tensor) -> list[tuple[Any, Any, float]]:
    """Small elements along each parameter, there and in the other direction, and w / 2t.

    Blurring by interpolation is even in t, and is not there in the difference of both.
    """
    pairs = []
    for i, (parameter, width) in enumerate(zip(group.parameters, widths, strict=True)):
        t = STEP * parameter.bound
        if parameter.unit != "step" and width > 0:
            ends = [one_parameter(group, i, sign * t, x) for sign in (1, -1)]
            pairs.append((ends[0], ends[1], width / (2 * t)))
    return pairs


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


@dataclass(frozen=True)
class _CallLaws:
    """How the inputs and the output of one call of a layer move; None for what is no tensor."""

    inputs: tuple[Act | None, ...]
    output: Act


def _call_laws(
    model: nn.Module,
    leaves: Mapping[str, nn.Module],
    x: Tensor,
    moves: Moves,
    element: Any,  # noqa: ANN401
) -> dict[str, list[_CallLaws]]:
    """The laws of every call of every layer, from one pass as given and one moved.

    Layers with an input or output whose law is not known are left out.
    """
    still = _recorded(model, leaves, x)
    moved = _recorded(model, leaves, moves.action(element, x))
    found: dict[str, list[_CallLaws]] = {}
    for name, calls in still.items():
        laws: list[_CallLaws] = []
        for (inputs, output), other in zip(calls, moved[name], strict=False):
            if not _moves(output):
                continue
            pairs = list(zip(inputs, other[0], strict=True))
            acts = tuple(_law(moves, element, a, b) if _moves(a) else None for a, b in pairs)
            known = all(
                act is not None for act, (a, _) in zip(acts, pairs, strict=True) if _moves(a)
            )
            law = _law(moves, element, output, other[1])
            if law is None or not known:
                break
            laws.append(_CallLaws(acts, law))
        else:
            found[name] = laws
    return found


def _law(moves: Moves, element: Any, h: Tensor, moved: Tensor) -> Act | None:  # noqa: ANN401
    """How a tensor moves: by its shape over images, else by the law that fits best; or None."""
    laws = layer_laws(moves, h)
    if isinstance(moves.action, ImageAction):
        act = next(iter(laws.values()))
        return stays if h.ndim == 2 or h.shape[-2:] == (1, 1) else act
    errors = {}
    for law, act in laws.items():
        if act is not None and h.shape == moved.shape:
            errors[law] = float((act(element, h) - moved).double().square().sum())
    return laws[chosen_law(errors)] if errors else None


def _recorded(
    model: nn.Module, leaves: Mapping[str, nn.Module], x: Tensor
) -> dict[str, list[tuple[tuple[Any, ...], Any]]]:
    """Inputs and output of every call of every layer; None for inputs that are no data.

    Nodes of a converted ONNX file take their weights as inputs: these do not move.
    """
    found: dict[str, list[tuple[tuple[Any, ...], Any]]] = {}
    own = {id(one) for one in (*model.parameters(), *model.buffers())}

    def keep(name: str) -> Callable[..., None]:
        def hook(_layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ANN401
            rows = [_moves(one) and len(one) == len(x) and id(one) not in own for one in inputs]
            kept = tuple(
                one.clone() if row else None for one, row in zip(inputs, rows, strict=True)
            )
            found.setdefault(name, []).append((kept, main_tensor(output)))

        return hook

    handles = [layer.register_forward_hook(keep(name)) for name, layer in leaves.items()]
    try:
        call_model(model, x)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _outputs(
    model: nn.Module,
    layer: nn.Module,
    laws: Sequence[_CallLaws],
    x: Tensor,
    moves: Moves,
    element: Any,  # noqa: ANN401 - elements differ by group
) -> list[Tensor] | None:
    """Outputs with the conjugate of a layer, and with its inputs or output moved there and back."""
    if not any(act for law in laws for act in law.inputs):
        return None

    def move(act: Act | None, z: Any) -> Any:  # noqa: ANN401
        return z if act is None else act(element, z)

    def back(act: Act, h: Tensor) -> Tensor:
        return undo(act, moves)(element, h)

    def conjugate(law: _CallLaws, inputs: list[Any], _: Any) -> Any:  # noqa: ANN401
        moved = [move(act, z) for act, z in zip(law.inputs, inputs, strict=True)]
        output = layer.forward(*moved)
        return with_main(output, back(law.output, main_tensor(output)))

    def before(law: _CallLaws, inputs: list[Any], _: Any) -> Any:  # noqa: ANN401
        pairs = zip(law.inputs, inputs, strict=True)
        return layer.forward(*(z if act is None else back(act, move(act, z)) for act, z in pairs))

    def behind(law: _CallLaws, _: list[Any], output: Any) -> Any:  # noqa: ANN401
        return with_main(output, back(law.output, move(law.output, main_tensor(output))))

    outputs = []
    for change in (conjugate, before, behind):
        try:
            with _changed(layer, laws, change):
                outputs.append(_flat(model, x))
        except ValueError:  # a map of a size that the group cannot move
            return None
    return outputs


@contextmanager
def _changed(
    layer: nn.Module,
    laws: Sequence[_CallLaws],
    change: Callable[[_CallLaws, list[Any], Any], Any],
) -> Iterator[None]:
    """A layer whose output is ``change(law, inputs, output)``, call by call."""
    waiting: list[list[Any]] = []
    calls = iter(laws)

    def before(_layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        waiting.append([one.clone() if isinstance(one, Tensor) else one for one in inputs])

    def after(_layer: nn.Module, _inputs: tuple[Any, ...], output: Any) -> Any:  # noqa: ANN401
        law = next(calls, None) if _moves(main_tensor(output)) else None
        inputs = waiting.pop()
        return output if law is None else change(law, inputs, output)

    handles = [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _moves(value: Any) -> bool:  # noqa: ANN401 - whatever a layer takes
    """Whether a group can act on an input or an output: rows of floats."""
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim >= 2


def _flat(model: nn.Module, x: Tensor) -> Tensor:
    output = plain(call_model(model, x))
    parts = [output] if isinstance(output, Tensor) else _tensors(output)
    return torch.cat([part.double().flatten() for part in parts])


def _tensors(output: Any) -> list[Tensor]:  # noqa: ANN401 - whatever a model gives
    values = list(output.values()) if isinstance(output, Mapping) else output
    if not isinstance(values, tuple | list):
        return []
    return [v for v in values if isinstance(v, Tensor) and v.is_floating_point()]
