"""Each kernel on a GPU: its time, the floor its bytes allow, and what torch needs for the same.

Times are those of CUDA graphs that go through enough copies of inputs, gradients and results (all
are kept) to leave the cache behind; of what cannot be captured (``EAGER``), those of eager calls
one after another. "naive" is what one would write from tensors' own operations (for B-splines,
which torch lacks, the library's own form without kernels). The floor counts each input read once
and each output written once, at the bandwidth of a large copy measured in the same run. "ours" is
the median of three measurements, "slowest" the slowest of them. Target for the warps of 2,560 x 28
x 28 and 512 x 3 x 64 x 64, forward and backward: at most twice the floor.

    python benchmarks/kernels_cuda.py [--most-seconds 40]
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.actions.resample import warp
from symmetries.distributions.rational_spline import rational_quadratic
from symmetries.groups.affine import affine_exp, affine_inverse, affine_product, generators
from symmetries.nn.perceptron import gelu_norm
from symmetries.ops.available import VARIABLE

sys.path.insert(0, str(Path(__file__).parent))
from common import record

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
ENOUGH = 400e6  # bytes that no cache holds
TARGETS = ((2560, 1, 28), (512, 3, 64))
OTHERS = ((8, 1, 28), (128, 1, 28), (40_960, 1, 28), (655_360, 1, 28), (64, 3, 224))
EAGER = ("naive", "torch, eager", "kornia")
Function = Callable[..., Any]
Case = tuple[str, Function, dict[str, Function], tuple[int, ...]]


@contextmanager
def without_kernels() -> Iterator[None]:
    """Torch's own operations."""
    os.environ[VARIABLE] = "0"
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def plainly(function: Function) -> Function:
    """The same without kernels."""

    def run(*inputs: Tensor) -> Any:  # noqa: ANN401
        with without_kernels():
            return function(*inputs)

    return run


def trial_seconds(calls: Sequence[Callable[[], object]]) -> float:
    """Of one call where there is no GPU: says that it runs, nothing else."""
    start = time.perf_counter()
    calls[0]()
    return time.perf_counter() - start


def graph_seconds(calls: Sequence[Callable[[], object]], rounds: int = 7) -> float:
    """Seconds of one call, from replays of a graph that makes all of them once."""
    if not GPU:
        return trial_seconds(calls)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls[:2]:
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call() for call in calls]  # each has memory of its own
    times = []
    for turn in range(rounds + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if turn:
            times.append(start.elapsed_time(end) / 1e3)
    del kept
    return statistics.median(times) / len(calls)


def eager_seconds(calls: Sequence[Callable[[], object]]) -> float:
    """Seconds of one call, eagerly."""
    if not GPU:
        return trial_seconds(calls)
    calls = calls[:4]
    times = []
    for _ in range(4):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
        start.record()
        for call in calls:
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times[1:]) / len(calls)


def bandwidth() -> float:
    """Bytes per second of a large copy, read and written."""
    a, b = (torch.empty(2**28 if GPU else 2**20, device=DEVICE) for _ in "ab")
    # Not copy_, which the copy engine does, at two thirds of what kernels reach.
    return 2 * a.numel() * 4 / graph_seconds([lambda: torch.add(a, 1, out=b)] * 3)


def measure(
    make: Function, functions: dict[str, Function], wanted: Sequence[int]
) -> dict[str, Any]:
    """Seconds forward, and forward and backward, of each function of the same inputs.

    Args:
        make: gives fresh inputs.
        functions: by name.
        wanted: which inputs need a gradient.
    """
    first = make()
    out = next(iter(functions.values()))(*first)
    size = _bytes(*first, *_outputs(out))
    copies = max(2, min(64, int(ENOUGH / size))) if GPU else 1
    inputs = [make() for _ in range(copies)]
    weights = [[torch.randn_like(part) for part in _outputs(out)] for _ in inputs]
    found = {}
    for name, function in functions.items():

        def forward(x: tuple[Tensor, ...], function: Function = function) -> object:
            with torch.no_grad():
                return function(*x)

        def both(x: tuple[Tensor, ...], w: list[Tensor], function: Function = function) -> object:
            y = _outputs(function(*x))
            return y, torch.autograd.grad(y, [x[i] for i in wanted], w)

        for x in inputs:
            for i in range(len(x)):
                x[i].requires_grad_(i in wanted)
        timed = eager_seconds if name in EAGER else graph_seconds
        pairs = list(zip(inputs, weights, strict=True))
        for part, calls in (
            ("forward", [lambda x=x: forward(x) for x in inputs]),
            ("both", [lambda x=x, w=w: both(x, w) for x, w in pairs]),
        ):
            times = [timed(calls) for _ in range(3 if name == "ours" else 1)]
            found[f"{name}, {part}"] = statistics.median(times)
            found[f"{name}, {part}, slowest"] = max(times)
    found["forward bytes"] = size
    back = _bytes(*(first[i] for i in wanted))
    found["both bytes"] = 2 * size + back  # inputs and gradients read again
    return found


def _bytes(*tensors: Tensor) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _outputs(out: Any) -> tuple[Tensor, ...]:  # noqa: ANN401
    return out if isinstance(out, tuple) else (out,)


def torch_warp(images: Tensor, theta: Tensor, mode: str) -> Tensor:
    """affine_grid and grid_sample."""
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode=mode, align_corners=False)


def kornia_warp() -> Function | None:
    """Kornia's, where it is installed: the same work, its maps are read in pixels."""
    try:
        from kornia.geometry.transform import warp_affine
    except ImportError:
        return None
    return lambda images, theta, mode: warp_affine(
        images, theta, (images.shape[-2], images.shape[-1]), mode=mode
    )


def naive_warp(images: Tensor, theta: Tensor) -> Tensor:
    """Four taps by indexing."""
    n, _, height, width = images.shape
    x, y = F.affine_grid(theta, list(images.shape), align_corners=False).unbind(-1)
    x, y = 0.5 * (x * width + (width - 1)), 0.5 * (y * height + (height - 1))
    left, top = x.floor(), y.floor()
    which = torch.arange(n, device=images.device)[:, None, None]
    out = torch.zeros_like(images)
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        r, c = top + row, left + column
        weight = (1 - (y - r).abs()) * (1 - (x - c).abs())
        weight = weight * ((r >= 0) & (r < height) & (c >= 0) & (c < width))
        at = (which, r.clamp(0, height - 1).long(), c.clamp(0, width - 1).long())
        out = out + (images.permute(0, 2, 3, 1)[at] * weight[..., None]).permute(0, 3, 1, 2)
    return out


def naive_exp(eta: Tensor) -> Tensor:
    """torch.linalg.matrix_exp of generators times coordinates."""
    basis = generators(torch.float32).to(eta.device)
    return torch.linalg.matrix_exp(torch.einsum("nd,dij->nij", eta, basis))


def warps(mode: str, n: int, side: int) -> dict[str, Function]:
    """Ours and the others."""
    ours: Function = lambda x, t: warp(x, t, interpolation=mode)  # noqa: E731
    if mode == "bspline":
        return {"ours": ours, "naive": plainly(ours)}
    each = {"ours": ours, "torch": lambda x, t: torch_warp(x, t, mode)}
    kornia = kornia_warp()
    if kornia and n < 100_000:  # cuDNN refuses more
        each["kornia"] = lambda x, t: kornia(x, t, mode)
    small = n <= 2560 and side <= 64
    return each | ({"naive": naive_warp} if mode == "bilinear" and small else {})


def matrices(n: int) -> list[Case]:
    """Exponential, product and inverse."""
    maps: Function = lambda: affine_exp(torch.randn(n, 6, device=DEVICE))  # noqa: E731
    eta: Function = lambda: (0.5 * torch.randn(n, 6, device=DEVICE),)  # noqa: E731
    product = {"ours": affine_product, "torch": lambda a, b: a @ b}
    inverse = {"ours": affine_inverse, "torch, eager": torch.linalg.inv}
    return [
        (f"affine exponential, {n}", eta, {"ours": affine_exp, "torch, eager": naive_exp}, (0,)),
        (f"product of 3 x 3, {n}", lambda: (maps(), maps()), product, (0, 1)),
        (f"inverse of 3 x 3, {n}", lambda: (maps(),), inverse, (0,)),
    ]


def norms(rows: int, width: int, dtype: torch.dtype) -> Case:
    """What a hidden layer does behind its product."""
    norm = nn.LayerNorm(width, device=DEVICE)
    inputs: Function = lambda: (  # noqa: E731
        torch.randn(rows, width, device=DEVICE).to(dtype),
        torch.randn(width, device=DEVICE),
    )
    each = {
        "ours": lambda z, b: gelu_norm(z, norm, b),
        "torch": lambda z, b: norm(F.gelu(z + b.to(dtype)).float()).to(dtype),
    }
    rounded = ", bfloat16" if dtype == torch.bfloat16 else ""
    return f"bias, gelu, layer norm, {rows} x {width}{rounded}", inputs, each, (0, 1)


def cases() -> list[Case]:
    """Name, inputs, alternatives, and which inputs need gradients."""
    found: list[Case] = []
    small = () if GPU else ((2, 1, 28),)
    for n, channels, side in (*TARGETS, *OTHERS) if GPU else small:

        def images_and_maps(n: int = n, c: int = channels, side: int = side) -> tuple[Tensor, ...]:
            images = torch.rand(n, c, side, side, device=DEVICE)
            return images, affine_exp(0.2 * torch.randn(n, 6, device=DEVICE))[:, :2].contiguous()

        target = (n, channels, side) in (*TARGETS, *small)
        for mode in ("bilinear", "bicubic", "bspline") if target else ("bilinear",):
            what = f"{mode} warp, {n} x {channels} x {side} x {side}"
            each = warps(mode, n, side)
            found.append((f"{what}, to the map", images_and_maps, each, (1,)))
            if n < 40_000:
                found.append((f"{what}, to both", images_and_maps, each, (0, 1)))
    for n in (1024, 65_536, 4_194_304) if GPU else (4,):
        found += matrices(n)
    sizes = ((128, 256), (2560, 256), (5120, 2048), (163_840, 256)) if GPU else ((8, 256),)
    for rows, width in sizes:
        found.append(norms(rows, width, torch.float32))
    for rows, width in sizes[1:3] if GPU else sizes:
        found.append(norms(rows, width, torch.bfloat16))
    for n in (128, 2560, 1_048_576) if GPU else (4,):
        spline: Function = lambda x, p: rational_quadratic(x, p, 3.0)  # noqa: E731
        found.append(
            (
                f"spline of 6 bins, 3 x {n}",
                lambda n=n: (
                    6 * torch.rand(3, n, device=DEVICE) - 3,
                    torch.randn(17, 3, n, device=DEVICE),
                ),
                {"ours": spline, "torch": plainly(spline)},
                (0, 1),
            )
        )
    return found


def main() -> None:
    """Measure and record; a GPU is needed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most-seconds", type=float, default=1e9, help="begin nothing after")
    parser.add_argument("--cases", nargs="+", default=[""], help="that begin so; all by default")
    parser.add_argument("--anyhow", action="store_true", help="also without a GPU, once each")
    options, began = parser.parse_args(), time.perf_counter()
    if not GPU and not options.anyhow:
        print("needs a GPU")
        return
    speed = bandwidth()
    rows: list[dict[str, Any]] = [{"what": "copy", "GB/s": speed / 1e9}]
    for what, make, functions, wanted in cases():
        if not what.startswith(tuple(options.cases)):
            continue
        if time.perf_counter() - began > options.most_seconds:
            print("out of time before", what, flush=True)
            break
        found = measure(make, functions, wanted)
        for part in ("forward", "both"):
            floor = found[f"{part} bytes"] / speed
            row = {"what": what, "part": part, "floor (us)": 1e6 * floor}
            for name in functions:
                row[f"{name} (us)"] = 1e6 * found[f"{name}, {part}"]
            row["ours over floor"] = found[f"ours, {part}"] / floor
            row["slowest over floor"] = found[f"ours, {part}, slowest"] / floor
            for name in functions:
                if name != "ours":
                    row[f"{name} over ours"] = found[f"{name}, {part}"] / found[f"ours, {part}"]
            rows.append(row)
            print(row, flush=True)
        record(f"kernels-{DEVICE}", rows, part=options.cases != [""])  # as they come
        if GPU:
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
