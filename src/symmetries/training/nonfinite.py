"""Skipping of batches whose loss or gradient is NaN or infinite.

The decision stays on the device: fused optimisers leave weights and state unchanged if their
``found_inf`` is 1 (made for gradient scalers), so nothing synchronises and a CUDA graph can
hold the whole step.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from symmetries._validation.checks import invalid

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class SkipNonFinite:
    """Skips and counts steps whose loss or gradient is not finite.

    Args:
        fabric: spreads the decision to all processes.
        model: model whose buffers (running means) a skipped step must not change.
        optimizer: a fused optimiser.
        skipped: number of skipped steps before a resumption.
    """

    def __init__(
        self, fabric: "Fabric", model: nn.Module, optimizer: Optimizer, skipped: int = 0
    ) -> None:
        if not all(group.get("fused") for group in optimizer.param_groups):
            remedy = "use float parameters on the CPU or on CUDA"
            raise invalid("skip_bad", "a fused optimiser", "one that is not fused", remedy)
        self.fabric = fabric
        self.buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        self.found = torch.zeros((), device=fabric.device)  # 1 while the step is to be skipped
        self.count = torch.full((), float(skipped), device=fabric.device)
        self._before: list[Tensor] = []
        optimizer.found_inf = self.found  # type: ignore[attr-defined]
        if isinstance(optimizer, SGD):
            _start_momentum(optimizer)

    def begin(self) -> None:
        """Store the buffers before a step."""
        self._before = [buffer.clone() for buffer in self.buffers]

    def judge(self, loss: Tensor, gradients: list[Tensor]) -> None:
        """Decide whether to skip the step, before the optimiser updates."""
        norm = torch.nn.utils.get_total_norm(gradients)
        bad = ~(torch.isfinite(loss) & torch.isfinite(norm))
        self.found.copy_(bad)
        if self.fabric.world_size > 1:
            every = self.fabric.all_reduce(self.found, reduce_op="max")
            self.found.copy_(every)  # type: ignore[arg-type]
        self.count.add_(self.found)

    def end(self) -> None:
        """Restore the buffers after a skipped step."""
        for buffer, before in zip(self.buffers, self._before, strict=True):
            buffer.copy_(torch.where(self.found > 0, before.to(buffer), buffer))


def _start_momentum(optimizer: SGD) -> None:
    """Start momentum at 0, because skipping the first step would leave it undefined."""
    for group in optimizer.param_groups:
        for parameter in group["params"] if group["momentum"] else ():
            optimizer.state[parameter].setdefault("momentum_buffer", torch.zeros_like(parameter))
