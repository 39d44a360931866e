"""Checks of the laws of groups, actions and models, for your own classes and the library's.

Functions ending in ``_error`` measure an error; those beginning with ``assert_`` raise
AssertionError if it is above the tolerance (or NaN). They synchronise with the device: they are
for tests.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.actions.base import Action
from symmetries.groups.base import Group, map_element
from symmetries.groups.names import named_group
from symmetries.groups.special import check_eta

__all__ = [
    "action_error",
    "assert_action",
    "assert_equivariant",
    "assert_group",
    "assert_invariant",
    "equivariance_error",
    "group_error",
    "invariance_error",
]

GROUP_LAWS = ("identity", "inverse", "associativity", "closure", "log", "homomorphism")

Act = Callable[[Any, Any], Any]


def group_error(group: str | Group[Any], etas: Tensor) -> dict[str, float]:
    """Return how far a group is from each of the laws, at given parameters.

    With a, b, c the exponentials of each row of ``etas`` and of the rows after it:

    - identity: a e = e a = a;
    - inverse: a a^-1 = a^-1 a = e;
    - associativity: (a b) c = a (b c);
    - closure: exp(log g) = g for a product g of two elements (with a third of the parameters, so
      that no angle wraps; elements g without a logarithm do not count);
    - log: log(exp(eta)) = eta, with angles up to full turns;
    - homomorphism: exp(2 eta) = exp(eta) exp(eta), which holds for every exponential and every
      commutative group, but not for Dihedral, nor for Signal if the sign changes.

    Closure and log are left out for a family that is not ``closed``. Errors are relative to the
    larger of 1 and the largest entry.

    Args:
        group: the group, or its name.
        etas: (n, dim), within the group's bounds (its logarithm knows no other parameters);
            whole numbers where the group is finite.

    Returns:
        The largest error for each law.

    Example:
        >>> from symmetries.groups import SE2
        >>> max(group_error(SE2(), torch.rand(8, 3, dtype=torch.float64)).values()) < 1e-14
        True
    """
    group = named_group(group)
    check_eta(etas, group.dim)
    if etas.ndim != 2 or len(etas) == 0:
        raise invalid("etas", f"shape (n, {group.dim})", f"shape {tuple(etas.shape)}", "flatten it")
    one, two = etas.roll(-1, 0), etas.roll(-2, 0)
    a, b, c = group.exp(etas), group.exp(one), group.exp(two)
    e = group.identity(len(etas), dtype=etas.dtype, device=etas.device)
    back, compose = group.inverse(a), group.compose
    errors = {
        "identity": _worst(_distance(compose(a, e), a), _distance(compose(e, a), a)),
        "inverse": _worst(_distance(compose(a, back), e), _distance(compose(back, a), e)),
        "associativity": _distance(compose(compose(a, b), c), compose(a, compose(b, c))),
        "homomorphism": _distance(group.exp(2 * etas), compose(a, a)),
    }
    if group.closed:
        g = compose(group.exp(etas / 3), group.exp(one / 3))
        eta = group.log(g)
        real = ~eta.isnan().any(-1)
        errors["closure"] = _distance(
            *(map_element(lambda e: e[real], one) for one in (group.exp(eta), g))
        )
        errors["log"] = _eta_distance(group, group.log(a), etas)
    return errors


def assert_group(
    group: str | Group[Any],
    etas: Tensor,
    *,
    tolerance: float | None = None,
    laws: Collection[str] = GROUP_LAWS,
) -> None:
    """Raise AssertionError unless the group satisfies its laws at these parameters.

    Args:
        group: the group, or its name.
        etas: (n, dim), within the group's bounds.
        tolerance: largest error allowed; 1e-4 for float32 and 1e-10 for float64 by default.
        laws: which of :func:`group_error`'s laws to check.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> assert_group(Cyclic(5), torch.arange(-2, 3)[:, None])
    """
    unknown = sorted(set(laws) - set(GROUP_LAWS))
    if unknown:
        raise invalid("laws", f"some of {', '.join(GROUP_LAWS)}", ", ".join(unknown), "check it")
    errors = {law: e for law, e in group_error(group, etas).items() if law in laws}
    _assert_below(errors, _tolerance(tolerance, etas), f"{group!r} is not a group")


def action_error(action: Action, etas: Tensor, data: Tensor) -> dict[str, float]:
    """Return how far an action is from its laws.

    - identity: act(e, x) = x;
    - compatibility: act(a b, x) = act(a, act(b, x)).

    Errors are norms of differences relative to the norm of x, over all data together. They are
    not zero if the action interpolates or clips: choose data and parameters for which it does
    neither, or a tolerance for the error that you accept.

    Args:
        action: the action.
        etas: (n, dim), one for each sample; b is the row after a.
        data: n samples.

    Example:
        >>> from symmetries.actions.points import PointAction
        >>> from symmetries.groups import SE2
        >>> errors = action_error(PointAction(SE2()), torch.rand(4, 3), torch.rand(4, 7, 2))
        >>> max(errors.values()) < 1e-6
        True
    """
    group = action.group
    group = named_group(group)
    check_eta(etas, group.dim)
    if etas.ndim != 2 or len(etas) != len(data):
        expected = f"one row for each of {len(data)} samples"
        raise invalid("etas", expected, f"shape {tuple(etas.shape)}", "expand it")
    a, b = group.exp(etas), group.exp(etas.roll(-1, 0))
    e = group.identity(len(etas), dtype=etas.dtype, device=etas.device)
    once, twice = action(group.compose(a, b), data), action(a, action(b, data))
    return {
        "identity": _relative(action(e, data), data, data),
        "compatibility": _relative(once, twice, data),
    }


def assert_action(
    action: Action, etas: Tensor, data: Tensor, *, tolerance: float | None = None
) -> None:
    """Raise AssertionError unless the action satisfies its laws on this data.

    Args:
        action: the action.
        etas: (n, dim), one for each sample.
        data: n samples.
        tolerance: largest error allowed; 1e-4 for float32 and 1e-10 for float64 by default.

    Example:
        >>> from symmetries.actions.points import PointAction
        >>> from symmetries.groups import Dihedral
        >>> etas = torch.tensor([[1, 0], [2, 1]])
        >>> assert_action(PointAction(Dihedral(3)), etas, torch.rand(2, 2))
    """
    errors = action_error(action, etas, data)
    _assert_below(errors, _tolerance(tolerance, data), f"{action!r} is not an action")


def equivariance_error(
    f: Callable[[Any], Any],
    act_in: Act,
    act_out: Act,
    element: Any,  # noqa: ANN401 - elements differ by group
    data: Any,  # noqa: ANN401 - whatever f takes
) -> float:
    """Return the norm of f(g x) - g f(x), relative to the norm of f(x).

    Args:
        f: any function of the data, such as a model.
        act_in: how an element acts on the input, ``act_in(element, data)``.
        act_out: how it acts on the output.
        element: the element g, or one for each sample.
        data: the samples x.

    Example:
        >>> from symmetries.actions.points import PointAction
        >>> from symmetries.groups import Cyclic
        >>> act, x = PointAction(Cyclic(4)), torch.rand(5, 3, 2)
        >>> equivariance_error(lambda x: x.mean(1), act, act, torch.tensor(1), x) < 1e-6
        True
    """
    with torch.no_grad():
        out = f(data)
        return _relative(f(act_in(element, data)), act_out(element, out), out)


def invariance_error(
    f: Callable[[Any], Any],
    act: Act,
    element: Any,  # noqa: ANN401 - elements differ by group
    data: Any,  # noqa: ANN401 - whatever f takes
) -> float:
    """Return the norm of f(g x) - f(x), relative to the norm of f(x).

    Args:
        f: any function of the data, such as a model.
        act: how an element acts on the data, ``act(element, data)``.
        element: the element g, or one for each sample.
        data: the samples x.

    Example:
        >>> from symmetries.actions.points import PointAction
        >>> from symmetries.groups import Cyclic
        >>> act, x = PointAction(Cyclic(4)), torch.rand(5, 3, 2)
        >>> invariance_error(lambda x: x.norm(dim=-1), act, torch.tensor(1), x) < 1e-6
        True
    """
    return equivariance_error(f, act, lambda _, out: out, element, data)


def assert_equivariant(
    f: Callable[[Any], Any],
    act_in: Act,
    act_out: Act,
    element: Any,  # noqa: ANN401 - elements differ by group
    data: Tensor,
    *,
    tolerance: float | None = None,
) -> None:
    """Raise AssertionError unless f(g x) = g f(x); arguments as in :func:`equivariance_error`."""
    error = equivariance_error(f, act_in, act_out, element, data)
    _assert_below({"equivariance": error}, _tolerance(tolerance, data), "f is not equivariant")


def assert_invariant(
    f: Callable[[Any], Any],
    act: Act,
    element: Any,  # noqa: ANN401 - elements differ by group
    data: Tensor,
    *,
    tolerance: float | None = None,
) -> None:
    """Raise AssertionError unless f(g x) = f(x); arguments as in :func:`invariance_error`."""
    error = invariance_error(f, act, element, data)
    _assert_below({"invariance": error}, _tolerance(tolerance, data), "f is not invariant")


def _assert_below(errors: Mapping[str, float], tolerance: float, what: str) -> None:
    broken = [f"{law} by {e:.3g}" for law, e in errors.items() if not e <= tolerance]
    if broken:
        raise AssertionError(f"{what}: broken {', '.join(broken)} (tolerance {tolerance:.3g})")


def _tolerance(tolerance: float | None, values: Tensor) -> float:
    if tolerance is not None:
        return tolerance
    return 1e-10 if values.dtype == torch.float64 else 1e-4


def _distance(a: Any, b: Any) -> float:  # noqa: ANN401 - elements differ by group
    """Return the largest difference of n elements, relative to 1 or to each one's largest entry.

    The result is NaN if anything is NaN; integers are compared absolutely.
    """
    if isinstance(a, tuple):
        return _worst(*(_distance(x, y) for x, y in zip(a, b, strict=True)))
    if a.shape != b.shape:
        raise invalid("element", f"shape {tuple(b.shape)}", f"{tuple(a.shape)}", "reshape it")
    if a.numel() == 0:
        return 0.0
    a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    difference = (a - b).abs().amax(1)
    if a.is_floating_point():
        difference = difference / torch.maximum(a.abs(), b.abs()).amax(1).clamp(min=1)
    return float(difference.max())


def _eta_distance(group: Group[Any], a: Tensor, b: Tensor) -> float:
    """Return the largest difference of parameters, with the two bounds of an angle identified."""
    differences = (a - b).to(torch.float64).unbind(-1)
    turns = [
        torch.remainder(d + p.bound, 2 * p.bound) - p.bound if p.angle else d
        for d, p in zip(differences, group.parameters, strict=True)
    ]
    return float(torch.stack(turns).abs().max())


def _worst(*errors: float) -> float:
    return float(torch.tensor(errors, dtype=torch.float64).max())  # unlike max(), keeps NaN


def _relative(a: Tensor, b: Tensor, reference: Tensor) -> float:
    if a.shape != b.shape:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise invalid("result", "equal shapes on both sides", shapes, "check the actions")
    scale = torch.linalg.vector_norm(reference)
    difference = torch.linalg.vector_norm(a - b)
    return float(difference / scale) if scale > 0 else float(difference)
