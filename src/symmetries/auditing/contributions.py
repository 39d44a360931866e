r"""Contribution of each layer to the error of the output, if that layer alone sees moved inputs.

A layer h that is equivariant equals its conjugate :math:`h_g = g^{-1} h g`. So the conjugate is put
into the network in place of h, the input stays as it is, and the change of the output is what this
layer adds, as the rest of the network passes it on. If all other layers are equivariant, it is the
error of the whole.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.placement import call_model
from symmetries.actions.base import Action
from symmetries.actions.images import ImageAction
from symmetries.actions.signals import SignalAction
from symmetries.auditing.answers import named_modules, plain
from symmetries.auditing.conjugates import changed, children_called, grid_side, module_calls
from symmetries.auditing.elements import Moves, half_widths, make_moves, resolve_action
from symmetries.auditing.inputs import Inputs, inputs_of
from symmetries.auditing.layer_laws import Act, undo
from symmetries.auditing.lie import is_smooth, one_parameter
from symmetries.auditing.models import model_device, untouched
from symmetries.auditing.onnx_graph import OnnxGraph
from symmetries.groups.base import Group
from symmetries.results.audits import OWN_OPERATIONS, LayerError

EXAMPLES = 4
ELEMENTS = 3
STEP = 0.01  # of the small elements, as a share of each bound
QUARTER = math.pi / 2


Pair = tuple[
    Any, Any, float
]  # two elements (None is the identity), and a factor for the difference


def layer_contributions(
    model: nn.Module,
    x: Inputs,
    group: str | Group[Any] | Action,
    *,
    half_width: float | Any = None,  # noqa: ANN401 - as make_moves takes it
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Return how much each layer adds to the output's error, and how much resampling alone adds.

    Both are relative to the norm of the output: |f_k(x) - f(x)| / |f(x)|, with f_k the model whose
    layer k is replaced by its conjugate, over a few examples and elements. Over images, maps
    (N, C, H, W) move like these and other tensors stay; over points and permuted items each input
    and output of a layer moves by the law that fits it best when the model's input is moved (see
    :func:`~symmetries.auditing.layer_laws.layer_laws`). A conjugate resamples once before the layer
    and once behind it; resampling alone is the root mean square of moving its inputs, and its
    output, there and back.

    Under a continuous group of images or signals, resampling would hide what layers add. So the
    conjugates are those of small elements, and the rate of change along each parameter is
    multiplied by its half-width: the layer's term in the Lie derivative (Gruver et al. 2022). On a
    coarse grid interpolation does not commute with nonlinearities, and they would be blamed. So
    shifts by one pixel and quarter turns are tried, too, which need no interpolation: what of the
    rate is not seen there is called resampling's.

    Of a module with children, what its own operations add (sums, positions, attention): its inputs
    are moved and its output is moved back, but its children stay still.

    Args:
        model: a module.
        x: (N, ...), of which a few are used.
        group: a group, its name, or an action on images, signals, points or items.
        half_width: of the box that elements of a continuous group are drawn from.
        seed: random seed of the elements.

    Returns:
        By name, for every layer that takes tensors and gives one, and for modules with operations
        of their own; "" is the model itself.

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
    x = inputs_of(x, model)
    few = x[torch.arange(min(EXAMPLES, len(x))) * len(x) // min(EXAMPLES, len(x))]
    batch = few.to(model_device(model, few))
    action = resolve_action(group, batch)
    local = isinstance(action, ImageAction | SignalAction) and is_smooth(action.group)
    if local:
        kind: Any = type(action)
        action = kind(action.group, interpolation="bicubic", padding="border")
    moves = make_moves(action, batch, samples=ELEMENTS, half_width=half_width, seed=seed)
    found: dict[str, tuple[float, float]] = {}
    with untouched(model), torch.no_grad():
        if not len(_flat(model, batch)):
            return {}  # such as lists of boxes, whose number may change
        network = _Network(model, batch, moves)
        widths = half_widths(action.group, half_width).tolist()
        for name in network.ranked():
            try:
                squares = network.local(name, widths) if local else network.whole(name)
            except ValueError:  # a map of a size that the group cannot move
                continue
            found[name] = (squares[0] ** 0.5, squares[1] ** 0.5)
    return found


def contribution_passes(moves: Moves) -> int:
    """How many passes of the model :func:`layer_contributions` makes for each layer, at most."""
    group = moves.action.group
    if isinstance(moves.action, ImageAction | SignalAction) and is_smooth(group):
        return 6 * sum(unit != "step" for unit in group.units)
    return 3 * min(ELEMENTS, len(moves))


class _Network:
    """A network whose modules are moved one by one."""

    def __init__(self, model: nn.Module, x: Tensor, moves: Moves) -> None:
        self.model, self.x, self.moves = model, x, moves
        self.modules = named_modules(model)
        self.elements = [*moves.of(0, len(x), x.device)]
        self.calls = module_calls(model, self.modules, x, moves, self.elements[0])
        called = {self.modules[name]: name for name in self.calls}
        self.children = {n: children_called(self.modules[n], called) for n in self.calls}
        self.still = _flat(model, x)
        self.size = float(self.still.norm()) or 1.0

    def ranked(self) -> list[str]:
        """Names of layers, and of modules with operations of their own, whose laws are known."""
        return [name for name in self.modules if self._is_known(name)]

    def _is_known(self, name: str) -> bool:
        calls, inside = self.calls.get(name), self.children.get(name, [])
        if not any(call.inputs for call in calls or () if call):
            return False
        if not inside:
            return bool(name)
        if type(self.modules[name]).forward in (nn.Sequential.forward, OnnxGraph.forward):
            return False  # nothing but its children
        every = [calls, *(self.calls[child] for child in inside)]
        return all(own is not None and all(c and c.alone for c in own) for own in every)

    def whole(self, name: str) -> tuple[float, float]:
        """Squared contributions of a module and of resampling alone, mean over a few elements."""
        count = min(ELEMENTS, len(self.elements))
        some = [self.elements[i * len(self.elements) // count] for i in range(count)]
        return self._with_trips(name, [(element, None, 1.0) for element in some])

    def local(self, name: str, widths: Sequence[float]) -> tuple[float, float]:
        """Return the contributions under small elements; what interpolation adds is resampling."""
        group = self.moves.action.group
        added, alone = [], []
        for i, (parameter, width) in enumerate(zip(group.parameters, widths, strict=True)):
            if parameter.unit == "step" or width == 0:
                continue
            small = [self._pair(i, STEP * parameter.bound, width)]
            on_grid = self._on_grid(name, i, width)
            if on_grid is None:
                rate, trips = self._with_trips(name, small)
            else:
                rate = self._squares(name, small, self._there, self._back)
                trips = max(rate - on_grid, 0.0)
            added.append(rate)
            alone.append(trips)
        count = max(len(added), 1)
        return sum(added) / count, sum(alone) / count

    def _on_grid(self, name: str, i: int, width: float) -> float | None:
        """Squared contribution under elements that map the module's finest grid onto itself.

        Shifts by one pixel there, and quarter turns of square maps; None for other parameters.
        Both lose nothing but what leaves the frame; shifts blur coarser grids, half as much as
        moving there and back does. The network that is compared with has lost the same.
        """
        parameter = self.moves.action.group.parameters[i]
        names = (name, *self.children[name])
        calls = [call for one in names for call in self.calls[one] or () if call]
        side = max(call.side for call in calls)
        turns = parameter.name == "rotation" and all(call.square for call in calls)
        if not side or not (turns or parameter.unit == "half-image"):
            return None
        step = QUARTER if turns else 2 / side
        factor = max(1.0, width / step)

        def lose(element: Any, act: Act, h: Tensor) -> Tensor:  # noqa: ANN401
            tripped = self._trip(element, act, h)
            exact = turns or grid_side(self.moves, h) == side
            return tripped if exact else (h + tripped) / 2

        squares = 0.0
        for element in (self._element(i, step), self._element(i, -step)):
            moved = self._output(name, element, self._there, self._back)
            lost = self._output(name, element, lose, lose)
            squares += self._square(moved - lost)
        return squares / 2 * factor**2

    def _square(self, change: Tensor) -> float:
        return float(change.norm() / self.size) ** 2

    def _pair(self, i: int, t: float, width: float) -> Pair:
        """Return an element along a parameter, the same in the other direction, and w / 2t.

        Blurring by interpolation is even in t, and is not there in the difference of both.
        """
        return self._element(i, t), self._element(i, -t), width / (2 * t)

    def _element(self, i: int, t: float) -> Any:  # noqa: ANN401 - elements differ by group
        return one_parameter(self.moves.action.group, i, t, self.x)

    def _with_trips(self, name: str, pairs: Sequence[Pair]) -> tuple[float, float]:
        """Squared contributions of a module, and of moving inputs or output there and back."""
        before = self._squares(name, pairs, self._trip, None)
        behind = self._squares(name, pairs, None, self._trip)
        return self._squares(name, pairs, self._there, self._back), (before + behind) / 2

    def _squares(
        self,
        name: str,
        pairs: Sequence[Pair],
        before: Any,  # noqa: ANN401
        behind: Any,  # noqa: ANN401
    ) -> float:
        """Return the mean square of the changes of the output, relative to its size."""
        total = 0.0
        for plus, minus, factor in pairs:
            a, b = (
                self.still if g is None else self._output(name, g, before, behind)
                for g in (plus, minus)
            )
            total += self._square((a - b) * factor)
        return total / len(pairs)

    def _output(self, name: str, element: Any, before: Any, behind: Any) -> Tensor:  # noqa: ANN401
        inside = [(self.modules[child], self.calls[child] or ()) for child in self.children[name]]
        changes = [change and partial(change, element) for change in (before, behind)]
        with changed(self.modules[name], self.calls[name] or (), inside, *changes):
            return _flat(self.model, self.x)

    def _there(self, element: Any, act: Act, h: Tensor) -> Tensor:  # noqa: ANN401
        return act(element, h)

    def _back(self, element: Any, act: Act, h: Tensor) -> Tensor:  # noqa: ANN401
        return undo(act, self.moves)(element, h)

    def _trip(self, element: Any, act: Act, h: Tensor) -> Tensor:  # noqa: ANN401
        return self._back(element, act, act(element, h))


def with_contributions(
    rows: tuple[LayerError, ...],
    model: nn.Module,
    x: Tensor,
    group: str | Group[Any] | Action,
    **options: Any,  # noqa: ANN401 - of layer_contributions
) -> tuple[LayerError, ...]:
    """Return rows of layers with what each adds, then modules with operations of their own.

    Where channels stand for poses (the regular law), layers are not ranked: how a single input of
    such a layer moves cannot be told from its shape.
    """
    if any(row.law == "regular" for row in rows):
        return rows
    found: dict[str, dict[str, Any]] = {
        name: {"added": added, "added_alone": alone}
        for name, (added, alone) in layer_contributions(model, x, group, **options).items()
    }
    known = {row.name for row in rows}
    every = named_modules(model)
    own = [
        LayerError(
            name=name, shape=(), law=OWN_OPERATIONS, error=None, discretisation=None, **numbers
        )
        for name, numbers in found.items()
        if name not in known and [*every[name].children()]
    ]
    return (*(row.model_copy(update=found.get(row.name, {})) for row in rows), *own)


def _flat(model: nn.Module, x: Tensor) -> Tensor:
    output = plain(call_model(model, x))
    parts = [output] if isinstance(output, Tensor) else _tensors(output)
    flat = [part.double().flatten() for part in parts]
    return torch.cat(flat) if flat else torch.zeros(0)


def _tensors(output: Any) -> list[Tensor]:  # noqa: ANN401 - whatever a model gives
    values = list(output.values()) if isinstance(output, Mapping) else output
    if not isinstance(values, tuple | list):
        return []
    return [v for v in values if isinstance(v, Tensor) and v.is_floating_point()]
