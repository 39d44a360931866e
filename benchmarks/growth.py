"""How time and memory grow with the size of the work, against what theory says.

Each case has one size that doubles; an exponent is fitted to the largest half of the sizes, where
fixed costs no longer count: time ~ size^exponent. "theory" is the exponent that counting
operations gives; a measured one may be smaller where the device was not busy yet, not larger. The
peak of the memory that torch has handed out, inputs and weights among it, is fitted too, against
the exponent of what has to be held. Forward and backward, unless the case says otherwise. Memory
has a file of its own: unlike times it can be measured on a busy machine.

    python benchmarks/growth.py [--only time | memory]
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.actions.resample import warp
from symmetries.auditing import audit_model
from symmetries.distributions.flow import ConditionalFlow
from symmetries.groups import Cyclic
from symmetries.groups.affine import Affine2, affine_exp
from symmetries.nn.gconv import GroupConv2d
from symmetries.nn.invariant_linear import InvariantLinear
from symmetries.nn.variational import VariationalLinear

sys.path.insert(0, str(Path(__file__).parent))
from common import record, synchronise

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Case = tuple[str, str, list[int], float, float, Callable[[int], Callable[[], object]]]


def sizes(first: int, doublings: int, more: int) -> list[int]:
    """A size and its doubles; so many doublings more on a GPU, which small sizes do not fill."""
    return [first * 2 ** (i + more * (DEVICE == "cuda")) for i in range(doublings)]


def backward(out: Tensor) -> None:
    """Some loss, and its gradients."""
    out.square().mean().backward()


def exponential(n: int) -> Callable[[], object]:
    """Exponentials of n elements."""
    eta = torch.randn(n, 6, device=DEVICE, requires_grad=True)
    return lambda: backward(affine_exp(eta))


def warped(n: int, side: int) -> Callable[[], object]:
    """Images through a map each."""
    images = torch.rand(n, 1, side, side, device=DEVICE, requires_grad=True)
    theta = affine_exp(0.2 * torch.randn(n, 6, device=DEVICE))[:, :2].detach().requires_grad_()
    return lambda: backward(warp(images, theta))


def invariant(batch: int, samples: int, units: int) -> Callable[[], object]:
    """The invariant layer, averaged over transformations."""
    group = Affine2("rotation")
    layer = InvariantLinear((1, 28, 28), units, bias=False).to(DEVICE)
    images = torch.rand(batch, 1, 28, 28, device=DEVICE)
    noise = torch.linspace(-1, 1, samples, device=DEVICE)[:, None]
    return lambda: backward(layer(images, group.exp(noise)).relu().mean(0))


def variational(features: int) -> Callable[[], object]:
    """A last layer with a full covariance for each of ten outputs, and its KL term."""
    layer = VariationalLinear(features, 10).to(DEVICE)
    x = torch.randn(128, features, device=DEVICE)
    return lambda: (sum(part.square().mean() for part in layer(x)) + layer.kl()).backward()


def rotations(n: int) -> Callable[[], object]:
    """A group convolution over n rotations, 4 fields."""
    layer = GroupConv2d(4, 4, 3, group=Cyclic(n), padding=1).to(DEVICE)
    x = torch.randn(8, 4 * n, 16, 16, device=DEVICE)
    return lambda: backward(layer(x))


def flow(n: int) -> Callable[[], object]:
    """Log-densities of n elements under as many contexts."""
    model = ConditionalFlow((1.0,) * 5, 128, layers=4, hidden=64, base=(64,)).to(DEVICE)
    eta, context = 0.2 * torch.randn(n, 5, device=DEVICE), torch.randn(n, 128, device=DEVICE)
    return lambda: (-model.log_prob(eta, context)).mean().backward()


def audited(n: int) -> Callable[[], object]:
    """A whole audit of n examples under four rotations, saliency at 10 steps (no backward)."""
    layers = [nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)]
    model = nn.Sequential(nn.Flatten(), *layers).to(DEVICE)
    data = torch.rand(n, 1, 28, 28, device=DEVICE), torch.arange(n, device=DEVICE) % 10
    return lambda: audit_model(model, data, Cyclic(4), steps=10, layers=(), progress=False)


def cases() -> Iterator[Case]:
    """What, over what, sizes, exponents of theory (time, memory), and the work of a size."""
    yield "affine exponential", "elements", sizes(4096, 6, 6), 1, 1, exponential
    yield "warp", "images", sizes(64, 9, 4), 1, 1, lambda n: warped(n, 28)
    yield "warp", "side of the image", sizes(16, 5, 3), 2, 2, lambda n: warped(32, n)
    yield "invariant layer", "batch", sizes(32, 6, 6), 1, 1, lambda n: invariant(n, 8, 256)
    yield "invariant layer", "samples S", sizes(2, 6, 6), 1, 1, lambda n: invariant(64, n, 256)
    yield "invariant layer", "hidden units", sizes(64, 6, 6), 1, 1, lambda n: invariant(64, 8, n)
    yield "variational layer", "features", sizes(64, 4, 4), 3, 2, variational
    yield "group convolution", "rotations", sizes(2, 5, 3), 2, 2, rotations
    yield "spline flow", "elements", sizes(256, 5, 6), 1, 1, flow
    yield "audit", "examples", sizes(128, 5, 2), 1, 1, audited


def best_milliseconds(make: Callable[[], Callable[[], object]]) -> float:
    """Of one call, the best of several."""
    work = make()
    work()
    times: list[float] = []
    began = time.perf_counter()
    longest = 0.1 if DEVICE == "cuda" else 0.3
    while len(times) < 3 or (time.perf_counter() - began < longest and len(times) < 30):
        synchronise()
        start = time.perf_counter()
        work()
        synchronise()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def peak_megabytes(make: Callable[[], Callable[[], object]]) -> float:
    """The most that torch's tensors held at once, from making the inputs on; of two calls."""
    if DEVICE == "cuda":
        make()()  # now libraries have their workspaces, which are not counted
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        work = make()
        work()
        work()  # now gradients are there from the beginning
        return (torch.cuda.max_memory_allocated() - before) / 1e6
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as trace:
        work = make()
        work()
        work()
    events = trace.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    return max(accumulate(change for _, change in changes)) / 1e6


def exponent(x: list[int], y: list[float]) -> float:
    """Slope of log y over log x in the upper half."""
    half = len(x) // 2
    points = torch.tensor([x[half:], y[half:]], dtype=torch.float64).log()
    centred = points - points.mean(1, keepdim=True)
    return float((centred[0] * centred[1]).sum() / centred[0].square().sum())


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("time", "memory"))
    parser.add_argument("--most-seconds", type=float, default=1e9, help="begin no case after")
    options, began = parser.parse_args(), time.perf_counter()
    only = options.only
    for kind, measure, unit in (
        ("time", best_milliseconds, "milliseconds"),
        ("memory", peak_megabytes, "MB"),
    ):
        rows: list[dict[str, Any]] = []
        for what, over, values, *theory, make in cases() if only in (None, kind) else ():
            if time.perf_counter() - began > options.most_seconds:
                print("out of time before", kind, "of", what, over, flush=True)
                break
            found = [measure(lambda n=n, make=make: make(n)) for n in values]
            row = {"what": what, "over": over, "sizes": values}
            row[unit] = [round(each, 4) for each in found]
            row["theory"] = theory[kind == "memory"]
            row["exponent"] = exponent(values, found)
            rows.append(row)
            print({k: v for k, v in row.items() if k not in ("sizes", unit)}, flush=True)
            record(f"growth{'_memory' if kind == 'memory' else ''}-{DEVICE}", rows)


if __name__ == "__main__":
    main()
