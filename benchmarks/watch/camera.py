"""Drawn pictures whose camera moves: nothing is resampled, as by the changes of ``run``.

``python -m benchmarks.watch.camera --out FILE`` draws corners that lean by a normal law, as areas
of pixels: a reference, and streams of 500 by a camera that is turned, moved or nearer. Each stream
is named and measured, as after an alarm.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.common import environment
from torch import Tensor

from symmetries.monitoring import Watcher

FINE = 4  # samples of a pixel along each axis
COUNT, REFERENCE = 500, 1000
SIDES, LEAN = (16, 28), 11.0
CHANGES: dict[str, tuple[dict[str, float], str, str]] = {
    "turn 7": ({"turn": 7.0}, "rotation", "rotation"),
    "turn -12": ({"turn": -12.0}, "rotation", "rotation"),
    "shift right": ({"right": 1 / 16}, "shift", "shift_x"),
    "zoom in": ({"zoom": 1.12}, "zoom", "zoom"),
    "zoom out": ({"zoom": 0.9}, "zoom", "zoom"),
}


def photographed(
    count: int, seed: int, side: int, turn: float = 0.0, zoom: float = 1.0, right: float = 0.0
) -> Tensor:
    """Corners (count, 1, side, side), seen by a camera that has moved.

    Args:
        count: of pictures.
        seed: of their leans and sizes.
        side: pixels.
        turn: degrees.
        zoom: a factor.
        right: share of the side.
    """
    rng = np.random.default_rng(seed)
    angle = np.deg2rad(rng.normal(turn, LEAN, (count, 1, 1)))
    length, arm = rng.uniform(0.35, 0.6, (count, 1, 1)), rng.uniform(0.2, 0.6, (count, 1, 1))
    thick = rng.uniform(0.06, 0.14, (count, 1, 1))
    axis = (np.arange(FINE * side) * 2 + 1 - FINE * side) / (FINE * side)
    x, y = (axis[None, None] - 2 * right) / zoom, -axis[None, :, None] / zoom
    u, v = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    stem = np.hypot(u, np.clip(np.abs(v) - length, 0, None))
    other = np.hypot(v - length, np.clip(np.abs(u - arm / 2) - arm / 2, 0, None))
    edge = FINE * side * zoom / 2  # samples in a unit of length
    fine = np.clip(0.5 + (thick - np.minimum(stem, other)) * edge, 0, 1)
    pictures = fine.reshape(count, side, FINE, side, FINE).mean((2, 4))
    return torch.from_numpy(pictures).float()[:, None]


def main() -> None:
    """All sides and changes, a row for each stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--streams", type=int, default=6)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for side in SIDES:
        watcher = Watcher.fit(photographed(REFERENCE, 1, side), seed=0)
        for case, (how, name, parameter) in CHANGES.items():
            for stream in range(given.streams):
                with torch.no_grad():
                    seen = watcher.reader.features(photographed(COUNT, 100 + stream, side, **how))
                said = watcher.responses.name(seen)
                size = next(iter(how.values())) * (side if name == "shift" else 1)
                found = said.parameters.get(parameter)
                ends = (
                    None if found is None else [v if v is None else round(v, 3) for v in found[:3]]
                )
                row = {"side": side, "case": case, "truth": name, "size": size}
                rows.append({**row, "name": said.name, "found": ends})
                print(json.dumps(rows[-1]), flush=True)
    stored = {"name": "watch-camera", **environment("cpu"), "rows": rows}
    given.out.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
