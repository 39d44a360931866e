"""Adam with fused GPU kernels: two launches clip and update all tensors.

``torch.optim.Adam`` and ``torch.optim.AdamW`` define what a step does; state and results are
theirs, up to rounding.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer

from symmetries.ops._dispatch import enabled, record
from symmetries.ops.cuda.compiler import has_compiler

_MANY = 8192  # number of partial sums from which a separate reduction kernel is cheaper


def evaluate_closure(closure: Callable[[], Any] | None) -> Any:
    """Evaluate the closure of a step, which recomputes the loss and its gradients."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def is_fused(parameters: Sequence[Tensor]) -> bool:
    """Return whether the kernels can take these parameters: float32, contiguous, on CUDA."""
    dense = all(p.is_cuda and p.dtype == torch.float32 and p.is_contiguous() for p in parameters)
    return record("adam", enabled("adam") and dense and has_compiler())


def clipped_parameters(optimizer: Optimizer) -> list[Tensor]:
    """Return the parameters whose gradients are clipped together."""
    return [p for group in optimizer.param_groups if group["clip"] for p in group["params"]]


class _FusedSteps(Adam):
    """Torch's Adam with its own state, updated by the library's GPU kernels.

    Parameter groups may set "clip" to False. Steps that may be skipped (``found_inf``) use torch's
    own fused kernels.
    """

    largest: float | None = None  # largest joint norm of the gradients of all clipped groups
    decoupled = False

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
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
                torch.nn.utils.clip_grad_norm_(clipped_parameters(self), self.largest)
            super().step()
            return
        from symmetries.ops.cuda.adam_cuda import move, sum_squares

        sums = None
        if self.largest is not None:
            grads = [p.grad.contiguous() for p in clipped_parameters(self) if p.grad is not None]
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


class FusedAdam(_FusedSteps):
    """See :class:`torch.optim.Adam`."""


class FusedAdamW(_FusedSteps, AdamW):
    """See :class:`torch.optim.AdamW`."""

    decoupled = True
