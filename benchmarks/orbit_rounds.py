"""How the answer of an orbit posterior settles over rounds of training, on planted truths.

    python -m benchmarks.orbit_rounds --cells letters-60 letters-60-shifts --plans growing equal

For each cell and plan one fit is trained round after round, longer than it would be. After every
round the held-out loss, the calibrated width of the pictures that the fit has not seen and the
processor seconds so far are stored: what a rule that ends training would have seen and saved.
"""

import argparse
import math
import time
from dataclasses import replace
from typing import Any

import torch
from benchmarks.common import record
from benchmarks.planted.planting import plant

from symmetries.actions import ImageAction
from symmetries.groups import parse_group
from symmetries.learners.orbit_posterior import OrbitConfig, OrbitPosterior
from symmetries.learners.orbit_posterior.calibrating import read_sets
from symmetries.learners.orbit_posterior.fitting import Fit, _find_reach, fit_round, shrunk
from symmetries.learners.orbit_posterior.frames import find_frame
from symmetries.learners.orbit_posterior.verdicts import told
from symmetries.training.step import mix

PLANS = {
    "growing": (450, 450, 900, 1800),
    "equal": (900, 900, 900),
}
# Content, pixels, pictures, half-widths planted, group.
CELLS: dict[str, tuple[str, int, int, dict[str, float], str]] = {
    "letters-60": ("letters", 28, 2000, {"rotation": math.radians(60)}, "rotation"),
    "letters-60-few": ("letters", 28, 400, {"rotation": math.radians(60)}, "rotation"),
    "letters-still": ("letters", 28, 2000, {}, "rotation"),
    "fashion-45": ("fashion", 28, 3000, {"rotation": math.radians(45)}, "rotation"),
    "letters-shifts": (
        "letters",
        24,
        1000,
        {"shift_x": 0.2, "shift_y": 0.2},
        "shift_x,shift_y",
    ),
    "letters-zoom": ("letters", 28, 2000, {"zoom": 0.2}, "zoom"),
    "letters-60-shifts": (
        "letters",
        24,
        1000,
        {"rotation": math.radians(60), "shift_x": 0.2, "shift_y": 0.2},
        "rotation,shift_x,shift_y",
    ),
    "letters-60-shifts-many": (
        "letters",
        24,
        4000,
        {"rotation": math.radians(60), "shift_x": 0.2, "shift_y": 0.2},
        "rotation,shift_x,shift_y",
    ),
}


def measure(name: str, plan: str, preset: str, device: str, folder: str | None) -> list[Any]:
    """One row for each round."""
    content, size, count, planted, group = CELLS[name]
    images = plant(content, size, count, planted, f"rounds-{name}", folder).images
    config = OrbitConfig.preset(preset)
    model = OrbitPosterior(ImageAction(parse_group(group)), tuple(images.shape[1:]), config)
    small = shrunk(images, config.network.largest)
    model.levels = (float(small.mean()), float(small.std()))
    model.frame = find_frame(small, 0.0)
    model.fold_count = 2
    model.rebuild(model.chart)
    folds = model.folds(len(small))
    rest, unseen = small[folds != 0], small[folds == 0][:512]
    run = {"device": device, "progress": False}
    _find_reach(model, small, folds, run)
    model.rebuild(model.chart)
    fit = Fit(model, model.fits[0], 0, rest, run, "rounds")
    rows: list[Any] = []
    worked, best = time.process_time(), 0.0
    for number, steps in enumerate(PLANS[plan]):
        recipe = replace(config.training, steps=steps)
        seed = mix(0, 0, number)
        best_before = best
        _, loss, overfits = fit_round(
            model, fit.network, *fit.split, recipe, run, "r", seed, best_before
        )
        best = min(best, loss)
        seconds = time.process_time() - worked
        densities, sets = read_sets(model, fit.network, unseen, 0)
        widths = {}
        for density, own in zip(densities, sets, strict=True):
            chosen = told(density.widths(), config.reading, density.cell)
            side, coordinate = max(images.shape[2:]), density.coordinate
            widths[coordinate.name] = round(coordinate.display(own[chosen].width(), side)[0], 3)
        truth = {
            c.name: round(c.display(1.8 * planted.get(c.name, 0.0), max(images.shape[2:]))[0], 3)
            for c in model.chart.coordinates
        }
        rows.append(
            {
                "cell": name,
                "plan": plan,
                "preset": preset,
                "device": device,
                "round": number,
                "steps": steps,
                "loss": round(loss, 4),
                "rise": round(best_before - loss, 4),
                "overfits": overfits,
                "widths": widths,
                "planted": truth,
                "processor_seconds": round(seconds, 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--plans", nargs="+", choices=list(PLANS), default=["growing"])
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", help="folder of data files")
    parser.add_argument("--store", default="", help="ending of the name of the stored file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[Any] = []
    for cell in options.cells:
        for plan in options.plans:
            rows += measure(cell, plan, options.preset, options.device, options.data)
            record("orbit_rounds" + options.store, rows)


if __name__ == "__main__":
    main()
