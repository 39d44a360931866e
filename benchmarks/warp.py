"""Image warps with their gradients against affine_grid + grid_sample, kornia and four taps by hand.

Target on two CPU cores: a bilinear warp of 2,560 images of 28 x 28 with backward at least 1.8x
faster than affine_grid + grid_sample, no case slower. Ratios scatter by about 20 % from run to run;
with OMP_WAIT_POLICY=PASSIVE they are lower, and the small batch of 128 was once half as fast. The
floor is the time to move the bytes once: images read and written forwards, images and gradient read
and a gradient written backwards. ``--few``: few images, where the calls themselves cost, by
processor time on one thread, which a busy machine disturbs less.

    python benchmarks/warp.py [--few]
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.ops.affine_exp import affine_exp
from symmetries.ops.warp import Interpolation, warp

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record, seconds_to_move
from kernels_cuda import naive_warp

CASES = (
    (2560, 1, 28, "bilinear"),
    (2560, 1, 28, "bicubic"),
    (512, 3, 64, "bilinear"),
    (512, 3, 64, "bicubic"),
    (128, 1, 28, "bilinear"),
    (32, 3, 224, "bilinear"),
    (8, 1, 28, "bilinear"),
    (32768, 1, 28, "bilinear"),
)
FEW = tuple((n, 1, 28, mode) for n in (1, 2, 4, 8, 32) for mode in ("bilinear", "bicubic"))

Warp = Callable[[Tensor, Tensor], Tensor]


def with_torch(mode: Interpolation) -> Warp:
    """affine_grid and grid_sample."""

    def run(images: Tensor, theta: Tensor) -> Tensor:
        grid = F.affine_grid(theta, list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, mode=mode, align_corners=False)

    return run


def with_kornia(mode: Interpolation) -> Warp | None:
    """Kornia's warp_affine, where it is installed."""
    try:
        from kornia.geometry.transform import warp_affine
    except ImportError:
        return None

    def run(images: Tensor, theta: Tensor) -> Tensor:
        height, width = images.shape[-2:]
        return warp_affine(images, theta, (height, width), mode=mode)

    return run


def ours(mode: Interpolation) -> Warp:
    """This library."""
    return lambda images, theta: warp(images, theta, interpolation=mode)


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--few", action="store_true", help="few images, by processor time")
    few = parser.parse_args().few
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if few:
        torch.set_num_threads(1)
    clock, repeat = (time.process_time, 20) if few else (time.perf_counter, 1)
    rows = []
    for n, channels, side, mode in FEW if few else CASES:
        images = torch.rand(n, channels, side, side, device=device, requires_grad=True)
        theta = affine_exp(0.2 * torch.randn(n, 6, device=device))[:, :2].requires_grad_()
        weight = torch.randn(n, channels, side, side, device=device)
        functions = {"torch": with_torch(mode), "kornia": with_kornia(mode), "ours": ours(mode)}
        functions["naive"] = naive_warp if mode == "bilinear" and n < 10_000 else None

        def step(
            function: Warp, images: Tensor = images, theta: Tensor = theta, w: Tensor = weight
        ) -> None:
            for _ in range(repeat):
                torch.autograd.grad(function(images, theta), (images, theta), w)

        calls = {name: lambda f=f: step(f) for name, f in functions.items() if f is not None}
        times = medians(interleaved(calls, 31 if n < 10_000 else 7, clock))
        times = {name: t / repeat for name, t in times.items()}
        floor = seconds_to_move(5 * 4 * images.numel(), device)
        row = {"n": n, "channels": channels, "side": side, "mode": mode}
        row |= {f"{name} (ms)": 1e3 * t for name, t in times.items()}
        row |= {
            f"{name} over ours": t / times["ours"] for name, t in times.items() if name != "ours"
        }
        row |= {"floor (ms)": 1e3 * floor, "ours over floor": times["ours"] / floor}
        rows.append(row)
        print(row)
    record(f"warp{'_few' if few else ''}-{device}", rows)


if __name__ == "__main__":
    main()
