"""How long `discover` takes for its answer: fit, densities and self-test of an orbit posterior.

    python -m benchmarks.orbit_speed                                     # CPU, quick preset
    python -m benchmarks.orbit_speed --cases letters letters-600 --beside 2
    python -m benchmarks.orbit_speed --device cuda --cases letters cifar10 colour-64 --data FOLDER

Pictures are letters of the planted benchmark, which need no files, or CIFAR-10 in a round window,
all of them turned by a known law. With ``--beside`` so many processes measure the same case at the
same time, and once more one of them alone: what a run costs beside others. Wall and processor time
of a process are stored, and what was found.
"""

import argparse
import math
import multiprocessing
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from benchmarks.common import record
from benchmarks.planted.planting import plant, round_window
from torch import Tensor
from torch.nn.functional import interpolate

from symmetries.actions import ImageAction
from symmetries.data import load
from symmetries.groups import Affine2, parse_group
from symmetries.learners.orbit_posterior import OrbitPosterior


@dataclass(frozen=True)
class Case:
    """One fit.

    Args:
        content: of the pictures.
        count: of them.
        size: pixels per side.
        half: half-width of the uniform law of turns, in degrees.
        drawn: pixels per side that they are drawn with, and enlarged from.
    """

    content: str
    count: int
    size: int
    half: float
    drawn: int | None = None


CASES = {
    "letters": Case("letters", 6000, 28, 60),
    "letters-600": Case("letters", 600, 28, 60),
    "letters-1000": Case("letters", 1000, 24, 60),
    "colour-64": Case("coloured letters", 2000, 64, 45),
    "colour-224": Case("coloured letters", 2000, 224, 45, 56),
    "small-8": Case("letters", 2000, 8, 45),
    "cifar10": Case("cifar10", 46_000, 32, 45),
}


def pictures(case: Case, device: str, folder: str | None) -> Tensor:
    """The turned pictures (N, C, H, W)."""
    half = math.radians(case.half)
    if case.content == "cifar10":
        x = load("cifar10", "train", folder).images[: case.count]
        generator = torch.Generator().manual_seed(case.count)
        angle = half * (2 * torch.rand(len(x), 1, generator=generator) - 1)
        group = Affine2("rotation")
        act = ImageAction(group, interpolation="bicubic", padding="reflect")
        parts = zip(angle.split(4096), x.split(4096), strict=True)
        turned = [act(group.exp(a.to(device)), part.to(device)).cpu() for a, part in parts]
        return torch.cat(turned).clamp(0, 1) * round_window(case.size)
    drawn = plant(case.content, case.drawn or case.size, case.count, {"rotation": half}, case.count)
    if case.drawn is None:
        return drawn.images
    return interpolate(drawn.images, [case.size] * 2, mode="bicubic").clamp(0, 1)


def measure(case: Case, images: Tensor, preset: str, device: str) -> dict[str, Any]:
    """One fit and its summary."""
    shape: Any = tuple(images.shape[1:])
    model = OrbitPosterior(ImageAction(parse_group("rotation")), shape, preset)
    wall, worked = time.perf_counter(), time.process_time()
    history = model.fit(images, device=device, progress=False)
    fitted = time.perf_counter() - wall
    summary = model.summary(images)
    found = summary["rotation"]
    return {
        **asdict(case),
        "preset": preset,
        "device": device,
        "seconds": round(time.perf_counter() - wall, 1),
        "fit_seconds": round(fitted, 1),
        "processor_seconds": round(time.process_time() - worked, 1),
        "steps": history.step[-1],
        "steps_per_second": round(history.step[-1] / fitted, 1),
        "gpu_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2) if device != "cpu" else None,
        "width90": round(found.width90, 2),
        "interval": [round(end, 2) for end in found.interval],
        "expected": 1.8 * case.half,
        "verdict": found.verdict,
        "warnings": list(summary.warnings),
    }


def _one_of(ready: Any, results: Any, arguments: tuple[Any, ...]) -> None:  # noqa: ANN401
    """What each of several processes does: all of them start to measure together."""
    ready.wait()
    results.put(measure(*arguments))


def beside(number: int, *arguments: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - of measure
    """The rows of as many processes that measure at the same time."""
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(number), context.Queue()
    own = [context.Process(target=_one_of, args=(ready, results, arguments)) for _ in range(number)]
    for process in own:
        process.start()
    rows = [results.get() for _ in own]
    for process in own:
        process.join()
    return [{**row, "beside": number} for row in rows]


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=["colour-64"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--preset", help="quick on a CPU, default on a GPU")
    parser.add_argument("--beside", type=int, nargs="+", default=[], help="numbers of processes")
    parser.add_argument("--data", help="folder of CIFAR-10")
    parser.add_argument("--store", default="", help="ending of the name of the stored file")
    options = parser.parse_args()
    preset = options.preset or ("quick" if options.device == "cpu" else "default")
    kind = "orbit_speed" + ("" if options.device == "cpu" else "_gpu") + options.store
    rows: list[dict[str, Any]] = []
    for name in options.cases:
        images = pictures(CASES[name], options.device, options.data)
        for number in [1, *options.beside] if options.beside else [0]:
            given = (CASES[name], images, preset, options.device)
            rows += beside(number, *given) if number else [measure(*given)]
            print(rows[-1], flush=True)
            record(kind, rows)


if __name__ == "__main__":
    main()
