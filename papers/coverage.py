"""How much of the papers' tables and figures was run, counted from the stored results.

    python papers/coverage.py

prints a table: entries of each table (a number for each row and set) or panels of a figure that
were run at the paper's setting, run otherwise, or not run, with GPU minutes. What counts as the
paper's setting is said in the last column; the pages list every deviation.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "relaxed-equivariance"))
from page_screen import COLUMNS, matching, pace, recipe_rows, short_rows

HERE = Path(__file__).parent
STEPS = 30_000  # of the ReLU networks of paper 0
FULL = 15_000  # of the joint model
RANGES = (0, 15, 45, 90, 180)


@dataclass(frozen=True)
class Part:
    """A table or figure: numbers of entries, and what the missing ones would take."""

    paper: str
    name: str
    full: int
    other: int
    missing: int
    minutes: float
    note: str

    @property
    def total(self) -> int:
        """All entries."""
        return self.full + self.other + self.missing


def stored(paper: str, name: str = "results") -> Any:  # noqa: ANN401 - JSON
    """A file of a paper."""
    return json.loads((HERE / paper / f"{name}.json").read_text())


def invariant_weights() -> Iterator[Part]:
    """Paper 0: rows by sets."""
    tables, paper = stored("invariant-weights")["tables"], "invariant-weights"

    def entries(*names: str, rows: tuple[str, ...] = ()) -> int:
        runs = [r for name in names for b in tables.get(name, ()) for r in b["runs"]]
        return len({(r["row"], r["set"]) for r in runs if not rows or r["row"] in rows})

    yield Part(paper, "Tables 1 and 4", entries("table1-random"), 0, 0, 0, "32 random draws")
    single = ("none", "rotation", "translation", "scale")
    full = entries("table2-long", rows=single) + entries("table2-crossed", rows=("affine",))
    full += entries("sgpr")
    note = f"{STEPS:,} steps; otherwise: 8,000"
    yield Part(paper, "Tables 2 and 7", full, 24 - full, 0, 0, note)
    yield Part(paper, "Table 3", entries("table3-crossed"), 0, 0, 0, "6,000 and 12,000 steps")
    full = entries("table5-long")
    yield Part(paper, "Table 5", full, 30 - full, 0, 0, f"{STEPS:,} steps; otherwise: 4,000")
    full = entries("table6-blur", rows=(*single, "affine"))
    yield Part(paper, "Table 6", full, 20 - full, 0, 0, "blurred filters; otherwise: no blur")


def genuine_invariance() -> Iterator[Part]:
    """Paper 1."""
    paper = "genuine-invariance"
    yield Part(paper, "Table 1", 6, 0, 0, 0, "its rates, four seeds")
    full = 4 * ("drift" in stored(paper)["plain"])
    note = "networks of Table 1; otherwise: a running mean of the weights"
    yield Part(paper, "Figures 1 to 5", full, 5 - full, 0, 0, note)


def symmetry_model() -> Iterator[Part]:
    """Paper 2: its objective and length, or ours."""
    paper, results = "symmetry-model", stored("symmetry-model")
    both = [r for r in results.get("published", ()) if "summary" in r]  # both stages
    done = {row["task"] for row in both}
    figures = {"mnist-affine": 5, "mnist-colour": 2, "sprites-affine": 2}
    full = sum(count for task, count in figures.items() if task in done)
    note = "its own objective and steps (one seed); otherwise: ours"
    yield Part(paper, "Figures 8, 10 to 17", full, 10 - full, 0, 0, note)
    rows = [r for r in stored("invariant-vae")["rows"] if r["part"] == "figure9"]
    kinds, alike = ("VAE", "fixed", "AugVAE"), 0
    cells = [(a, n) for a in (0, 45, 90, 180) for n in (12_500, 25_000, 50_000)]
    for added, size in cells:
        here = [r for r in rows if (r["added"], r["size"]) == (added, size)]
        same = [r for r in here if r["steps"] == 20_000 and r["hidden"] == 256]
        alike += 2 * ({r["kind"] for r in same} >= set(kinds))
    note = "VAE and AugVAE with equal sizes and steps; otherwise: not equal. InvVAE as published"
    yield Part(paper, "Figure 9", 12 + alike, 24 - alike, 0, 0, note)


def invariant_vae() -> Iterator[Part]:
    """Paper 3."""
    rows = [r for r in stored("invariant-vae")["rows"] if r["part"] == "rotation"]
    full = len({r["added"] for r in rows if r["steps"] == FULL})
    note = f"{FULL:,} steps; otherwise: 1,000"
    yield Part("invariant-vae", "Figures 5 and 6", full, len(RANGES) - full, 0, 0, note)
    yield Part("invariant-vae", "conjectures 1 to 3", 0, 3, 0, 0, "600 steps of 15,000")


def relaxed_equivariance() -> Iterator[Part]:
    """Paper 4; Table 1 is a part of Table 3."""
    paper = "relaxed-equivariance"
    results, expected = stored(paper), stored(paper, "expected")
    yield Part(paper, "Table 2", 3, 0, 0, 0, "three seeds")
    seconds, rows, short = pace(results), recipe_rows(results), short_rows(results)
    for n in (1, 4, 8, 16):
        full = other = missing = 0
        minutes = 0.0
        for line in (t for t in expected["table3"] if t["rotations"] == n):
            for data, augment in COLUMNS.values():
                found = matching(rows, line, data, augment)
                three = len(found) >= 3 and found[0]["epochs"] >= 30
                some = bool(found or matching(short, line, data, augment))
                full, other = full + three, other + (some and not three)
                missing += not some
                mode = line["model"].split()[0]
                known = seconds.get("t2-" + mode if n == 1 else mode, 0.0)
                minutes += (not some) * known * (1 if n == 1 else (n / 4) ** 2) / 60
        name = "Table 3, " + ("T(2)" if n == 1 else f"{n} rotations")
        note = "30 epochs, three seeds; otherwise: 6 or 12 epochs, or fewer seeds"
        yield Part(paper, name, full, other, missing, minutes, note)
    yield Part(paper, "Figure 4", 0, 2, 2, 2, "otherwise: one seed, 6 epochs, CIFAR-10")


def parts() -> list[Part]:
    """Everything, in the order of the papers."""
    makers = (
        invariant_weights, genuine_invariance, symmetry_model, invariant_vae, relaxed_equivariance,
    )  # fmt: skip
    return [part for make in makers for part in make()]


def markdown() -> str:
    """The table, and the shares."""
    head = ["paper", "table or figure", "entries", "paper's setting", "otherwise", "not run"]
    lines = [[*head, "GPU minutes to go", "the paper's setting"], ["---"] * 8]
    found = parts()
    for part in found:
        minutes = f"{part.minutes:.0f}" if part.missing else ""
        counts = (part.total, part.full, part.other, part.missing)
        lines.append([part.paper, part.name, *map(str, counts), minutes, part.note])
    kept = [part for part in found if "16 rotations" not in part.name]
    total = sum(part.total for part in kept)
    missing, other = (sum(getattr(part, n) for part in kept) for n in ("missing", "other"))
    text = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    return (
        f"{text}\nWithout 16 rotations: {total} entries, {total - missing - other} at the paper's "
        f"setting, {other} otherwise, {missing} not run ({100 * missing / total:.0f} %).\n"
    )


if __name__ == "__main__":
    print(markdown())
