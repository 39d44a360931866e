"""The tables of the papers' pages, made from their results.

Each page keeps its tables between ``<!-- table: name -->`` and ``<!-- end -->``;

    python papers/tables.py [genuine-invariance ...]

writes them anew from ``results.json`` and ``expected.json``. A test compares pages and results.
"""

import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
DIGITS = "0123456789"
START = 0.1  # of a learned omega', where nothing else is said
CONTROL = 0.001  # the lambda that is not meant to work: no candidate for the best


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
    return {"table1": table(head, body), "cpu": on_cpu(results), "drift": table(second, drift)}


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
    """Paper 4: Tables 1 to 3, Figure 4, and omega' from a bound on the evidence."""
    body = []
    for mode, paper in expected["table2"].items():
        rows = [r for r in results["rows"] if (r["experiment"], r["mode"]) == ("table2", mode)]
        single = ", ".join(f"{r['accuracy']:.1f}" for r in rows)
        average = f"{mean(r['accuracy'] for r in rows):.1f}"
        change = span([r["change_under_quarter_turn"] for r in rows], ".2g")
        size = f"{rows[0]['parameters']:,}"
        body.append([mode, f"{paper:g}", average, single, size, change])
    head = ["model", "paper", "ours", "seeds", "parameters", "change under a quarter turn"]
    more = relaxed_cifar(results, expected) if "evidence" in results else {}
    return {"table2": table(head, body), **more}


def relaxed_speed() -> list[list[str]]:
    """Group convolutions against others, from the benchmarks' results."""
    times: dict[tuple[str, str, str], float] = {}
    folder = HERE.parent / "benchmarks" / "results"
    for device in ("cuda", "cpu"):
        for row in json.loads((folder / f"gconv_speed-{device}.json").read_text())["rows"]:
            times[device, row["what"], row["alternative"]] = row["milliseconds"]
    network = json.loads((folder / "gconv_network-cuda.json").read_text())["rows"][-1]
    share, epoch = network["share_of_peak"], network["seconds_per_epoch"]
    step, look, plain = "forward and backward", "evaluation", "conv2d, channels last"
    lines = []
    for what, goal, kind, above, below in (
        ("strict layer faster than escnn's `R2Conv`", 1.3, step, "escnn R2Conv", "strict"),
        ("soft rotation by the strict layer", 1.2, step, "soft rotation", "strict"),
        ("soft translation by `conv2d`", 4.0, step, "soft translation", plain),
        ("kept kernel by `conv2d`, evaluation", 1.05, look, "kept kernel", "conv2d"),
    ):
        peer, ratios = above == "escnn R2Conv", []
        for device, way in (("cuda", ""), ("cuda", ", CUDA graph"), ("cpu", "")):
            first = times.get((device, kind + ("" if peer else way), above))  # it has no graph
            second = times.get((device, kind + way, below))
            ratios.append(first / second if first and second else None)
        holds = [ratio is None or (ratio >= goal if peer else ratio <= goal) for ratio in ratios]
        judged = holds[:2] if "translation" in what else holds
        end = verdict(all(judged))
        if not all(judged) and all(judged[1:]):
            end = "met as a graph, **missed** one by one"
        said = ["not measured" if ratio is None else f"{ratio:.2f}x" for ratio in ratios]
        lines.append([what, f"at {'least' if peer else 'most'} {goal:g}x", *said, end])
    said = f"{100 * share:.0f} %, {epoch:.1f} s per epoch"
    what = "the baseline's residual network, 8 rotations, bf16, batch 64: share of the matrix peak"
    return [*lines, [what, "40 %", "", said, "", verdict(share >= 0.4)]]


def relaxed_cifar(results: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    """Tables 1 and 3, what they must show, Figure 4 as numbers, and the evidence."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in results["rows"]:
        if row["experiment"] == "table3" and not row["validation"]:
            kind = row["mode"]
            if kind == "soft":
                kind = "soft fixed" if row["penalty"] is None else "soft learned"
            if kind == "soft learned" and row["omega"] != START:
                kind += f" from {row['omega']:g}"
            key = (row["data"], row["augment"], row["rotations"], row["epochs"])
            groups.setdefault((*key, kind, row["penalty"]), []).append(row)
    longest = {key[:3]: max(k[3] for k in groups if k[:3] == key[:3]) for key in groups}
    groups = {
        key: groups[key] for key in sorted(groups, key=model_order) if key[3] == longest[key[:3]]
    }
    body = []
    for (data, augment, n, epochs, kind, penalty), rows in groups.items():
        name = data + ("_augmented" if augment else "")
        lines = [
            line
            for line in expected["table3"]
            if (line["rotations"], line["penalty"]) == (n, penalty)
            and line["model"] == kind.partition(" from")[0]
        ]
        paper = f"{lines[0][name][0]:.2f} ± {lines[0][name][1]:.2f}" if lines else "-"
        which = {"strict": "", "partial": "", "soft fixed": f", omega' = {rows[0]['omega']:g}"}
        label = kind + which.get(kind, f", lambda = {penalty}")
        values = [part["value"] for row in rows for part in row["relaxation"]]
        kept = span(values, ".2f") if values and kind != "soft fixed" else "-"
        change = span([row["change_under_quarter_turn"] for row in rows], ".2f")
        where = data.replace("cifar", "CIFAR-") + (", augmented" if augment else "")
        numbers = [row["accuracy"] for row in rows]
        line = [where, str(n), str(epochs), label, with_error(numbers), str(len(rows)), paper]
        body.append([*line, f"{rows[0]['parameters']:,}", change, kept])
    head = ["set", "rotations", "epochs", "model", "accuracy", "seeds", "paper", "parameters"]
    head += ["change under a quarter turn", "omega' or fraction"]
    ways = ["what", "goal", "H200, launched one by one", "H200, CUDA graph", "two CPU cores", ""]
    return {
        "table3": table(head, body),
        "goals": table(["what", "goal", "ours", ""], relaxed_goals(groups)),
        "study": study_table(results["study"]["rows"], results["kernel_start"]["rows"]),
        "figure4": figure4_table(results["rows"]),
        "speed": table(ways, relaxed_speed()),
        "starts": starts_table(results["starts"]["learned"]),
        "evidence": evidence_table(results["evidence"]["rows"]),
    }


def model_order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sets, without augmentation first, rotations, then models as the paper has them."""
    data, augment, n, epochs, kind, penalty = key
    kinds = ("strict", "partial", "soft fixed", "soft learned")
    place = next(i for i in range(len(kinds)) if kind.startswith(kinds[i]))
    return (len(data), augment, n, epochs, place, penalty or 0.0, kind)


def standard_error(values: Sequence[float]) -> float:
    """Of a mean; 0 for a single value."""
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def with_error(values: Sequence[float]) -> str:
    """Mean and standard error, which a single value does not have."""
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{mean(values):.2f} ± {standard_error(values):.2f}"


def relaxed_goals(groups: dict[tuple[Any, ...], list[dict[str, Any]]]) -> list[list[str]]:
    """What must show without augmentation, for every set and number of rotations."""
    lines = []
    for data, n, epochs in dict.fromkeys((k[0], *k[2:4]) for k in groups if not k[1]):
        found = {
            key[4:]: [row["accuracy"] for row in rows]
            for key, rows in groups.items()
            if key[:4] == (data, False, n, epochs)
        }
        where = f"{data.replace('cifar', 'CIFAR-')}, {n} rotations, {epochs} epochs: "
        strict, partial, soft = (found.get((k, None)) for k in ("strict", "partial", "soft fixed"))
        if not (strict and partial and soft):
            continue
        for name, better, other in (
            ("soft fixed at least partial", soft, partial),
            ("partial above strict", partial, strict),
            ("soft fixed above strict", soft, strict),
        ):
            gap = mean(better) - mean(other)
            error = (standard_error(better) ** 2 + standard_error(other) ** 2) ** 0.5
            least = 0.0 if "least" in name else error
            goal = "0 or more" if "least" in name else "more than its standard error"
            said = f"{gap:+.2f} ± {error:.2f}" if error else f"{gap:+.2f}, one seed"
            lines.append([where + name, goal, said, verdict(gap >= least and gap != 0)])
        seeded = {key: rows for key, rows in groups.items() if len(rows) >= len(soft)}
        kind = chosen_start(seeded, (data, False, n, epochs))  # of those with as many seeds
        learned = {k: v for k, v in found.items() if k[0] == kind and k[1] != CONTROL}
        learned = {k: v for k, v in learned.items() if len(v) >= len(soft)}
        if learned:
            best = max(learned, key=lambda k: mean(learned[k]))
            gap = mean(learned[best]) - mean(soft)
            error = (standard_error(soft) ** 2 + standard_error(learned[best]) ** 2) ** 0.5
            goal = "not lower by more than one standard error"
            size = f"{gap:+.2f} ± {error:.2f}" if error else f"{gap:+.2f}, one seed,"
            said = f"{size} at lambda = {best[1]}{best[0].removeprefix('soft learned')}"
            what = where + "learned against the best fixed omega'"
            lines.append([what, goal, said, verdict(gap >= -error)])
    return lines


def chosen_start(
    groups: dict[tuple[Any, ...], list[dict[str, Any]]], where: tuple[Any, ...]
) -> str:
    """The learned models of the start that trained best: lower objective for equal lambda and seed.

    The objective is what training minimises, so the choice looks at no image but those.
    """
    losses: dict[str, dict[tuple[Any, ...], float]] = {}
    for key, rows in groups.items():
        if key[:4] == where and "learned" in key[4]:
            for row in rows:
                losses.setdefault(key[4], {})[key[5], row["seed"]] = row["final_loss"]
    if not losses:
        return ""
    common = set.intersection(*(set(found) for found in losses.values()))
    return min(losses, key=lambda kind: sum(losses[kind][each] for each in common))


def figure4_table(rows: Sequence[dict[str, Any]]) -> str:
    """Validation accuracy over a fixed omega'."""
    curves: dict[tuple[str, str], dict[float, list[float]]] = {}
    for row in rows:
        if row["experiment"] == "figure4":
            curve = curves.setdefault((row["data"], row["relaxed"]), {})
            curve.setdefault(row["omega"], []).append(row["accuracy"])
    omegas = sorted({omega for curve in curves.values() for omega in curve})
    body = [
        [data.replace("cifar", "CIFAR-"), f"soft {which}"]
        + [with_error(curve[o]) if o in curve else "-" for o in omegas]
        for (data, which), curve in curves.items()
    ]
    return table(["set", "", *(f"omega' = {omega:g}" for omega in omegas)], body)


def study_table(trained: Sequence[dict[str, Any]], drawn: Sequence[dict[str, Any]]) -> str:
    """How a soft kernel starts, by what the absolute element gives, and how it trains."""
    starts = {(row["mode"], row["share"], row["pairs"]): row for row in drawn}
    body = []
    for row in trained:
        if row["hidden"] != 32:
            continue
        share, found = "-", starts["strict", None, None]
        if row["mode"] == "soft":
            share = f"{row['share']:g}, {'in pairs' if row['pairs'] else 'unpaired'}"
            found = starts["soft", row["share"], row["pairs"]]
        line = [row["mode"], share, f"{found['dimensions']:.1f}", f"{found['constant']:.2f}"]
        body.append([*line, f"{row['final_loss']:.2f}", f"{row['accuracy']:.2f}"])
    head = ["model", "share of the absolute element", "directions", "constant part"]
    return table([*head, "training loss", "validation accuracy"], body)


def starts_table(rows: Sequence[dict[str, Any]]) -> str:
    """The norm of omega' over the layers before and after training, by start and lambda."""
    body = []
    for start, penalty in dict.fromkeys((row["start"], row["penalty"]) for row in rows):
        line = [f"{start:g}", f"{penalty:g}", f"{start * 3**0.5:.2f}"]
        for task in ("digit", "turn"):
            norms = [
                sum(value**2 for value in row["relaxation"]) ** 0.5
                for row in rows
                if (row["start"], row["penalty"], row["task"]) == (start, penalty, task)
            ]
            line.append(", ".join(f"{norm:.2f}" for norm in norms))
        body.append(line)
    head = ["omega' at the start", "lambda", "norm at the start"]
    return table([*head, "which digit (symmetric)", "which way up (not)"], body)


def evidence_table(rows: Sequence[dict[str, Any]]) -> str:
    """Omega' of each layer after maximising the bound, by task."""
    body = [
        [
            {"digit": "which digit (symmetric)", "turn": "which way up (not)"}[row["task"]],
            str(row["seed"]),
            ", ".join(f"{value:.3f}" for value in row["relaxation"]),
            f"{row['accuracy']:.1f}",
            f"{row['kl_per_image']:.2f}",
        ]
        for row in sorted(rows, key=lambda row: (row["task"], row["seed"]))
    ]
    return table(["task", "seed", "omega' of the layers", "accuracy", "KL per image, nats"], body)


def invariant_vae(results: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    """Paper 3, and paper 2's VAEs: their tables are made in a file beside their page."""
    source = HERE / "invariant-vae" / "page.py"
    spec = importlib.util.spec_from_file_location("invariant_vae_page", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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


def filled(paper: str) -> str:
    """The page of a paper with its tables as the results have them."""
    made = blocks(paper)
    page = (HERE / paper / "README.md").read_text()
    return BLOCK.sub(lambda found: found[1] + "\n" + made[found[2]] + "\n" + found[3], page)


if __name__ == "__main__":
    for paper in sys.argv[1:] or PAGES:
        text = filled(paper)
        (HERE / paper / "README.md").write_text(text)
