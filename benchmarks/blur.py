"""Gaussian blur with its gradient against kornia's and against depthwise convolutions in torch.

Target: never slower. The floor is the time to move the bytes once, forward and backward.
``--processor-time``: on one thread, which a busy machine disturbs less.

    python benchmarks/blur.py [--processor-time]
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.ops.gaussian_blur import gaussian_blur

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record, seconds_to_move, wanted_clock

CASES = (  # shape, sigma in half images
    ((1, 1, 28, 28), 0.1),
    ((256, 1, 28, 28), 0.1),
    ((2560, 1, 28, 28), 0.1),
    ((64, 3, 64, 64), 0.03),
    ((64, 3, 64, 64), 0.1),
    ((8, 3, 224, 224), 0.01),
    ((8, 3, 224, 224), 0.1),
)


def taps_of(images: Tensor, sigma: float) -> tuple[float, int]:
    """Standard deviation and radius in pixels."""
    pixels = sigma * max(images.shape[-2:]) / 2
    return pixels, min(round(3 * pixels + 0.5), min(images.shape[-2:]) - 1)


def by_torch(images: Tensor, sigma: float) -> Tensor:
    """One depthwise convolution along each axis."""
    pixels, radius = taps_of(images, sigma)
    offsets = torch.arange(-radius, radius + 1, device=images.device)
    taps = torch.exp(-0.5 * (offsets / pixels) ** 2)
    taps = taps / taps.sum()
    channels = images.shape[1]
    wide = F.pad(images, (radius,) * 4, mode="reflect")
    columns = taps.view(1, 1, -1, 1).expand(channels, 1, -1, 1)
    rows = taps.view(1, 1, 1, -1).expand(channels, 1, 1, -1)
    return F.conv2d(F.conv2d(wide, columns, groups=channels), rows, groups=channels)


def by_kornia() -> Callable[[Tensor, float], Tensor] | None:
    """Kornia's, where it is installed."""
    try:
        from kornia.filters import gaussian_blur2d
    except ImportError:
        return None

    def run(images: Tensor, sigma: float) -> Tensor:
        pixels, radius = taps_of(images, sigma)
        size = (2 * radius + 1, 2 * radius + 1)
        return gaussian_blur2d(images, size, (pixels, pixels), border_type="reflect")

    return run


def main() -> None:
    """Measure and record."""
    clock, clock_name = wanted_clock(__doc__)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    functions = {"ours": gaussian_blur, "torch": by_torch, "kornia": by_kornia()}
    rows = []
    for shape, sigma in CASES:
        images = torch.rand(shape, device=device, requires_grad=True)
        weight = torch.rand(shape, device=device)
        repeat = max(1, 20_000 // images.numel())

        def step(function: Any, inputs: Any = (images, sigma, weight, repeat)) -> None:  # noqa: ANN401
            x, sigma, w, times = inputs
            for _ in range(times):
                torch.autograd.grad(function(x, sigma), x, w)

        calls = {name: lambda f=f, step=step: step(f) for name, f in functions.items() if f}
        times = {name: t / repeat for name, t in medians(interleaved(calls, 7, clock)).items()}
        floor = seconds_to_move(4 * 4 * images.numel(), device)
        row: dict[str, Any] = {"shape": " x ".join(map(str, shape)), "sigma": sigma}
        row |= {f"{name} (ms)": 1e3 * t for name, t in times.items()}
        row |= {
            f"{name} over ours": t / times["ours"] for name, t in times.items() if name != "ours"
        }
        row |= {"floor (ms)": 1e3 * floor, "clock": clock_name}
        rows.append(row)
        print(row)
    record(f"blur-{device}", rows)


if __name__ == "__main__":
    main()
