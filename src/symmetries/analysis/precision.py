"""Models that compute in another precision than their inputs have."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class InPrecision(nn.Module):
    """A model that computes in another precision; inputs and outputs stay in theirs.

    Args:
        model: from images to logits.
        precision: "64-true", "bf16-true" or "bf16-mixed".
    """

    def __init__(self, model: Callable[[Tensor], Tensor], precision: str) -> None:
        super().__init__()
        self.dtype = torch.float64 if precision == "64-true" else torch.bfloat16
        self.mixed = precision.endswith("mixed")
        if isinstance(model, nn.Module) and not self.mixed:
            model = model.to(self.dtype)
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, K)."""
        if self.mixed:
            with torch.autocast(x.device.type, self.dtype):
                return self.model(x).to(x)
        return self.model(x.to(self.dtype)).to(x)
