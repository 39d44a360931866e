"""How long trials must be: short and long ones against what trainings on all labels reach.

``python -m benchmarks.prescribe.lengths --folder DATA --out FILE`` draws labelled pictures for
development, none of which are test pictures. Networks are trained with each of the motions that
``prescribe`` tries, and with one of these without changes of light or with mirror images: on two
thirds of the labels for 800, 1,600 and 3,200 steps of 64 pictures, tested on the last third, and
on all labels for 1,500 steps of 128, tested on 5,000 others of the training set. A line of FILE is
a policy with accuracies and log-likelihoods.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch
from benchmarks.common import environment
from benchmarks.prescribe.cell import Cell, Setting, drawn_pictures

from symmetries.analysis.augmentation_laws import Law
from symmetries.analysis.inputs import check_labelled
from symmetries.analysis.network_trials import Size, Trial
from symmetries.analysis.prescribing import BASES
from symmetries.analysis.quick_networks import folds, scores_of, train
from symmetries.training.step import mix

CELLS = (("mnist", 180.0, 5000), ("cifar10", 0.0, 5000), ("fashion-mnist", 180.0, 5000))
NARROW = BASES[2]
ADDED = ({**NARROW, "mix": 0.0}, {**NARROW, "flip_x": 0.5})
POLICIES = ({}, *BASES, *ADDED)
SEED = 10
LENGTHS = {str(steps): Size(steps, 64, 3) for steps in (800, 1600, 3200)}
LAST = Size(1500, 128, 1)
Row = dict[str, Any]


def compute(cell: Cell, how: Setting, policy: dict[str, float]) -> Row:
    """One policy: scores of trials on a third of the labelled pictures, and those that matter."""
    few, test, fill = drawn_pictures(cell, how)
    x, y = few.images, check_labelled(few)
    laws = [Law(**policy)] * 10
    held = folds(len(x), 3, mix(cell.seed, 0))[0]
    row: Row = {**vars(cell), "policy": policy}
    for name, size in LENGTHS.items():
        (net,) = train([Trial(x[~held], y[~held], laws, fill, size, mix(cell.seed, 1))])
        row[name] = _means(scores_of(net, x[held], y[held]))
    (net,) = train([Trial(x, y, laws, fill, LAST, cell.seed)])
    row["final"] = _means(scores_of(net, test.images[:5000], check_labelled(test)[:5000]))
    return row


def _means(scores: torch.Tensor) -> list[float]:
    return [round(float(mean), 4) for mean in scores.mean(1)]


def shown(rows: list[Row]) -> str:
    """Markdown: by cell and length, what is chosen and what that loses, and how gains are told."""
    lines = ["| | steps | chosen | it loses | gain | of all labels | apart | another sign |"]
    lines.append("|" + " --- |" * 8)
    for data, spread, labels in dict.fromkeys((r["data"], r["spread"], r["labels"]) for r in rows):
        own = [r for r in rows if (r["data"], r["spread"], r["labels"]) == (data, spread, labels)]
        none, moved = own[0], own[1:]
        top = max(r["final"][0] for r in own)
        true = [r["final"][0] - none["final"][0] for r in moved]
        for name in LENGTHS:
            best = _chosen(own, name)
            told = [r[name][0] - none[name][0] for r in moved]
            wrong = sum(a * b < 0 for a, b in zip(told, true, strict=True))
            apart = [abs(a - b) for a, b in zip(told, true, strict=True)]
            means = (top - best["final"][0], *map(statistics.mean, (told, true, apart)))
            numbers = " | ".join(f"{100 * mean:.1f}" for mean in means)
            what = " ".join(f"{key} {far:g}" for key, far in best["policy"].items() if far)
            place, signs = f"{data} {spread:g} {labels}", f"{wrong} of {len(moved)}"
            lines.append(f"| {place} | {name} | {what} | {numbers} | {signs} |")
    return "\n".join(lines)


def _chosen(rows: list[Row], name: str) -> Row:
    """The best motion by log-likelihood, then the best of what was tried on top of it."""
    base = max((r for r in rows if r["policy"] in ({}, *BASES)), key=lambda r: r[name][1])
    if base["policy"] != NARROW:
        return base
    return max((r for r in rows if r["policy"] in (NARROW, *ADDED)), key=lambda r: r[name][1])


def main() -> None:
    """All policies of all cells, a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    how = Setting(folder=given.folder, development=True, source=17500)
    rows = []
    head = {"name": "prescribe-lengths", **environment("cpu"), "development": True}
    given.out.write_text(json.dumps(head) + "\n")
    for data, spread, labels in CELLS:
        for policy in POLICIES:
            rows.append(compute(Cell(data, spread, labels, SEED), how, policy))
            with given.out.open("a") as stream:
                stream.write(json.dumps(rows[-1]) + "\n")
    print(shown(rows))


if __name__ == "__main__":
    main()
