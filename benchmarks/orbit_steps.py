"""Time of a training step of an orbit posterior on a GPU, by how many steps are one CUDA graph.

    python -m benchmarks.orbit_steps --device cuda --out FILE

One round of one fit for each alternative, which take turns: every operation launched alone
("eager"), and graphs of so many steps with the preparation of their views. The same seed gives all
of them the same views and batches, so that losses agree but for rounding. Where a network has
learned nothing yet, rounding decides when it begins to, so that some losses on the way are stored.
"""

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.common import environment
from benchmarks.planted.planting import plant

from symmetries.actions import ImageAction
from symmetries.groups import parse_group
from symmetries.learners.orbit_posterior import OrbitConfig, OrbitPosterior, rounds

TURN = {"rotation": math.radians(45)}
# Content, pixels, what is planted, group, preset.
CASES: dict[str, tuple[str, int, dict[str, float], str, str]] = {
    "quick, rotation": ("letters", 24, TURN, "rotation", "quick"),
    "quick, affine": ("hearts", 24, TURN, "affine", "quick"),
    "quick, hue and rotation": ("coloured letters", 24, TURN, "hue,rotation", "quick"),
    "quick, rotation and flip": ("letters", 24, TURN, "rotation,flip_x", "quick"),
    "default, rotation": ("coloured letters", 32, TURN, "rotation", "default"),
    "default, shifts": ("letters", 28, {"shift_x": 0.2}, "translation", "default"),
}
ALTERNATIVES = ("eager", 1, 4, 8)

KEPT = ("loss_at_a_quarter", "loss_at_half", "last_loss", "held_out")


def kept_losses(losses: list[float]) -> list[float]:
    """A few of the losses along a training, and that of held-out pictures, which comes last."""
    *seen, held_out = losses
    found = [seen[len(seen) // 4], seen[len(seen) // 2], seen[-1], held_out]
    return [round(value, 4) for value in found]


def measure(
    case: str, steps: int, pictures: int, repeats: int, device: str, alternatives: tuple[Any, ...]
) -> list[Any]:
    """One row for each alternative."""
    content, size, planted, group, preset = CASES[case]
    images = plant(content, size, pictures, planted, f"steps-{case}").images
    config = OrbitConfig.preset(preset)
    config = replace(config, training=replace(config.training, steps=steps))
    shape: Any = tuple(images.shape[1:])
    found: dict[Any, list[float]] = {alternative: [] for alternative in alternatives}
    losses: dict[Any, list[float]] = {}
    for _ in range(repeats):
        for alternative in alternatives:
            model = OrbitPosterior(ImageAction(parse_group(group)), shape, config).to(device)
            small = model.seen(images).to(device)
            rounds.STEPS = 8 if alternative == "eager" else int(alternative)
            run = {"device": device, "progress": False, "log_every": 8}
            run["graph"] = "off" if alternative == "eager" else "auto"
            kept, held = rounds.split_held_out(small, 0.15, 0)
            start = time.perf_counter()
            recipe = config.training
            how = (model, model.fits[0], kept, held, recipe, run, "steps", 3)
            history, loss, _ = rounds.fit_round(*how)
            if device != "cpu":
                torch.cuda.synchronize()
            found[alternative].append(time.perf_counter() - start)
            losses[alternative] = [*history["loss"], loss]
    return [
        {
            "case": case,
            "steps_as_one": alternative,
            "steps": steps,
            "milliseconds_per_step": round(1000 * min(times) / steps, 3),
            "each": [round(1000 * each / steps, 3) for each in times],
            **dict(zip(KEPT, kept_losses(losses[alternative]), strict=True)),
        }
        for alternative, times in found.items()
    ]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=480)
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--graphs", nargs="+", type=int, help="steps of a graph; all by default")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows: list[Any] = []
    for case in options.cases:
        alternatives = tuple(options.graphs or ALTERNATIVES)
        how = (options.steps, options.pictures, options.repeats, options.device)
        rows += measure(case, *how, alternatives)
        for row in rows[-len(alternatives) :]:
            print(row, flush=True)
        result = {"name": "orbit_steps", **environment(options.device), "rows": rows}
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
