"""Group convolutions against an ordinary convolution of the same channels, and against escnn.

32 x 32 pixels, batch 32, 8 rotations, 16 fields; forward and backward, and forward alone with the
kernels kept. escnn takes part where it is installed. All alternatives run in turn, in one process.

On a GPU every step is also timed as a CUDA graph, as :func:`symmetries.training.train` runs it:
layers of this size cost less than the launching of their kernels one by one.

    python benchmarks/gconv_speed.py [--rounds 9] [--kernel 5] [--batch 32] [--cifar 64 256]
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.groups import Cyclic
from symmetries.learners.relaxed import fit_relaxed
from symmetries.nn.gconv import GroupConv2d, RelaxedGroupConv2d
from symmetries.nn.relaxed_networks import RelaxedResNet, Symmetry
from symmetries.training import TrainConfig

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record

N, FIELDS, SIZE = 8, 16, 32
Timed = Callable[[dict[str, Callable[[], None]]], dict[str, list[float]]]
Part = Callable[[], list[dict[str, object]]]
PEAK = 780.0  # TFLOP/s of bf16 products, as measured on an H200 (777 to 790)


def step(layer: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    """Forward and backward to the input and the weights."""

    def call() -> None:
        layer(x).square().mean().backward()

    return call


def captured(call: Callable[[], None]) -> Callable[[], None]:
    """The same work as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def repeated(call: Callable[[], None], times: int = 20) -> Callable[[], None]:
    """Several in a row, for work that is shorter than the clock is exact."""

    def calls() -> None:
        for _ in range(times):
            call()

    return calls


def look(layer: nn.Module, x: Tensor) -> Callable[[], None]:
    """Forward alone, in evaluation."""

    def call() -> None:
        with torch.no_grad():
            layer(x)

    return call


def escnn_layer(kernel: int, device: str) -> Callable[[Tensor], Tensor] | None:
    """R2Conv between regular fields as its users call it, or None where it is not installed."""
    try:
        from escnn import gspaces
        from escnn import nn as enn
    except ImportError:
        return None
    space = gspaces.rot2dOnR2(N)
    fields = enn.FieldType(space, FIELDS * [space.regular_repr])
    layer = enn.R2Conv(fields, fields, kernel, padding=kernel // 2).to(device)
    return lambda x: layer(enn.GeometricTensor(x, fields)).tensor


def training(kernel: int, batch: int, timed: Timed, device: str) -> list[dict[str, object]]:
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
    steps = {name: step(*pair) for name, pair in layers.items()}
    peer = escnn_layer(kernel, device)
    peers = {} if peer is None else {"escnn R2Conv": step(peer, x)}
    found = rows("forward and backward", timed({**steps, **peers}), "conv2d, channels last")
    if device == "cuda":  # the peer waits for the device, which a graph cannot hold
        graphs = {name: repeated(captured(call)) for name, call in steps.items()}
        times = {k: [t / 20 for t in v] for k, v in timed(graphs).items()}
        found += rows("forward and backward, CUDA graph", times, "conv2d, channels last")
    return found


def evaluation(kernel: int, batch: int, timed: Timed, device: str) -> list[dict[str, object]]:
    """Forward of one layer with its kernel kept, beside the same filters in a plain layer."""
    x = torch.randn(batch, N * FIELDS, SIZE, SIZE, device=device)
    x = x.to(memory_format=torch.channels_last)
    layer = RelaxedGroupConv2d(FIELDS, FIELDS, kernel, padding=kernel // 2, group=Cyclic(N))
    layer = layer.to(device).eval()
    plain = layer.baked((SIZE, SIZE), batch).to(memory_format=torch.channels_last)
    weight, bias = layer.sampled((SIZE, SIZE))
    inline: Callable[[], None] = lambda: F.conv2d(x, weight, bias, 1, kernel // 2)  # noqa: E731
    calls = {"conv2d": look(plain, x), "F.conv2d": inline, "kept kernel": look(layer, x)}
    with torch.no_grad():
        found = rows("evaluation", timed(calls), "conv2d")
        if device == "cuda":
            graphs = {name: repeated(captured(call)) for name, call in calls.items()}
            times = {k: [t / 20 for t in v] for k, v in timed(graphs).items()}
            found += rows("evaluation, CUDA graph", times, "conv2d")
    return found


def cifar_network(batch: int, timed: Timed, device: str, compiled: bool) -> list[dict[str, object]]:
    """One training step of the CIFAR network with 8 rotations in bf16, and its arithmetic.

    Forward and backward; the optimiser's part, a few kernels for a million weights, is left out.
    """
    model = RelaxedResNet(3, 10, Symmetry(Cyclic(N))).to(device)
    x = torch.randn(batch, 3, SIZE, SIZE, device=device)
    labels = torch.randint(10, (batch,), device=device)

    def call(module: Callable[[Tensor], Tensor]) -> Callable[[], None]:
        def once() -> None:
            with torch.autocast(device, torch.bfloat16):
                loss = F.cross_entropy(module(x), labels)
            loss.backward()

        return once

    calls = {"eager": call(model)}
    if device == "cuda":
        calls["CUDA graph"] = captured(call(model))
    if compiled:
        calls["compiled"] = call(torch.compile(model))
    found = rows(f"CIFAR network, step of {batch}", timed(calls), "eager")
    for row in found:
        flops = 3 * 23.2e9 * batch  # a forward pass costs 23.2 GFLOP per image, its gradient twice
        row["tflops"] = round(flops / float(str(row["milliseconds"])) / 1e9, 1)
        row["share_of_peak"] = round(float(str(row["tflops"])) / PEAK, 3)
        row["seconds_per_epoch"] = round(float(str(row["milliseconds"])) * 50_000 / batch / 1e3, 1)
    return found


def cifar_epoch(
    batch: int, steps: int, first: int = 50, images: int = 50_000
) -> list[dict[str, object]]:
    """The same network as :func:`symmetries.training.train` runs it, optimiser and all.

    Random images that lie on the device; the first steps (kernels compiled, algorithms chosen, the
    graph captured) are taken out, and the others scaled to an epoch.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = RelaxedResNet(3, 10, Symmetry(Cyclic(N)))
    x = torch.randn(images, 3, SIZE, SIZE, device=device)
    labels = torch.randint(10, (images,), device=device)
    config = TrainConfig(steps, batch, progress=False)
    config = config.replace(precision="bf16-mixed", log_every=first)
    history = fit_relaxed(model, x, labels, config, penalty=0.1)
    seen = dict(zip(history.step, history.times, strict=True))
    second = (seen[steps] - seen[first]) / (steps - first)
    flops = 3 * 23.2e9 * batch
    row: dict[str, object] = {"what": f"CIFAR network, steps of {batch}, with the optimiser"}
    row |= {"alternative": "train", "milliseconds": round(1e3 * second, 3)}
    row["tflops"] = round(flops / second / 1e12, 1)
    row["share_of_peak"] = round(flops / second / 1e12 / PEAK, 3)
    return [row | {"seconds_per_epoch": round(second * images / batch, 1), "steps": steps}]


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
    parser.add_argument(
        "--cifar", nargs="*", type=int, default=[], help="also the CIFAR network, for these batches"
    )
    parser.add_argument("--epoch", type=int, help="the CIFAR network trains for so many steps")
    parser.add_argument("--compile", action="store_true", help="also torch.compile")
    parts = ["training", "evaluation"]
    parser.add_argument("--parts", nargs="*", choices=parts, default=parts, help="of one layer")
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument(
        "--processor-time", action="store_true", help="not wall time: for a busy machine"
    )
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.processor_time else time.perf_counter
    timed = partial(interleaved, rounds=arguments.rounds, clock=clock)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True  # as the paper's runs set it
    sizes = (arguments.kernel, arguments.batch, timed, device)
    parts = {"training": partial(training, *sizes), "evaluation": partial(evaluation, *sizes)}
    if arguments.parts:
        measure(f"gconv_speed-{device}", [parts[name] for name in arguments.parts], arguments)
    networks = [
        partial(cifar_network, batch, timed, device, arguments.compile) for batch in arguments.cifar
    ]
    if arguments.epoch:
        networks.append(partial(cifar_epoch, 64, arguments.epoch))
    if networks:
        measure(f"gconv_network-{device}", networks, arguments)


def measure(name: str, parts: list[Part], arguments: argparse.Namespace) -> None:
    """Run parts, recorded after each: the search for cuDNN's best algorithms takes long."""
    found: list[dict[str, object]] = []
    for part in parts:
        for row in part():
            row.update(kernel=arguments.kernel, batch=arguments.batch)
            row["clock"] = "processor" if arguments.processor_time else "wall"
            print(row, flush=True)
            found.append(row)
        record(name, found)


if __name__ == "__main__":
    main()
