r"""The Lie derivative of a model: how fast equivariance breaks, beside how far.

.. math:: L_X f(x) = \frac{d}{dt}\Big|_{t=0} \rho_2(e^{tX})^{-1} f(\rho_1(e^{tX})\,x), \qquad
          \mathrm{LEE} = \mathbb{E}_x\, \|L_X f(x)\|^2 / \dim V_2.

Reference: Gruver, Finzi, Goldblum, Wilson 2022, "The Lie derivative for measuring learned
equivariance". Its equation 4 was not available here. Sign and normalisation follow what its authors
say of it (issue 6 of their public code): outputs of the moved input, moved back; the squared norm
divided by the number of components. That code computes the same derivative, but reports the mean of
absolute values for softmax probabilities, which is another number; ``benchmarks/audit_lie.py``
compares both.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_finite, check_number, invalid
from symmetries.actions.base import Action
from symmetries.auditing.answers import plain
from symmetries.auditing.elements import make_moves, resolve_action
from symmetries.auditing.estimate import estimate
from symmetries.auditing.inputs import Inputs, inputs_of
from symmetries.auditing.layer_laws import layer_laws, stays, undo
from symmetries.auditing.layers import choose_layers, layer_outputs
from symmetries.auditing.models import Model, check_callable, model_device, untouched
from symmetries.groups.base import Group
from symmetries.results import LieDerivative

OUTPUT = ""  # the name of the model itself among its layers


def lie_derivative(
    model: Model,
    x: Inputs,
    group: str | Group[Any] | Action,
    *,
    layers: Sequence[str] = (),
    step: float = 0.01,
    batch_size: int = 256,
    level: float = 0.95,
) -> tuple[LieDerivative, ...]:
    """Estimate the local equivariance error of outputs and layers, by central differences.

    A parameter eta_i goes to plus and minus ``step`` times the group's bound; the others are 0.
    Parameters that count steps, such as an inversion, are left out. Results are per unit of the
    parameter: radians, half-images, logarithms of factors. Outputs that are maps over images or
    volumes move like these, and all others stay.

    Args:
        model: any callable from (N, ...) to a tensor (N, ...).
        x: (N, ...); a tensor, an array, an ``ImageSet`` or a ``DataLoader``.
        group: a continuous group, its name, or an action.
        layers: names of layers of a module that are measured, too; see
            :func:`~symmetries.auditing.layers.layer_equivariance` for how they move.
        step: of the differences, as a share of each bound. Smaller steps are rounded more, larger
            ones are less local; the result says how much rounding there is.
        batch_size: number of examples at once.
        level: of the confidence intervals.

    Returns:
        For the model (name "") and each layer, one row by parameter.

    Example:
        >>> from symmetries.groups import Scale1
        >>> x = torch.rand(5, 3, 2, dtype=torch.float64)
        >>> (row,) = lie_derivative(lambda x: x.sum((1, 2))[:, None], x, Scale1())
        >>> expected = x.sum((1, 2)).square().mean()  # d/dt of e^t s is s
        >>> abs(row.error.mean / expected.item() - 1) < 1e-3
        True
    """
    check_callable(model)
    check_number(step, "step", 1e-6, 0.5)
    x = inputs_of(x, model)
    check_finite(x, "x")
    action = resolve_action(group, x)
    acting = action.group
    if not is_smooth(acting):
        remedy = "use the errors of its elements: a finite group has no small ones"
        raise invalid("group", "a continuous group", repr(acting), remedy)
    moves = make_moves(action, x[:2], samples=1)
    if layers and not isinstance(model, nn.Module):
        raise invalid("layers", "none for a plain function", ", ".join(layers), "give a module")
    chosen = choose_layers(model, layers) if isinstance(model, nn.Module) else {}
    device = model_device(model, x)
    rows: list[LieDerivative] = []
    with untouched(model), torch.no_grad():
        for i, parameter in enumerate(acting.parameters):
            if parameter.unit == "step":
                continue
            t = step * parameter.bound
            found: dict[str, list[Tensor]] = {}
            sizes: dict[str, float] = {}
            for start in range(0, len(x), batch_size):
                batch = x[start : start + batch_size].to(device)
                elements = [one_parameter(acting, i, sign * t, batch) for sign in (1, -1)]
                still = _outputs(model, chosen, batch)
                ends = [_outputs(model, chosen, action(g, batch)) for g in elements]
                again = [_outputs(model, chosen, moves.there_and_back(g, batch)) for g in elements]
                for name, h in still.items():
                    act = layer_laws(moves, h).get("equivariance") or stays
                    back = undo(act, moves)
                    plus, minus = (
                        back(g, end[name]) for g, end in zip(elements, ends, strict=True)
                    )
                    there, other = (
                        back(g, act(g, trip[name])) for g, trip in zip(elements, again, strict=True)
                    )
                    derivative, alone = (plus - minus) / (2 * t), (there - other) / (2 * t)
                    pair = torch.stack((_mean_square(derivative), _mean_square(alone)))
                    found.setdefault(name, []).append(pair.cpu())
                    sizes[name] = max(sizes.get(name, 0.0), float(h.abs().max()))
            for name, parts in found.items():
                both = torch.cat(parts, 1)
                rounding = (torch.finfo(x.dtype).eps * sizes[name] / t) ** 2
                error = estimate(both[0], level=level, least=0.0)
                alone_mean = float(both[1].mean())
                rows.append(
                    LieDerivative(
                        name=name,
                        parameter=parameter.name,
                        unit=parameter.unit,
                        error=error.model_copy(update={"discretisation": alone_mean}),
                        rounding=rounding if math.isfinite(rounding) else 0.0,
                    )
                )
    return tuple(rows)


def is_smooth(group: Group[Any]) -> bool:
    """Whether a group has parameters that can be small, and no finite factor."""
    finite = group.finite or any(factor.finite for factor in group.factors)
    return not finite and any(unit != "step" for unit in group.units)


def law_is_usual(kind: str | None) -> bool:
    """Whether outputs of a kind stay, or move like images: what :func:`lie_derivative` assumes."""
    return kind in ("logits", "probabilities", "embedding", "scalar", "map")


def one_parameter(group: Group[Any], i: int, value: float, batch: Tensor) -> Any:  # noqa: ANN401
    """The element whose i-th parameter has a value and all others are 0, for each of N examples."""
    eta = torch.zeros(len(batch), group.dim, dtype=batch.dtype, device=batch.device)
    eta[:, i] = value
    return group.exp(eta)


def _outputs(model: Model, chosen: dict[str, nn.Module], x: Tensor) -> dict[str, Tensor]:
    """Return outputs of the layers, and of the model under the name ""."""
    kept: list[Any] = []

    def call(x: Tensor) -> Tensor:
        kept.append(plain(model(x)))
        return x

    found = layer_outputs(call, chosen, x)
    if not isinstance(kept[0], Tensor) or not kept[0].is_floating_point():
        got = type(kept[0]).__name__
        raise invalid("model", "one tensor of floats", got, "wrap it so that it returns one")
    return {**found, OUTPUT: kept[0]}


def _mean_square(h: Tensor) -> Tensor:
    """|h|^2 / dim (N,)."""
    return h.reshape(len(h), -1).double().square().mean(1)
