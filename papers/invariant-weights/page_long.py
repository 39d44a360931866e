"""Tables of runs with 30,000 steps (Tables 2 and 5), and of widths on the edge of the search."""

import math
from collections.abc import Sequence
from statistics import mean
from typing import Any

from page_samples import NOT_RUN, Sampled, degrees, said
from page_widths import SETS, STARTS, Run

SHORT, LONG = "table5", "table5-long"


class Long(Sampled):
    """The tables of this file."""

    def table5(self) -> str:
        """Table 5 in the paper's layout; learned rows have the most steps that were run."""
        source = LONG if LONG in self.tables else SHORT
        held = LONG if self.chosen(LONG, "fixed 5", "mnist") else SHORT
        rows = [(f"fixed {a}", held) for a in STARTS]
        rows += [(f"learned from {a}", source) for a in (0, *STARTS[1:])]
        body = []
        for row, table in rows:
            line = [row, f"{self.steps(table):,}"]
            for place, name in enumerate(SETS):
                paper = self.expected["table5"]["rows"][row]
                runs = self.chosen(table, row, name)
                ours = said([run["accuracy"] for run in runs], ".2f")
                bound = mean(run["elbo"] for run in runs)
                line.append(f"{paper['accuracy'][place]:.2f} \\| {ours}; ")
                line[-1] += f"{paper['elbo'][place]:.2f} \\| {bound:.3f}"
                if row.startswith("learned"):
                    line[-1] += f"; {self.span([degrees(run) for run in runs])} degrees"
            body.append(line)
        return self.table(["width", "steps", *(f"{name} †" for name in SETS.values())], body)

    def untransformed(self) -> str:
        """CIFAR-10 without transformations, by start, prior and number of steps."""
        batches = self.tables.get("table3-none", [])
        if not batches:
            return NOT_RUN
        said_of = self.expected["table3"]["rows"]["none"]["accuracy"]
        body = [["the paper", "not stated", *(f"{value:.2f}" for value in said_of)]]
        for tag in dict.fromkeys(batch["tag"] for batch in batches):
            mine = [batch for batch in batches if batch["tag"] == tag]
            line = [tag, f"{mine[0]['training']['steps']:,}"]
            for name in self.expected["table3"]["sets"]:
                runs = [r for batch in mine for r in batch["runs"] if r["set"] == name]
                bound = f"{mean(r['elbo'] for r in runs):.3f}"
                line.append(f"{said([r['accuracy'] for r in runs], '.2f')}; {bound}")
            body.append(line)
        return self.table(["no transformation", "steps", *self.expected["table3"]["sets"]], body)

    def steps(self, table: str) -> int:
        """Steps of the runs of a table."""
        found: int = self.tables[table][0]["training"]["steps"]
        return found

    def edges(self) -> str:
        """The bound on unseen images where the widths on the edge are narrower or wider."""
        batches = self.tables.get("edges", [])
        if not batches:
            return NOT_RUN
        rows = [row for batch in batches for row in batch["rows"]]
        body = []
        for name in dict.fromkeys(row["set"] for row in rows):
            own = [row for row in rows if row["set"] == name]
            factors = sorted({row["factor"] for row in own})
            means = {f: mean(every([r for r in own if r["factor"] == f])) for f in factors}
            best = max(means, key=lambda f: means[f])
            for factor in factors:
                mine = [row for row in own if row["factor"] == factor]
                mark = "best" if factor == best else ""
                cells = [f"{factor:g}", widest(mine[0]), said(every(mine), ".4f"), mark]
                body.append([name, *cells])
        head = ["set", "times the width found", "largest half-width", "bound, nats (runs)", ""]
        return self.table(head, body)


def every(rows: Sequence[dict[str, Any]]) -> list[float]:
    """Bounds of all draws and seeds."""
    return [bound for row in rows for bound in row["bounds"]]


def widest(row: Run) -> str:
    """The widest of shifts and scales, in words."""
    shift, _, _, scale, *_ = row["half_widths"]
    return f"{shift:.2f} half-images" if shift > scale else f"a factor of {math.exp(scale):.2f}"
