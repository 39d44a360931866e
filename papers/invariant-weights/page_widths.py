"""Tables of learned and fixed rotations (Tables 1, 4 and 5), and what all tables look up."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import mean
from typing import Any

STARTS = (5, 45, 90, 135, 175)
SETS = {"mnist-rotated": "rotated", "mnist-partially-rotated": "partially", "mnist": "regular"}
PART = "mnist-partially-rotated"
TRAINING = {
    "table1": "gradients, then a search",
    "table1-gradient": "gradients, full batch",
    "table1-minibatch": "gradients, mini-batch",
}
# Tables of learned rotations, and where the bound of their fixed widths stands, if elsewhere.
WIDTHS = {
    "table1": "RFF",
    "table5": "ReLU, by gradients",
    "table5-crossed": "ReLU, by the bound on unseen images",
}
FIXED = {"table5-crossed": "crossed"}
FORMS = {"accuracy": ".2f", "elbo": ".3f"}
Run = dict[str, Any]
Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]


class Widths:
    """Results, and the tables of rotations.

    Args:
        results: of results.json.
        expected: of expected.json.
        table: makes Markdown of a head and rows.
        verdict: "met" or "missed".
        span: the smallest and the largest of some numbers.
    """

    def __init__(
        self,
        results: dict[str, Any],
        expected: dict[str, Any],
        table: Table,
        verdict: Callable[[bool], str],
        span: Callable[..., str],
    ) -> None:
        self.tables, self.expected = results["tables"], expected
        self.table, self.verdict, self.span = table, verdict, span
        self.paper = expected["table1"]["rows"] | expected["table4"]["rows"]

    def runs(self, table: str) -> list[Run]:
        """All runs of a table."""
        return [run for batch in self.tables[table] for run in batch["runs"]]

    def chosen(self, table: str, row: str, name: str) -> list[Run]:
        """The runs of one row and set, a seed each: the last one where a seed was run twice."""
        runs = self.runs(table) if table in self.tables else []
        found = [r for r in runs if (r["row"], r["set"]) == (row, name)]
        return list({run.get("seed", i): run for i, run in enumerate(found)}.values())

    def average(self, table: str, row: str, name: str, key: str) -> float:
        """Mean over seeds."""
        return mean(r[key] for r in self.chosen(table, row, name))

    def degrees(self, table: str, start: int, name: str) -> list[float]:
        """Learned widths, a seed each."""
        found = self.chosen(table, f"learned from {start}", name)
        return [math.degrees(r["half_width"]["rotation"]) for r in found]

    def fixed(self, table: str) -> list[int]:
        """The fixed widths of a table, in degrees."""
        rows = {r["row"] for r in self.runs(table) if r["row"].startswith("fixed")}
        return sorted(int(row.split()[1]) for row in rows)

    def best_fixed(self, table: str) -> int:
        """The fixed width with the best bound on the partially rotated set."""
        return max(self.fixed(table), key=lambda a: self.average(table, f"fixed {a}", PART, "elbo"))

    def ends(self, table: str, name: str) -> list[float]:
        """Learned widths from all starts, in degrees, a seed each."""
        return [w for a in (0, *STARTS) for w in self.degrees(table, a, name)]

    def width_goals(self) -> list[list[str]]:
        """Goals of learned widths: on the fully rotated set, and on the partially rotated one."""
        body = []
        known = {table: name for table, name in WIDTHS.items() if table in self.tables}
        for table, label in known.items():
            far = [abs(180 - w) for w in self.ends(table, "mnist-rotated")]
            what = f"width, {label}, rotated: distance to 180 degrees"
            goal, cell = "at most 10, every start", f"at most {max(far):.1f}"
            body.append([what, goal, cell, self.verdict(max(far) <= 10)])
        for table, label in known.items():
            found, best = self.ends(table, PART), self.best_fixed(FIXED.get(table, table))
            far = [abs(w - best) for w in found]
            own = " by that bound" if table in FIXED else ""
            what = f"width, {label}, partially: to {best}, the best fixed{own}"
            planted = self.span([abs(w - 90) for w in found], ".0f")
            cell = f"{self.span(far, '.0f')}; to the planted 90: {planted}"
            body.append([what, "at most 15, every start", cell, self.verdict(max(far) <= 15)])
        return body

    def bound(self) -> str:
        """Tables 1 and 4."""
        head = ["width"]
        head += [f"{s}: {what}" for s in SETS.values() for what in ("ELBO", "accuracy")]
        body = []
        for row in [f"{kind} {a}" for kind in ("fixed", "learned from") for a in STARTS]:
            line = [row]
            for i, name in enumerate(SETS):
                for key, form, said in (("elbo", ".3f", ".2f"), ("accuracy", ".2f", ".2f")):
                    ours = self.average("table1", row, name, key)
                    line.append(f"{ours:{form}} ({self.paper[row][key][i]:{said}})")
            body.append(line)
        return self.table(head, body)

    def widths(self) -> str:
        """Where the widths end, for each way of training."""
        body = []
        for table, how in TRAINING.items():
            for start in STARTS if table in self.tables else ():
                cells = [
                    ", ".join(f"{w:.0f}" for w in self.degrees(table, start, name)) for name in SETS
                ]
                body.append([how, str(start), *cells])
        return self.table(["training", "start", *SETS.values()], body)

    def relu_widths(self) -> str:
        """Table 5."""
        body = []
        learned = [f"learned from {a}" for a in (0, *STARTS[1:])]
        for row in [*(f"fixed {a}" for a in self.fixed("table5")), *learned]:
            line, said = [row], self.expected["table5"]["rows"].get(row)
            for i, name in enumerate(SETS):
                found = self.chosen("table5", row, name)
                cell = []
                for key, form in FORMS.items():
                    paper = f" ({said[key][i]:.2f})" if said else ""
                    cell.append(f"{mean(r[key] for r in found):{form}}{paper}")
                turns = [math.degrees(r["half_width"]["rotation"]) for r in found if r["learn"]]
                line.append(", ".join(cell + [f"{w:.0f}" for w in turns]))
            body.append(line)
        if "table5-crossed" in self.tables:
            line = ["by the bound on unseen images, held"]
            for name in SETS:
                found = [r for r in self.runs("table5-crossed") if r["set"] == name]
                cells = [f"{mean(r[k] for r in found):{f}}" for k, f in FORMS.items()]
                line.append(", ".join([*cells, self.span(self.ends("table5-crossed", name))]))
            body.append(line)
        return self.table(["", *(f"{s}: accuracy, ELBO, width" for s in SETS.values())], body)

    def continued(self) -> str:
        """The plain bound at fixed widths, from one learned network on."""
        body = []
        for batch in self.tables["continued"]:
            rows = {r["row"]: r for r in batch["runs"]}
            own = rows.pop("learned on")
            cells = [f"{r['elbo']:.4f}" for r in rows.values()]
            width = math.degrees(own["half_width"]["rotation"])
            learned = f"{math.degrees(batch['learned']):.0f}, then {width:.0f}: {own['elbo']:.4f}"
            body.append([str(batch["seed"]), *cells, learned])
        head = [row.split()[1] for row in rows]
        return self.table(["seed", *head, "learned"], body)

    def unseen(self) -> str:
        """The bound on images that filters have not seen, at fixed widths, and what was found."""
        angles, body = self.fixed("crossed"), []
        for name, short in SETS.items():
            cells = [f"{self.average('crossed', f'fixed {a}', name, 'elbo'):.4f}" for a in angles]
            body.append([short, *cells, self.span(self.ends("table5-crossed", name), ".1f")])
        return self.table(["set", *map(str, angles), "found"], body)
