"""Drawing the paper's figures from results.json and results-arrays.npz."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from symmetries.distributions.box import grid_points
from symmetries.groups.affine import Affine2
from symmetries.ops.warp import warp

SETS = {
    "mnist-rotated": "fully rotated",
    "mnist-partially-rotated": "partially rotated",
    "mnist": "regular",
}
COLOURS = ("#440154", "#3b528b", "#21918c", "#5ec962", "#d0a000")
COLUMNS = 7
# Results that stand for Tables 2 and 3, the first that is there.
MAIN = ("-crossed", "-followed", "-held", "")

Tables = dict[str, list[dict[str, Any]]]
Arrays = dict[str, np.ndarray]


def draw(tables: Tables, arrays: Arrays, folder: Path) -> list[Path]:
    """Draw whatever the results hold the numbers of."""
    folder.mkdir(exist_ok=True)
    written = []
    if "toy/probabilities" in arrays:
        written.append(_toy(tables["toy"][0], arrays, folder / "figure1.png"))
    if "table1" in tables:
        written.append(_widths(tables["table1"], folder / "figure2.png"))
    if "table5/frame 0" in arrays:
        written.append(_over_training(arrays, (0, 1), folder / "figure3.png"))
        written.append(_over_training(arrays, (2, 3, 4, 5), folder / "figure7.png"))
    for table, number, name in (("table2", 4, "mnist"), ("table3", 6, "cifar10")):
        sets = [f"{name}{end}" for end in ("", "-rotated", "-scaled", "-translated")]
        for source in (f"{table}{end}" for end in MAIN):
            found = [s for s in sets if f"{source}/affine {s}" in arrays]
            if found:
                path = folder / f"figure{number}.png"
                written.append(_sampled(tables[source], arrays, source, found, path))
                break
    if "point" in tables:
        written.append(_point(tables, folder / "figure5.png"))
    if "table5" in tables:
        written.append(_widths(tables["table5"], folder / "figure9.png"))
    if "table1-minibatch" in tables:
        written.append(_widths(tables["table1-minibatch"], folder / "figure8.png"))
    return written


def _save(figure: Figure, path: Path, dpi: int = 110) -> Path:
    figure.savefig(path, dpi=dpi, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
    return path


def _toy(batch: dict[str, Any], arrays: Arrays, path: Path) -> Path:
    """Figure 1: what three amounts of invariance make of points in a sector."""
    x, y = arrays["toy/points"], arrays["toy/labels"]
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4))
    for axis, p, width, bound in zip(
        axes, arrays["toy/probabilities"], batch["widths"], batch["elbo"], strict=True
    ):
        axis.imshow(p, extent=(-1, 1, -1, 1), vmin=0, vmax=1, cmap="coolwarm")
        for label, mark in ((0, "x"), (1, "o")):
            axis.scatter(*x[y == label].T, c="black", marker=mark, s=16, linewidths=1)
        axis.set_title(f"half-width {width:.0f} degrees\nbound {bound:.1f} nats", fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
    return _save(figure, path)


def _curves(batch: dict[str, Any], run: int) -> tuple[list[float], list[float]]:
    """Steps, and the width of a run along them in degrees; the groups here have one parameter."""
    steps = [row[0] for row in batch["widths"]]
    return steps, [math.degrees(row[1 + run]) for row in batch["widths"]]


def _widths(batches: list[dict[str, Any]], path: Path) -> Path:
    """Figures 2, 8 and 9: half-widths over training, from several starts; all seeds."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3), sharey=True)
    for axis, name in zip(axes, SETS, strict=True):
        for batch in (b for b in batches if b["tag"] in ("learned", "minibatch")):
            runs = [i for i, r in enumerate(batch["runs"]) if r["set"] == name and r["learn"]]
            for number, i in enumerate(runs):
                start = round(math.degrees(batch["runs"][i]["width"]))
                label = f"from {start}" if batch["seed"] == 0 else None
                axis.plot(*_curves(batch, i), color=COLOURS[number], label=label, linewidth=1.2)
        axis.set_title(SETS[name], fontsize=9)
        axis.set_xlabel("step")
        axis.set_ylim(0, 185)
        axis.set_yticks(range(0, 181, 45))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("half-width, degrees")
    axes[2].legend(fontsize=7)
    return _save(figure, path)


def _point(tables: Tables, path: Path) -> Path:
    """Figure 5: widths without an integral over weights, and with it, on the fully rotated set."""
    kinds = {
        "point paper": ("point estimate, the paper's rates", COLOURS[3]),
        "full paper": ("Gaussian, the paper's rates", COLOURS[1]),
        "point few": ("point estimate, 1,000 images, our rates", COLOURS[4]),
        "full few": ("Gaussian, 1,000 images, our rates", COLOURS[0]),
    }
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), sharey=True)
    for axis, kind in zip(axes, ("fourier", "relu"), strict=True):
        shown = [b for b in tables["point"] if b["kind"] == kind and b["tag"] in kinds]
        for batch in shown:
            label, colour = kinds[batch["tag"]]
            for i in range(len(batch["runs"])):
                axis.plot(*_curves(batch, i), color=colour, label=None if i else label)
        axis.set_title({"fourier": "random Fourier features", "relu": "ReLU"}[kind], fontsize=9)
        axis.set_xlabel("step")
        axis.set_ylim(0, 185)
        axis.set_yticks(range(0, 181, 45))
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    axes[0].set_ylabel("half-width, degrees")
    return _save(figure, path)


def _moved(weight: np.ndarray, theta: torch.Tensor) -> np.ndarray:
    """One filter (C, H, W) moved by each of the maps (n, 3, 3), as pictures (n, H, W, C)."""
    filters = torch.from_numpy(weight).float().expand(len(theta), *weight.shape)
    return warp(filters, theta[:, :2]).permute(0, 2, 3, 1).numpy()


def _tile(axis: Axes, image: np.ndarray, scale: float) -> None:
    if image.shape[-1] == 1:
        axis.imshow(image[..., 0], cmap="gray", vmin=-scale, vmax=scale)
    else:
        axis.imshow(np.clip(0.5 + 0.5 * image / scale, 0, 1))
    axis.set_xticks([])
    axis.set_yticks([])


def _over_training(arrays: Arrays, chosen: Sequence[int], path: Path) -> Path:
    """Figures 3 and 7: banks of filters, evenly spaced along the learned orbit, over training."""
    frames = sorted(int(k.split()[1]) for k in arrays if k.endswith(" at"))
    group, banks = Affine2("rotation"), len(chosen)
    columns = banks * (COLUMNS + 1) - 1
    figure, axes = plt.subplots(
        len(frames), columns, figsize=(columns * 0.55, 0.62 * len(frames)), squeeze=False
    )
    for line, frame in zip(axes, frames, strict=True):
        step, width = arrays[f"table5/frame {frame} at"]
        for axis in line[COLUMNS :: COLUMNS + 1]:
            axis.axis("off")
        text = f"{step:.0f}\n{math.degrees(width):.0f}°"
        line[0].set_ylabel(text, fontsize=6, rotation=0, labelpad=12, va="center")
        for place, bank in enumerate(chosen):
            weight = arrays[f"table5/frame {frame}"][bank]
            pictures = _moved(weight, group.exp(grid_points(COLUMNS, 1).float() * width))
            scale = float(np.abs(weight).max()) or 1.0
            for column, picture in enumerate(pictures):
                _tile(line[place * (COLUMNS + 1) + column], picture, scale)
    figure.suptitle("step and half-width; filters of the ReLU network", fontsize=8, y=0.94)
    return _save(figure, path, dpi=70)


def _sampled(
    batches: list[dict[str, Any]], arrays: Arrays, table: str, sets: list[str], path: Path
) -> Path:
    """Figures 4 and 6: filters of affine models, moved by random samples of what was learned."""
    group, rows = Affine2("affine"), 3
    generator = torch.Generator().manual_seed(0)
    figure, axes = plt.subplots(
        rows, len(sets) * (COLUMNS + 1) - 1, figsize=(len(sets) * COLUMNS * 0.42, rows * 0.5)
    )
    for axis in axes.flat:
        axis.axis("off")
    runs = {r["set"]: r for b in batches for r in b["runs"] if r["row"] == "affine"}
    for block, name in enumerate(sets):
        width = torch.tensor(list(runs[name]["half_width"].values()))
        noise = 2 * torch.rand(COLUMNS, group.dim, generator=generator) - 1
        theta = group.exp(noise * width)
        for row in range(rows):
            weight = arrays[f"{table}/affine {name}"][row]
            scale = float(np.abs(weight).max()) or 1.0
            for column, picture in enumerate(_moved(weight, theta)):
                axis = axes[row, block * (COLUMNS + 1) + column]
                axis.axis("on")
                _tile(axis, picture, scale)
        axes[0, block * (COLUMNS + 1) + COLUMNS // 2].set_title(name, fontsize=8)
    return _save(figure, path)
