"""The papers' main claims beside our numbers: sixteen rows, made from the stored results.

    python papers/summary.py

prints them as a table in Markdown; the documentation's page "The five papers" is this table.
Numbers are read from the tables of the papers' pages (``tables.blocks``), which are made from
results.json, or from results.json itself.
"""

import importlib.util
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
HOLDS, PARTLY, FAILS = "holds", "holds in part", "does not hold"
STARTS = (5, 45, 90, 135, 175)
NEAR = 10  # degrees
SEEN = " †"  # a setting was chosen with test results in view


@dataclass(frozen=True)
class Claim:
    """One row: what a paper says, its numbers, ours, and whether it holds."""

    paper: str
    claim: str
    theirs: str
    ours: str
    verdict: str


@lru_cache(maxsize=1)
def tables() -> ModuleType:
    """``papers/tables.py``."""
    spec = importlib.util.spec_from_file_location("paper_tables", HERE / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@lru_cache(maxsize=16)
def stored(paper: str, name: str = "results") -> Any:  # noqa: ANN401 - JSON
    """Results, or what was expected, of a paper."""
    return json.loads((HERE / paper / f"{name}.json").read_text())


@lru_cache(maxsize=16)
def cells(paper: str, block: str) -> list[list[str]]:
    """The rows of a table of a page, without its head."""
    lines = tables().blocks(paper)[block].splitlines()
    rows = [line for line in lines if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in rows]


def judged(parts: Sequence[bool]) -> str:
    """All, some or none."""
    return HOLDS if all(parts) else PARTLY if any(parts) else FAILS


def spread(values: Sequence[float], form: str = ".1f") -> str:
    """Mean, standard deviation and number of seeds."""
    if len(values) == 1:
        return f"{values[0]:{form}} (1 seed)"
    return f"{mean(values):{form}} ± {stdev(values):{form}} ({len(values)} seeds)"


def invariant_weights() -> Iterator[Claim]:
    """Paper 0."""
    paper = "invariant-weights"
    found, expected = stored(paper)["tables"], stored(paper, "expected")

    def runs(table: str, row: str, name: str, tag: str | None = None) -> list[dict[str, Any]]:
        batches = [b for b in found[table] if tag is None or b["tag"] == tag]
        every = [run for batch in batches for run in batch["runs"]]
        return [run for run in every if (run["row"], run["set"]) == (row, name)]

    source, tag = "table1-random", "learned prior"
    rotated = "mnist-rotated"
    learned = [r for a in STARTS for r in runs(source, f"learned from {a}", rotated, tag)]
    best = max(
        mean(r["elbo"] for r in runs(source, f"fixed {a}", rotated, f"{tag}, fixed"))
        for a in STARTS
    )
    accuracy, elbo = (mean(r[key] for r in learned) for key in ("accuracy", "elbo"))
    row = expected["table1"]["rows"]["learned"]
    theirs = f"{row['accuracy'][0]:.2f} %, {row['elbo'][0]:.2f} nats"
    ours = f"{accuracy:.2f} %{SEEN}, {elbo:.3f} nats (best fixed {best:.3f})"
    holds = accuracy >= row["accuracy"][0] and elbo >= best - 0.005
    what = "A learned width is as good as the best fixed one (Table 1, rotated MNIST)"
    yield Claim(paper, what, theirs, ours, judged([holds]))

    ends = {
        name: [
            float(r["shown"]["rotation"].split()[0])
            for a in STARTS
            for r in runs(source, f"learned from {a}", name, tag)
        ]
        for name in ("mnist-rotated", "mnist-partially-rotated")
    }
    parts = [
        max(abs(w - planted) for w in ends[name]) <= NEAR
        for name, planted in (("mnist-rotated", 180), ("mnist-partially-rotated", 90))
    ]
    shown = " and ".join(f"{min(v):.0f} to {max(v):.0f}" for v in ends.values())
    seeds = len(ends["mnist-rotated"]) // len(STARTS)
    other = [
        math.degrees(r["half_width"]["rotation"])
        for a in STARTS
        for r in runs(source, f"learned from {a}", "mnist-partially-rotated", "fixed prior")
    ]
    near = f"{sum(abs(w - 90) <= NEAR for w in other)} of {len(other)} near 90"
    blurred = [
        math.degrees(r["half_width"]["rotation"])
        for a in STARTS
        for r in runs("table1-blur", f"learned from {a}", "mnist-partially-rotated", tag)
    ]
    near += f"; blurred filters: {sum(abs(w - 90) <= NEAR for w in blurred)} of {len(blurred)}"
    how = f"32 random transformations, learned prior; {seeds} seeds; the paper's prior: {near}"
    what = "The planted ±180 and ±90 degrees are found from every start (Figure 2)"
    yield Claim(paper, what, "near 180 and 90, but from 175", f"{shown} ({how})", judged(parts))

    for block, table, name in (
        ("relu", "table2", "MNIST, Table 2"),
        ("cifar", "table3", "CIFAR-10, Table 3"),
    ):
        said = expected[table]["rows"]["affine"]["accuracy"]
        line = next(c for c in cells(paper, block) if c[0].startswith("affine: by the bound"))
        ours = [float(cell.split(" \\| ")[1].split()[0]) for cell in line[1:]]
        parts = [mine >= their for mine, their in zip(ours, said, strict=True)]
        what = f"Affine widths are learned: rotated, translated, scaled, regular ({name})"
        shown = [" / ".join(f"{v:.1f}" for v in values) + " %" for values in (said, ours)]
        yield Claim(paper, what, *shown, judged(parts))

    point = {(c[0], c[1]): [float(v) for v in c[2:]] for c in cells(paper, "point")}
    few = [
        (point[kind, f"{name}, 1,000 images, our rates"]) for kind in ("RFF", "ReLU")
        for name in ("point estimate", "Gaussian")
    ]  # fmt: skip
    begun = (5, 45, 90, 5, 45, 90)
    falls = all(end < start for end, start in zip(few[0] + few[2], begun, strict=True))
    grows = all(end > start for end, start in zip(few[1] + few[3], begun, strict=True))
    all_images = point["ReLU", "point estimate, our rates"]
    ours = "1,000 images: RFF " + " / ".join(f"{v:.0f}" for v in few[0]) + ", with the integral "
    ours += " / ".join(f"{v:.0f}" for v in few[1]) + " degrees from 5 / 45 / 90; 60,000 images: "
    ours += "ReLU " + " / ".join(f"{v:.0f}" for v in all_images)
    what = "A point estimate learns no invariance (section 4.1)"
    yield Claim(paper, what, "width falls", ours, judged([falls and grows, max(all_images) < 90]))


def genuine_invariance() -> Iterator[Claim]:
    """Paper 1."""
    paper = "genuine-invariance"
    found, expected = stored(paper)["table"], stored(paper, "expected")["table"]
    plain, page = stored(paper)["plain"]["table"], tables().beside(paper)
    groups = ("r4", "t3")

    def numbers(name: str, key: str) -> list[float]:
        return [found[group][name][key]["mean"] for group in groups]

    said = [expected[group]["DA"]["si"] for group in groups]
    ours = [plain[group]["DA-plain"]["si"]["mean"] for group in groups]
    what = (
        "Augmentation makes predictions invariant, not what they rest on: SI under R4, T3 (Table 1)"
    )
    shown = [" / ".join(f"{v:.2f}" for v in values) for values in (said, ours)]
    yield Claim(paper, what, *shown, judged([value < 0.6 for value in ours]))

    said = [(expected[g]["IR"]["accuracy"], expected[g]["IR"]["si"]) for g in groups]
    theirs = " / ".join(f"{a:g} % at SI {s:g}" for a, s in said)
    at = [page.accuracies_at(plain[g], s) for g, (_, s) in zip(groups, said, strict=True)]
    ours = " / ".join(f"{mean(a):.1f} ± {stdev(a):.1f} %" for a in at)
    ours += f" at that SI, between two fixed weights{SEEN} ({len(at[0])} seeds)"
    parts = [mean(a) + stdev(a) >= number for a, (number, _) in zip(at, said, strict=True)]
    what = "A penalty from random weights makes it genuine, at R4, T3 (Table 1)"
    yield Claim(paper, what, theirs, ours, judged(parts))

    names = ("DA", "IR-random", "DI-random", "NLI-random")
    values = {name: numbers(name, "sigma_max") for name in names}
    parts = [
        value < base
        for name in names[1:]
        for value, base in zip(values[name], values["DA"], strict=True)
    ]
    ours = "; ".join(
        f"{n.removesuffix('-random')} {v[0]:.1f} / {v[1]:.1f}" for n, v in values.items()
    )
    ours += SEEN
    what = "Penalties lower the largest singular value (Figure 5, R4 / T3)"
    yield Claim(paper, what, "below DA", ours, judged(parts))


def symmetry_model() -> Iterator[Claim]:
    """Paper 2."""
    paper = "symmetry-model"
    goals = {c[0]: c[1:] for c in cells(paper, "goals")}
    rest = goals["next eta after 1, over the first"][6]
    own = [c for c in cells(paper, "ablations") if c[:2] == ["mnist-affine", "paper"]]
    steps, after = max((int(c[2].replace(",", "")), c[7].split()[0]) for c in own)
    ours = f"{rest.split()[0]} with our objective; its own, {steps:,} steps: {after}"
    what = "Iterated prototypes come to rest on MNIST (Figure 11): the next eta over the first"
    parts = [float(number.split("%")[0]) <= 5 for number in (rest, after)]
    yield Claim(paper, what, "5 %", ours + " after 5", judged(parts))

    ratios = [cell for cell in goals["rotation, width90 over expected"][2:6]]
    shown = " / ".join(cell.split()[0] for cell in ratios)
    parts = [abs(float(cell.split()[0]) - 1) <= 0.15 for cell in ratios]
    what = "Added rotations of ±15, 45, 90, 180 degrees are found (Figure 8): found over planted"
    yield Claim(paper, what, "shown as pictures", f"{shown} (3 seeds)", judged(parts))

    planted = [c for c in cells(paper, "planted") if c[0] == "sprites-affine"]
    parts = [c[-1] == "met" for c in planted]
    what = "Each shape of the sprites has its own distribution (Figures 12, 17)"
    ours = f"{sum(parts)} of {len(parts)} planted properties in all 3 seeds (those of hearts{SEEN})"
    yield Claim(paper, what, "shown as pictures", ours, judged(parts))

    goals = {c[0]: c for c in cells("invariant-vae", "goals")}
    rows = [goals["AugVAE"], goals["InvVAE, on x: more rotation"]]
    parts = [row[-1] == "met" for row in rows]
    ours = f"AugVAE (larger and trained for longer than the VAE) {rows[0][2]}, InvVAE {rows[1][2]}"
    what = "With a symmetry model a VAE loses less to rotation and few images (Figure 9)"
    yield Claim("invariant-vae", what, "AugVAE, InvVAE above VAE", ours, judged(parts))


def invariant_vae() -> Iterator[Claim]:
    """Paper 3."""
    paper = "invariant-vae"
    rows = [c for c in cells(paper, "goals") if c[0].startswith("width90 over expected, MNIST")]
    longest = {c[0].split(", ")[2]: c for c in rows}  # runs of a range are in the order of steps
    ours = ", ".join(f"{c[2]} ({c[0].split(', ', 3)[3]})" for c in longest.values())
    what = "The spread of q(eta given x) grows with the planted range (Figure 6): found over "
    what += f"expected at {' / '.join(longest)} degrees"
    yield Claim(paper, what, "shown as pictures", ours, judged([c[-1] == "met" for c in rows]))

    bounds: dict[str, list[float]] = {}
    for row in cells(paper, "ablations"):
        bounds.setdefault(row[0], []).append(float(row[8]))
    gains = [values[0] - max(values[1:]) for values in bounds.values()]
    ours = " / ".join(f"{gain:+.0f}" for gain in gains) + f" nats ({row[2]} steps, 1 seed)"
    what = "p(eta) must be flexible, the encoder invariant, eta dependent on the prototype"
    yield Claim(paper, what, "conjectured", ours, judged([gain > 0 for gain in gains]))


def relaxed_equivariance() -> Iterator[Claim]:
    """Paper 4."""
    paper = "relaxed-equivariance"
    rows = cells(paper, "table2")
    ours = " / ".join(row[2] for row in rows) + " % (3 seeds)"
    parts = [abs(float(row[2]) - float(row[1])) < 2 for row in rows]
    what = (
        "Strict rotation symmetry cannot tell upright from turned 6s; partial, soft can (Table 2)"
    )
    yield Claim(paper, what, " / ".join(row[1] for row in rows) + " %", ours, judged(parts))

    lines = [c for c in cells(paper, "screen") if c[0] == "4 rotations"]
    shown, parts = [[], []], []
    for i in (2, 4):  # without augmentation
        pairs = [line[i].split(" \\| ") for line in lines]
        shown[0].append(" / ".join(pair[0] for pair in pairs))
        shown[1].append(" / ".join(pair[1] for pair in pairs))
        if all(pair[1] != "not run" for pair in pairs):
            theirs, ours = ([float(pair[j].split()[0]) for pair in pairs] for j in (0, 1))
            parts += [v >= t for v, t in zip(ours, theirs, strict=True)]
            parts += [a <= b for a, b in pairwise(ours)]
    what = "Strict, partial, soft with 4 rotations: CIFAR-10; CIFAR-100, in % (Tables 1 and 3)"
    yield Claim(paper, what, *map("; ".join, shown), judged(parts) if parts else "not run")


PARTS: tuple[Callable[[], Iterator[Claim]], ...] = (
    invariant_weights,
    genuine_invariance,
    symmetry_model,
    invariant_vae,
    relaxed_equivariance,
)


def claims() -> list[Claim]:
    """All rows, paper by paper."""
    return [claim for part in PARTS for claim in part()]


def markdown(link: str = "{paper}/README.md") -> str:
    """The rows as a table; ``link`` leads to a paper's page."""
    head = ["page", "claim", "paper", "ours", "verdict"]
    rows = [
        [f"[{c.paper}]({link.format(paper=c.paper)})", c.claim, c.theirs, c.ours, c.verdict]
        for c in claims()
    ]
    text: str = tables().table(head, rows)
    return text


if __name__ == "__main__":
    print(markdown())
