"""Does anything but content tell a move? Random fields that have every pose must give no gain.

    python -m benchmarks.planted.leaks                              # small: minutes on a CPU
    python -m benchmarks.planted.leaks --cases all --device cuda    # sizes up to 128

On a GPU there are more fields and steps, and convolutional networks read all but the smallest.

A stationary, isotropic random field is as likely in every rotation, place and mirror image, and
fields whose hue is uniform as likely in every hue, so that q(r | y) is the uniform law. An orbit
posterior that explains moves of held-out fields better reads them off sharpness, the pixel grid or
the frame. Scales and shears are left out: a field with pixels has a length, which a zoom changes.
A gain is the better of two fits' at the best of ten looks, in nats; at most 0.02 is allowed.
"""

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from benchmarks.common import record
from benchmarks.planted.planting import round_window
from torch import Tensor

from symmetries.actions import ImageAction
from symmetries.actions.colours import ColourAction
from symmetries.groups import parse_group
from symmetries.groups.colour import Colour
from symmetries.learners.orbit_posterior import OrbitConfig, OrbitPosterior
from symmetries.learners.orbit_posterior.config import Network, Training, Views

ALLOWED = 0.02  # nats
COUNT, MANY = 1500, 4000  # fields


@dataclass(frozen=True)
class Case:
    """One fit.

    Args:
        group: that every field has.
        size: pixels per side.
        bits: of each value; None keeps floats.
        interpolation: of the resamplings.
        window: "full" frame, or "round": a disc on black.
        small: whether it is one of those for a CPU.
    """

    group: str
    size: int
    bits: int | None
    interpolation: str
    window: str
    small: bool = True


CASES = (
    Case("rotation", 8, 8, "bilinear", "full"),
    Case("rotation", 12, 1, "bicubic", "full"),
    Case("rotation", 16, None, "bspline", "full"),
    Case("rotation", 16, 8, "bilinear", "round"),
    Case("translation", 16, 8, "bilinear", "full"),
    Case("translation", 24, None, "bspline", "full"),
    Case("translation", 16, 1, "bicubic", "full"),
    Case("flip_x", 16, 8, "bilinear", "full"),
    Case("flip_x", 15, 1, "bicubic", "round"),
    Case("rotation,flip_x", 16, 8, "bilinear", "full"),
    Case("hue", 16, 8, "bilinear", "full"),
    Case("rotation", 24, 1, "bspline", "round"),
    Case("rotation", 32, 8, "bicubic", "round"),
    Case("rotation", 32, None, "bilinear", "full"),
    Case("rotation", 64, 8, "bilinear", "round", small=False),
    Case("rotation", 64, 1, "bicubic", "full", small=False),
    Case("rotation", 128, 8, "bspline", "full", small=False),
    Case("rotation", 128, None, "bilinear", "round", small=False),
    Case("translation", 64, 8, "bicubic", "full", small=False),
    Case("translation", 128, 8, "bilinear", "full", small=False),
    Case("flip_x", 64, None, "bspline", "full", small=False),
    Case("rotation,flip_x", 64, 8, "bspline", "full", small=False),
    Case("rotation,translation", 64, 8, "bilinear", "full", small=False),
    Case("hue", 64, None, "bilinear", "full", small=False),
)


def rough_fields(
    count: int, size: int, bits: int | None = 8, seed: int = 0, device: str = "cpu"
) -> Tensor:
    """Isotropic fields (N, 1, S, S) with structure down to two pixels, averaged over pixels.

    The spectrum is cut at half a cycle a pixel, and read on a grid three times as fine. They are
    drawn on ``device``, each kind of which draws its own, and returned on the CPU.
    """
    generator = torch.Generator(device).manual_seed(seed)
    frequency = torch.fft.fftfreq(size * 6, device=device) * 3
    radius = torch.hypot(frequency[:, None], frequency[None])
    amplitude = torch.where(radius < 0.5, 1 / (radius + 0.06), 0.0)
    parts = []
    for start in range(0, count, 250):
        shape = (min(250, count - start), size * 6, size * 6)
        noise = torch.randn(shape, generator=generator, device=device)
        field = torch.fft.ifft2(torch.fft.fft2(noise) * amplitude).real
        field = field[:, None, : 3 * size, : 3 * size]
        parts.append(torch.nn.functional.avg_pool2d(field, 3).cpu())
    x = torch.cat(parts)
    x = (0.5 + 0.18 * (x - x.mean()) / x.std()).clamp(0, 1)
    return _rounded(x, bits)


def pictures(case: Case, count: int, seed: int = 0, device: str = "cpu") -> Tensor:
    """Fields (N, C, S, S) that have every element of the case's group."""
    x = rough_fields(count, case.size, None, seed, device)
    if case.group == "hue":
        generator = torch.Generator().manual_seed(seed + 1)
        x = torch.cat((x, 1 - x, x.flip(-1)), 1)
        angle = 2 * torch.pi * torch.rand(count, 1, generator=generator)
        group = Colour("hue")
        x = ColourAction(group)(group.exp(angle), x)
    x = _rounded(x, case.bits)
    return x * round_window(case.size) if case.window == "round" else x


def _rounded(x: Tensor, bits: int | None) -> Tensor:
    return x if bits is None else (x * (2**bits - 1)).round() / (2**bits - 1)


def gain(
    images: Tensor,
    group: str = "rotation",
    interpolation: Any = "bilinear",  # noqa: ANN401 - a literal
    *,
    steps: int = 300,
    network: Network | None = None,
    views: Views | None = None,
    device: str = "cpu",
) -> float:
    """Nats over chance on held-out pictures: the better of two fits.

    Args:
        images: (N, C, H, W).
        group: name of the moves.
        interpolation: of the resamplings.
        steps: of each fit.
        network: a small fully connected one by default.
        views: how pictures are shown; as always by default.
        device: of the fits.
    """
    config = OrbitConfig(
        bins=36,
        check=False,
        folds=2,
        views=views or Views(),
        network=network or Network(kind="mlp", features=96, largest=images.shape[-1]),
        training=Training(steps=steps, rounds=1, batch_size=256),
    )
    action = ImageAction(parse_group(group), interpolation=interpolation)
    model = OrbitPosterior(action, tuple(images.shape[1:]), config)
    model.fit(images, device=device, progress=False)
    return max(model.gains)


def measure(case: Case, device: str, steps: int, count: int) -> dict[str, Any]:
    """One row of the table."""
    worked = time.process_time()
    images = pictures(case, count, device=device)
    network = None
    if device != "cpu":
        network = Network(kind="auto", largest=case.size)
    found = gain(
        images, case.group, case.interpolation, steps=steps, network=network, device=device
    )
    plain = asdict(case)
    del plain["small"]
    seconds = round(time.process_time() - worked, 1)
    settings = {"count": count, "steps": steps, "network": "mlp" if network is None else "auto"}
    return {**plain, **settings, "gain": round(found, 5), "processor_seconds": seconds}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| group | pixels | bits | interpolation | window | gain, nats |", "| --- " * 6 + "|"]
    for row in rows:
        bits = "float" if row["bits"] is None else row["bits"]
        cells = (row["group"], row["size"], bits, row["interpolation"], row["window"])
        lines.append("| " + " | ".join(map(str, cells)) + f" | {row['gain']:.4f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", choices=("small", "large", "all"), default="small")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, help="of each fit: 300 on a CPU, 1,500 on a GPU")
    parser.add_argument("--count", type=int, help="fields: 1,500 on a CPU, 4,000 on a GPU")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds: no case after it")
    options = parser.parse_args()
    began = time.monotonic()
    cpu = options.device == "cpu"
    steps = options.steps or (300 if cpu else 1500)
    count = options.count or (COUNT if cpu else MANY)
    name = "leaks" + ("" if cpu else "_gpu") + ("_large" if options.cases == "large" else "")
    rows = []
    for case in CASES:
        if time.monotonic() - began > options.budget:
            print("the budget is spent")
            break
        if options.cases in ("all", "small" if case.small else "large"):
            rows.append(measure(case, options.device, steps, count))
            leaks = " LEAKS" if rows[-1]["gain"] > ALLOWED else ""
            print(f"{case}: {rows[-1]['gain']:.4f}{leaks}", flush=True)
            record(name, rows)
    print(table(rows))


if __name__ == "__main__":
    main()
