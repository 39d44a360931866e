"""Adam that skips the entries above the diagonal of triangular matrices."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Adam

from symmetries.ops.available import usable
from symmetries.training.fused_adam import KernelAdam, evaluate_closure

if TYPE_CHECKING:
    from symmetries.ops.factors import FactorGradient

Group = dict[str, Any]


def is_triangular(parameter: Tensor) -> bool:
    """Return whether a parameter is marked as lower triangular and a GPU kernel supports it.

    A layer marks its parameter with an attribute: ``parameter.triangular = True``.
    """
    return bool(getattr(parameter, "triangular", False)) and usable(parameter)


class TriangularAdam(Adam):
    """Adam that updates parameters marked as triangular only on and below the diagonal.

    Their gradient is zero elsewhere, so plain Adam would leave those zeros unchanged at twice the
    memory traffic. State and results equal Adam's, up to rounding. Inside :meth:`products` a layer
    may leave its gradient as a product of factors, which is never written to memory: each tile is
    computed where it is used, concurrently with the rest of the backward pass.
    """

    # Class attributes, because copying and unpickling an optimiser skip __init__.
    _products: dict[Tensor, list["FactorGradient"]] | None = None
    _sides: dict[torch.device, torch.cuda.Stream] | None = None

    @contextmanager
    def products(self) -> Iterator[list[list["FactorGradient"]]]:
        """Allow gradients of triangular parameters to be left as products inside the block.

        A layer finds a list ``parameter.products`` and may append a ``FactorGradient`` in place of
        a gradient, which the next step uses. The lists are yielded, so that they can be cleared
        before the final backward pass, because a loss may compute gradients of its own.
        """
        kept: dict[Tensor, list[FactorGradient]]
        kept = {p: [] for _, p in self._triangles() if not self._is_seen(p)}
        for parameter, products in kept.items():
            parameter.products = products  # type: ignore[attr-defined]
        try:
            yield [*kept.values()]
        finally:
            for parameter in kept:
                del parameter.products  # type: ignore[attr-defined]
        self._products = kept

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401 - torch's
        """Perform one step.

        Args:
            closure: recomputes the loss and its gradients before the step.
        """
        loss = evaluate_closure(closure)
        self._move_all()
        return loss

    def _move_all(self) -> None:
        skips = getattr(self, "found_inf", None) is not None  # only the fused step supports it
        own = [] if skips else [(group, p, p.grad) for group, p in self._triangles()]
        for _, parameter, _ in own:
            parameter.grad = None  # hidden from the step of the other parameters
        super().step()
        products = self._products or {}
        for group, parameter, grad in own:
            parameter.grad = grad
            self._move(group, parameter, grad, products.get(parameter, []))
        self._products = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear gradients, and products in their place."""
        self._products = None
        super().zero_grad(set_to_none)

    def _is_seen(self, parameter: Tensor) -> bool:
        """Return whether a hook reads the gradient, which must then be written."""
        hooks = ("_backward_hooks", "_post_accumulate_grad_hooks")
        return any(getattr(parameter, name, None) for name in hooks) or bool(
            self._optimizer_step_pre_hooks
        )

    def _triangles(self) -> Iterator[tuple[Group, Tensor]]:
        """Yield the triangular parameters that are updated here, with their groups."""
        for group in self.param_groups:
            for parameter in group["params"]:
                moved = parameter.requires_grad and not group["weight_decay"]
                if moved and is_triangular(parameter):
                    yield group, parameter

    def _move(
        self, group: Group, parameter: Tensor, grad: Tensor | None, products: list["FactorGradient"]
    ) -> None:
        from symmetries.ops.triangles import adam_below_

        if len(products) == 1 and grad is None:
            self._move_by(group, parameter, products[0])
            return
        for product in products:
            more = product.written(parameter)
            grad = more if grad is None else grad + more
        if grad is not None:
            adam_below_(parameter, grad, *self._arguments(group, parameter))

    def _move_by(self, group: Group, parameter: Tensor, product: "FactorGradient") -> None:
        known = parameter in self.state and isinstance(group["lr"], Tensor)
        if product.ready is None or not known:
            product.adam_(parameter, *self._arguments(group, parameter))
            return
        # No other computation needs the factors, so this does not wait for the other gradients.
        device = parameter.device
        side = self._side(device)
        side.wait_event(product.ready)
        with torch.cuda.stream(side):
            product.adam_(parameter, *self._arguments(group, parameter))
        torch.cuda.current_stream(device).wait_stream(side)

    def _side(self, device: torch.device) -> torch.cuda.Stream:
        """Return the side stream of a device."""
        if self._sides is None:
            self._sides = {}
        if device not in self._sides:
            self._sides[device] = torch.cuda.Stream(device)
        return self._sides[device]

    def _arguments(self, group: Group, parameter: Tensor) -> tuple[Any, ...]:
        """Return moments, step number, learning rate, betas and epsilon."""
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        rate = group["lr"]
        if not isinstance(rate, Tensor):
            rate = torch.full((), rate, dtype=torch.float32, device=parameter.device)
        moments = (state["exp_avg"], state["exp_avg_sq"])
        return moments, state["step"], rate, group["betas"], group["eps"]


class TriangularKernelAdam(TriangularAdam, KernelAdam):
    """TriangularAdam with GPU kernels for all other parameters; it does not clip."""
