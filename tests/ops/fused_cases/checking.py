"""What a case is, and how a fused form is held against its oracle in float64."""

import time
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from symmetries import ops
from symmetries.ops import _vmap_rules

Errors = Mapping[str, float]
MODELS = 2  # of cases under vmap


@dataclass(frozen=True)
class Case:
    """One operation on inputs of some shapes, with its oracle and tolerances.

    Args:
        operation: a name of ``symmetries.ops.OPERATIONS``, whose fused form must run.
        name: what is special about the inputs.
        errors: from a device to relative errors, by what was compared.
        tolerances: the largest errors that are accepted, by the same names.
        compiled: needs a GPU, because it is too large for the interpreter or written in CUDA C.
    """

    operation: str
    name: str
    errors: Callable[[torch.device], Errors]
    tolerances: Errors
    compiled: bool = False


def run_case(case: Case, device: torch.device) -> dict[str, Any]:
    """Run a case: its errors, how long it took, and what is wrong, if anything is."""
    began, errors, problems = time.perf_counter(), {}, []
    torch.manual_seed(0)
    with ops.recorded() as seen, warnings.catch_warnings():
        warnings.filterwarnings("error", ".* wrong (here|on this device)")
        try:
            errors = dict(case.errors(device))
        except Exception as problem:
            problems.append(f"{type(problem).__name__}: {problem}")
    if not seen.get(case.operation):
        problems.append("the fused form did not run")
    for what, most in case.tolerances.items() if errors else ():
        if not errors[what] < most:  # NaN is not below it either
            problems.append(f"{what} off by {errors[what]:.1e}, allowed {most:.0e}")
    return {
        "operation": case.operation,
        "case": case.name,
        "errors": {what: float(f"{error:.2e}") for what, error in errors.items()},
        "tolerances": dict(case.tolerances),
        "seconds": round(time.perf_counter() - began, 2),
        "problems": problems,
    }


def relative(ours: Tensor, exact: Tensor) -> float:
    """Relative error in the norm, against float64."""
    exact = exact.detach().double()
    return float((ours.detach().double() - exact).norm() / exact.norm().clamp_min(1e-12))


def generator_of(name: str) -> torch.Generator:
    """A generator for the inputs of a case."""
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def function_case(
    operation: str,
    name: str,
    function: Callable[..., Tensor],
    inputs: Callable[[torch.Generator], list[Tensor]],
    *,
    oracle: Callable[..., Tensor] | None = None,
    tolerance: float = 2e-5,
    second: float | None = None,
    compiled: bool = False,
) -> Case:
    """A function whose value and gradients are compared, and second gradients with ``second``.

    The oracle is the same function of float64 tensors, which has a torch form only, unless one that
    is independent of it is given.
    """

    def errors(device: torch.device) -> Errors:
        given = inputs(generator_of(name))
        fast = [x.to(device, torch.float32).requires_grad_() for x in given]
        slow = [x.to(device, torch.float64).requires_grad_() for x in given]
        ours, exact = function(*fast), (oracle or function)(*slow)
        weight = torch.randn(exact.shape, dtype=torch.float64, generator=generator_of("weight"))
        weight = weight.to(device)
        first = torch.autograd.grad(ours, fast, weight.float())
        first_exact = torch.autograd.grad(exact, slow, weight, create_graph=second is not None)
        pairs = zip(first, first_exact, strict=True)
        found = {"value": relative(ours, exact), "gradient": max(relative(*p) for p in pairs)}
        if second is not None:
            again = torch.autograd.grad(function(*fast), fast, weight.float(), create_graph=True)
            twice = []
            for gradients, at in ((again, fast), (first_exact, slow)):
                total = sum(gradient.square().sum() for gradient in gradients)
                twice.append(torch.autograd.grad(total, at, allow_unused=True))
            pairs = [pair for pair in zip(*twice, strict=True) if pair[1] is not None]
            found["second"] = max(relative(*pair) for pair in pairs)
        return found

    tolerances = {"value": tolerance, "gradient": tolerance}
    if second is not None:
        tolerances["second"] = second
    return Case(operation, name, errors, tolerances, compiled)


def several_models(
    operation: str,
    name: str,
    function: Callable[..., Tensor],
    inputs: Callable[[torch.Generator], list[Tensor]],
) -> Case:
    """A function under ``torch.vmap``, called once for all models, against one model at a time."""

    def errors(device: torch.device) -> Errors:
        arguments = [x.to(device).requires_grad_() for x in inputs(generator_of(name))]
        calls: list[int] = []
        rule = _vmap_rules._Folded.vmap

        def counted(info: Any, *rest: Any) -> Any:
            calls.append(info.batch_size)
            return rule(info, *rest)

        _vmap_rules._Folded.vmap = staticmethod(counted)
        try:
            together = torch.vmap(function)(*arguments)
        finally:
            _vmap_rules._Folded.vmap = staticmethod(rule)
        if calls != [MODELS]:
            raise ValueError(f"folded {len(calls)} times, expected once")
        alone = torch.stack([function(*(x[r] for x in arguments)) for r in range(MODELS)])
        weight = torch.randn(alone.shape, generator=generator_of("weight")).to(device)
        gradients = [torch.autograd.grad(out, arguments, weight) for out in (together, alone)]
        pairs = zip(*gradients, strict=True)
        return {"value": relative(together, alone), "gradient": max(relative(*p) for p in pairs)}

    return Case(operation, f"{name}, several models", errors, {"value": 1e-4, "gradient": 1e-4})


def with_parameters(layer: torch.nn.Module, **tensors: Tensor | None) -> torch.nn.Module:
    """A layer with tensors in the place of its parameters."""
    for name, tensor in tensors.items():
        delattr(layer, name)
        setattr(layer, name, tensor)
    return layer
