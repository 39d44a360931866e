"""The tables of this paper's page, made from its results; papers/tables.py writes them."""

import math
from collections.abc import Sequence
from statistics import mean

from page_long import Long
from page_samples import said
from page_widths import SETS, STARTS, Run

MOVED = ("rotated", "translated", "scaled", "regular")
ROWS = ("none", "rotation", "translation", "scale", "affine")
ABLATION = {
    "natural": "natural steps; 32 random transformations, prior as the paper's",
    "prior": "and a learned prior variance",
    "sobol": "and 32 evenly spread ones: as in Table 1",
    "sobol 64": "and 64 of them",
    "blur": "as in Table 1, filters blurred by 0.1 half-images",
    "paper": "Adam on a Cholesky factor, 6,000 steps of 128: all as the paper's",
}
POINT = {
    "point paper": "point estimate, the paper's rates",
    "point long": "point estimate, the paper's rates, 20,000 steps",
    "full paper": "Gaussian, the paper's rates",
    "full long": "Gaussian, the paper's rates, 20,000 steps",
    "point": "point estimate, our rates",
    "point long ours": "point estimate, our rates, 20,000 steps",
    "full long ours": "Gaussian, our rates, 20,000 steps",
    "point few": "point estimate, 1,000 images, our rates",
    "full few": "Gaussian, 1,000 images, our rates",
}
FITS = {
    "point fixed": "60,000",
    "point fixed long": "60,000, 20,000 steps",
    "full fixed long": "60,000, 20,000 steps, Gaussian: its bound",
    "point fixed few": "1,000",
}
# Ways to the widths of affine ReLU networks.
WAYS = {
    "-crossed": "affine: by the bound on unseen images, held",
    "-searched": "affine: best-first search, held",
    "-followed": "affine: best-first search, then learned with the filters",
    "-held": "affine: search one by one, held",
    "": "affine: learned with the filters",
    "-planted": "widths as planted (a control)",
}
RULE = "-crossed"  # the one way that stands for Tables 2 and 3
SEEN = " †"  # of rows whose settings were chosen with test accuracies of earlier runs in view


class Page(Long):
    """All tables of the page."""

    def blocks(self) -> dict[str, str]:
        """The tables by name, in the order of the page."""
        return {
            "planted": self.planted(),
            "screen": self.screen(),
            "sharp": self.screen("32 random, learned prior"),
            "by-samples": self.by_samples(),
            "identified": self.identified(),
            "goals": self.goals(),
            "bound": self.bound(),
            "widths": self.widths(),
            "small": self.small(),
            "ablation": self.ablation(),
            "relu-widths": self.relu_widths(),
            "continued": self.continued(),
            "unseen": self.unseen(),
            "relu": self.ways("table2", "table7", ("sgpr", *ROWS[:-1])),
            "cifar": self.ways("table3", "table3", ROWS[:-1]),
            "untransformed": self.untransformed(),
            "fourier": self.fourier(),
            "affine": self.affine(),
            "table5": self.table5(),
            "edges": self.edges(),
            "point": self.point(),
            "fit": self.fit(),
            "augerino": self.augerino(),
            "deeper": self.deeper(),
        }

    def goals(self) -> str:
        """What was aimed at, and what came out."""
        body = []
        for i, (name, short) in enumerate(SETS.items()):
            for key, form in (("accuracy", ".2f"), ("elbo", ".3f")):
                goal = self.paper["learned"][key][i]
                found = [self.average("table1", f"learned from {a}", name, key) for a in STARTS]
                what = f"{key.replace('elbo', 'ELBO')}, RFF, learned, {short}"
                cell, holds = self.span(found, form), min(found) >= goal
                body.append([what, f"at least {goal:.2f}", cell, self.verdict(holds)])
        for table, rows, label in (
            ("table2", self.expected["table2"]["rows"]["affine"]["accuracy"], "ReLU, affine"),
            ("table3", self.expected["table3"]["rows"]["affine"]["accuracy"], "CIFAR-10, affine"),
        ):
            for short, goal in zip(MOVED, rows, strict=True):
                runs = self.affine_runs(table, self.set_name(table, short))
                each = [r["accuracy"] for r in runs]
                found = round(mean(each), 2)
                spread = f"; seeds {self.span(each, '.2f')}" if len(each) > 1 else "; one seed"
                body.append(
                    [
                        f"accuracy, {label}, {short}",
                        f"at least {goal:.2f}",
                        f"{found:.2f}{spread}",
                        self.verdict(found >= goal),
                    ]
                )
        body += self.width_goals()
        batches = self.tables["table1"]
        count, seconds = len(self.runs("table1")), sum(b["seconds"] for b in batches)
        cell = f"{count} in {seconds:.0f} s (other jobs beside them)"
        enough = count >= 90 and seconds <= 900
        body.append(["Table 1, training", "90 runs within 15 minutes", cell, self.verdict(enough)])
        return self.table(["what", "goal", "ours", ""], body)

    def set_name(self, table: str, short: str) -> str:
        """The name of a set of Tables 2, 3 and 6."""
        base = "cifar10" if table == "table3" else "mnist"
        return base if short == "regular" else f"{base}-{short}"

    def affine_runs(self, table: str, name: str) -> list[Run]:
        """The affine runs that stand for a set of Tables 2, 3 and 6, a seed each."""
        return self.chosen(table + ("" if table == "table6" else RULE), "affine", name)

    def families(
        self, table: str, bounds: str, rows: Sequence[str], source: str | None = None
    ) -> list[list[str]]:
        """Tables 2 and 7, 3, 6: accuracy, then the bound; the paper's number | ours."""
        body = []
        for row in rows:
            here = source or table
            if row == "sgpr":
                here = "sgpr" if "sgpr" in self.tables else "sgpr-earlier"
            if not self.chosen(here, row, self.set_name(table, "regular")):
                continue  # not run
            theirs = self.expected[table]["rows"].get(row, {}).get("accuracy")
            their = self.expected[bounds]["rows"].get(row, {}).get("elbo", [None] * 4)
            line = [{"sgpr": "SGPR", "none": "no transformation"}.get(row, row)]
            for i, short in enumerate(MOVED):
                found = self.chosen(here, row, self.set_name(table, short))
                cell = f"{theirs[i]:.2f} \\| " if theirs else ""
                cell += said([r["accuracy"] for r in found], ".2f")
                if "elbo" in found[0]:
                    paper = "" if their[i] is None else f"{their[i]:.2f} \\| "
                    cell += f"; {paper}{mean(r['elbo'] for r in found):.3f}"
                line.append(cell)
            body.append(line)
        return body

    def ways(self, table: str, bounds: str, rows: Sequence[str]) -> str:
        """Tables 2 and 7, and 3: families, then the ways to the widths of the affine one."""
        body = []
        for row in rows:  # from the first results that have it
            found = [
                self.families(table, bounds, [row], table + end)
                for end in ("-long", *WAYS)
                if table + end in self.tables
            ]
            body += next((lines for lines in found if lines), [])
        for end, label in WAYS.items():
            if table + end in self.tables:
                row = "planted" if end == "-planted" else "affine"
                for _, *cells in self.families(table, bounds, [row], table + end):
                    body.append([label + SEEN * (end not in (RULE, "-planted")), *cells])
        return self.table(["", *MOVED], body)

    def fourier(self) -> str:
        """Table 6, with blurred filters and without."""
        body = []
        for row in ROWS:
            for source, end in (("table6-blur", ", filters blurred"), ("table6", "")):
                for label, *cells in self.families("table6", "table6", [row], source):
                    body.append([label + end + SEEN, *cells])
        return self.table(["", *MOVED], body)

    def affine(self) -> str:
        """The boxes that affine models learned."""
        body = []
        tables = (("table2", "ReLU"), ("table3", "ReLU, CIFAR-10"), ("table6", "RFF"))
        for table, label in tables:
            for short in MOVED:
                run = self.affine_runs(table, self.set_name(table, short))[0]
                shown = [text.split()[0] for text in run["shown"].values()]
                body.append([label, short, *shown])
        names = ["shift x, y (pixels)", "rotation (degrees)", "scale x, y; shear (factors)"]
        rows = [[a, b, f"{v[0]}, {v[1]}", v[2], f"{v[3]}, {v[4]}; {v[5]}"] for a, b, *v in body]
        return self.table(["network", "set", *names], rows)

    def ablation(self) -> str:
        """One change at a time, on the partially rotated set."""
        angles = STARTS[1:]
        said = [str(self.paper[f"fixed {a}"]["elbo"][1]) for a in angles]
        body = [["the paper", *said]]
        for tag, label in ABLATION.items():
            for batch in (b for b in self.tables["ablation"] if b["tag"] == tag):
                found = {r["row"]: r["elbo"] for r in batch["runs"]}
                body.append([label, *(f"{found[f'fixed {a}']:.3f}" for a in angles)])
        return self.table(["ELBO at a fixed width of", *map(str, angles)], body)

    def small(self) -> str:
        """The line search on digits."""
        body = []
        for name in ("digits-rotated", "digits-partially-rotated", "digits"):
            fixed = {a: self.average("small", f"fixed {a}", name, "elbo") for a in STARTS}
            best = max(fixed, key=lambda a: fixed[a])
            ends = [f"{self.degrees('small', a, name)[0]:.0f}" for a in (5, 90, 175)]
            body.append([name, *(f"{v:.3f}" for v in fixed.values()), str(best), *ends])
        head = ["set", *(f"ELBO at {a}" for a in STARTS), "best fixed"]
        return self.table([*head, *(f"found from {a}" for a in (5, 90, 175))], body)

    def point(self) -> str:
        """Section 4.1 at full size."""
        body = []
        for kind, name in (("fourier", "RFF"), ("relu", "ReLU")):
            for tag, label in POINT.items():
                for batch in self.tables["point"]:
                    if (batch["kind"], batch["tag"]) == (kind, tag):
                        ends = [math.degrees(r["half_width"]["rotation"]) for r in batch["runs"]]
                        body.append([name, label, *(f"{w:.0f}" for w in ends)])
        return self.table(["network", "training", "from 5", "from 45", "from 90"], body)

    def fit(self) -> str:
        """How well point estimates fit their training set at fixed widths (they have no KL)."""
        body = []
        for kind, name in (("fourier", "RFF"), ("relu", "ReLU")):
            for tag, count in FITS.items():
                for batch in self.tables["point"]:
                    if (batch["kind"], batch["tag"]) == (kind, tag):
                        fits = [f"{r['elbo']:.3f}" for r in batch["runs"]]
                        body.append([name, count, *fits])
        return self.table(["network", "images", "at 5", "at 90", "at 175"], body)

    def augerino(self) -> str:
        """Augerino's objective beside the bound."""
        body = []
        for batch in self.tables.get("augerino", []):
            for start in (5, 90):
                line = [{"fourier": "RFF", "relu": "ReLU"}[batch["kind"]], str(start)]
                for name in SETS:
                    row = f"learned from {start}"
                    (run,) = [r for r in batch["runs"] if (r["row"], r["set"]) == (row, name)]
                    width = math.degrees(run["half_width"]["rotation"])
                    line.append(f"{run['accuracy']:.2f}, {width:.0f}")
                body.append(line)
        return self.table(
            ["network", "start", *(f"{s}: accuracy, width" for s in SETS.values())], body
        )

    def deeper(self) -> str:
        """The small CNN."""
        body = []
        for tag, label in (
            ("full 128", "Gaussian, 128 features"),
            ("point 128", "point estimate, 128 features"),
            ("full 1024", "Gaussian, 1,024 features"),
        ):
            line = [label]
            for name in SETS:
                (batch,) = [b for b in self.tables["deeper"] if b["tag"] == f"{tag} {name}"]
                run = batch["runs"][0]
                line.append(f"{run['accuracy']:.2f}, {run['elbo']:.3f}, {run['degrees']:.0f}")
            body.append(line)
        return self.table(
            ["last layer", *(f"{s}: accuracy, ELBO, width" for s in SETS.values())], body
        )
