"""A network in which one module sees its inputs moved and its output moved back.

A module without children is moved as a whole. Of a module with children only its own operations are
moved (sums, positions, attention): each child sees its inputs moved back, and its output is moved.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from symmetries._validation.placement import call_model
from symmetries.actions.images import ImageAction
from symmetries.auditing.elements import Moves
from symmetries.auditing.layer_laws import (
    Act,
    chosen_law,
    grid_of_tokens,
    layer_laws,
    main_tensor,
    stays,
    with_main,
)
from symmetries.auditing.models import hooks

Change = Callable[[Act, Tensor], Tensor]
Recorded = dict[str, list[tuple[dict[Any, Any], Any]]]


@dataclass(frozen=True)
class Call:
    """The laws by which inputs and output of one call of a module move.

    Args:
        inputs: laws of the inputs that are data, by position or keyword.
        output: law of the output.
        side: the longest side in pixels, or length, of its inputs and its output; 0 for none.
        square: whether all maps among them are square.
        alone: whether the output is one tensor, and nothing beside it.
    """

    inputs: Mapping[int | str, Act]
    output: Act
    side: int
    square: bool
    alone: bool


Calls = Sequence[Call | None]  # None for a call whose output is no data


def module_calls(
    model: nn.Module,
    modules: Mapping[str, nn.Module],
    x: Tensor,
    moves: Moves,
    element: Any,  # noqa: ANN401 - elements differ by group
) -> dict[str, Calls | None]:
    """Record the calls of every module on inputs as given and moved, and find their laws.

    None for a module with an input or an output whose law is not known.
    """
    still = _recorded(model, modules, x)
    moved = _recorded(model, modules, moves.action(element, x))
    outputs = [main_tensor(output) for calls in still.values() for _, output in calls]
    tokens = {h.shape[1] for h in outputs if _moves(h) and h.ndim == 3 and grid_of_tokens(h)}

    def law(h: Tensor, other: Tensor) -> Act | None:
        if isinstance(moves.action, ImageAction) and h.ndim == 4 and h.shape[2] in tokens:
            return None  # heads of attention, which are no maps
        return _law(moves, element, h, other)

    found: dict[str, Calls | None] = {}
    for name, calls in still.items():
        kept: list[Call | None] = []
        for (inputs, output), (others, other) in zip(calls, moved.get(name, []), strict=False):
            main = main_tensor(output)
            if not _moves(main):
                kept.append(None)
                continue
            laws = {key: law(z, others[key]) for key, z in inputs.items() if key in others}
            last = law(main, main_tensor(other))
            known = {key: act for key, act in laws.items() if act is not None}
            if last is None or len(known) < len(inputs):
                found[name] = None
                break
            maps = [_grid(moves, one) for one in (*inputs.values(), main)]
            sides = [max(grid) for grid in maps if grid]
            square = all(len(set(grid)) == 1 for grid in maps if grid)
            kept.append(Call(known, last, max(sides, default=0), square, _is_alone(output)))
        else:
            found[name] = kept
    return found


def children_called(module: nn.Module, called: Mapping[nn.Module, str]) -> list[str]:
    """Names of the outermost modules inside of a module that are called; none for a layer."""
    names: list[str] = []
    for child in module.children():
        names += [called[child]] if child in called else children_called(child, called)
    return names


@contextmanager
def changed(
    module: nn.Module,
    calls: Calls,
    children: Sequence[tuple[nn.Module, Calls]],
    before: Change | None,
    behind: Change | None,
) -> Iterator[None]:
    """A module whose inputs are changed by ``before`` and its output by ``behind``, by their laws.

    What its children give enters its own operations, and what they take leaves them.
    """
    with ExitStack() as stack:
        stack.enter_context(_hooked(module, calls, before, behind))
        for child, own in children:
            stack.enter_context(_hooked(child, own, behind, before))
        yield


@contextmanager
def _hooked(
    module: nn.Module, calls: Calls, before: Change | None, behind: Change | None
) -> Iterator[None]:
    coming, going = iter(calls), iter(calls)

    def enter(
        _module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        call = next(coming, None)
        values = _by_key(inputs, named)
        if before is not None and call is not None:
            values |= {key: before(act, values[key]) for key, act in call.inputs.items()}
        return tuple(values[i] for i in range(len(inputs))), {key: values[key] for key in named}

    def leave(_module: nn.Module, _inputs: Any, output: Any) -> Any:  # noqa: ANN401
        call = next(going, None)
        if behind is None or call is None:
            return output
        return with_main(output, behind(call.output, main_tensor(output)))

    handle = module.register_forward_pre_hook(enter, with_kwargs=True)
    with hooks(handle, module.register_forward_hook(leave)):
        yield


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


def grid_side(moves: Moves, h: Tensor) -> int:
    """Return the longer side of maps and tokens, length of signals; 0 for others."""
    return max(_grid(moves, h), default=0)


def _grid(moves: Moves, h: Tensor) -> tuple[int, ...]:
    """Return the height and width of maps and tokens, length of signals; nothing for others."""
    if not isinstance(moves.action, ImageAction):
        return tuple(h.shape[2:]) if h.ndim == 3 else ()
    if h.ndim == 3:
        found = grid_of_tokens(h)
        return (found[0], found[0]) if found else ()
    return tuple(h.shape[2:]) if h.ndim == 4 and h.shape[-2:] != (1, 1) else ()


def _recorded(model: nn.Module, modules: Mapping[str, nn.Module], x: Tensor) -> Recorded:
    """Return inputs that are data, and output, of every call of every module.

    Nodes of a converted ONNX file take their weights as inputs: these do not move.
    """
    found: Recorded = {}
    own = {id(one) for one in (*model.parameters(), *model.buffers())}

    def keep(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, inputs: Any, named: dict[str, Any], output: Any) -> None:  # noqa: ANN401
            data = {
                key: one.clone()
                for key, one in _by_key(inputs, named).items()
                if _moves(one) and len(one) == len(x) and id(one) not in own
            }
            main = main_tensor(output)  # cloned, as a later layer may work in place
            kept = with_main(output, main.clone()) if _moves(main) else None
            found.setdefault(name, []).append((data, kept))

        return hook

    pairs = modules.items()
    with hooks(*(m.register_forward_hook(keep(name), with_kwargs=True) for name, m in pairs)):
        call_model(model, x)
    return found


def _by_key(inputs: tuple[Any, ...], named: dict[str, Any]) -> dict[Any, Any]:
    return {**dict(enumerate(inputs)), **named}


def _moves(value: Any) -> bool:  # noqa: ANN401 - whatever a module takes
    """Whether a group can act on an input or an output: rows of floats."""
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim >= 2


def _is_alone(output: Any) -> bool:  # noqa: ANN401 - whatever a module gives
    parts = output if isinstance(output, tuple) else (output,)
    return not any(part is not None for part in parts[1:])
