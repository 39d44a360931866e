"""The tables of the papers' pages, made from their results.

Each paper has a page, README.md, and notes, NOTES.md. Both keep their tables between
``<!-- table: name -->`` and ``<!-- end -->``;

    python papers/tables.py [genuine-invariance ...]

writes them anew from ``results.json`` and ``expected.json``. A test compares pages and results.
"""

import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
FILES = ("README.md", "NOTES.md")
SEEDS1, ROUNDED = 4, 1e-9  # of paper 1; what is left of zero in double precision
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def verdict(holds: bool) -> str:
    """How a goal stands."""
    return "met" if holds else "**missed**"


def span(values: Sequence[float], form: str = ".0f") -> str:
    """The smallest and the largest of some numbers."""
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def beside(paper: str) -> ModuleType:
    """``page.py`` of a paper, which may import files beside it."""
    source = HERE / paper / "page.py"
    spec = importlib.util.spec_from_file_location(f"{paper.replace('-', '_')}_page", source)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(source.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(source.parent))
    return module


def invariant_weights(results: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    """Paper 0: its tables are made in files beside its page."""
    page = beside("invariant-weights").Page(results, expected, table, verdict, span)
    return dict(page.blocks())


def genuine_invariance(results: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    """Paper 1: Table 1 and the drift."""
    keys = ("accuracy", "li", "di", "si")
    body = []
    for group, rows in results["table"].items():
        for name, row in rows.items():
            paper = expected["table"][group].get(name.removesuffix("-random"))
            if name in ("NLI-random", "NLI-centred", "DI-random"):
                paper = None
            target = expected["targets"][group].get(name)
            signs = {"min": 1, "max": -1}
            holds = target and all(
                signs[bound[-3:]] * (row[bound[:-4]]["mean"] - value) >= 0
                for bound, value in target.items()
            )
            accuracy = f"{row['accuracy']['mean']:.2f} ± {row['accuracy']['std']:.2f}"
            numbers = [f"{row[key]['mean']:.2g}" for key in ("li", "di")]
            last = [f"{row['si']['mean']:.3f}", f"{row['sigma_max']['mean']:.1f}"]
            said = ", ".join(f"{paper[key]:g}" for key in keys) if paper else "-"
            judged = verdict(bool(holds)) if target else "no goal"
            body.append([group.upper(), name, accuracy, *numbers, *last, said, judged])
    head = ["", "method", "accuracy", "LI", "DI", "SI", "sigma", "paper: acc., LI, DI, SI", "goal"]
    drift = [
        [group.upper(), name, *(f"{abs(curve['di'][i]):.2g}" for i in (0, 5, 10))]
        + [f"{curve['accuracy_ratio'][i]:.2f}" for i in (2, 5, 10)]
        for group, curves in results["drift"].items()
        for name, curve in curves.items()
    ]
    second = ["", "method", *(f"DI at {b}" for b in (0, 0.5, 1))]
    second += [f"accuracy ratio at {b}" for b in (0.2, 0.5, 1)]
    found = {"table1": table(head, body), "cpu": on_cpu(results), "drift": table(second, drift)}
    return {"screen": screen1(results, expected), **found}


def screen1(results: dict[str, Any], expected: dict[str, Any]) -> str:
    """Paper 1's Table 1 in its own layout; IR is the paper's method, from random weights."""
    body = []
    for group, rows in expected["table"].items():
        for name, paper in rows.items():
            row = results["table"][group]["IR-random" if name == "IR" else name]
            seeds = len(row["nu"]) if "nu" in row else SEEDS1
            accuracy = f"{row['accuracy']['mean']:.1f} ± {row['accuracy']['std']:.1f} ({seeds})"
            cells = [f"{paper['accuracy']:g} \\| {accuracy}"]
            for key, form in (("li", ".2g"), ("di", ".2g"), ("si", ".3f")):
                value = row[key]["mean"]
                shown = "0" if abs(value) < ROUNDED else f"{value:{form}}"
                cells.append(f"{paper[key]:g} \\| {shown}")
            if name == "IR":
                good = row["accuracy"]["mean"] >= paper["accuracy"]
                good = good and row["si"]["mean"] >= paper["si"]
                lower = paper["accuracy"] - row["accuracy"]["mean"]
                said = "holds" if good else f"SI holds, accuracy {lower:.1f} points below"
            else:
                wanted = row["si"]["mean"] > 0.99 if name == "WT" else row["si"]["mean"] < 0.6
                said = "holds" if wanted else "does not hold"
            body.append([group.upper(), name, *cells, said])
    return table(["group", "method", "accuracy", "LI", "DI", "SI", "verdict"], body)


def on_cpu(results: dict[str, Any]) -> str:
    """Paper 1's Table 1 on two cores beside that of the GPU; results-cpu.json is run.py's own."""
    path = HERE / "genuine-invariance" / "results-cpu.json"
    if not path.exists():
        estimate = results["cpu_estimate"]["rows"]
        minutes = sum(5860 * row["step"] + 58 * row["look"] for row in estimate) / 60
        said = "Not run in full; by 13 steps of each method training takes"
        return f"{said} {minutes:.0f} minutes on one thread (`cpu_estimate`).\n"
    found = json.loads(path.read_text())
    rows = [
        [group.upper(), name]
        + [
            f"{part[name]['accuracy']['mean']:.2f} ± {part[name]['accuracy']['std']:.2f}"
            for part in both
        ]
        + [f"{part[name]['si']['mean']:.3f}" for part in both]
        + [f"{both[0][name]['seconds'] / 60:.1f}"]
        for group, own in found["table"].items()
        for both in ((own, results["table"][group]),)
        for name in own
    ]
    head = ["", "method", "accuracy: CPU", "H200", "SI: CPU", "H200", "minutes of training: CPU"]
    minutes, threads = found["seconds"] / 60, found["environment"]["threads"]
    goal = verdict(minutes <= 60)
    said = f"The whole run took {minutes:.0f} minutes on {threads} threads (goal: an hour; {goal})."
    return table(head, rows) + "\n" + said + "\n"


def symmetry_model(results: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    """Paper 2: its tables are made in files beside its page."""
    return dict(beside("symmetry-model").tables(results, expected, table, verdict))


def relaxed_equivariance(results: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    """Paper 4: its tables are made in files beside its page."""
    page = beside("relaxed-equivariance")
    return dict(page.tables(results, expected, table, verdict, span))


def invariant_vae(results: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    """Paper 3, and paper 2's VAEs: their tables are made in a file beside their page."""
    module = beside("invariant-vae")
    return dict(module.tables(results, expected, table, verdict))


PAGES = {
    "invariant-vae": invariant_vae,
    "invariant-weights": invariant_weights,
    "genuine-invariance": genuine_invariance,
    "symmetry-model": symmetry_model,
    "relaxed-equivariance": relaxed_equivariance,
}


def blocks(paper: str) -> dict[str, str]:
    """The tables of a paper's page, by name."""
    content = [
        json.loads((HERE / paper / f"{n}.json").read_text()) for n in ("results", "expected")
    ]
    return PAGES[paper](*content)


def filled(paper: str, page: str = "README.md") -> str:
    """A page of a paper with its tables as the results have them."""
    made = blocks(paper)
    text = (HERE / paper / page).read_text()
    return BLOCK.sub(lambda found: found[1] + "\n" + made[found[2]] + "\n" + found[3], text)


if __name__ == "__main__":
    for paper in sys.argv[1:] or PAGES:
        for page in FILES:
            text = filled(paper, page)
            (HERE / paper / page).write_text(text)
