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


class _Pictures:
    """The pictures of all steps of several trainings, moved some steps ahead."""

    def __init__(self, trials: list[Trial]) -> None:
        first = trials[0]
        here, self.batch = first.images.device, first.size.batch
        with ThreadPoolExecutor() as pool:
            orders = list(pool.map(Trial.order, trials))
        sets = {id(trial.images): trial for trial in trials}
        starts, count = {}, 0
        for name, trial in sets.items():
            starts[name], count = count, count + len(trial.images)
        self.pool = torch.cat([trial.images for trial in sets.values()])
        labels = torch.cat([trial.labels for trial in sets.values()]).to(here)
        rows = [
            starts[id(trial.images)] + own for trial, (own, _) in zip(trials, orders, strict=True)
        ]
        self.rows = torch.stack(rows, 1).to(here)  # (steps, M, batch)
        self.labels = labels[self.rows]
        self.parts: list[tuple[Trial, slice, Tensor]] = []  # that are moved alike
        begin = 0
        for end in range(1, len(trials) + 1):
            if end == len(trials) or moves_of(trials[end]) != moves_of(trials[begin]):
                own = torch.stack([orders[k][1] for k in range(begin, end)], 1)
                self.parts.append((trials[begin], slice(begin, end), own.to(here)))
                begin = end
        self.ahead = max(1, AT_ONCE // (len(trials) * self.batch * first.images[0].numel()))

    def moved(self, begin: int) -> Tensor:
        """Pictures (steps, M, batch, C, H, W) from a step on."""
        steps = slice(begin, begin + self.ahead)
        found = []
        for trial, members, parameters in self.parts:
            rows, moves = self.rows[steps, members], parameters[steps]
            x = self.pool[rows.flatten()]
            x = x if trial.still else trial.moved(x, moves.flatten(0, 2))
            found.append(x.unflatten(0, rows.shape))
        return torch.cat(found, 1)


def moves_of(trial: Trial) -> tuple[object, ...]:
    """What trainings share whose pictures can be moved together."""
    return (trial.still, trial.change, trial.fill)


def train_stacked(trials: list[Trial]) -> list[nn.Module]:
    """Trained networks of trials of one size, with pictures of one shape."""
    kinds = list(dict.fromkeys(map(moves_of, trials)))
    places = sorted(range(len(trials)), key=lambda k: kinds.index(moves_of(trials[k])))
    ordered = [trials[k] for k in places]
    networks = [trial.network() for trial in ordered]
    pictures, stack = _Pictures(ordered), StackedCnn(networks)
    gpu, steps = pictures.pool.is_cuda, ordered[0].size.steps
    optimiser = torch.optim.AdamW(stack.parameters(), weight_decay=0.05, fused=True)
    x = pictures.pool[:0]
    for done, rate in enumerate(one_cycle(steps)):
        if done % pictures.ahead == 0:
            x = pictures.moved(done).to(torch.bfloat16 if gpu else torch.float32)
        y = pictures.labels[done]
        with torch.autocast("cuda", torch.bfloat16, enabled=gpu):
            logits = stack(x[done % pictures.ahead])
        loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten(), reduction="sum")
        (loss / pictures.batch).backward()  # type: ignore[no-untyped-call]
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.step()
        optimiser.zero_grad()
    stack.unstack()
    trained = dict(zip(places, networks, strict=True))
    return [trained[k].eval() for k in range(len(trials))]
