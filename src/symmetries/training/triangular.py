"""Adam that passes over what is above the diagonal of triangular matrices."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Adam

from symmetries.ops.available import usable
from symmetries.training.adam import KernelAdam, loss_of

if TYPE_CHECKING:
    from symmetries.ops.factors import FactorGradient

Group = dict[str, Any]


def is_triangular(parameter: Tensor) -> bool:
    """Whether only what is below the diagonal is used, and a kernel can move it.

    A layer says so by an attribute of its parameter: ``parameter.triangular = True``.
    """
    return bool(getattr(parameter, "triangular", False)) and usable(parameter)


class TriangularAdam(Adam):
    """Adam; parameters that are marked as triangular are moved below the diagonal only.

    Their gradient is zero elsewhere, so Adam would leave those zeros where they are, at twice the
    traffic. State and results are Adam's, up to rounding. In :meth:`products` a layer may leave
    its gradient as a product, which is then never written: a tile of it is computed where it is
    used, beside whatever else of the backward pass is still to be done.
    """

    # Of the class, as copies and pickles of an optimiser do not go through __init__.
    _products: dict[Tensor, list["FactorGradient"]] | None = None
    _sides: dict[torch.device, torch.cuda.Stream] | None = None

    @contextmanager
    def products(self) -> Iterator[list[list["FactorGradient"]]]:
        """While gradients are computed: those of triangles need not be written.

        A layer finds a list, ``parameter.products``, and may put a ``FactorGradient`` there in the
        place of a gradient; the next step uses it. All lists are handed out: they are to be cleared
        before the backward pass that counts, as a loss may have had gradients of its own.
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
        """One step.

        Args:
            closure: computes the loss and its gradients anew, before the step.
        """
        loss = loss_of(closure)
        self._move_all()
        return loss

    def _move_all(self) -> None:
        skips = getattr(self, "found_inf", None) is not None  # the fused step knows how
        own = [] if skips else [(group, p, p.grad) for group, p in self._triangles()]
        for _, parameter, _ in own:
            parameter.grad = None  # not for the others' step
        super().step()
        products = self._products or {}
        for group, parameter, grad in own:
            parameter.grad = grad
            self._move(group, parameter, grad, products.get(parameter, []))
        self._products = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients, and products in their place."""
        self._products = None
        super().zero_grad(set_to_none)

    def _is_seen(self, parameter: Tensor) -> bool:
        """Whether a hook may look at the gradient, which must then be written."""
        hooks = ("_backward_hooks", "_post_accumulate_grad_hooks")
        return any(getattr(parameter, name, None) for name in hooks) or bool(
            self._optimizer_step_pre_hooks
        )

    def _triangles(self) -> Iterator[tuple[Group, Tensor]]:
        """Those that are moved here, and their groups."""
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
        # Nothing else needs the factors any more, so this need not wait for the other gradients.
        device = parameter.device
        side = self._side(device)
        side.wait_event(product.ready)
        with torch.cuda.stream(side):
            product.adam_(parameter, *self._arguments(group, parameter))
        torch.cuda.current_stream(device).wait_stream(side)

    def _side(self, device: torch.device) -> torch.cuda.Stream:
        """A stream of its own on each device."""
        if self._sides is None:
            self._sides = {}
        if device not in self._sides:
            self._sides[device] = torch.cuda.Stream(device)
        return self._sides[device]

    def _arguments(self, group: Group, parameter: Tensor) -> tuple[Any, ...]:
        """Moments, number of the step, rate, betas and epsilon."""
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
    """The same, with kernels for all other parameters; it does not clip."""
