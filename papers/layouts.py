"""Tables of a paper in its own layout, from the results of a run: the paper's number | ours.

    python papers/layouts.py genuine-invariance OUT 1

prints Table 1 from OUT/results.json; without a number all that ``parts.json`` knows, with --page
first as a page in Markdown. Cells without a run say so. ``symmetries reproduce`` prints the same
after it has run a table, and writes all of them to OUT/page.md with ``--all``.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from tables import beside, span, table, verdict

HERE = Path(__file__).parent
Results = dict[str, Any]


def parts(paper: str) -> dict[str, Any]:
    """What can be reproduced of a paper: commands and minutes by table."""
    found: dict[str, Any] = json.loads((HERE / "parts.json").read_text())["papers"][paper]
    return found


def cell(paper: float, values: Sequence[float]) -> str:
    """The paper's number, and mean ± standard deviation (seeds) of ours."""
    if not values:
        return f"{paper:g} \\| not run"
    deviation = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{paper:g} \\| {mean(values):.2f}{deviation} ({len(values)})"


def invariant_weights(part: str, results: Results, expected: Results) -> str:
    """Table 1 has the page's own layout; the others are rows by sets, accuracy in percent."""
    tables = results.get("tables", {})
    if part == "1":
        tables = {"table1-random": [], **tables}
        page = beside("invariant-weights").Page({"tables": tables}, expected, table, verdict, span)
        text: str = page.screen()
        return text
    sources = {"2": ("table2-long", "table2-crossed"), "3": ("table3-crossed",)}
    sources |= {"5": ("table5-long",), "6": ("table6-blur",)}
    runs = [
        run
        for name in sources.get(part, (f"table{part}",))
        for batch in tables.get(name, [])
        for run in batch["runs"]
        if name != "table2-crossed" or batch["tag"] == "crossed"
    ]
    said = expected[f"table{part}"]
    body = []
    for row, numbers in said["rows"].items():
        cells = [row]
        for place, name in enumerate(said["sets"]):
            mine = [r["accuracy"] for r in runs if (r["row"], r["set"]) == (row, name)]
            cells.append(cell(numbers["accuracy"][place], mine))
        body.append(cells)
    return table(["accuracy in percent", *said["sets"]], body)


def genuine_invariance(part: str, results: Results, expected: Results) -> str:
    """Table 1, trained as the paper says: of a run, or of the stored results."""
    found = results.get("plain", results).get("table", {})
    text: str = beside("genuine-invariance").screen(found, expected["table"], table)
    return text


def symmetry_model(part: str, results: Results, expected: Results) -> str:
    """The paper has pictures: what was planted, and what was found."""
    page, runs = beside("symmetry-model"), results.get("runs", [])
    if part == "figure-8":
        mine = page.columns(runs)
        found = page.goals(mine, expected["targets"], table, verdict) if mine else "Not run.\n"
    else:
        found = page.planted(runs, expected["targets"], table, verdict)
    return str(found)


def invariant_vae(part: str, results: Results, expected: Results) -> str:
    """The paper has pictures and curves: widths by what was planted, bounds by cell."""
    rows = results.get("rows", [])
    if part == "figure-6":
        mine = [row for row in rows if row["part"] == "rotation"]
        body = [
            [
                f"±{row['added']:g}", str(row.get("seed", 0)), f"{row['steps']:,}",
                f"{row['width90']['mean']:.1f}", f"{row.get('ratio', float('nan')):.2f}",
            ]
            for row in sorted(mine, key=lambda row: (row["added"], row.get("seed", 0)))
        ]  # fmt: skip
        head = ["planted, degrees", "seed", "steps", "width90 of q(eta given x)", "over expected"]
        return table(head, body)
    mine = [row for row in rows if row["part"] == "figure9"]
    kinds = list(dict.fromkeys(row["kind"] for row in mine))
    cells = sorted({(row["added"], row["size"]) for row in mine})
    body = [
        [f"±{added:g}", f"{size:,}"]
        + [
            f"{mean(found):.1f} ({len(found)})" if found else "not run"
            for found in (
                [r["bound"] for r in mine if (r["added"], r["size"], r["kind"]) == (added, size, k)]
                for k in kinds
            )
        ]
        for added, size in cells
    ]
    return table(["added, degrees", "images", *(f"{kind}, nats" for kind in kinds)], body)


def relaxed_equivariance(part: str, results: Results, expected: Results) -> str:
    """Tables 1 and 3 side by side, Table 2, and Figure 4 as numbers."""
    page, rows = beside("relaxed-equivariance"), results.get("rows", [])
    if part in ("1", "3"):
        found = {"rows": []} | results
        kinds = (False, True) if part == "3" else (False,)  # Table 3 has learned omega', too
        return "\n".join(table(*page.main_rows(found, expected, learned)) for learned in kinds)
    if part == "2":
        head = ["model", "accuracy in percent"]
        every = [row for row in rows if row.get("experiment") == "table2"]
        body = [
            [mode, cell(paper, [row["accuracy"] for row in every if row["mode"] == mode])]
            for mode, paper in expected["table2"].items()
        ]
        return table(head, body)
    mine = [row for row in rows if row.get("experiment") == "figure4"]
    return str(table(*page.figure4(mine))) if mine else "Not run.\n"


LAYOUTS: dict[str, Callable[[str, Results, Results], str]] = {
    "invariant-weights": invariant_weights,
    "genuine-invariance": genuine_invariance,
    "symmetry-model": symmetry_model,
    "invariant-vae": invariant_vae,
    "relaxed-equivariance": relaxed_equivariance,
}


def layout(paper: str, part: str, folder: Path) -> str:
    """A table of a paper, with its title, from the results in a folder."""
    file = folder / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    if (folder / "cifar.json").exists():
        results["cifar"] = json.loads((folder / "cifar.json").read_text())
    expected = json.loads((HERE / paper / "expected.json").read_text())
    title = parts(paper)[part]["title"]
    return f"{title}: the paper | ours\n\n{LAYOUTS[paper](part, results, expected)}"


def main(words: Sequence[str]) -> None:
    """Print the tables that are asked for."""
    page = words[0] == "--page"
    paper, folder, *names = words[page:]
    for name in names or parts(paper):
        text = layout(paper, name, Path(folder))
        plain = text.replace(" \\| ", " / ").replace("paper | ours", "paper / ours")
        print(f"## {text}" if page else plain)


if __name__ == "__main__":
    main(sys.argv[1:])
