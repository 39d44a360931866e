"""Hidden layers of the library's networks: linear, gelu, layer norm."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from symmetries._validation.checks import invalid
from symmetries.ops.gelu_norm import hidden_units, is_watched

_MOST = 2**24  # bytes of hidden units at a time on a CPU: more would be new memory every time


class MLP(nn.Sequential):
    """Hidden layers of the form linear, gelu, layer norm, dropout; no output layer.

    Args:
        inputs: number of inputs.
        widths: of the hidden layers, at least one.
        dropout: after each.

    Example:
        >>> MLP(784, (256, 64))(torch.zeros(5, 784)).shape
        torch.Size([5, 64])
    """

    def __init__(self, inputs: int, widths: Sequence[int], dropout: float = 0.0) -> None:
        if not widths or min(widths) < 1:
            remedy = "name the width of each hidden layer"
            raise invalid("widths", "positive widths, at least one", tuple(widths), remedy)
        layers: list[nn.Module] = []
        for before, after in zip((inputs, *widths[:-1]), widths, strict=True):
            layers += [nn.Linear(before, after), nn.GELU(), nn.LayerNorm(after)]
            if dropout:
                layers.append(nn.Dropout(dropout))
        super().__init__(*layers)
        self.features = widths[-1]
        self._widest = max(widths)
        self._drops = bool(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return hidden units (N, widths[-1]) of inputs (N, inputs)."""
        traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
        if x.device.type == "cpu" and x.ndim == 2 and not (self._drops or traced):
            parts = len(x) * x.element_size() * self._widest // _MOST
            if parts > 1 and not any(map(is_watched, self)):
                return torch.cat([self._hidden(part) for part in x.chunk(parts)])
        return self._hidden(x)

    def _hidden(self, x: Tensor) -> Tensor:
        for layer in self:
            if isinstance(layer, nn.Linear):
                linear = layer
            elif isinstance(layer, nn.LayerNorm):  # and the gelu before it
                x = hidden_units(x, linear, layer)
            elif isinstance(layer, nn.Dropout):
                x = layer(x)
        return x
