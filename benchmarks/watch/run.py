"""Planted changes of streams of pictures: alarm, name, size, delay; and false alarms.

``python -m benchmarks.watch.run digits`` (a name or a folder of data, any grey or colour pictures)
splits the pictures into a reference and streams, plants a change into each stream at a known time
by code of Pillow, not of this package, and counts. ``--streams`` per change; results go to
benchmarks/watch/results.json, with the commit and the machine. False alarms are counted on streams
that are drawn with replacement from the held-out pictures, as long as ``--length`` says.
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.common import environment
from PIL import Image, ImageFilter
from torch import Tensor

from symmetries.data import load
from symmetries.monitoring import ExchangeabilityTest, Watcher
from symmetries.monitoring.watcher import _bins

BEFORE, AFTER = 300, 500
FILE = Path(__file__).parent / "results.json"


def by_pillow(change: Callable[[Image.Image], Image.Image]) -> Callable[[Tensor], Tensor]:
    """A change of single pictures as one of a batch (n, C, H, W)."""

    def changed(x: Tensor) -> Tensor:
        rows = []
        for picture in x:
            planes = [np.asarray(change(Image.fromarray(plane.numpy()))) for plane in picture]
            rows.append(torch.from_numpy(np.stack(planes)))
        return torch.stack(rows).clamp(0, 1)

    return changed


def affine(turn: float = 0.0, zoom: float = 1.0, x: float = 0.0, y: float = 0.0) -> Any:  # noqa: ANN401
    """A motion of pictures by Pillow with bicubic weights: degrees, a factor, pixels."""

    def change(picture: Image.Image) -> Image.Image:
        cos, sin = math.cos(math.radians(turn)) / zoom, math.sin(math.radians(turn)) / zoom
        middle = (picture.width / 2, picture.height / 2)
        a, b, c, d = cos, -sin, sin, cos  # from the new place to the old one, rows downwards
        shift = (
            middle[0] - a * (middle[0] + x) - b * (middle[1] - y),
            middle[1] - c * (middle[0] + x) - d * (middle[1] - y),
        )
        kind, how = Image.Transform.AFFINE, Image.Resampling.BICUBIC
        return picture.transform(picture.size, kind, (a, b, shift[0], c, d, shift[1]), how)

    return by_pillow(change)


def cases(side: int) -> dict[str, tuple[Callable[[Tensor], Tensor], str, str, float]]:
    """Changes: what is done, the name, the parameter, the true amount."""
    pixels = side / 16
    rng = torch.Generator().manual_seed(0)
    return {
        "turn 7": (affine(turn=7), "rotation", "rotation", 7.0),
        "turn -12": (affine(turn=-12), "rotation", "rotation", -12.0),
        "shift right": (affine(x=pixels), "shift", "shift_x", pixels),
        "shift up": (affine(y=pixels), "shift", "shift_y", pixels),
        "zoom in": (affine(zoom=1.12), "zoom", "zoom", 1.12),
        "zoom out": (affine(zoom=0.9), "zoom", "zoom", 0.9),
        "darker": (lambda x: 0.8 * x, "value", "value", 0.8),
        "noise": (
            lambda x: (x + 0.1 * torch.randn(x.shape, generator=rng)).clamp(0, 1),
            "none of these",
            "",
            0.0,
        ),
        "mirrored": (lambda x: x.flip(-1), "none of these", "", 0.0),
        "blurred": (
            by_pillow(lambda p: _floats(_bytes(p).filter(ImageFilter.GaussianBlur(1)))),
            "blur",
            "blur",
            1.0,
        ),
    }


def _bytes(picture: Image.Image) -> Image.Image:
    return picture.point(lambda value: value * 255).convert("L")


def _floats(picture: Image.Image) -> Image.Image:
    return picture.convert("F").point(lambda value: value * (1 / 255))


def planted(watcher: Watcher, x: Tensor, streams: int, scratch: Path) -> list[dict[str, Any]]:
    """One row for each stream: alarm, delay, name, size."""
    watcher.save(scratch)
    rows = []
    generator = torch.Generator().manual_seed(1)
    for case, (change, name, parameter, size) in cases(max(x.shape[-2:])).items():
        for _ in range(streams):
            one = Watcher.load(scratch)
            chosen = x[torch.randperm(len(x), generator=generator)[: BEFORE + AFTER]]
            before, after = chosen[:BEFORE], change(chosen[BEFORE:])
            early, delay = one.update(before).alarm, None
            for part in after.split(5):
                found = one.update(part)
                if found.alarm and delay is None:
                    delay = found.number - BEFORE
            said = found.change
            value = said.parameters.get(parameter) if said is not None else None
            row = {"case": case, "truth": name, "size": size, "early": early, "delay": delay}
            row |= {"since": found.since, "name": None if said is None else said.name}
            row |= {"found": None if value is None else [round(v, 3) for v in value[:3]]}
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def false_alarms(watcher: Watcher, x: Tensor, streams: int, length: int) -> dict[str, Any]:
    """Streams in which nothing happens: the share with an alarm.

    Held-out items and streams are drawn from the same pictures, so that they are exchangeable.
    """
    with torch.no_grad():
        bins = _bins(watcher.reader(x), watcher.edges)
    rng = np.random.default_rng(2)
    scores = bins.shape[1]

    def drawn() -> Any:  # noqa: ANN401 - of one picture for each stream: (streams * scores,)
        return bins[rng.integers(len(bins), size=streams)].reshape(-1)

    held_out = np.stack([drawn() for _ in range(500)])
    # One test of streams x scores processes, each of which is that of a test of its own.
    test = ExchangeabilityTest(held_out, watcher.test.counts.shape[1], seed=0)
    for _ in range(length):
        test.update(drawn())
    alarms = (test.peak.reshape(streams, scores) >= watcher.test.limit).any(1)
    return {"streams": streams, "length": length, "alarms": int(alarms.sum())}


def main() -> None:
    """Run, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--streams", type=int, default=3)
    parser.add_argument("--null", type=int, default=20)
    parser.add_argument("--length", type=int, default=2000)
    parser.add_argument("--most", type=int, default=6000)
    options = parser.parse_args()
    x = load(options.data, folder=options.folder).images
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))][: options.most]
    reference, rest = x[: len(x) // 2], x[len(x) // 2 :]
    started = time.process_time()
    watcher = Watcher.fit(reference)
    fitting = time.process_time() - started
    with tempfile.TemporaryDirectory() as scratch:
        rows = planted(watcher, rest, options.streams, Path(scratch))
    null = false_alarms(watcher, rest, options.null, options.length)
    started = time.process_time()
    watcher.update(rest[:1000])
    speed = min(1000, len(rest)) / (time.process_time() - started)
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    stored[options.data] = {
        "reference": len(reference),
        "fit_seconds": round(fitting, 1),
        "pictures_per_second": round(speed),
        "right": sum(row["name"] == row["truth"] for row in rows),
        "streams": len(rows),
        "false alarms": null,
        "rows": rows,
        "run": environment(),
    }
    FILE.write_text(json.dumps(stored, indent=1) + "\n")
    print({k: v for k, v in stored[options.data].items() if k not in ("rows", "run")})


if __name__ == "__main__":
    main()
