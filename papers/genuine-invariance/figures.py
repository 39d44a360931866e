"""Drawing the paper's figures from results.json and figures.npz."""

import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

TITLES = {
    "WT": "weight-tying",
    "DA": "augmentation",
    "IR": "regularised",
    "IR-random": "LI",
    "NLI-random": "norm. LI",
    "NLI-centred": "norm. LI,\ncentred",
    "DI-random": "DI",
}
COLOURS = {"WT": "#1b7837", "DA": "#b2182b", "IR": "#2166ac"}


def draw(folder: Path) -> list[Path]:
    """Draw whatever the folder holds the numbers of."""
    results = json.loads((folder / "results.json").read_text())
    arrays = dict(np.load(folder / "figures.npz"))
    written = [
        _saliency_beside(arrays, folder / "figure1.png"),
        _latent(arrays, folder / "figure2.png"),
        _aligned(arrays, folder / "figure3.png"),
        _drift(results.get("plain", {}).get("drift") or results["drift"], folder / "figure4.png"),
    ]
    if any("IR" in rows for rows in results["table"].values()):
        written.append(_spectrum(results["table"], folder / "figure5.png"))
    if "plain" in results:
        written.append(_penalty(results["plain"]["table"], folder / "penalty.png"))
    return written


def _show(axis: Axes, image: np.ndarray, saliency: np.ndarray | None = None) -> None:
    axis.imshow(image, cmap="gray")
    if saliency is not None:
        strength = saliency / max(float(saliency.max()), 1e-12)
        axis.imshow(np.ones_like(strength), cmap="Reds", vmin=0, vmax=1.2, alpha=strength)
    axis.set_xticks([])
    axis.set_yticks([])


def _saliency_beside(arrays: dict[str, Any], path: Path) -> Path:
    """Figure 1: saliency of DA and WT on one orbit; below, turned back to one orientation."""
    orbits = arrays["orbit"]
    n = orbits.shape[1]
    # The image that half a turn changes most: on a 1 or an 8 there would be little to see.
    chosen = int(np.abs(orbits[:, 0] - orbits[:, n // 2]).sum((1, 2)).argmax())
    orbit = orbits[chosen]
    figure, axes = plt.subplots(2, 2 * n, figsize=(2.4 * n, 3))
    for block, name in enumerate(("DA", "WT")):
        for g in range(n):
            column = block * n + g
            _show(axes[0, column], orbit[g], arrays[f"raw_{name}"][chosen, g])
            _show(axes[1, column], orbit[0], arrays[f"aligned_{name}"][chosen, g])
        axes[0, block * n].set_title(TITLES[name], loc="left")
    for axis, label in zip(axes[:, 0], ("as seen", "turned back"), strict=True):
        axis.set_ylabel(label, fontsize=8)
    return _save(figure, path)


def _latent(arrays: dict[str, Any], path: Path) -> Path:
    """Figure 2: t-SNE of the last hidden layer of DA, with the orbits of a few images traced."""
    from sklearn.manifold import TSNE

    features, labels = arrays["features"].astype(np.float32), arrays["feature_labels"]
    n = int(arrays["order"])
    perplexity = min(30, (len(features) - 1) // 3)
    points = TSNE(perplexity=perplexity, random_state=0).fit_transform(features)
    figure, axis = plt.subplots(figsize=(6, 6))
    dots = axis.scatter(*points.T, c=labels, cmap="tab10", s=4, alpha=0.4, linewidths=0)
    digits = dots.legend_elements(num=None, alpha=1)
    axis.legend(*digits, title="digit", fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    for first in range(0, min(4, len(points) // n) * n, n):
        trace = points[[*range(first, first + n), first]]
        axis.plot(*trace.T, "o-", color="black", markersize=4, linewidth=1)
    axis.set_xticks([])
    axis.set_yticks([])
    return _save(figure, path)


def _aligned(arrays: dict[str, Any], path: Path) -> Path:
    """Figure 3: aligned saliency of DA and IR; a row per image, a column per element."""
    orbit = arrays["orbit"]
    rows, n = orbit.shape[:2]
    figure, axes = plt.subplots(rows, 2 * n, figsize=(2.4 * n, 1.4 * rows))
    for block, name in enumerate(("DA", "IR")):
        for row in range(rows):
            for g in range(n):
                axis = axes[row, block * n + g]
                _show(axis, orbit[row, 0], arrays[f"aligned_{name}"][row, g])
        axes[0, block * n].set_title(TITLES[name], loc="left")
    return _save(figure, path)


def _drift(drift: dict[str, Any], path: Path) -> Path:
    """Figure 4: DI (solid) and accuracy ratio (dashed) over the degree of drift."""
    figure, axes = plt.subplots(1, len(drift), figsize=(5 * len(drift), 3.6), squeeze=False)
    for axis, (group, curves) in zip(axes[0], drift.items(), strict=True):
        right = axis.twinx()
        for name, curve in curves.items():
            axis.plot(curve["beta"], curve["di"], color=COLOURS[name], label=TITLES[name])
            right.plot(curve["beta"], curve["accuracy_ratio"], "--", color=COLOURS[name])
        axis.set(title=group.upper(), xlabel="drift", ylabel="DI (solid)")
        right.set(ylabel="accuracy ratio (dashed)", ylim=(0, 1.05))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False)
    return _save(figure, path)


def _spectrum(table: dict[str, Any], path: Path) -> Path:
    """Figure 5: largest singular value of the Jacobian, by method, and its saliency similarity."""
    figure, axes = plt.subplots(1, len(table), figsize=(5 * len(table), 3.6), squeeze=False)
    for axis, (group, rows) in zip(axes[0], table.items(), strict=True):
        names = [name for name in TITLES if name in rows][::-1]
        means = [rows[name]["sigma_max"]["mean"] for name in names]
        errors = [rows[name]["sigma_max"]["std"] for name in names]
        titles = [TITLES[name].replace("\n", " ") for name in names]
        labels = [
            f"{title} (SI {rows[name]['si']['mean']:.2f})"
            for title, name in zip(titles, names, strict=True)
        ]
        axis.errorbar(means, labels, xerr=errors, fmt="o", color="#2166ac", capsize=4)
        axis.grid(axis="x", color="#dddddd")
        axis.set(title=group.upper(), xlabel="largest singular value", xscale="log")
        if "DA" in names:  # what the others should be below
            axis.axvline(rows["DA"]["sigma_max"]["mean"], color=COLOURS["DA"], linestyle=":")
        axis.set_xlim(left=0.7)
    return _save(figure, path)


def _penalty(table: dict[str, Any], path: Path) -> Path:
    """Accuracy over SI for all weights of the penalty, and the paper's point."""
    paper = json.loads(Path(__file__).with_name("expected.json").read_text())["table"]
    figure, axes = plt.subplots(1, len(table), figsize=(5 * len(table), 3.6), squeeze=False)
    for axis, (group, rows) in zip(axes[0], table.items(), strict=True):
        own = [row for name, row in rows.items() if name.startswith("IR-nu-")]
        own.sort(key=lambda row: row["nu"][0])
        x, y = ([row[key]["mean"] for row in own] for key in ("si", "accuracy"))
        errors = {
            f"{a}err": [row[k]["std"] for row in own] for a, k in (("x", "si"), ("y", "accuracy"))
        }
        axis.errorbar(x, y, **errors, fmt="o-", color=COLOURS["IR"], capsize=3, label="ours, by nu")
        for place, (row, a, b) in enumerate(zip(own, x, y, strict=True)):
            close = place and abs(a - x[place - 1]) < 0.01 and abs(b - y[place - 1]) < 2
            where, how = (
                ((4, 5), "bottom") if close else ((-4, -4), "top")
            )  # not over its neighbour
            axis.annotate(f"{row['nu'][0]:g}", (a, b), where, textcoords="offset points",
                          fontsize=7, ha="left" if close else "right", va=how)  # fmt: skip
        said = paper[group]["IR"]
        axis.plot(said["si"], said["accuracy"], "*", ms=13, color=COLOURS["DA"], label="the paper",
                  markerfacecolor="none", zorder=3)  # fmt: skip
        axis.margins(y=0.12)
        axis.grid(color="#dddddd")
        axis.set(title=group.upper(), xlabel="SI", ylabel="accuracy, %")
    axes[0, 0].legend(loc="lower left", frameon=False)
    return _save(figure, path)


def _save(figure: Any, path: Path) -> Path:  # noqa: ANN401 - a matplotlib figure
    figure.tight_layout(rect=(0, 0, 1, 0.95 if figure.legends else 1))
    figure.savefig(path, dpi=160)
    plt.close(figure)
    return path
