"""Tables of the paper's own sampling: Table 1 as published, best widths by S, labels that tell."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean, stdev
from typing import Any

from page_widths import SETS, STARTS, Run, Widths

RANDOM, BLURRED = "table1-random", "table1-blur"
PLANTED = {"mnist-rotated": 180, "mnist-partially-rotated": 90}
TAGS = ("learned prior", "learned prior, fixed")
WAYS = {  # table, tag of the learned rows, tag of the fixed ones
    "32 random, learned prior, blurred filters": (BLURRED, *TAGS),
    "32 random, learned prior": (RANDOM, *TAGS),
    "32 random, the paper's prior": (RANDOM, "fixed prior", "fixed prior, fixed"),
    "32 evenly spread, learned prior": ("table1", "learned", "fixed"),
}
NEAR = 10  # degrees
NOT_RUN = "Not run yet.\n"


class Sampled(Widths):
    """The tables of this file."""

    def tagged(self, table: str, tag: str, row: str, name: str) -> list[Run]:
        """Runs of one row and set among the batches with a tag, a seed each."""
        batches = [b for b in self.tables.get(table, []) if b["tag"] == tag]
        runs = [run for batch in batches for run in batch["runs"]]
        return [run for run in runs if (run["row"], run["set"]) == (row, name)]

    def way(self) -> str:
        """How the rows of the first screen were made: the paper's way where it was run."""
        return next(name for name, (table, *_) in WAYS.items() if table in self.tables)

    def screen(self, way: str = "") -> str:
        """Tables 1 and 4 in the paper's layout: paper, ours ± standard deviation (seeds)."""
        way = way or self.way()
        table, learned, fixed = WAYS[way]
        body = []
        for row in [f"{kind} {a}" for kind in ("fixed", "learned from") for a in STARTS]:
            tag, line = fixed if row.startswith("fixed") else learned, [row]
            for i, name in enumerate(SETS):
                runs = self.tagged(table, tag, row, name)
                for key, form in (("elbo", ".3f"), ("accuracy", ".2f")):
                    ours = said([run[key] for run in runs], form)
                    line.append(f"{self.paper[row][key][i]:.2f} \\| {ours}")
            body.append(line)
        head = ["width"]
        for short in SETS.values():
            head += [f"{short}: ELBO", "accuracy †"]
        return f"Made with {way}.\n\n" + self.table(head, body)

    def planted(self) -> str:
        """Learned widths beside the planted ones, by sampling and prior."""
        body = []
        for label, (table, tag, fixed) in WAYS.items():
            if table not in self.tables:
                continue
            line = [label]
            for name in SETS:
                runs = {a: self.tagged(table, tag, f"learned from {a}", name) for a in STARTS}
                ends = [degrees(run) for found in runs.values() for run in found]
                if not ends:
                    line += ["not run", ""]
                    continue
                held = [self.tagged(table, fixed, f"fixed {a}", name) for a in STARTS]
                bounds = [mean(r["elbo"] for r in found) if found else -math.inf for found in held]
                best = STARTS[bounds.index(max(bounds))] if any(held) else None
                far = [abs(w - PLANTED[name]) for w in ends] if name in PLANTED else None
                near = f", {sum(d <= NEAR for d in far)} of {len(far)} near" if far else ""
                line += [self.span(ends, ".0f") + near, "" if best is None else str(best)]
            body.append(line)
        head = ["transformations, prior"]
        for name, short in SETS.items():
            head += [f"{short}: planted {PLANTED.get(name, 0)}, learned", "best fixed"]
        return self.table(head, body)

    def by_samples(self) -> str:
        """The best half-width on a grid by S, for what was planted; the exact average last."""
        batches = self.tables.get("samples", [])
        if not batches:
            return NOT_RUN
        body = []
        for prior in dict.fromkeys(b["prior"] for b in batches):
            own = [b for b in batches if b["prior"] == prior]
            for angle in own[0]["elbo"]:
                line = [prior, f"±{angle}" if angle != "0" else "0"]
                for samples in counts(own):
                    tops = [top(b, angle) for b in own if b["samples"] == samples]
                    line.append(self.span(tops, ".0f"))
                body.append(line)
        names = [f"S = {n}" if n else "exact average" for n in counts(batches)]
        return self.table(["prior", "planted", *names], body)

    def identified(self) -> str:
        """Tasks whose labels say how far f may be averaged: the best width, and the learned one."""
        batches = self.tables.get("identified-finer") or self.tables.get("identified", [])
        if not batches:
            return NOT_RUN
        body = []
        for tag in dict.fromkeys(b["tag"] for b in batches):
            own = [b for b in batches if b["tag"] == tag]
            best = [b["best"] for b in own]
            ends = [w for b in own for w in b["learned"]]
            alone = [w for b in own for w in b["by_gradients"]]
            gaps = [abs(w - b["best"]) for b in own for w in b["learned"]]
            near = f"{sum(gap <= NEAR for gap in gaps)} of {len(gaps)}"
            lost = max(max(b["elbo"]) - between(b, w) for b in own for w in b["learned"])
            line = [tag, self.span(best, ".0f"), self.span(ends, ".0f"), near, f"{lost:.4f}"]
            verdict = self.verdict(max(gaps) <= NEAR)
            body.append([*line, verdict, self.span(alone, ".0f"), str(len(own))])
        head = ["labels", "best by the exact average", "learned, five starts", f"within {NEAR}"]
        head += ["exact bound below its best, nats, at most", "goal: all"]
        return self.table([*head, "by gradients alone", "seeds"], body)


def between(batch: dict[str, Any], width: float) -> float:
    """The exact bound at a width, on the line between the widths of the grid on either side."""
    points = list(zip(batch["degrees"], batch["elbo"], strict=True))
    for (low, first), (high, second) in pairwise(points):
        if low <= width <= high:
            return float(first + (second - first) * (width - low) / (high - low))
    return float(points[-1][1])


def said(values: Sequence[float], form: str) -> str:
    """Mean, standard deviation and number of seeds."""
    if not values:
        return "not run"
    if len(values) == 1:
        return f"{values[0]:{form}} (1)"
    return f"{mean(values):{form}} ± {stdev(values):{form}} ({len(values)})"


def degrees(run: Run) -> float:
    """The half-width of a run."""
    return math.degrees(run["half_width"]["rotation"])


def counts(batches: Sequence[dict[str, Any]]) -> list[int]:
    """Numbers of transformations, the exact average (0) last."""
    return sorted({b["samples"] for b in batches}, key=lambda n: n or math.inf)


def top(batch: dict[str, Any], angle: str) -> float:
    """The half-width of the best bound on the grid."""
    values = batch["elbo"][angle]
    best: float = batch["degrees"][values.index(max(values))]
    return best
