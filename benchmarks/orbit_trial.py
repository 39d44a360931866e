"""The orbit posterior on planted truths: a table of contents, transformations and networks.

    python benchmarks/orbit_trial.py --cells letters60,cifar45 --data DATA --out trial.json

A cell is CONTENT+AMOUNT, and after a colon the network, if not the usual one: "letters60:mlp" has
rotations within 60 degrees. DATA has mnist/, fashion-mnist/, cifar10/ (cifar10.zip, unpack.py);
letters and signs are drawn from matplotlib's fonts, or read from DATA/orbit/CELL.npz where
--prepare wrote them.
Results are written after every cell, with commit, device and versions.
"""

import argparse
import importlib.util
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import environment
from planted_pictures import fields, letters, signs, turned
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.data import fashion_mnist, mnist
from symmetries.groups.names import parse_group
from symmetries.learners.orbit_posterior import OrbitConfig, OrbitPosterior
from symmetries.learners.orbit_posterior.crossing import crossed

LEAK = 0.02  # nats

# Content, group, what is planted, 90 % width that should be found (None: natural), pictures.
CELLS: dict[str, dict[str, Any]] = {
    "letters60": {"make": "letters", "turn": 60, "n": 6000, "truth": 108},
    "letters180": {"make": "letters", "turn": 180, "n": 6000, "truth": 324},
    "letters0": {"make": "letters", "turn": 0, "n": 6000, "truth": 0},
    "letters60-600": {"make": "letters", "turn": 60, "n": 600, "truth": 108},
    "letters0-600": {"make": "letters", "turn": 0, "n": 600, "truth": 0},
    "fashion45": {"make": "fashion", "turn": 45, "n": 8000, "truth": 81},
    "fashion0": {"make": "fashion", "turn": 0, "n": 8000, "truth": 0},
    "digits": {"make": "mnist", "turn": 0, "n": 8000, "truth": None},
    "digits45": {"make": "mnist", "turn": 45, "n": 8000, "truth": 81},
    "cifar0": {"make": "cifar", "turn": 0, "n": 46000, "truth": 0},
    "cifar45": {"make": "cifar", "turn": 45, "n": 46000, "truth": 81},
    "cifar90": {"make": "cifar", "turn": 90, "n": 46000, "truth": 162},
    "signs45": {"make": "signs", "turn": 45, "n": 608, "truth": 81},
    "signs0": {"make": "signs", "turn": 0, "n": 608, "truth": 0},
    "lettersSE2": {
        "make": "letters",
        "turn": 60,
        "shift": 0.2,
        "n": 6000,
        "truth": 108,
        "group": "rotation,translation",
    },
    "lettersSim": {
        "make": "letters",
        "turn": 45,
        "zoom": 0.2,
        "n": 6000,
        "truth": 81,
        "group": "similarity",
    },
    "lettersC4": {"make": "letters", "quarter": True, "n": 6000, "truth": 4, "group": "c4"},
    "lettersC4still": {"make": "letters", "turn": 0, "n": 6000, "truth": 1, "group": "c4"},
    "lettersFlip": {"make": "letters", "mirror": True, "n": 6000, "truth": 2, "group": "flip_x"},
    "lettersFlipstill": {"make": "letters", "turn": 0, "n": 6000, "truth": 1, "group": "flip_x"},
    "lettersO2": {
        "make": "letters",
        "turn": 60,
        "mirror": True,
        "n": 6000,
        "truth": 108,
        "group": "rotation,flip_x",
    },
    **{
        f"field{side}{kind}": {
            "make": "field",
            "n": 4000,
            "side": side,
            "truth": 324,
            "interpolation": kind,
        }
        for side in (8, 16, 28, 64, 128)
        for kind in ("bilinear", "bicubic", "bspline")
    },
}


def pictures(cell: dict[str, Any], name: str, data: Path) -> tuple[Tensor, Tensor | None]:
    """The pictures of a cell, and the angles (in degrees) that were planted."""
    stored = data / "orbit" / f"{name}.npz"
    if stored.exists():
        content = np.load(stored)
        return torch.from_numpy(content["images"]).float() / 255, torch.from_numpy(
            content["angles"]
        )
    kind, n, turn = cell["make"], cell["n"], cell.get("turn", 0)
    if kind == "letters":
        x, angles = letters(n, turn, zoom=cell.get("zoom", 0.0), shift=cell.get("shift", 0.0))
        return planted_finite(x, cell), angles
    if kind == "signs":
        return signs(n, turn)
    if kind == "field":
        return fields(n, cell["side"]), None
    if kind in ("mnist", "fashion"):
        load = mnist if kind == "mnist" else fashion_mnist
        return turned(
            load(folder=data / ("mnist" if kind == "mnist" else "fashion-mnist")).images[:n], turn
        )
    return turned(cifar(data)[:n], turn)


def planted_finite(x: Tensor, cell: dict[str, Any]) -> Tensor:
    """Half of the pictures mirrored, or all turned by random quarters."""
    generator = torch.Generator().manual_seed(5)
    if cell.get("mirror"):
        half = torch.rand(len(x), generator=generator) < 0.5
        x = torch.where(half[:, None, None, None], x.flip(-1), x)
    if cell.get("quarter"):
        k = torch.randint(4, (len(x),), generator=generator)
        x = torch.stack([row.rot90(int(turns), (1, 2)) for row, turns in zip(x, k, strict=True)])
    return x


def cifar(data: Path) -> Tensor:
    """CIFAR-10's training pictures (50000, 3, 32, 32) from the packed archive."""
    spec = importlib.util.spec_from_file_location("unpack", data / "cifar10" / "unpack.py")
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    images = torch.as_tensor(np.asarray(module.load(data / "cifar10" / "cifar10.zip", "train")[0]))
    images = images.permute(0, 3, 1, 2) if images.shape[-1] == 3 else images
    return images.reshape(-1, 3, 32, 32).float() / 255


def run(name: str, network: str, data: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Fit and read one cell."""
    cell = CELLS[name]
    images, angles = pictures(cell, name, data)
    preset = OrbitConfig.preset(options.preset)
    steps = options.steps or preset.training.steps
    rounds = options.rounds or preset.training.rounds
    config = preset.replace(steps=steps, rounds=rounds, check=options.check, kind=network)
    group = parse_group(cell.get("group", "rotation"))
    action = ImageAction(group, interpolation=cell.get("interpolation", "bilinear"))
    start = time.perf_counter()
    model = OrbitPosterior(action, tuple(images.shape[1:]), config, options.seed)  # type: ignore[arg-type]
    history = model.fit(images, device=options.device, progress=False, precision=options.precision)
    fitted = time.perf_counter()
    summary = model.summary(images)
    done = time.perf_counter()
    row: dict[str, Any] = {
        "cell": name,
        "network": network,
        "images": len(images),
        "truth": cell["truth"],
        "seconds_fit": fitted - start,
        "seconds_read": done - fitted,
        "steps": history.step[-1],
        "steps_per_second": history.steps_per_second,
        "gains": model.gains,
        "reach": model.chart.reach,
        "frame": str(model.frame),
        "summary": slim(summary.to_dict()),
    }
    row["leak"] = max(model.gains) > LEAK if cell["make"] == "field" else None
    if angles is not None and "group" not in cell:
        row["against_truth"] = against_truth(model, images, angles, cell.get("turn", 0))
    return row


def slim(summary: dict[str, Any]) -> dict[str, Any]:
    """Without edges, which follow from the number of cells."""
    for part in summary["parameters"]:
        del part["edges"]
    return summary


def against_truth(
    model: OrbitPosterior, images: Tensor, angles: Tensor, turn: float
) -> dict[str, Any]:
    """Widths by sureness, and total variation to the planted law on told pictures."""
    found = crossed(model, images, 0)
    choosing, reading = (
        side[0].widths() * 180 / math.pi for side in (found.choosing, found.reading)
    )
    order = choosing.argsort()
    shares = {}
    for share in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
        part = reading[order[: max(1, round(share * len(order)))]]
        shares[str(share)] = [float(part.median()), float(part.mean())]
    if not turn:
        return {"surest": shares}
    # The density of the pose: of the planted angle plus the move.
    mass = found.reading[0].mass
    cells = mass.shape[1]
    told = choosing <= choosing.quantile(0.05) * model.config.reading.ratio + 360 / cells
    moved = torch.zeros_like(mass)
    steps = angles[found.rows].float() / 360 * cells
    places = torch.arange(cells)[None] - steps[:, None]
    low = places.floor()
    for index, part in ((low.long(), 1 - (places - low)), (low.long() + 1, places - low)):
        moved += part * mass.gather(1, index % cells)
    centres = (torch.arange(cells) + 0.5) / cells * 360 - 180
    inside = ((turn - centres.abs()) / (360 / cells) + 0.5).clamp(0, 1)
    truth = inside / inside.sum()
    gaps = 0.5 * (moved[told] - truth).abs().sum(-1)
    mean = 0.5 * float((moved[told].mean(0) - truth).abs().sum())
    return {"surest": shares, "tv_mean_density": mean, "tv_per_picture": float(gaps.median())}


def main() -> None:
    """Run the cells that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--check", action="store_true", help="also the self-test")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prepare", action="store_true", help="draw letters and signs, and stop")
    options = parser.parse_args()
    start = time.perf_counter()
    rows: list[dict[str, Any]] = []
    result = {
        "name": "orbit_trial",
        **environment(),
        "options": {k: str(v) for k, v in vars(options).items()},
    }
    for wanted in options.cells.split(","):
        name, _, network = wanted.partition(":")
        if options.prepare:
            images, angles = pictures(CELLS[name], name, options.data)
            folder = options.data / "orbit"
            folder.mkdir(parents=True, exist_ok=True)
            whole = (images * 255).round().to(torch.uint8).numpy()
            np.savez_compressed(folder / f"{name}.npz", images=whole, angles=angles.numpy())
            continue
        if time.perf_counter() - start > options.budget:
            rows.append({"cell": name, "skipped": "no time left"})
        else:
            try:
                rows.append(run(name, network or "auto", options.data, options))
            except Exception as error:  # one cell must not end the others
                rows.append(
                    {"cell": name, "network": network, "error": f"{type(error).__name__}: {error}"}
                )
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({**result, "rows": rows}, indent=1) + "\n")
        print(line(rows[-1]), flush=True)


def line(row: dict[str, Any]) -> str:
    """One row of the table, for the screen."""
    if "summary" not in row:
        return f"{row['cell']}: {row.get('error', row.get('skipped'))}"
    parts = [
        f"{p['name']} {p['width90']:.4g} [{p['interval'][0]:.4g}, {p['interval'][1]:.4g}] "
        f"{p['unit']} {p['verdict']}, told {100 * p['share_told']:.0f} %, "
        f"PIT {p['calibration']:.3f}"
        for p in row["summary"]["parameters"]
    ]
    truth = row.get("against_truth", {})
    extra = {k: round(v, 3) for k, v in truth.items() if isinstance(v, float)}
    surest = {k: [round(x) for x in v] for k, v in truth.get("surest", {}).items()}
    gains = [round(g, 3) for g in row["gains"]]
    return (
        f"{row['cell']}:{row['network']} truth {row['truth']} | {'; '.join(parts)} | gains {gains} "
        f"| {row['seconds_fit']:.0f}+{row['seconds_read']:.0f} s, {row['steps']} steps at "
        f"{row['steps_per_second']:.0f}/s | {extra} {surest} | {row['summary']['sentence']}"
    )


if __name__ == "__main__":
    main()
