"""The paper's perceptrons, one per seed, computed side by side as one batch."""

from collections.abc import Sequence

import torch
from orbit_start import start_in_orbits
from torch import Tensor, nn

from symmetries.nn.tied import TiedLinear, TiedPool

HIDDEN = 128
DEPTH = 5  # hidden layers: 233,225 parameters from 36 x 36 pixels to 9 classes


class Centre(nn.Module):
    """Logits minus their mean: the same predictions, without the part that no softmax sees."""

    def forward(self, z: Tensor) -> Tensor:
        """Of logits (..., K)."""
        return z - z.mean(-1, keepdim=True)


def perceptron(
    seed: int, inputs: int, classes: int, start: str, table: Tensor, centred: bool = False
) -> nn.Sequential:
    """One network.

    Args:
        seed: of its weights.
        inputs: number of pixels.
        classes: number of logits.
        start: "random"; "orbits", untied but with filters in orbits; or "tied", the WT model.
        table: (|G|, inputs), how the group permutes the pixels.
        centred: whether the logits of an image sum to 0.
    """
    torch.manual_seed(seed)
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(inputs, HIDDEN), nn.ReLU()]
    if start == "tied":
        layers = [TiedLinear(table, HIDDEN), nn.ReLU(), TiedPool("max")]
    for _ in range(DEPTH - 1):
        layers += [nn.Linear(HIDDEN, HIDDEN), nn.ReLU()]
    layers.append(nn.Linear(HIDDEN, classes))
    if start == "orbits":
        first, second = layers[1], layers[3]
        if isinstance(first, nn.Linear) and isinstance(second, nn.Linear):
            start_in_orbits(first, second, table)
    return nn.Sequential(*layers, *([Centre()] if centred else []))


class Perceptrons(nn.Module):
    """Networks of several seeds: every parameter has a leading axis over the runs.

    A sum of the runs' losses has the gradients of each of them, and Adam works entry by entry: to
    train this is to train each network on its own, in one matrix product instead of several.

    Args:
        seeds: one per run.
        inputs: number of pixels.
        classes: number of logits.
        starts: of :func:`perceptron`, one per run; "tied" for all of them or for none.
        table: of :func:`perceptron`.
        centred: of :func:`perceptron`, one per run.
    """

    table: Tensor
    centred: Tensor

    def __init__(
        self,
        seeds: Sequence[int],
        inputs: int,
        classes: int,
        starts: Sequence[str],
        table: Tensor,
        centred: Sequence[bool],
    ) -> None:
        super().__init__()
        self.tied = starts[0] == "tied"
        self.register_buffer("table", table, persistent=False)
        self.register_buffer("centred", torch.tensor(centred)[:, None, None], persistent=False)
        self.models = [
            perceptron(seed, inputs, classes, start, table, centre)
            for seed, start, centre in zip(seeds, starts, centred, strict=True)
        ]
        rows = zip(*(model.parameters() for model in self.models), strict=True)
        stacked = [nn.Parameter(torch.stack([p.detach() for p in row])) for row in rows]
        self.weights, self.biases = nn.ParameterList(stacked[::2]), nn.ParameterList(stacked[1::2])

    def forward(self, x: Tensor) -> Tensor:
        """From pixels (R, N, D) to logits (R, N, K)."""
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if i == 0 and self.tied:
                x = self._tied(x, weight, bias)
            else:
                x = torch.baddbmm(bias[:, None], x, weight.mT)
            if i < DEPTH:
                x = x.relu()
        return x - self.centred * x.mean(-1, keepdim=True)

    def _tied(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Pooled before the relu, which gives the same as after it and costs less."""
        filters = weight[:, :, self.table].flatten(1, 2)
        poses = (x @ filters.mT).unflatten(2, (weight.shape[1], -1))
        return poses.amax(3) + bias[:, None]

    def singles(self) -> list[nn.Sequential]:
        """The networks one by one, as they are now."""
        with torch.no_grad():
            for run, model in enumerate(self.models):
                pairs = zip(self.weights, self.biases, strict=True)
                stacked = [p for pair in pairs for p in pair]
                model.to(self.weights[0].device)
                for own, every in zip(model.parameters(), stacked, strict=True):
                    own.copy_(every[run])
        return self.models
