"""Drawing Tables 1 and 3, Figure 4 and the learned omega' from results.json.

python papers/relaxed-equivariance/figures.py
"""

import argparse
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).parent
EPOCHS = 30  # of the recipe
HELD_OUT = 5_000  # images of Figure 4
UNITS = {"rotation": "half turns", "translation": "half-images"}
RATE = 4.0  # of a learned omega', by that of the weights, where nothing else is said
OURS, THEIRS = "#2166ac", "#b2182b"
NAMES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
Rows = list[dict[str, Any]]


def accuracy_over_omega(rows: Rows, path: Path) -> Path:
    """Figure 4: validation accuracy over a fixed omega', a panel for each soft subgroup."""
    rows = [row for row in rows if row["experiment"] == "figure4"]
    panels = list(dict.fromkeys((row["data"], row["relaxed"]) for row in rows))
    sets = len({data for data, _ in panels})
    size = (4.2 * (len(panels) // sets), 3 * sets)
    options = {"figsize": size, "squeeze": False, "sharex": True, "sharey": "row"}
    figure, axes = plt.subplots(sets, len(panels) // sets, **options)
    ticks = sorted({row["omega"] for row in rows} - {0.0})
    for axis, (data, which) in zip(axes.flat, sorted(panels), strict=True):
        chosen = [row for row in rows if (row["data"], row["relaxed"]) == (data, which)]
        omegas = sorted({row["omega"] for row in chosen})
        means = [mean(r["accuracy"] for r in chosen if r["omega"] == o) for o in omegas]
        seeds = len({row["seed"] for row in chosen})
        # 0 is no place on a logarithmic axis: a line of its own.
        errors = [(m * (100 - m) / (seeds * HELD_OUT)) ** 0.5 for m in means]
        axis.axhspan(means[0] - errors[0], means[0] + errors[0], color="black", alpha=0.1, lw=0)
        axis.axhline(means[0], color="black", linestyle="--", linewidth=1, label="omega' = 0")
        axis.errorbar(omegas[1:], means[1:], errors[1:], fmt="o-", color="#2166ac", markersize=4,
                      capsize=3)  # fmt: skip
        axis.set_xscale("log")
        axis.set_xticks(ticks, [f"{omega:g}" for omega in ticks])
        axis.minorticks_off()
        axis.tick_params(labelbottom=True)
        plural = "one seed" if seeds == 1 else f"{seeds} seeds"
        axis.set_title(f"{NAMES.get(data, data)}, soft {which}, {plural}", fontsize=11)
        axis.set_xlabel(f"omega', one per {UNITS[which][:-1]}")
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel("held-out accuracy, %")
    axes[0, -1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return _save(figure, path)


def omega_by_layer(rows: Rows, path: Path) -> Path:
    """Learned omega' of each layer, for every lambda and seed, and where they started."""
    rows = [row for row in rows if row["experiment"] == "table3" and row["penalty"] is not None]
    rows = [row for row in rows if not (row["augment"] or row["validation"])]
    panels = list(dict.fromkeys((row["data"], row["rotations"]) for row in rows))
    sets = len({data for data, _ in panels})
    size = (4.2 * (len(panels) // sets), 3 * sets)
    options = {"figsize": size, "squeeze": False, "sharex": True, "sharey": True}
    figure, axes = plt.subplots(sets, len(panels) // sets, **options)
    penalties = sorted({row["penalty"] for row in rows})
    colours = plt.get_cmap("viridis")
    for axis, (data, n) in zip(axes.flat, sorted(panels), strict=True):
        chosen = [row for row in rows if (row["data"], row["rotations"]) == (data, n)]
        epochs = max(row["epochs"] for row in chosen)
        starts = [row["omega"] for row in chosen if row["epochs"] == epochs]
        start = max(starts, key=starts.count)  # the one that most of them had
        for row in chosen:
            if (row["epochs"], row["omega"]) != (epochs, start):
                continue
            values = [part["value"] for part in row["relaxation"]]
            place = penalties.index(row["penalty"]) / max(len(penalties) - 1, 1)
            form = "o-" if row.get("rate", RATE) == RATE else "s:"
            axis.plot(values, form, color=colours(0.9 * place), markersize=4)
        names = [_layer(i) for i in range(len(rows[0]["relaxation"]))]
        axis.set_xticks(range(len(names)), names)
        axis.margins(x=0.15)
        axis.axhline(start, color="black", linestyle="--", linewidth=1)
        axis.set(title=f"{NAMES.get(data, data)}, {n} rotations, {epochs} epochs")
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel("learned omega'")
    axes[0, -1].plot([], "k--", linewidth=1, label="start")
    for i, penalty in enumerate(penalties):
        colour = colours(0.9 * i / max(len(penalties) - 1, 1))
        axes[0, -1].plot([], "o-", color=colour, label=f"lambda = {penalty:g}", markersize=4)
    if any(row.get("rate", RATE) != RATE for row in rows):
        axes[0, -1].plot(
            [],
            "s:",
            color="grey",
            label="omega' learned as fast\nas the weights (else 4x)",
            markersize=4,
        )
    axes[0, -1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return _save(figure, path)


def beside_the_paper(rows: Rows, expected: Rows, path: Path) -> Path:
    """Tables 1 and 3 without augmentation, by the recipe: ours and the paper's by model."""
    rows = [row for row in rows if not (row["augment"] or row["validation"])]
    lines = [line for line in expected if line["penalty"] is None and line["rotations"] <= 8]
    figure, axes = plt.subplots(1, len(NAMES), figsize=(5.2 * len(NAMES), 3.2))
    groups = [line["rotations"] for line in lines]
    for axis, (data, name) in zip(axes, NAMES.items(), strict=True):
        for x, line in enumerate(lines):
            axis.errorbar(x, *line[data], fmt="*", color=THEIRS, ms=9, capsize=4)
            key = (data, line["rotations"], line["model"].split()[0], None)
            names = ("data", "rotations", "mode", "penalty")
            found = [r for r in rows if tuple(r[n] for n in names) == key]
            longest = max((r["epochs"] for r in found), default=0)
            mine = [r["accuracy"] for r in found if r["epochs"] == longest]
            form = "o" if longest >= EPOCHS else "s"
            if len(mine) > 1:
                axis.errorbar(x, mean(mine), stdev(mine), fmt=form, color=OURS, capsize=4)
            elif mine:
                axis.plot(x, *mine, form, color=OURS, fillstyle="none")
        axis.set_xticks(range(len(lines)), [t["model"].split()[0] for t in lines], fontsize=8)
        for n in dict.fromkeys(groups):
            first, count = groups.index(n), groups.count(n)
            title = "T(2)" if n == 1 else f"{n} rotations"
            axis.text(first + (count - 1) / 2, -0.18, title, ha="center", fontsize=9,
                      transform=axis.get_xaxis_transform())  # fmt: skip
            if first:
                axis.axvline(first - 0.5, color="grey", linewidth=0.8)
        axis.set_xlim(-0.5, len(lines) - 0.5)
        axis.set(title=name, ylabel="test accuracy, %")
        axis.grid(alpha=0.3, axis="y")
    for form, label, style in (
        ("*", "the paper", {"color": THEIRS, "ms": 9}),
        ("o", "ours, three seeds", {"color": OURS}),
        ("o", "ours, one seed", {"color": OURS, "fillstyle": "none"}),
        ("s", "ours, one seed, 12 epochs", {"color": OURS, "fillstyle": "none"}),
    ):
        axes[1].plot([], [], form, label=label, **style)
    axes[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return _save(figure, path)


def _layer(index: int) -> str:
    return "lifting" if index == 0 else f"group {index}"


def _save(figure: Any, path: Path) -> Path:  # noqa: ANN401 - a matplotlib figure
    figure.tight_layout()
    figure.savefig(path, dpi=180)
    plt.close(figure)
    return path


def draw(results: Path, out: Path) -> list[Path]:
    """Draw what the results have."""
    found = json.loads(results.read_text())
    rows = found["rows"]
    expected = json.loads((HERE / "expected.json").read_text())["table3"]
    out.mkdir(parents=True, exist_ok=True)
    return [
        beside_the_paper(found["cifar"]["rows"], expected, out / "tables.png"),
        accuracy_over_omega(rows, out / "figure4.png"),
        omega_by_layer(rows, out / "relaxation.png"),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--out", type=Path, default=HERE / "figures")
    arguments = parser.parse_args()
    for written in draw(arguments.results, arguments.out):
        print(f"wrote {written}")
