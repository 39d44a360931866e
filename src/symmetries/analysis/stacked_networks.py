"""Hundreds of small convolutional networks that train as one.

A step of a small network keeps a GPU busy for microseconds and takes a hundred launches, so all
networks take it together: their weights are stacked, and a convolution is one product of matrices
for each network, of its weights with the windows of all its pictures.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.analysis.network_trials import Trial, one_cycle

AT_ONCE = 2**27  # numbers in the pictures that are moved at once
ALIGNED = 8  # numbers of 16 bits that products on a GPU read together


class StackedCnn(nn.Module):
    """Networks of convolutions, ReLUs and a linear layer, as one network.

    Args:
        networks: named "cnn", of one architecture; they keep their weights until :meth:`unstack`.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        layers = [[m for m in net.modules() if isinstance(m, nn.Conv2d)] for net in networks]
        heads = [m for net in networks for m in net.modules() if isinstance(m, nn.Linear)]
        self.channels = layers[0][-1].out_channels
        self.geometry = [
            (int(one.kernel_size[0]), int(one.stride[0]), int(one.padding[0])) for one in layers[0]
        ]
        self.own = [list(each) for each in zip(*layers, strict=True)]
        self.heads = heads
        weights = [
            _stacked([one.weight.permute(2, 3, 1, 0).flatten(0, 2) for one in each])
            for each in self.own
        ]
        biases = [_stacked([one.bias[None] for one in each]) for each in self.own]
        rows = [one.weight.unflatten(1, (self.channels, -1)).transpose(1, 2) for one in heads]
        weights.append(_stacked([one.flatten(1).T for one in rows]))  # places, then channels
        biases.append(_stacked([one.bias[None] for one in heads]))
        self.weights, self.biases = nn.ParameterList(weights), nn.ParameterList(biases)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (M, B, classes) of pictures (M, B, C, H, W), a batch for each network."""
        x = x.movedim(2, -1)
        for number, ((kernel, stride, padding), weight, bias) in enumerate(
            zip(self.geometry, self.weights, self.biases, strict=False)
        ):
            edge = (padding, padding)
            windows = F.pad(x, (0, 0, *edge, *edge)).unfold(2, kernel, stride)
            windows = windows.unfold(3, kernel, stride).movedim(4, -1)
            shape = windows.shape[:4]  # (M, B, height, width), then kernel, kernel, C
            rows = windows.reshape(shape[0], -1, weight.shape[1])
            more = -weight.shape[1] % ALIGNED
            if more and number == 0:  # which needs no gradient
                rows, weight = F.pad(rows, (0, more)), F.pad(weight, (0, 0, 0, more))
            x = F.relu(torch.baddbmm(bias, rows, weight)).unflatten(1, shape[1:])
        return torch.baddbmm(self.biases[-1], x.flatten(2), self.weights[-1])

    @torch.no_grad()
    def unstack(self) -> None:
        """Give the networks their weights."""
        for each, weight, bias in zip(self.own, self.weights, self.biases, strict=False):
            for k, one in enumerate(each):
                kernel = one.weight.permute(2, 3, 1, 0)
                kernel.copy_(weight[k].view_as(kernel))
                one.bias.copy_(bias[k, 0])
        for k, one in enumerate(self.heads):
            rows = self.weights[-1][k].T.unflatten(1, (-1, self.channels))
            one.weight.copy_(rows.transpose(1, 2).flatten(1))
            one.bias.copy_(self.biases[-1][k, 0])


def _stacked(parts: list[Tensor]) -> nn.Parameter:
    return nn.Parameter(torch.stack([part.detach() for part in parts]).contiguous())


class StackedTraining:
    """Networks of trials of one size, with pictures of one shape, that train as one.

    Args:
        trials: all of them on one device.
        ahead: steps whose pictures are moved at once; None is as many as fit.
    """

    def __init__(self, trials: list[Trial], ahead: int | None = None) -> None:
        kinds = list(dict.fromkeys(map(moves_of, trials)))
        self.places = sorted(range(len(trials)), key=lambda k: kinds.index(moves_of(trials[k])))
        trials = [trials[k] for k in self.places]  # those side by side that are moved alike
        size, x = trials[0].size, trials[0].images
        here, self.steps = x.device, size.steps
        with ThreadPoolExecutor() as pool:
            orders = list(pool.map(Trial.order, trials))
        sets = {id(trial.images): trial for trial in trials}
        starts, count = {}, 0
        for name, trial in sets.items():
            starts[name], count = count, count + len(trial.images)
        self.images = torch.cat([trial.images for trial in sets.values()])
        self.labels = torch.cat([trial.labels for trial in sets.values()]).to(here)
        rows = [
            starts[id(trial.images)] + own for trial, (own, _) in zip(trials, orders, strict=True)
        ]
        self.rows = torch.stack(rows, 1).to(here)  # (steps, M, batch)
        self.parts: list[tuple[Trial, slice, Tensor]] = []
        begin = 0
        for end in range(1, len(trials) + 1):
            if end == len(trials) or moves_of(trials[end]) != moves_of(trials[begin]):
                moves = torch.stack([orders[k][1] for k in range(begin, end)], 1).to(here)
                self.parts.append((trials[begin], slice(begin, end), moves))
                begin = end
        each = self.rows[0].numel() * x[0].numel()
        self.ahead = min(self.steps, ahead or max(1, AT_ONCE // each))
        kind = torch.bfloat16 if x.is_cuda else torch.float32
        shape = (self.ahead, *self.rows.shape[1:], *x.shape[1:])
        self.next = torch.zeros(shape, dtype=kind, device=here)
        self.networks = [trial.network() for trial in trials]
        self.stack = StackedCnn(self.networks)
        self.rates = torch.tensor(one_cycle(self.steps), device=here)
        self.rate = torch.zeros((), device=here)
        self.at = torch.zeros(1, dtype=torch.int64, device=here)
        self.optimiser = torch.optim.AdamW(
            self.stack.parameters(), self.rate, weight_decay=0.05, fused=True, capturable=x.is_cuda
        )

    def prepare(self, done: int) -> None:
        """Move the pictures of the next steps, if those of the steps before are used up."""
        if done % self.ahead:
            return
        steps = slice(done, done + self.ahead)
        for trial, members, parameters in self.parts:
            rows, moves = self.rows[steps, members], parameters[steps]
            x = self.images[rows.flatten()]
            x = x if trial.still else trial.moved(x, moves.flatten(0, 2))
            self.next[: len(rows), members] = x.unflatten(0, rows.shape)

    def step(self) -> None:
        """Perform one step; nothing in it waits for a GPU."""
        y = self.labels[self.rows.index_select(0, self.at)[0]]
        x = self.next.index_select(0, self.at % self.ahead)[0]
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            logits = self.stack(x)
        loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten(), reduction="sum")
        (loss / y.shape[1]).backward()
        self.rate.copy_(self.rates.index_select(0, self.at)[0])
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=False)
        self.at += 1

    def finish(self) -> list[nn.Module]:
        """The trained networks, in the order of the trials."""
        self.stack.unstack()
        trained = dict(zip(self.places, self.networks, strict=True))
        return [trained[k].eval() for k in range(len(trained))]


def moves_of(trial: Trial) -> tuple[object, ...]:
    """What trainings share whose pictures can be moved together."""
    return (trial.still, trial.change, trial.fill)
