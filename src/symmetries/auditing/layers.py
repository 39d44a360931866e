"""Equivariance error of each layer of a model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_finite, check_whole, invalid, wrong_type
from symmetries._validation.placement import call_model
from symmetries.actions.base import Action
from symmetries.auditing.answers import named_modules
from symmetries.auditing.elements import Moves, make_moves
from symmetries.auditing.inputs import Inputs, inputs_of
from symmetries.auditing.layer_laws import Act, chosen_law, layer_laws, main_tensor, undo
from symmetries.auditing.models import check_examples, hooks, model_device, untouched
from symmetries.groups.base import Group
from symmetries.results import LayerError


def layer_equivariance(
    model: nn.Module,
    x: Inputs,
    group: str | Group[Any] | Action,
    *,
    layers: Sequence[str] | None = None,
    actions: Mapping[str, Act] | None = None,
    identity: bool = False,
    samples: int = 4,
    half_width: float | Sequence[float] | None = None,
    batch_size: int = 256,
    seed: int = 0,
) -> tuple[LayerError, ...]:
    """Return |h(g x) - g h(x)| / |h(x)| of each layer h, over all examples and elements.

    The group acts on feature maps (N, C, H, W) as on images with C channels (channels are not
    mixed, and colours do not change them). It acts trivially on vectors (N, D), and on maps if it
    changes only colours: their invariance is measured. Group convolutions have a channel for each
    element of a finite group, (F, |G|) of them or F |G| in a row; the regular law is measured if it
    holds clearly better. Over points and permuted items, outputs stay, turn or change places,
    whichever fits clearly best: see :func:`~symmetries.auditing.layer_laws.layer_laws`.

    Args:
        model: the model.
        x: (N, ...); a tensor, an array, an ``ImageSet`` or a ``DataLoader``.
        group: a group, its name, or an action.
        layers: names; by default every layer without children that returns a tensor, or a tuple
            whose first is one (LSTM), and those that say how far they are relaxed.
        actions: for some names, how an element acts on that layer's output,
            ``act(element, output)``, for representations other than the trivial one.
        identity: whether the identity of a finite group counts.
        samples: number of elements drawn for each example if the group is continuous.
        half_width: half-width of the box that they are drawn from.
        batch_size: number of examples at once.
        seed: random seed of the elements.

    Returns:
        One row per layer, in the order of the model.

    Example:
        >>> from symmetries.groups import CyclicShift
        >>> conv = nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")
        >>> model = nn.Sequential(conv, nn.Flatten(), nn.Linear(72, 2))
        >>> rows = layer_equivariance(model, torch.rand(4, 1, 6, 6), CyclicShift("x", 3))
        >>> [(row.name, row.law, row.error < 1e-5) for row in rows]
        [('0', 'equivariance', True), ('1', 'invariance', False), ('2', 'invariance', False)]
    """
    if not isinstance(model, nn.Module):
        raise wrong_type("model", "an nn.Module", model, "only modules have layers")
    x = inputs_of(x, model)
    check_examples(x)
    check_finite(x, "x")
    check_whole(batch_size, "batch_size")
    moves = make_moves(
        group, x, identity=identity, samples=samples, half_width=half_width, seed=seed
    )
    chosen = choose_layers(model, layers)
    sums: dict[str, dict[str, list[Tensor]]] = {}
    shapes: dict[str, torch.Size] = {}
    device = model_device(model, x)
    with untouched(model), torch.no_grad():
        for start in range(0, len(x), batch_size):
            batch = x[start : start + batch_size].to(device)
            still = layer_outputs(model, chosen, batch)
            sofar: dict[tuple[str, str], Tensor] = {}
            for element in moves.of(start, start + len(batch), device):
                moved = layer_outputs(model, chosen, moves.action(element, batch))
                again = layer_outputs(model, chosen, moves.there_and_back(element, batch))
                for name, h in still.items():
                    given = (actions or {}).get(name)
                    laws = {"equivariance": given} if given else layer_laws(moves, h)
                    for law, act in laws.items():
                        row = _squares(act, moves, element, h, moved[name], again[name])
                        sofar[name, law] = sofar.get((name, law), 0) + row
                    shapes[name] = h.shape[1:]
            for (name, law), found in sofar.items():
                sums.setdefault(name, {}).setdefault(law, []).append(found)
    return tuple(
        _row(name, shapes[name], totals, _relaxation(chosen[name])) for name, totals in sums.items()
    )


def choose_layers(model: nn.Module, layers: Sequence[str] | None) -> dict[str, nn.Module]:
    """Return layers by name; None is every layer without children, and those that are relaxed."""
    every = named_modules(model)
    if layers is None:
        whole = {n: m for n, m in every.items() if not list(m.children()) or _has_relaxation(m)}
        return {name: module for name, module in whole.items() if name}
    unknown = [name for name in layers if name not in every]
    if unknown:
        known = ", ".join(name for name in every if name)
        raise invalid("layers", f"names among {known}", ", ".join(unknown), "check the spelling")
    return {name: every[name] for name in layers}


def _has_relaxation(module: nn.Module) -> bool:
    """Return whether a layer has a method ``relaxation()``."""
    return callable(getattr(module, "relaxation", None))


def _relaxation(module: Any) -> dict[str, float] | None:  # noqa: ANN401 - it has the method
    return (dict(module.relaxation()) or None) if _has_relaxation(module) else None


def layer_outputs(
    model: Callable[[Tensor], Any], chosen: Mapping[str, nn.Module], x: Tensor
) -> dict[str, Tensor]:
    """Return the outputs of the chosen layers, in the order in which they run."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, _inputs: Any, output: Any) -> None:  # noqa: ANN401
            output = main_tensor(output)
            if isinstance(output, Tensor) and output.is_floating_point() and output.ndim >= 2:
                if output.ndim == 3 and getattr(module, "batch_first", True) is False:
                    output = output.transpose(0, 1)  # of recurrent layers: time first
                found[name] = output.detach().clone()  # a later layer may work in place

        return hook

    with hooks(*(layer.register_forward_hook(keep(name)) for name, layer in chosen.items())):
        call_model(model, x)
    return found


def _squares(
    act: Act | None,
    moves: Moves,
    element: Any,  # noqa: ANN401 - elements differ by group
    h: Tensor,
    moved: Tensor,
    again: Tensor,
) -> Tensor:
    """Return (3, N) squared norms: of h(g x) - g h(x), of the round trip, and of h(x), or NaN."""
    size = _square(h)
    try:
        if act is None:
            remedy = "exclude this layer"
            raise invalid("layer", "an output that the group acts on", tuple(h.shape), remedy)
        error = _square(moved - act(element, h))
        there = act(element, again)
        back = undo(act, moves)(element, there)
    except ValueError:
        return torch.stack((size * torch.nan, size * torch.nan, size))
    return torch.stack((error, _square(back - h), size))


def _square(h: Tensor) -> Tensor:
    return h.flatten(1).double().square().sum(1)


def _row(
    name: str,
    shape: torch.Size,
    parts: Mapping[str, Sequence[Tensor]],
    relaxation: dict[str, float] | None,
) -> LayerError:
    every = {law: torch.cat([*found], 1).cpu() for law, found in parts.items()}
    rows = {law: found.sum(1).tolist() for law, found in every.items()}
    law = chosen_law({law: found[0] for law, found in rows.items()})
    error, back, size = rows[law]
    numbers: dict[str, float | None] = {"error": None, "discretisation": None}
    if error == error:  # NaN if the group could not act
        scale = size if size > 0 else 1.0
        root = (error / scale) ** 0.5
        spread = _ratio_error(every[law][0], every[law][2])
        numbers = {"error": root, "discretisation": (back / scale) ** 0.5}
        numbers["standard_error"] = (
            None if spread is None else spread / (2 * root) if root > 0 else 0.0
        )
    return LayerError(name=name, shape=tuple(shape), law=law, relaxation=relaxation, **numbers)


def _ratio_error(errors: Tensor, sizes: Tensor) -> float | None:
    """Return the standard error of sum(errors) / sum(sizes) over the examples, to first order.

    None for one example.
    """
    n, total = len(errors), float(sizes.sum())
    if n < 2:
        return None
    if total == 0:
        return 0.0
    left = errors - errors.sum() / total * sizes
    return float((left.square().sum() * n / (n - 1)).sqrt()) / total
