"""Drawing the paper's figures from results.json and results-arrays.npz."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from building import curves_of

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from symmetries.distributions.box import grid_points
from symmetries.groups.affine import Affine2
from symmetries.ops.warp import warp

SETS = {
    "mnist-rotated": "fully rotated",
    "mnist-partially-rotated": "partially rotated",
    "mnist": "regular",
}
COLOURS = ("#440154", "#3b528b", "#21918c", "#5ec962", "#d0a000")
PLANTED = {"mnist-rotated": 180, "mnist-partially-rotated": 90, "mnist": 0}
SHOWN = 150  # degrees: what lies lower than the bound up to there is cut off
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
    for source, name in (("table1-random", "figure2"), ("table1", "figure2-evenly-spread")):
        if source in tables:
            written.append(_widths(tables, arrays, source, folder / f"{name}.png"))
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
        written.append(_point(tables, arrays, folder / "figure5.png"))
    if "table5" in tables:
        written.append(_widths(tables, arrays, "table5", folder / "figure9.png"))
    if "table1-minibatch" in tables:
        written.append(_widths(tables, arrays, "table1-minibatch", folder / "figure8.png"))
    if "samples" in tables:
        written.append(_by_samples(tables["samples"], folder / "samples.png"))
    if "identified" in tables:
        found = tables.get("identified-finer") or tables["identified"]
        written.append(_identified(found, folder / "identified.png"))
    return written


def _save(figure: Figure, path: Path, dpi: int = 180) -> Path:
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


def _curves(
    arrays: Arrays, table: str, batch: dict[str, Any], run: int
) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and the width of a run along them in degrees; the groups here have one parameter."""
    rows = arrays[curves_of(table, batch)]
    return rows[:, 0], np.degrees(rows[:, 1 + run])


def _widths(tables: Tables, arrays: Arrays, table: str, path: Path) -> Path:
    """Figures 2, 8 and 9: half-widths over training, from several starts; all seeds."""
    batches = tables[table]
    figure, axes = plt.subplots(1, 3, figsize=(11, 3), sharey=True)
    for axis, name in zip(axes, SETS, strict=True):
        axis.axhline(PLANTED[name], color="black", linestyle="--", linewidth=1)
        for batch in (b for b in batches if b["tag"] in ("learned", "minibatch", "learned prior")):
            runs = [i for i, r in enumerate(batch["runs"]) if r["set"] == name and r["learn"]]
            for number, i in enumerate(runs):
                axis.plot(*_curves(arrays, table, batch, i), color=COLOURS[number], linewidth=1.2)
            coarse = batch["training"].get("coarse")
            if coarse and batch["training"].get("search"):
                axis.axvline(coarse["steps"], color="grey", linestyle=":", linewidth=1)
        axis.set_title(SETS[name], fontsize=9)
        axis.set_xlabel("step")
        axis.set_ylim(-4, 186)
        axis.set_yticks(range(0, 181, 45))
        axis.grid(alpha=0.3)
    rows = dict.fromkeys(r["row"] for b in batches for r in b["runs"] if r["learn"])
    for number, row in enumerate(rows):
        axes[2].plot([], color=COLOURS[number], label=row.removeprefix("learned "))
    axes[2].plot([], "k--", linewidth=1, label="planted")
    if any(b["training"].get("search") for b in batches):
        axes[2].plot([], ":", color="grey", label="line search")
    axes[0].set_ylabel("half-width, degrees")
    axes[2].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return _save(figure, path)


def _by_samples(batches: list[dict[str, Any]], path: Path) -> Path:
    """The bound over half-widths for several S on the partially rotated set; best width by S."""
    own = [b for b in batches if b["prior"] == "learned prior"]
    counts = sorted({b["samples"] for b in own}, key=lambda n: n or math.inf)
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(counts)))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6))
    for samples, colour in zip(counts, colours, strict=True):
        label = f"S = {samples}" if samples else "exact average"
        found = [b for b in own if b["samples"] == samples]
        values = np.mean([b["elbo"]["90"] for b in found], axis=0)
        degrees = found[0]["degrees"]
        left.plot(degrees, values - values.max(), color=colour, label=label, linewidth=1.2)
        best = int(values.argmax())
        left.plot(degrees[best], 0, "o", color=colour, markersize=4)
    left.axvline(90, color="black", linestyle="--", linewidth=0.8)
    left.set(xlabel="half-width, degrees", ylabel="bound below its best, nats per image")
    left.set(title="planted ±90 degrees (dashed)", ylim=(-0.3, 0.01), xticks=range(0, 181, 45))
    left.legend(fontsize=7, loc="lower right")
    names = [str(n) if n else "exact" for n in counts]
    for number, angle in enumerate(own[0]["elbo"]):
        for batch_seed in sorted({b["seed"] for b in own}):
            tops = []
            for samples in counts:
                (batch,) = [b for b in own if (b["samples"], b["seed"]) == (samples, batch_seed)]
                values = batch["elbo"][angle]
                tops.append(batch["degrees"][values.index(max(values))])
            label = f"planted ±{angle}" if batch_seed == own[0]["seed"] else None
            right.plot(tops, "o-", color=COLOURS[number], label=label, linewidth=1, markersize=4)
        right.axhline(int(angle), color=COLOURS[number], linestyle="--", linewidth=0.8, alpha=0.7)
    right.set_xticks(range(len(names)), names)
    right.set(xlabel="S, random transformations", ylabel="best half-width, degrees")
    right.set(title="best width by S (dashed: planted)", yticks=range(0, 181, 45))
    right.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    for axis in (left, right):
        axis.grid(alpha=0.3)
    return _save(figure, path)


def _identified(batches: list[dict[str, Any]], path: Path) -> Path:
    """Tasks whose labels tell a width: the bound of the exact average, and what was learned."""
    tags = list(dict.fromkeys(b["tag"] for b in batches))
    figure, axes = plt.subplots(1, len(tags), figsize=(3 * len(tags), 2.8), squeeze=False)
    for axis, tag in zip(axes[0], tags, strict=True):
        for batch in (b for b in batches if b["tag"] == tag):
            style = {"color": COLOURS[batch["seed"]], "label": f"seed {batch['seed']}"}
            axis.plot(batch["degrees"], batch["elbo"], linewidth=1.2, **style)
            height = np.interp(batch["learned"], batch["degrees"], batch["elbo"])
            axis.plot(batch["learned"], height, "v", color=COLOURS[batch["seed"]], markersize=5)
            shown = [e for w, e in zip(batch["degrees"], batch["elbo"], strict=True) if w <= SHOWN]
            axis.set_ylim(bottom=min(shown))
        if tag.endswith("sectors"):
            axis.axvline(180 / int(tag.split()[0]), color="black", linestyle="--", linewidth=1)
        axis.set(title=tag, xlabel="half-width, degrees", xticks=range(0, 181, 45))
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("exact bound, nats per image")
    handles, _ = axes[0, 0].get_legend_handles_labels()
    handles.append(Line2D([], [], color="gray", marker="v", linestyle="", label="learned"))
    half = "half a sector"
    handles.append(Line2D([], [], color="black", linestyle="--", linewidth=1, label=half))
    figure.tight_layout(rect=(0, 0, 0.91, 1))
    figure.legend(handles=handles, loc="center right", fontsize=8, frameon=False)
    return _save(figure, path)


def _point(tables: Tables, arrays: Arrays, path: Path) -> Path:
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
                rows = _curves(arrays, "point", batch, i)
                axis.plot(*rows, color=colour, label=None if i else label)
        planted = {"color": "black", "linestyle": "--", "linewidth": 1, "label": "planted"}
        axis.axhline(PLANTED["mnist-rotated"], **planted)
        axis.set_title({"fourier": "random Fourier features", "relu": "ReLU"}[kind], fontsize=9)
        axis.set_xlabel("step")
        axis.set_ylim(0, 185)
        axis.set_yticks(range(0, 181, 45))
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
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
    return _save(figure, path, dpi=100 if banks < 3 else 70)


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
