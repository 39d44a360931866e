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
UNITS = {"rotation": "half turns", "translation": "half-images"}
RATE = 4.0  # of a learned omega', by that of the weights, where nothing else is said
NAMES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
Rows = list[dict[str, Any]]


def accuracy_over_omega(rows: Rows, path: Path) -> Path:
    """Figure 4: validation accuracy over a fixed omega', a panel for each soft subgroup."""
    rows = [row for row in rows if row["experiment"] == "figure4"]
    panels = list(dict.fromkeys((row["data"], row["relaxed"]) for row in rows))
    sets = len({data for data, _ in panels})
    size = (4.2 * (len(panels) // sets), 3 * sets)
    figure, axes = plt.subplots(sets, len(panels) // sets, figsize=size, squeeze=False)
    for axis, (data, which) in zip(axes.flat, sorted(panels), strict=True):
        chosen = [row for row in rows if (row["data"], row["relaxed"]) == (data, which)]
        omegas = sorted({row["omega"] for row in chosen})
        means = [mean(r["accuracy"] for r in chosen if r["omega"] == o) for o in omegas]
        seeds = len({row["seed"] for row in chosen})
        # 0 is no place on a logarithmic axis: a line of its own.
        axis.axhline(means[0], color="black", linestyle="--", linewidth=1, label="omega' = 0")
        axis.plot(omegas[1:], means[1:], "o-", color="#2166ac", markersize=4)
        axis.set_xscale("log")
        axis.set_xticks(omegas[1:], [f"{omega:g}" for omega in omegas[1:]])
        axis.minorticks_off()
        plural = "one seed" if seeds == 1 else f"{seeds} seeds"
        axis.set(
            title=f"{NAMES.get(data, data)}, soft {which}, {plural}", ylabel="held-out accuracy, %"
        )
        axis.set_xlabel(f"omega', one per {UNITS[which][:-1]}")
        axis.grid(alpha=0.3)
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
        axes[0, -1].plot([], "s:", color="grey", label="rate 1, not 4", markersize=4)
    axes[0, -1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return _save(figure, path)


def beside_the_paper(rows: Rows, expected: Rows, path: Path) -> Path:
    """Tables 1 and 3 without augmentation, by the recipe: ours and the paper's by model."""
    rows = [row for row in rows if not (row["augment"] or row["validation"])]
    lines = [line for line in expected if line["penalty"] is None and line["rotations"] <= 4]
    figure, axes = plt.subplots(1, len(NAMES), figsize=(4.2 * len(NAMES), 3.2))
    for axis, (data, name) in zip(axes, NAMES.items(), strict=True):
        labels = []
        for line in lines:
            key = (data, line["rotations"], line["model"].split()[0], None)
            names = ("data", "rotations", "mode", "penalty")
            found = [r for r in rows if tuple(r[n] for n in names) == key]
            longest = max((r["epochs"] for r in found), default=0)
            mine = [r["accuracy"] for r in found if r["epochs"] == longest]
            if not mine:
                continue
            group = "T(2)" if line["rotations"] == 1 else f"{line['rotations']} rotations"
            x = len(labels)
            error = stdev(mine) if len(mine) > 1 else 0.0
            axis.errorbar(x, mean(mine), error, fmt="o", color="#2166ac", capsize=4,
                          label="ours" if not labels else None)  # fmt: skip
            axis.errorbar(x, *line[data], fmt="*", color="#b2182b", ms=10, capsize=4,
                          label="the paper" if not labels else None)  # fmt: skip
            length = "" if longest >= EPOCHS else f"\n{longest} epochs"
            one = "" if len(mine) > 1 else "\none seed"
            labels.append(f"{group}\n{line['model']}{length}{one}")
        axis.set_xticks(range(len(labels)), labels, fontsize=8)
        axis.margins(x=0.15)
        axis.set(title=name, ylabel="test accuracy, %")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8, frameon=False, loc="upper left")
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
