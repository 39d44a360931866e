"""Frozen networks on turned pictures: bare, wrapped, averaged over 8 views, behind a peer.

``python -m benchmarks.wrap.run cifar10 --folder DATA`` trains a residual network on upright
pictures, freezes it, wraps it (``symmetries.wrap`` with the training pictures as the reference and
5,000 others to choose the rule by), and tests all on the test set as it is, turned by up to 45 and
180 degrees, and by multiples of 45 degrees. The peer is a canonicaliser with a prior (after Mondal
et al. 2023): a network scores all turns of a picture, the best is given to the frozen network, and
the loss is the task's plus 100 times the prior's, that upright pictures be left alone. It is
written here, not taken from their package, with 24 turns of 15 degrees. Results are written after
every stage; no stage begins that cannot end within ``--budget`` seconds.
"""

import argparse
import dataclasses
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.common import environment
from torch import Tensor, nn

import symmetries
from symmetries.data import ImageSet, load
from symmetries.learners.orbit_posterior import OrbitConfig
from symmetries.learners.orbit_posterior.frames import radii
from symmetries.learners.orbit_posterior.networks import ConvNet
from symmetries.ops.warp import warp

HELD_OUT = 5000
TURNS = 24  # of the peer
VIEWS = 8  # of the average
PRIOR = 100.0
FITS = "GROUP, or GROUP:CHANNELS:BLOCKS:STEPS:BLUR:JITTER, the last two as factors"


class Net(nn.Module):
    """A residual network of nine layers."""

    def __init__(self, channels: int, classes: int, width: int) -> None:
        super().__init__()

        def conv(before: int, after: int, pool: bool = False) -> nn.Sequential:
            layers = [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after)]
            layers += [nn.ReLU()] + ([nn.MaxPool2d(2)] if pool else [])
            return nn.Sequential(*layers)

        self.first = nn.Sequential(conv(channels, width), conv(width, 2 * width, True))
        self.second = nn.Sequential(conv(2 * width, 2 * width), conv(2 * width, 2 * width))
        self.third = nn.Sequential(
            conv(2 * width, 4 * width, True), conv(4 * width, 8 * width, True)
        )
        self.fourth = nn.Sequential(conv(8 * width, 8 * width), conv(8 * width, 8 * width))
        self.last = nn.Linear(8 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.first(2 * x - 1)
        x = self.third(x + self.second(x))
        x = x + self.fourth(x)
        return self.last(x.amax((2, 3)))


def turned(x: Tensor, degrees: Tensor, plain: bool) -> Tensor:
    """Pictures turned counter-clockwise, bicubic; corners are black, or reflected."""
    angle = torch.deg2rad(degrees.to(x.device))
    c, s, zero = torch.cos(angle), torch.sin(angle), torch.zeros_like(angle)
    theta = torch.stack((torch.stack((c, s, zero), -1), torch.stack((-s, c, zero), -1)), -2)
    padding: Any = "constant" if plain else "reflect"
    return warp(x, theta, interpolation="bicubic", padding=padding).clamp(0, 1)


def train_network(
    train: ImageSet, device: torch.device, epochs: int, width: int, flips: bool
) -> Net:
    """A network trained on upright pictures, shifted by up to 3 pixels."""
    x, y = train.images.to(device), train.labels.to(device)
    torch.manual_seed(0)
    net = Net(x.shape[1], 10, width).to(device, memory_format=torch.channels_last)
    steps = epochs * (len(x) // 500)
    optimiser = torch.optim.SGD(net.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 0.3, total_steps=steps, pct_start=0.25
    )
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        order = torch.randperm(len(x), generator=generator).to(device)
        for rows in order[: len(x) // 500 * 500].split(500):
            part = F.pad(x[rows], (3,) * 4, mode="reflect")
            top, left = torch.randint(7, (2,), generator=generator).tolist()
            part = part[..., top : top + x.shape[-2], left : left + x.shape[-1]]
            if flips and int(torch.randint(2, (), generator=generator)):
                part = part.flip(-1)
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = F.cross_entropy(net(part), y[rows], label_smoothing=0.1)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return net.eval().requires_grad_(False)


class Peer(nn.Module):
    """The canonicaliser with a prior: the frozen network sees the turn that scores best."""

    def __init__(self, net: nn.Module, shape: tuple[int, int, int], plain: bool) -> None:
        super().__init__()
        self.net, self.plain = net, plain
        self.scores = nn.Sequential(ConvNet(shape, 32, 256), nn.Linear(256, 1))
        edge = (1 - radii(shape[1], shape[2], torch.device("cpu"))) * max(shape[1:]) / 2
        self.register_buffer("window", edge.clamp(0, 1))

    def turns(self, x: Tensor) -> Tensor:
        """All turns back (N, 24, C, H, W)."""
        degrees = -torch.arange(TURNS, device=x.device) * (360.0 / TURNS)
        many = x[:, None].expand(len(x), TURNS, *x.shape[1:]).flatten(0, 1)
        return turned(many, degrees.repeat(len(x)), self.plain).unflatten(0, (len(x), TURNS))

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        turns = self.turns(x)
        best = self.scores((turns * self.window).flatten(0, 1)).reshape(len(x), TURNS).argmax(1)
        return self.net(turns[torch.arange(len(x), device=x.device), best])

    def loss(self, x: Tensor, y: Tensor, true: Tensor) -> Tensor:
        """Task and prior; the choice is hard forwards and soft backwards."""
        turns = self.turns(x)
        scores = self.scores((turns * self.window).flatten(0, 1)).reshape(len(x), TURNS)
        soft = scores.softmax(1)
        hard = F.one_hot(soft.argmax(1), TURNS) - soft.detach() + soft
        seen = (turns * hard[..., None, None, None]).sum(1)
        return F.cross_entropy(self.net(seen), y) + PRIOR * F.cross_entropy(scores, true)


def train_peer(net: Net, train: ImageSet, plain: bool, device: torch.device, steps: int) -> Peer:
    """The peer on upright pictures that are turned by one of its turns."""
    x, y = train.images.to(device), train.labels.to(device)
    torch.manual_seed(0)
    peer = Peer(net, tuple(x.shape[1:]), plain).to(device)  # type: ignore[arg-type]
    optimiser = torch.optim.AdamW(peer.scores.parameters(), 2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 2e-3, total_steps=steps, pct_start=0.05
    )
    for _ in range(steps):
        rows = torch.randint(len(x), (64,), device=device)
        true = torch.randint(TURNS, (64,), device=device)
        part = turned(x[rows], true * (360.0 / TURNS), plain)
        optimiser.zero_grad()
        peer.loss(part, y[rows], true).backward()
        nn.utils.clip_grad_norm_(peer.scores.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return peer.eval()


class Average(nn.Module):
    """Probabilities averaged over 8 turns."""

    def __init__(self, net: nn.Module, plain: bool) -> None:
        super().__init__()
        self.net, self.plain = net, plain

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities."""
        angles = torch.arange(VIEWS) * (360.0 / VIEWS)
        parts = [self.net(turned(x, a.expand(len(x)), self.plain)).softmax(1) for a in angles]
        return torch.stack(parts).mean(0).log()


def planted(test: ImageSet) -> dict[str, Tensor]:
    """Degrees by which each test picture is turned, by name of the law."""
    unit = torch.rand(len(test), generator=torch.Generator().manual_seed(1))
    every = 45.0 * (8 * unit).floor()
    return {"as they are": 0 * unit, "±45": 90 * unit - 45, "±180": 360 * unit - 180, "C8": every}


@torch.no_grad()
def accuracies(
    model: nn.Module, test: ImageSet, plain: bool, device: torch.device
) -> dict[str, float]:
    """Per cent of the test pictures that are right, by law of turns."""
    found = {}
    for name, degrees in planted(test).items():
        right = 0
        for rows in torch.arange(len(test)).split(500):
            x, y = test.images[rows].to(device), test.labels[rows].to(device)
            x = x if name == "as they are" else turned(x, degrees[rows], plain)
            right += int((model(x).argmax(1) == y).sum())
        found[name] = round(100 * right / len(test), 2)
    return found


def read_fit(words: str) -> tuple[str, OrbitConfig]:
    """A group, and what is to be fitted to it, from GROUP[:CHANNELS:BLOCKS:STEPS:BLUR:JITTER]."""
    group, *numbers = words.split(":")
    config = OrbitConfig.preset("default")
    if numbers:
        channels, blocks, steps, blur, jitter = (float(number) for number in numbers)
        views = {name: blur * getattr(config.views, name) for name in ("before", "least", "most")}
        views["jitter"] = jitter * config.views.jitter
        network = {"channels": int(channels), "blocks": int(blocks)}
        once = {"steps": int(steps), "rounds": 1}
        config = config.replace(views=views, network=network, training=once)
    return group, config


def main() -> None:
    """Run one data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=("cifar10", "fashion-mnist", "mnist"))
    parser.add_argument("--folder", required=True)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--budget", type=float, default=3600.0, help="seconds")
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--peer-steps", type=int, default=2000)
    parser.add_argument("--fits", nargs="+", default=["rotation", "c8"], help=FITS)
    parser.add_argument("--needed", type=float, default=60.0, help="seconds that a fit may take")
    parser.add_argument("--test", type=int, help="number of test pictures")
    parser.add_argument("--pictures", type=int, help="of the training set")
    given = parser.parse_args()
    began = time.perf_counter()
    # What takes longer than expected ends cleanly: a killed client of a shared GPU faults others.
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("out of time"))
    signal.alarm(int(given.budget) + 10)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, test = (load(given.data, split, given.folder) for split in ("train", "test"))
    if given.pictures:
        train = train.subset(range(given.pictures))
    if given.test:
        test = test.subset(range(given.test))
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    count = min(HELD_OUT, len(train) // 5)
    held, train = train.subset(order[:count]), train.subset(order[count:])
    plain = given.data != "cifar10"
    rows: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    given.out.mkdir(parents=True, exist_ok=True)

    def left() -> float:
        return given.budget - (time.perf_counter() - began)

    def keep(name: str, since: float, **found: Any) -> None:  # noqa: ANN401
        rows[name] = found
        seconds[name] = round(time.perf_counter() - since, 1)
        result = {"name": f"wrap-{given.data}", **environment(), "seconds": seconds, "rows": rows}
        (given.out / f"{given.data}.json").write_text(json.dumps(result, indent=1) + "\n")
        print(f"{time.perf_counter() - began:.0f} s", name, found, flush=True)

    start = time.perf_counter()
    net = train_network(train, device, given.epochs, given.width, flips=given.data != "mnist")
    net = net.to(memory_format=torch.contiguous_format)
    how = (test, plain, device)
    keep("bare", start, accuracy=accuracies(net, *how))
    start = time.perf_counter()
    keep("average over 8 views", start, accuracy=accuracies(Average(net, plain), *how))

    def wrapped(words: str) -> None:
        start = time.perf_counter()
        group, config = read_fit(words)
        result = symmetries.wrap(
            net, train, group, held_out=held, preset=config, device=device.type, progress=False
        )
        kept = ("rule", "threshold", "views", "pose_error", "warnings", "chosen_on", "measured_on")
        found = {name: getattr(result, name) for name in kept}
        found |= {
            "held_out": {
                name: {"gain": part.gain.mean, "low": part.gain.low, "high": part.gain.high}
                for name, part in (("as they are", result.untouched), ("moved", result.moved))
            },
            "network": dataclasses.asdict(config.network),
            "steps": config.training.steps,
            "latency_ms": [one.model_dump() for one in result.latency],
            "candidates": [
                [one.rule, one.threshold, one.untouched, one.moved] for one in result.candidates
            ],
        }
        found["accuracy"] = accuracies(result.fitted, *how)
        result.fitted.threshold = 0.0  # as the peer, which always moves
        keep(f"wrapped, {words}", start, **found, always_moved=accuracies(result.fitted, *how))

    if left() > 60 and given.peer_steps:
        start = time.perf_counter()
        peer = train_peer(net, train, plain, device, given.peer_steps)
        keep("peer with a prior", start, accuracy=accuracies(peer, *how), turns=TURNS)
    for words in given.fits:
        if left() > given.needed:
            wrapped(words)


if __name__ == "__main__":
    main()
