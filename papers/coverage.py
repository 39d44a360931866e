"""How much of the papers' tables and figures was run, counted from the stored results.

    python papers/coverage.py

prints a table: entries of each table (a number for each row and set) or panels of a figure that
were run at the paper's setting with three seeds or more, at that setting with fewer seeds, with
another setting, or not at all; and the GPU minutes that would bring all of them to the first
column. Setting and difference are said in the last column; the pages list every deviation.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "relaxed-equivariance"))
from page_screen import (
    COLUMNS,
    EPOCHS,
    matching,
    pace,
    recipe_rows,
    run_seconds,
    short_rows,
)

HERE = Path(__file__).parent
SEEDS = 3
FULL = 15_000  # steps of the joint model
RANGES = (0, 15, 45, 90, 180)
# Seconds of an H200 for a run, measured: runs that shared it count by their share.
JOINT, PUBLISHED, VAE_RUN, SEARCHED = 65, 134, 45, 8


@dataclass(frozen=True)
class Part:
    """A table or figure: numbers of entries, and what the rest would take."""

    paper: str
    name: str
    full: int
    few: int
    other: int
    missing: int
    minutes: float
    note: str

    @property
    def total(self) -> int:
        """All entries."""
        return self.full + self.few + self.other + self.missing


def stored(paper: str, name: str = "results") -> Any:  # noqa: ANN401 - JSON
    """A file of a paper."""
    return json.loads((HERE / paper / f"{name}.json").read_text())


def by_seeds(counts: Sequence[int]) -> tuple[int, int]:
    """How many entries have three seeds or more, and how many have fewer."""
    return sum(n >= SEEDS for n in counts), sum(0 < n < SEEDS for n in counts)


def invariant_weights() -> Iterator[Part]:
    """Paper 0: rows by sets."""
    tables, paper = stored("invariant-weights")["tables"], "invariant-weights"

    def seeds(*names: str, rows: Sequence[str] = ()) -> list[int]:
        found: dict[tuple[str, str], set[int]] = {}
        for batch in (b for name in names for b in tables.get(name, ())):
            for run in batch["runs"]:
                if not rows or run["row"] in rows:
                    found.setdefault((run["row"], run["set"]), set()).add(batch["seed"])
        return [len(part) for part in found.values()]

    def part(name: str, entries: int, counts: Sequence[int], seconds: float, note: str) -> Part:
        full, few = by_seeds(counts)
        runs = SEEDS * entries - sum(min(SEEDS, n) for n in counts)
        return Part(paper, name, full, few, entries - full - few, 0, runs * seconds / 60, note)

    yield part("Tables 1 and 4", 30, seeds("table1-random"), 7, "32 random draws")
    single = ("none", "rotation", "translation", "scale")
    counts = seeds("table2-long", rows=single) + seeds("table2-crossed", rows=("affine",))
    note = "30,000 steps; otherwise: 8,000"
    yield part("Tables 2 and 7", 24, counts + seeds("sgpr"), SEARCHED, note)
    counts = seeds("table3-crossed")
    yield part("Table 3", 20, counts, SEARCHED, "6,000 and 12,000 steps (not stated)")
    note = "30,000 steps; otherwise: 4,000"
    yield part("Table 5", 30, seeds("table5-long"), 10, note)
    note = "filters blurred by 0.1 half-images"
    yield part("Table 6", 20, seeds("table6-blur", rows=(*single, "affine")), 7, note)


def genuine_invariance() -> Iterator[Part]:
    """Paper 1."""
    paper = "genuine-invariance"
    yield Part(paper, "Table 1", 6, 0, 0, 0, 0, "its rates, four seeds")
    full = 4 * ("drift" in stored(paper)["plain"])
    note = "networks of Table 1; otherwise (Figure 5): with a running mean of the weights"
    yield Part(paper, "Figures 1 to 5", full, 0, 5 - full, 0, 2, note)


def symmetry_model() -> Iterator[Part]:
    """Paper 2: its objective and length, or ours."""
    paper, results = "symmetry-model", stored("symmetry-model")
    both = [r for r in results.get("published", ()) if "summary" in r]  # both stages
    figures = {"mnist-affine": 5, "mnist-colour": 2, "sprites-affine": 3}
    runs = {task: sum(row["task"] == task for row in both) for task in figures}
    full, few = by_seeds([runs[task] for task, count in figures.items() for _ in range(count)])
    minutes = sum(SEEDS - min(SEEDS, n) for n in runs.values()) * PUBLISHED / 60
    note = "its own objective and 60,000 + 60,000 steps; otherwise: ours, three seeds"
    name = "Figures 8, 10 to 17"
    yield Part(paper, name, full, few, 10 - full - few, 0, minutes, note)
    rows = [r for r in stored("invariant-vae")["rows"] if r["part"] == "figure9"]
    counts, left = [], 0
    for added in (0, 45, 90, 180):
        for size in (12_500, 25_000, 50_000):
            here = [r for r in rows if (r["added"], r["size"]) == (added, size)]
            alike = [r for r in here if r["steps"] == 20_000 and r["hidden"] == 256]
            alike = [r for r in alike if len(r["channels"]) == 3]
            seeds = {k: {r["seed"] for r in alike if r["kind"] == k} for k in ("VAE", "AugVAE")}
            counts += 2 * [min(map(len, seeds.values()))]
            counts.append(len({r["seed"] for r in here if r["kind"] == "InvVAE"}))
            left += sum(SEEDS - min(SEEDS, len(s)) for s in seeds.values())
    full, few = by_seeds(counts)
    minutes = left * VAE_RUN / 60
    note = "VAE and AugVAE with equal networks and steps (20,000); otherwise: not equal. InvVAE: "
    note += "2,500 or 5,000 steps"
    yield Part(paper, "Figure 9", full, few, 36 - full - few, 0, minutes, note)


def invariant_vae() -> Iterator[Part]:
    """Paper 3."""
    rows = stored("invariant-vae")["rows"]
    turned = [r for r in rows if r["part"] == "rotation" and r["steps"] == FULL]
    counts = [len({r.get("seed", 0) for r in turned if r["added"] == a}) for a in RANGES]
    full, few = by_seeds(counts)
    minutes = sum(SEEDS - min(SEEDS, n) for n in counts) * JOINT / 60
    note = f"{FULL:,} steps; otherwise: 1,000"
    yield Part(
        "invariant-vae", "Figures 5 and 6", full, few, 5 - full - few, 0, minutes, note
    )  # fmt: skip
    most = max(r["steps"] for r in rows if r["part"] == "ablations")
    note = f"{FULL:,} steps; otherwise: {most:,}"
    yield Part("invariant-vae", "conjectures 1 to 3", 0, 0, 3, 0, 7 * SEEDS * JOINT / 60, note)


def relaxed_equivariance() -> Iterator[Part]:
    """Paper 4; Table 1 is a part of Table 3."""
    paper = "relaxed-equivariance"
    results, expected = stored(paper), stored(paper, "expected")
    yield Part(paper, "Table 2", 3, 0, 0, 0, 0, "three seeds")
    times, rows, short = pace(results), recipe_rows(results), short_rows(results)
    for n in (1, 4, 8, 16):
        counts, other, missing, minutes = [], 0, 0, 0.0
        for line in (t for t in expected["table3"] if t["rotations"] == n):
            known = run_seconds(times, line) or 0.0
            for data, augment in COLUMNS.values():
                found = matching(rows, line, data, augment)
                long = [row for row in found if row["epochs"] >= EPOCHS]
                some = bool(found or matching(short, line, data, augment))
                counts.append(len(long))
                other, missing = other + (some and not long), missing + (not some)
                minutes += (SEEDS - min(SEEDS, len(long))) * known / 60
        name = "Table 3, " + ("T(2)" if n == 1 else f"{n} rotations")
        note = f"{EPOCHS} epochs by the recipe (the paper's length is not stated, its baseline's "
        note += "is 300); otherwise: 6 to 16 epochs"
        yield Part(paper, name, *by_seeds(counts), other, missing, minutes, note)
    sets = {r["data"] for r in results["rows"] if r["experiment"] == "figure4"}
    note = "the recipe, three seeds; otherwise: the plain network, 6 epochs, one seed"
    yield Part(paper, "Figure 4", 0, 0, 2 * len(sets), 4 - 2 * len(sets), 42, note)


def parts() -> list[Part]:
    """Everything, in the order of the papers."""
    makers = (
        invariant_weights, genuine_invariance, symmetry_model, invariant_vae, relaxed_equivariance,
    )  # fmt: skip
    return [part for make in makers for part in make()]


def markdown() -> str:
    """The table, and the shares."""
    head = ["paper", "table or figure", "entries", "paper's setting, three seeds or more"]
    head += ["that setting, fewer seeds", "otherwise", "not run", "GPU minutes to go"]
    lines = [[*head, "the paper's setting"], ["---"] * (len(head) + 1)]
    found = parts()
    for part in found:
        counts = (part.total, part.full, part.few, part.other, part.missing)
        minutes = f"{part.minutes:.0f}" if part.full < part.total else ""
        lines.append([part.paper, part.name, *map(str, counts), minutes, part.note])
    kept = [part for part in found if "16 rotations" not in part.name]
    names = ("total", "full", "few", "other", "missing", "minutes")
    total, full, few, other, missing, minutes = (
        sum(getattr(part, name) for part in kept) for name in names
    )
    text = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    return (
        f"{text}\nWithout 16 rotations: {total} entries, {full + few} at the paper's setting "
        f"({full} with three seeds or more), {other} otherwise, {missing} not run "
        f"({100 * missing / total:.0f} %). What is not in the first column would take "
        f"{minutes / 60:.0f} hours of an H200.\n"
    )


if __name__ == "__main__":
    print(markdown())
