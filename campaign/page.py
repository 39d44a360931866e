"""Writes the tables of docs/reliability.md from campaign/results: ``python campaign/page.py``.

What stands between ``<!-- NAME -->`` and ``<!-- end -->`` is replaced; the rest is written by hand.
With results elsewhere (``CAMPAIGN_RESULTS``) the page is written beside them.
"""

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
RESULTS = Path(os.environ.get("CAMPAIGN_RESULTS", FOLDER / "results"))
PAGE = FOLDER.parent / "docs" / "reliability.md"


def read(part: str) -> dict[str, Any]:
    """The numbers of one part."""
    found: dict[str, Any] = json.loads((RESULTS / f"{part}.json").read_text())
    return found


def table(header: list[str], rows: list[list[object]]) -> str:
    """A table in Markdown; numbers with thousands apart."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1)]
    lines += [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def where(part: str) -> str:
    """Commit, time and machine of a part."""
    run = read(part)["run"]
    return f"Commit {run['commit']}, {run['created']}, {run['machine']}, torch {run['torch']}."


def summary() -> str:
    """One row for each kind of trouble."""
    kills, fuzz = read("kills"), read("fuzz")["readers"].values()
    learners = kills["learners"].values()
    files = read("corruptions")["files"].values()
    inputs, soak, ddp = read("inputs"), read("soak"), read("ddp")
    ddp = {**ddp["learners"], **ddp["commands"]}
    hostile = read("hostile")["formats"].values()
    outputs = read("outputs")
    pairs = [*outputs["phases"].values(), *([outputs["pairs"]] if "pairs" in outputs else [])]
    plain = [row for row in ddp.values() if not row["batch_norm"]]
    again = [row.get("again", row)["findings"] for row in fuzz]
    total = Counter(inputs["total"])
    runs = sum(row["runs"] for row in learners)
    identical = sum(row["identical"] for row in learners)
    rows = [
        [
            "kills (SIGKILL)",
            sum(row["kills"] for row in learners),
            f"{identical} of {runs} runs ended with the same bits",
        ],
        [
            "kills at every file operation of a checkpoint",
            kills["every_operation"]["places"],
            f"{kills['every_operation']['whole']} left a whole one",
        ],
        [
            "corruptions",
            sum(row["made"] for row in files),
            f"{sum(row['found'] for row in files):,} found and named",
        ],
        [
            "hostile files",
            sum(row["files"] for row in hostile),
            f"{sum(row['ran code'] for row in hostile)} ran code, "
            f"{sum(row['crashed'] for row in hostile)} crashes, "
            f"{sum(row['differs'] for row in hostile)} answers that differ, "
            f"{sum(row['over_memory'] for row in hostile)} over memory",
        ],
        [
            "kills at every change of an output",
            sum(row["kills"] for row in outputs["commands"].values()),
            f"{sum(row['mixed'] for row in outputs['commands'].values())} mixed states",
        ],
        [
            "the same, then resumed",
            sum(row["kills"] for row in outputs["resumed"].values()),
            f"{sum(row['same'] for row in outputs['resumed'].values())} ended with the same bits",
        ],
        [
            "two runs into one output",
            sum(row["pairs"] for row in pairs),
            f"{sum(row['losses'] for row in pairs)} losses",
        ],
        [
            "fuzz executions",
            sum(row["executions"] for row in fuzz),
            f"{sum(row['findings'] for row in fuzz)} findings, {sum(again)} left",
        ],
        [
            "bad inputs",
            total["cells"],
            f"{total['broken']:,} broken, {total['native']:,} refused in others' words "
            f"({len(inputs['entries'])} entry points)",
        ],
        [
            "two processes against one",
            len(ddp),
            f"{sum(row['same'] for row in plain)} of {len(plain)} the same (batch norm apart)",
        ],
        [
            "soak, minutes",
            round(soak["minutes"]),
            f"{soak['turns']:,} turns, "
            f"{soak['megabytes_warm']} MB warm, {soak['megabytes_end']} MB at the end",
        ],
    ]
    return table(["what", "tried", "result"], rows)


def kills() -> str:
    """Kills by learner."""
    found = read("kills")
    rows = [
        [
            name,
            r["kills"],
            r["with_a_checkpoint"],
            r["in_a_checkpoint"],
            f"{r['identical']} / {r['runs']}",
        ]
        for name, r in found["learners"].items()
    ]
    header = [
        "learner",
        "kills",
        "with a checkpoint",
        "while writing one",
        "runs with the same bits",
    ]
    return table(header, rows) + f"\n\n{where('kills')}"


def faults() -> str:
    """Disks and folders."""
    found = dict(read("faults")["faults"])
    locks = found.pop("two runs into one folder")
    yes = {True: "yes", False: "no"}
    rows = [
        [name, yes[r["clear_error"]], r["checkpoint_after_step"] or "gone", yes[r["same_weights"]]]
        for name, r in found.items()
    ]
    text = table(
        ["fault after step 9", "clear error", "checkpoint left, of step", "same bits"], rows
    )
    text += (
        f"\n\nA second run into a folder is refused: {yes[locks['second_run_refused']]}; a lock "
    )
    return text + (
        f"that a killed run left blocks nothing: {yes[locks['stale_lock_blocks_nothing']]}. "
        + where("faults")
    )


def corruptions() -> str:
    """Corruptions by file."""
    rows = [[name, r["made"], r["found"]] for name, r in read("corruptions")["files"].items()]
    return table(["file", "damaged", "found and named"], rows) + f"\n\n{where('corruptions')}"


def hostile() -> str:
    """Hostile files by format."""
    words = ("files", "ok", "refused", "ran code", "crashed", "differs", "over_memory")
    found = read("hostile")["formats"]
    rows: list[list[object]] = [
        [name, *(row[word] for word in words)] for name, row in found.items()
    ]
    header = ["format", *(word.replace("_", " ") for word in words)]
    return table(header, rows) + f"\n\n{where('hostile')}"


def outputs() -> str:
    """Kills at every change, resumed runs, and pairs of runs."""
    found = read("outputs")
    rows: list[list[object]] = []
    for name, row in found["commands"].items():
        again, phases = found["resumed"].get(name, {}), found["phases"][name]
        same = f"{again['same']} of {again['kills']}" if again else ""
        killed = [row[word] for word in ("changes", "kills", "mixed", "left over")]
        rows.append([f"`{name}`", *killed, same, phases["pairs"], phases["losses"]])
    header = ["command", "changes", "kills", "mixed states", "left over", "resumed to the same"]
    text = table([*header, "pairs", "losses"], rows) + "\n\n"
    if pairs := found.get("pairs"):  # the last thing of a whole run
        text += (
            f"And {pairs['pairs']} pairs at random distances: {pairs['losses']} losses; in "
            f"{pairs['refused']} one was refused, in {pairs['both']} both ended well, one after "
            f"the other or, of `sweep`, together. "
        )
    return text + where("outputs")


def inputs() -> str:
    """Bad input by entry point."""
    rows = []
    for name, r in sorted(read("inputs")["entries"].items()):
        states = [r.get(state, 0) for state in ("ok", "refused", "native", "broken")]
        rows.append([f"`{name}`", r["cells"], *states])
    header = ["entry point", "cells", "ok", "refused", "others' words", "broken"]
    return table(header, rows) + f"\n\n{where('inputs')}"


def fuzz() -> str:
    """Fuzzing by reader."""
    rows = []
    for name, r in read("fuzz")["readers"].items():
        again = r.get("again")
        left = f"{again['findings']} in {again['executions']:,}" if again else ""
        rows.append(
            [name, round(r["seconds"]), r["executions"], r["findings"], left, r["peak_megabytes"]]
        )
    total = sum(row["seconds"] for row in read("fuzz")["readers"].values())
    header = ["reader", "seconds", "executions", "findings", "later again", "peak MB"]
    return table(header, rows) + f"\n\n{total / 60:.0f} minutes in all. {where('fuzz')}"


def ddp() -> str:
    """Two processes against one."""
    found = read("ddp")

    def same(row: dict[str, Any]) -> str:
        return "yes" if row["same"] else ("batch norm" if row["batch_norm"] else "no")

    rows = [
        [name, f"{r['difference']:.1e}", f"{r['loss_difference']:.1e}", same(r)]
        for name, r in found["learners"].items()
    ]
    text = table(["learner", "largest difference of a weight", "of the last loss", "same"], rows)
    rows = [
        [f"`{name}`", f"{r['difference']:.1e}", f"{r['result_difference']:.1e}", same(r)]
        for name, r in found["commands"].items()
    ]
    header = ["command", "largest difference of a weight", "of a number of the result", "same"]
    text += f"\n\n{table(header, rows)}\n\n{where('ddp')}\n\n"
    cases = [["torchrun, " + name, r] for name, r in read("elastic")["cases"].items()]
    wheres = where("elastic")
    if (RESULTS / "slurm.json").exists():
        cases += [["srun, " + name, r] for name, r in read("slurm")["cases"].items()]
        wheres = f"torchrun: {wheres} srun ({read('slurm')['version']}): {where('slurm')}"
    rows = [
        [name, r.get("runs", 1), f"{r['difference']:.1e}", same({"batch_norm": False, **r})]
        for name, r in cases
    ]
    return f"{text}{table(['launcher', 'runs', 'largest difference', 'same'], rows)}\n\n{wheres}"


def memory() -> str:
    """A set larger than memory."""
    r = read("memory")
    size, limit = (r[name] / 2**30 for name in ("set_bytes", "limit_bytes"))
    before, peak = (r[name] / 2**20 for name in ("resident_before", "resident_peak"))
    return (
        f"A set of {size:.1f} GiB in {r['shards']} shards, trained on by a process whose address "
        f"space was limited to {limit:.2f} GiB: resident memory {before:.0f} MB before and "
        f"{peak:.0f} MB at its peak, {r['examples_per_second']:,} examples per second. "
        + where("memory")
    )


def soak() -> str:
    """An hour of everything."""
    r = read("soak")
    warm, end, most = (r[f"megabytes_{name}"] for name in ("warm", "end", "largest"))
    return (
        f"{r['turns']:,} turns in {r['minutes']:.0f} minutes. Resident memory {warm} MB after a "
        f"quarter of the time, {end} MB at the end, {most} MB at most; open files "
        f"{r['files_first']} at first, {r['files_end']} at the end. {where('soak')}"
    )


def packages() -> str:
    """Licences and vulnerabilities."""
    r = read("packages")
    wrong = ", ".join(r["licences_not_accepted"]) or "none"
    asked = {"not reached": "the advisory service could not be reached: nothing is known"}
    state = asked.get(r["vulnerabilities"], f"{r['vulnerabilities']} in {r['packages_audited']}")
    return (
        f"{r['packages']} packages are installed; licences not accepted: {wrong}. Known "
        f"vulnerabilities: {state}. {where('packages')}"
    )


PARTS = (
    summary,
    kills,
    faults,
    corruptions,
    hostile,
    outputs,
    inputs,
    fuzz,
    ddp,
    memory,
    soak,
    packages,
)


def filled(text: str) -> str:
    """The page with its tables replaced."""
    for part in PARTS:
        pattern = re.compile(rf"(<!-- {part.__name__} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        content = part()
        text = pattern.sub(lambda m, content=content: m[1] + content + m[2], text)
    return text


if __name__ == "__main__":
    target = RESULTS / PAGE.name if "CAMPAIGN_RESULTS" in os.environ else PAGE
    target.write_text(filled(PAGE.read_text()))
    print(target)
