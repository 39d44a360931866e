"""Speed, Figure 4 as numbers and the smaller studies of this page: heads and rows of tables."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

Row = dict[str, Any]
Lines = tuple[list[str], list[list[str]]]
Verdict = Callable[[bool], str]
BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "results"


def standard_error(values: Sequence[float]) -> float:
    """Of a mean; 0 for a single value."""
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def with_error(values: Sequence[float]) -> str:
    """Mean and standard error, which a single value does not have."""
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{mean(values):.2f} ± {standard_error(values):.2f}"


def speed(verdict: Verdict) -> Lines:
    """Group convolutions against others, from the benchmarks' results."""
    times: dict[tuple[str, str, str], float] = {}
    folder = BENCHMARKS
    for device in ("cuda", "cpu"):
        for row in json.loads((folder / f"gconv_speed-{device}.json").read_text())["rows"]:
            times[device, row["what"], row["alternative"]] = row["milliseconds"]
    network = json.loads((folder / "gconv_network-cuda.json").read_text())["rows"]
    ways = {row["alternative"]: row for row in network}
    share, epoch = (ways["CUDA graph"][k] for k in ("share_of_peak", "seconds_per_epoch"))
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
    if "train" in ways:
        whole, seconds = (ways["train"][k] for k in ("share_of_peak", "seconds_per_epoch"))
        said += f"; with the optimiser {100 * whole:.0f} %, {seconds:.1f} s"
    what = "the baseline's residual network, 8 rotations, bf16, batch 64: share of the matrix peak"
    head = ["what", "goal", "H200, launched one by one", "H200, CUDA graph", "two CPU cores", ""]
    return head, [*lines, [what, "40 %", "", said, "", verdict(share >= 0.4)]]


def figure4(rows: Sequence[Row]) -> Lines:
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
    return ["set", "", *(f"omega' = {omega:g}" for omega in omegas)], body


def study(trained: Sequence[Row], drawn: Sequence[Row]) -> Lines:
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
    return [*head, "training loss", "validation accuracy"], body


def starts(rows: Sequence[Row]) -> Lines:
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
    return [*head, "which digit (symmetric)", "which way up (not)"], body


def evidence(rows: Sequence[Row]) -> Lines:
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
    return ["task", "seed", "omega' of the layers", "accuracy", "KL per image, nats"], body
