"""Which start and learning rate of omega' the table of goals takes, without a test image."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

Row = dict[str, Any]
START = 0.1  # of a learned omega', where nothing else is said
RATE = 4.0  # of a learned omega', by that of the weights, where nothing else is said


def chosen_start(groups: dict[tuple[Any, ...], list[Row]], where: tuple[Any, ...]) -> str:
    """The learned models of the start that trained best: lower objective for equal lambda and seed.

    The objective is what training minimises, so the choice looks at no image but those.
    """
    losses: dict[str, dict[tuple[Any, ...], float]] = {}
    for key, rows in groups.items():
        if key[:4] == where and "learned" in key[4]:
            for row in rows:
                losses.setdefault(key[4], {})[key[5], row["seed"]] = row["final_loss"]
    if not losses:
        return ""
    common = set.intersection(*(set(found) for found in losses.values()))
    return min(losses, key=lambda kind: sum(losses[kind][each] for each in common))


def rate_of(row: Row) -> float:
    """The learning rate of omega' by that of the weights; rows of earlier runs do not say it."""
    return float(row.get("rate", RATE))


def held_out(rows: Sequence[Row]) -> dict[float, list[Row]]:
    """By rate of omega', the runs on held-out training images that all rates have."""
    found: dict[float, dict[tuple[Any, ...], Row]] = {}
    for row in rows:
        if row["validation"] and row["penalty"] is not None and row["rotations"] == 8:
            at = (row["data"], row["omega"], row["penalty"], row["seed"])
            found.setdefault(rate_of(row), {})[at] = row
    common = set.intersection(*map(set, found.values())) if found else set()
    return {rate: [runs[at] for at in sorted(common)] for rate, runs in found.items()}


def chosen_rate(rows: Sequence[Row]) -> float:
    """The rate of omega' that is best on held-out training images, by the mean of all runs."""
    runs = {rate: found for rate, found in held_out(rows).items() if found}
    if not runs:
        return RATE
    return max(runs, key=lambda rate: mean(row["accuracy"] for row in runs[rate]))


def rates(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """How omega' falls and what comes of it, by its learning rate."""
    body = []
    for rate, runs in sorted(held_out(rows).items(), reverse=True):
        for row in runs:
            path = ", ".join(f"{value:.2f}" for value in row["omega_at_step"].values())
            end = ", ".join(f"{part['value']:.2f}" for part in row["relaxation"])
            line = [f"{rate:g}", f"{row['penalty']:g}", str(row["seed"]), path, end]
            body.append([*line, f"{row['final_loss']:.2f}", f"{row['accuracy']:.2f}"])
    head = ["rate", "lambda", "seed", "mean omega' after 1, 50, 100, 200, 400, 800 steps"]
    head += ["omega' of the layers at the end", "objective", "accuracy, held-out images"]
    return head, body
