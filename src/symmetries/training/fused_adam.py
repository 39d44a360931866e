"""Adam with fused GPU kernels: two launches clip and update all tensors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW

_MANY = 8192  # number of partial sums from which a separate reduction kernel is cheaper


def evaluate_closure(closure: Callable[[], Any] | None) -> Any:  # noqa: ANN401 - torch's
    """Evaluate the closure of a step, which recomputes the loss and its gradients."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


class _KernelSteps(Adam):
    """Torch's Adam with its own state, updated by the library's GPU kernels.

    Parameter groups may set "clip" to False. Steps that may be skipped (``found_inf``) use torch's
    own fused kernels.
    """

    largest: float | None = None  # largest joint norm of the gradients of all clipped groups
    decoupled = False

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401
        """Clip the gradients and update the parameters.

        Args:
            closure: recomputes the loss and its gradients before the step.
        """
        loss = evaluate_closure(closure)
        self._clip_and_move()
        return loss

    def _clip_and_move(self) -> None:
        if getattr(self, "found_inf", None) is not None:
            if self.largest is not None:
                torch.nn.utils.clip_grad_norm_(self._clipped(), self.largest)
            super().step()
            return
        from symmetries.ops.adam import move, sum_squares

        sums = None
        if self.largest is not None:
            grads = [p.grad.contiguous() for p in self._clipped() if p.grad is not None]
            sums = sum_squares(grads) if grads else None
            if sums is not None and len(sums) > _MANY:
                sums = sums.sum(0, keepdim=True)
        for group in self.param_groups:
            parts: tuple[list[Tensor], ...] = ([], [], [], [], [], [])
            self._init_group(group, *parts)  # type: ignore[no-untyped-call]
            weights, grads, means, squares, _, steps = parts
            if not weights:
                continue
            torch._foreach_add_(steps, 1)
            move(
                weights,
                [grad.contiguous() for grad in grads],
                means,
                squares,
                steps,
                sums=sums if group["clip"] else None,
                lr=group["lr"],
                largest=self.largest or 0.0,
                decay=group["weight_decay"],
                epsilon=group["eps"],
                betas=group["betas"],
                decoupled=self.decoupled,
            )

    def _clipped(self) -> list[Tensor]:
        return [p for group in self.param_groups if group["clip"] for p in group["params"]]


class KernelAdam(_KernelSteps):
    """See :class:`torch.optim.Adam`."""


class KernelAdamW(_KernelSteps, AdamW):
    """See :class:`torch.optim.AdamW`."""

    decoupled = True
