"""Adam that passes over what is above the diagonal of triangular matrices."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam

from symmetries.kernels.available import usable


def is_triangular(parameter: Tensor) -> bool:
    """Whether only what is below the diagonal is used, and a kernel can move it.

    A layer says so by an attribute of its parameter: ``parameter.triangular = True``.
    """
    return bool(getattr(parameter, "triangular", False)) and usable(parameter)


class TriangularAdam(Adam):
    """Adam; parameters that are marked as triangular are moved below the diagonal only.

    Their gradient is zero elsewhere, so Adam would leave those zeros where they are, at twice the
    traffic. State and results are Adam's, up to rounding.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401 - torch's
        """One step."""
        skips = getattr(self, "found_inf", None) is not None  # the fused step knows how
        own = [
            (group, p, p.grad)
            for group in self.param_groups
            for p in group["params"]
            if p.grad is not None and is_triangular(p) and not (skips or group["weight_decay"])
        ]
        for _, parameter, _ in own:
            parameter.grad = None  # not for the others' step
        result = super().step(closure)
        for group, parameter, grad in own:
            parameter.grad = grad
            self._move(group, parameter, grad)
        return result

    def _move(self, group: dict[str, Any], parameter: Tensor, grad: Tensor) -> None:
        from symmetries.kernels.triangles import adam_below_

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
        adam_below_(parameter, grad, moments, state["step"], rate, group["betas"], group["eps"])
