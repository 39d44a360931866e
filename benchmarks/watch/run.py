"""Planted changes of streams of pictures: alarm, name, size, delay; and false alarms.

``python -m benchmarks.watch.run digits`` (a name or a folder of data, any grey or colour pictures)
splits the pictures into a reference and streams, plants a change into each stream at a known time
by code of Pillow, not of this package, and counts. ``--streams`` per change; results go to
benchmarks/watch/results, with the commit and the machine. False alarms are counted on streams
that are drawn with replacement from the held-out pictures, as long as ``--length`` says.
``--null-only`` counts these alone, ``--seed`` draws others.
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

from symmetries.data import ImageSet, load
from symmetries.monitoring import ExchangeabilityTest, Watcher
from symmetries.monitoring.watcher import _bins

BEFORE, AFTER = 300, 500
FOLDER = Path(__file__).parent / "results"


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


def other_hue(x: Tensor) -> Tensor:
    """Pictures whose hue is turned by 24 degrees: 17 of Pillow's 255 steps."""
    rows = []
    for picture in x:
        bytes_ = (255 * picture).round().byte().permute(1, 2, 0).numpy()
        hue, *rest = Image.fromarray(bytes_).convert("HSV").split()
        turned = Image.fromarray(((np.asarray(hue).astype(int) + 17) % 255).astype(np.uint8))
        rgb = Image.merge("HSV", (turned, *rest)).convert("RGB")
        rows.append(torch.from_numpy(np.array(rgb)).permute(2, 0, 1) / 255)
    return torch.stack(rows)


def cases(
    side: int, channels: int
) -> dict[str, tuple[Callable[[Tensor], Tensor], str, str, float]]:
    """Changes: what is done, the name, the parameter, the true amount."""
    pixels = side / 16
    rng = torch.Generator().manual_seed(0)
    colours: Any = {"hue": (other_hue, "hue", "hue", 24.0)} if channels == 3 else {}
    return colours | {
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


def planted(
    watcher: Watcher,
    data: ImageSet,
    streams: int,
    scratch: Path,
    seed: int,
    only: list[str] | None = None,
) -> list[dict[str, Any]]:
    """One row for each stream: alarm, delay, name, size."""
    watcher.save(scratch)
    rows, x = [], data.images
    generator = torch.Generator().manual_seed(1 + seed)
    every = cases(max(x.shape[-2:]), x.shape[1])
    few = x[data.labels < (data.labels.max() + 1) // 2]
    every["half of the classes"] = (lambda x: x, "none of these", "", 0.0)
    for case, (change, name, parameter, size) in every.items():
        for _ in range(streams if only is None or case in only else 0):
            one = Watcher.load(scratch)
            chosen = x[torch.randperm(len(x), generator=generator)[: BEFORE + AFTER]]
            before, after = chosen[:BEFORE], change(chosen[BEFORE:])
            if case == "half of the classes":
                after = few[torch.randint(len(few), (AFTER,), generator=generator)]
            early, delay = one.update(before).alarm, None
            for part in after.split(5):
                found = one.update(part)
                if found.alarm and delay is None:
                    delay = found.number - BEFORE
            said = found.change
            value = said.parameters.get(parameter) if said is not None else None
            row = {"case": case, "truth": name, "size": size, "early": early, "delay": delay}
            row |= {"since": found.since, "name": None if said is None else said.name}
            ends = None if value is None else [v if v is None else round(v, 3) for v in value[:3]]
            row |= {"found": ends}
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def false_alarms(
    watcher: Watcher, x: Tensor, streams: int, length: int, seed: int
) -> dict[str, Any]:
    """Streams in which nothing happens: the share with an alarm.

    Held-out items and streams are drawn from the same pictures, so that they are exchangeable.
    """
    with torch.no_grad():
        bins = _bins(watcher.reader.scores(watcher.reader.features(x)), watcher.edges)
    rng = np.random.default_rng((2, seed))
    scores = bins.shape[1]

    def drawn() -> Any:  # noqa: ANN401 - of one picture for each stream: (streams * scores,)
        return bins[rng.integers(len(bins), size=streams)].reshape(-1)

    held_out = np.stack([drawn() for _ in range(500)])
    # One test of streams x scores processes, each of which is that of a test of its own.
    test = ExchangeabilityTest(held_out, watcher.test.counts.shape[1], seed=seed)
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
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--null-only", action="store_true")
    parser.add_argument("--cases", nargs="+", help="changes to plant; all by default")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    data = load(options.data, folder=options.folder)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(options.seed))
    order = order[: options.most]
    reference, rest = (data.subset(part) for part in order.tensor_split(2))
    started = time.process_time()
    watcher = Watcher.fit(reference.images, seed=options.seed)
    fitting = time.process_time() - started
    stored: dict[str, Any] = {"name": "watch", "data": options.data, "reference": len(reference)}
    if not options.null_only:
        with tempfile.TemporaryDirectory() as scratch:
            how = (options.streams, Path(scratch), options.seed, options.cases)
            rows = planted(watcher, rest, *how)
        started = time.process_time()
        watcher.update(rest.images[:1000])
        speed = min(1000, len(rest)) / (time.process_time() - started)
        stored |= {"fit_seconds": round(fitting, 1), "pictures_per_second": round(speed)}
        stored |= {"counts": counts(rows), "rows": rows}
    if options.null:
        how = (options.null, options.length, options.seed)
        stored["false alarms"] = false_alarms(watcher, rest.images, *how)
    options.out.mkdir(parents=True, exist_ok=True)
    stored |= environment()
    name = f"{options.data}-null-{options.seed}" if options.null_only else options.data
    name = f"{name}-cases-{options.seed}" if options.cases else name
    (options.out / f"{name}.json").write_text(json.dumps(stored, indent=1) + "\n")
    print({k: v for k, v in stored.items() if k not in ("rows", "versions")})


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    """How many streams were named right, and how many intervals hold the truth."""
    sized = [row for row in rows if row["found"] is not None]
    held = [
        (-math.inf if low is None else low) <= row["size"] <= (math.inf if high is None else high)
        for row in sized
        for low, high in [row["found"][1:]]
    ]
    decoys = [row for row in rows if row["truth"] == "none of these"]
    changes = [row for row in rows if row["truth"] != "none of these"]
    return {
        "changes": len(changes),
        "named right": sum(row["name"] == row["truth"] for row in changes),
        "decoys": len(decoys),
        "decoys named": sum(row["name"] not in (None, "none of these") for row in decoys),
        "sizes": len(sized),
        "intervals that hold the truth": sum(held),
    }


if __name__ == "__main__":
    main()
