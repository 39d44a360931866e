"""What ``network_paired.py`` measures, in which order, and what is left of it."""

import argparse
import importlib.util
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import network_widths
from network_accuracy import LAWS, METHODS

SEARCH = "search"  # the method whose rows are planted widths
STEPS = {300: 400, 1250: 600}  # of each training, by the number of labels
FEW = 3  # seeds of TrivialAugment, which does not train as one, and first ones of other data
SEARCHES = {"1 sector": 3, "12 sectors": 2, "6 sectors": 2, "3 sectors": 2, "2 sectors": 1}
SEARCHES["6 or 9"] = 1  # with those that are stored, three of each task
LONG = ("learned", SEARCH)  # methods that take about as long
FIRST = 500  # seed of the first of these searches
SETTINGS = ("steps", "samples", "batch", "lr", "width", "rows")

Row = dict[str, Any]


@dataclass(frozen=True)
class Unit:
    """What a process measures at a time.

    Args:
        data: name of the data set.
        law: of the poses, or the task of a search.
        labels: number of training images; 0 for a search.
        method: of ``network_accuracy.py``, or "search".
        seeds: those that train as one, or one.
    """

    data: str
    law: str
    labels: int
    method: str
    seeds: tuple[int, ...]

    def known(self, row: Row) -> bool:
        """Whether a row is of this unit, whatever its seed."""
        return all(row[key] == getattr(self, key) for key in ("data", "law", "labels", "method"))


def queue(given: argparse.Namespace) -> list[Unit]:
    """All units, so that early ones tell the most."""
    units = []
    for data, labels in itertools.product(given.data, given.labels):
        for seed, law in itertools.product(given.seeds, given.laws):
            units.append(Unit(data, law, labels, "learned", (seed,)))
        for law, method in itertools.product(given.laws, METHODS):
            same = method == "law of the data" and not LAWS[law]  # as "none"
            if method == "TrivialAugment":
                units += [Unit(data, law, labels, method, (seed,)) for seed in given.seeds[:FEW]]
            elif method != "learned" and not same:
                units.append(Unit(data, law, labels, method, tuple(given.seeds)))
    if "mnist" in given.data:
        numbers = [(task, n) for task in given.tasks for n in range(SEARCHES[task])]
        units += [Unit("mnist", task, 0, SEARCH, (FIRST + n,)) for task, n in numbers]
    wanted = set(given.methods)
    if importlib.util.find_spec("torchvision") is None:
        print("TrivialAugment is left out: it needs torchvision", flush=True)
        wanted.discard("TrivialAugment")
    return sorted((unit for unit in units if unit.method in wanted), key=rank)


def rank(unit: Unit) -> int:
    """The place of a unit in the queue, the lowest first."""
    few = unit.labels == min(STEPS)
    if unit.method == "TrivialAugment":
        return 5
    if unit.method == SEARCH:
        return 2 if unit.seeds[0] == FIRST else 4
    if unit.data == "mnist":
        return 0 if few else 1
    first = unit.method != "learned" or unit.seeds[0] < FEW
    return (3 if first else 5) if few else 6


def left(units: list[Unit], rows: list[Row], given: argparse.Namespace) -> list[Unit]:
    """The units and seeds that have no row with the same settings."""
    found = []
    for unit in units:
        wanted = settings(unit, given)
        rest = [row["seed"] for row in rows if unit.known(row) and row["settings"] == wanted]
        seeds = tuple(seed for seed in unit.seeds if seed not in rest)
        if seeds:
            found.append(Unit(unit.data, unit.law, unit.labels, unit.method, seeds))
    return found


def settings(unit: Unit, given: argparse.Namespace) -> Row:
    """What decides a row, beside the unit and the seed."""
    if unit.method == SEARCH:
        return {"steps": given.search_steps or network_widths.SIZES["mnist"].steps}
    return {**{key: getattr(given, key) for key in SETTINGS}, "steps": steps(unit, given)}


def steps(unit: Unit, given: argparse.Namespace) -> int:
    """The number of steps of each training."""
    return given.steps or STEPS.get(unit.labels, max(STEPS.values()))
