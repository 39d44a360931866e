"""Group convolutions against an ordinary convolution of the same channels, and against escnn.

32 x 32 pixels, batch 32, 8 rotations, 16 fields; forward and backward, and forward alone with the
kernels kept. escnn takes part where it is installed. All alternatives run in turn, in one process.

    python benchmarks/gconv_speed.py [--rounds 9] [--kernel 5] [--batch 32] [--cifar]
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.groups import Cyclic
from symmetries.nn.gconv import GroupConv2d, RelaxedGroupConv2d
from symmetries.nn.relaxed_networks import RelaxedResNet, Symmetry

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record

N, FIELDS, SIZE = 8, 16, 32


def step(layer: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    """Forward and backward to the input and the weights."""

    def call() -> None:
        layer(x).square().mean().backward()

    return call


def look(layer: nn.Module, x: Tensor) -> Callable[[], None]:
    """Forward alone, in evaluation."""

    def call() -> None:
        with torch.no_grad():
            layer(x)

    return call


def escnn_layer(kernel: int) -> Callable[[Tensor], Tensor] | None:
    """R2Conv between regular fields as its users call it, or None where it is not installed."""
    try:
        from escnn import gspaces
        from escnn import nn as enn
    except ImportError:
        return None
    space = gspaces.rot2dOnR2(N)
    fields = enn.FieldType(space, FIELDS * [space.regular_repr])
    layer = enn.R2Conv(fields, fields, kernel, padding=kernel // 2)
    return lambda x: layer(enn.GeometricTensor(x, fields)).tensor


def training(kernel: int, batch: int, rounds: int, device: str) -> list[dict[str, object]]:
    """Forward and backward of one layer."""
    channels = N * FIELDS
    same = {"padding": kernel // 2}
    x = torch.randn(batch, channels, SIZE, SIZE, device=device, requires_grad=True)
    last = x.detach().to(memory_format=torch.channels_last).requires_grad_()
    plain, other = (nn.Conv2d(channels, channels, kernel, **same).to(device) for _ in range(2))
    layers: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
        "conv2d": (plain, x),
        "conv2d, channels last": (other.to(memory_format=torch.channels_last), last),
        "strict": (GroupConv2d(FIELDS, FIELDS, kernel, **same, group=Cyclic(N)).to(device), last),
        "soft rotation": (
            RelaxedGroupConv2d(FIELDS, FIELDS, kernel, **same, group=Cyclic(N)).to(device),
            last,
        ),
        "soft translation": (
            RelaxedGroupConv2d(channels, channels, kernel, **same, group=Cyclic(1)).to(device),
            last,
        ),
    }
    peer = escnn_layer(kernel) if device == "cpu" else None
    if peer is not None:
        layers["escnn R2Conv"] = (peer, x)
    times = interleaved({name: step(*pair) for name, pair in layers.items()}, rounds)
    return rows("forward and backward", times, "conv2d, channels last")


def evaluation(kernel: int, batch: int, rounds: int, device: str) -> list[dict[str, object]]:
    """Forward of one layer with its kernel kept, beside the same filters in a plain layer."""
    x = torch.randn(batch, N * FIELDS, SIZE, SIZE, device=device)
    x = x.to(memory_format=torch.channels_last)
    layer = RelaxedGroupConv2d(FIELDS, FIELDS, kernel, padding=kernel // 2, group=Cyclic(N))
    layer = layer.to(device).eval()
    plain = layer.baked((SIZE, SIZE), batch).to(memory_format=torch.channels_last)
    weight, bias = layer.sampled((SIZE, SIZE))
    inline: Callable[[], object] = lambda: F.conv2d(x, weight, bias, 1, kernel // 2)  # noqa: E731
    calls = {"conv2d": look(plain, x), "F.conv2d": inline, "kept kernel": look(layer, x)}
    with torch.no_grad():
        return rows("evaluation", interleaved(calls, rounds), "conv2d")


def cifar_network(batch: int, rounds: int, device: str) -> list[dict[str, object]]:
    """One training step of the CIFAR network with 8 rotations in bf16, and its arithmetic."""
    model = RelaxedResNet(3, 10, Symmetry(Cyclic(N))).to(device)
    x = torch.randn(batch, 3, SIZE, SIZE, device=device)
    labels = torch.randint(10, (batch,), device=device)
    compiled = torch.compile(model)

    def call(module: Callable[[Tensor], Tensor]) -> Callable[[], None]:
        def once() -> None:
            with torch.autocast(device, torch.bfloat16):
                loss = F.cross_entropy(module(x), labels)
            loss.backward()

        return once

    times = interleaved({"eager": call(model), "compiled": call(compiled)}, rounds)
    found = rows("CIFAR network, step", times, "eager")
    for row in found:
        flops = 3 * 23.2e9 * batch  # a forward pass costs 23.2 GFLOP per image, its gradient twice
        row["tflops"] = round(flops / float(str(row["milliseconds"])) / 1e9, 1)
        row["seconds_per_epoch"] = round(float(str(row["milliseconds"])) * 50_000 / batch / 1e3, 1)
    return found


def rows(what: str, times: dict[str, list[float]], reference: str) -> list[dict[str, object]]:
    """Medians, and the median over the rounds of the ratio to a reference."""
    found: list[dict[str, object]] = []
    for name, median in medians(times).items():
        ratios = [a / b for a, b in zip(times[name], times[reference], strict=True)]
        row: dict[str, object] = {"what": what, "alternative": name}
        row["milliseconds"] = round(1e3 * median, 3)
        row["ratio"] = round(statistics.median(ratios), 3)
        found.append({**row, "reference": reference})
    return found


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--kernel", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--cifar", action="store_true", help="also the CIFAR network (for a GPU)")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    sizes = (arguments.kernel, arguments.batch, arguments.rounds, device)
    found = training(*sizes) + evaluation(*sizes)
    if arguments.cifar:
        found += cifar_network(64, arguments.rounds, device)
    for row in found:
        row.update(kernel=arguments.kernel, batch=arguments.batch)
        print(row)
    record(f"gconv_speed-{device}", found)


if __name__ == "__main__":
    main()
