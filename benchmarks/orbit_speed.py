"""How long `discover` takes for its answer: fit, densities and self-test of an orbit posterior.

    python -m benchmarks.orbit_speed                                   # CPU, quick preset
    python -m benchmarks.orbit_speed --device cuda --counts 600 6000 46000 --size 32 --twice

Pictures are coloured letters of the planted benchmark, turned by up to 45 degrees: no files are
needed. Wall and processor time of this process are stored, and what was found.
"""

import argparse
import math
import time
from typing import Any

import torch
from benchmarks.common import record
from benchmarks.planted.planting import plant

from symmetries.actions import ImageAction
from symmetries.groups import parse_group
from symmetries.learners.orbit_posterior import OrbitPosterior

HALF = math.radians(45)


def measure(count: int, size: int, preset: str, device: str) -> dict[str, Any]:
    """One fit and its summary."""
    images = plant("coloured letters", size, count, {"rotation": HALF}, seed=count).images
    model = OrbitPosterior(ImageAction(parse_group("rotation")), (3, size, size), preset)
    wall, worked = time.perf_counter(), time.process_time()
    history = model.fit(images, device=device, progress=False)
    fitted = time.perf_counter() - wall
    found = model.summary(images)["rotation"]
    return {
        "count": count,
        "size": size,
        "preset": preset,
        "device": device,
        "seconds": round(time.perf_counter() - wall, 1),
        "fit_seconds": round(fitted, 1),
        "processor_seconds": round(time.process_time() - worked, 1),
        "steps": history.step[-1],
        "width90": round(found.width90, 2),
        "interval": [round(end, 2) for end in found.interval],
        "expected": 81.0,
        "verdict": found.verdict,
    }


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--counts", type=int, nargs="+", default=[2000])
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--preset", help="quick on a CPU, default on a GPU")
    parser.add_argument("--twice", action="store_true", help="the first size once more, warm")
    options = parser.parse_args()
    preset = options.preset or ("quick" if options.device == "cpu" else "default")
    counts = options.counts + (options.counts[:1] if options.twice else [])
    rows = []
    for count in counts:
        rows.append(measure(count, options.size, preset, options.device))
        print(rows[-1], flush=True)
    record("orbit_speed" if options.device == "cpu" else "orbit_speed_gpu", rows)
    if options.device != "cpu":
        print(f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB at most")


if __name__ == "__main__":
    main()
