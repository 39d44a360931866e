"""The tables of this page, from results.json; ``papers/tables.py`` writes them into the README."""

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

from page_screen import choices, main_rows, not_run, verdicts
from relaxed_choices import RATE, START, chosen_rate, chosen_start, held_out, rate_of, rates
from relaxed_studies import (
    Row,
    Verdict,
    evidence,
    figure4,
    speed,
    standard_error,
    starts,
    study,
    with_error,
)

CONTROL = 0.001  # the lambda that is not meant to work: no candidate for the best
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
Span = Callable[[Sequence[float], str], str]


def tables(
    results: Row, expected: Row, table: Table, verdict: Verdict, span: Span
) -> dict[str, str]:
    """Tables 1 to 3, what they must show, Figure 4 as numbers, and the studies."""
    body = []
    for mode, paper in expected["table2"].items():
        rows = [r for r in results["rows"] if (r["experiment"], r["mode"]) == ("table2", mode)]
        single = ", ".join(f"{r['accuracy']:.1f}" for r in rows)
        average = f"{mean(r['accuracy'] for r in rows):.1f}"
        change = span([r["change_under_quarter_turn"] for r in rows], ".2g")
        size = f"{rows[0]['parameters']:,}"
        body.append([mode, f"{paper:g}", average, single, size, change])
    head = ["model", "paper", "ours", "seeds", "parameters", "change under a quarter turn"]
    found = {"table2": table(head, body)}
    if "evidence" not in results:
        return found
    groups = grouped(results["rows"])
    goals = relaxed_goals(groups, chosen_rate(results["rows"]), verdict)
    return {
        "screen": table(*main_rows(results, expected)),
        "learned": table(*main_rows(results, expected, learned=True)),
        "verdicts": table(*verdicts(results, expected)),
        **found,
        "choices": table(*choices(results)),
        "not-run": table(*not_run(results, expected)),
        "table3": table(*table3(groups, expected, span)),
        "goals": table(["what", "goal", "ours", ""], goals),
        **({"rates": table(*rates(results["rows"]))} if held_out(results["rows"]) else {}),
        "study": table(*study(results["study"]["rows"], results["kernel_start"]["rows"])),
        "figure4": table(*figure4(results["rows"])),
        "speed": table(*speed(verdict)),
        "starts": table(*starts(results["starts"]["learned"])),
        "evidence": table(*evidence(results["evidence"]["rows"])),
    }


Groups = dict[tuple[Any, ...], list[Row]]


def grouped(rows: Sequence[Row]) -> Groups:
    """Rows of Tables 1 and 3 by set, augmentation, rotations, epochs, model and lambda."""
    groups: Groups = {}
    for row in rows:
        if row["experiment"] == "table3" and not row["validation"]:
            kind = row["mode"]
            if kind == "soft":
                kind = "soft fixed" if row["penalty"] is None else "soft learned"
            if kind == "soft learned":
                kind += "" if row["omega"] == START else f" from {row['omega']:g}"
                kind += "" if rate_of(row) == RATE else f", rate {rate_of(row):g}"
            key = (row["data"], row["augment"], row["rotations"], row["epochs"])
            groups.setdefault((*key, kind, row["penalty"]), []).append(row)
    longest = {key[:3]: max(k[3] for k in groups if k[:3] == key[:3]) for key in groups}
    return {
        key: groups[key] for key in sorted(groups, key=model_order) if key[3] == longest[key[:3]]
    }


def table3(groups: Groups, expected: Row, span: Span) -> tuple[list[str], list[list[str]]]:
    """Accuracy of every model, with the paper's beside it."""
    body = []
    for (data, augment, n, epochs, kind, penalty), rows in groups.items():
        name = data + ("_augmented" if augment else "")
        lines = [
            line
            for line in expected["table3"]
            if (line["rotations"], line["penalty"]) == (n, penalty)
            and line["model"] == kind.partition(" from")[0].partition(",")[0]
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
    return head, body


def model_order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sets, without augmentation first, rotations, then models as the paper has them."""
    data, augment, n, epochs, kind, penalty = key
    kinds = ("strict", "partial", "soft fixed", "soft learned")
    place = next(i for i in range(len(kinds)) if kind.startswith(kinds[i]))
    return (len(data), augment, n, epochs, place, penalty or 0.0, kind)


def relaxed_goals(groups: Groups, rate: float, verdict: Verdict) -> list[list[str]]:
    """What must show without augmentation, for every set and number of rotations.

    Args:
        groups: rows by set, augmentation, rotations, epochs, model and lambda.
        rate: of learned omega', where it was run with as many seeds as the fixed omega'.
        verdict: how a goal stands.
    """
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
            end = verdict(gap >= least and gap != 0)
            within = "least" in name and -error <= gap < 0
            lines.append([where + name, goal, said, end + ", within its error" * within])
        seeded = {key: rows for key, rows in groups.items() if len(rows) >= len(soft)}
        ruled = {key: rows for key, rows in seeded.items() if rate_of(rows[0]) == rate}
        if any(key[:4] == (data, False, n, epochs) and "learned" in key[4] for key in ruled):
            seeded = ruled
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
