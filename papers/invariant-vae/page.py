"""The tables of this page, from results.json; ``papers/tables.py`` writes them into the README."""

from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
Verdict = Callable[[bool], str]
KINDS = ("VAE", "fixed", "AugVAE", "InvVAE")
CONJECTURES = {
    "flexible": "1: p(eta) must be flexible",
    "invariance": "2: the encoder must be fully invariant",
    "conditional": "3: eta must depend on the prototype",
}


def tables(results: Row, expected: Row, table: Table, verdict: Verdict) -> dict[str, str]:
    """All tables of the page by name."""
    rows, shapes = results["rows"], results["shapes"]["rows"]
    return {
        "goals": table(["what", "goal", "ours", ""], goals(results, expected, verdict)),
        "widths": table(
            ["planted", "data", "steps", "width90", "expected", "ratio", "agree within 10 degrees"],
            width_rows(rows, "MNIST")
            + width_rows(results["earlier"]["rows"], "MNIST, one turn, earlier")
            + width_rows(shapes, "shapes"),
        ),
        "augerino": table(
            ["planted", "MNIST", "digits, 8 x 8"],
            augerino_rows(rows, results["small"]["rows"]),
        ),
        "affine": table(
            ["data", "transformations", "width90 of rotation / expected", "explained", "bound"],
            affine_rows(rows, "MNIST") + affine_rows(shapes, "shapes"),
        ),
        "ablations": table(
            [
                "conjecture",
                "",
                "width90 of q",
                "width90 of p",
                "p where q has none",
                "bound",
            ],
            ablation_rows(results["small"]["rows"]),
        ),
        "figure9": table(*efficiency(of(rows, source="mnist"))),
        "joint": table(["model", "added", "bound on x, nats", "error"], joint_rows(rows)),
        "timing": table(["what", "", "ms per step", "in all"], timing_rows(results)),
    }


def of(rows: Sequence[Row], **wanted: Any) -> list[Row]:  # noqa: ANN401 - values of rows
    """The rows that have these entries."""
    return [row for row in rows if all(row.get(k) == v for k, v in wanted.items())]


def rotation_rows(rows: Sequence[Row]) -> list[Row]:
    """Runs of the joint model with rotation alone, by planted range and steps."""
    return sorted(of(rows, part="rotation"), key=lambda row: (row["added"], row["steps"]))


def width_rows(rows: Sequence[Row], name: str) -> list[list[str]]:
    """Planted range, width found, width expected."""
    lines = []
    for row in rotation_rows(rows):
        first = row["added"] == 0 or "ratio" not in row
        lines.append(
            [
                f"±{row['added']:g}",
                name,
                f"{row['steps']:,}",
                f"{row['width90']['mean']:.1f}",
                "-" if first else f"{row['expected']['mean']:.1f}",
                "-" if first else f"{row['ratio']:.2f}",
                f"{row['agreement']['share_within_10']:.0%}",
            ]
        )
    return lines


def augerino_rows(*sets: Sequence[Row]) -> list[list[str]]:
    """The half-width in degrees that Augerino learns, a column for each set."""
    found = [
        {row["added"]: row["half_width"] for row in of(rows, part="augerino")} for rows in sets
    ]
    return [[f"±{a:g}", *(f"{column[a]:.1f}" for column in found)] for a in sorted(found[0])]


def affine_rows(rows: Sequence[Row], data: str) -> list[list[str]]:
    """One transformation against five, with the same number of steps."""
    lines = []
    for affine in of(rows, part="affine"):
        same = {"added": affine["added"], "steps": affine["steps"]}
        for row in [*of(rows, part="rotation", **same), affine]:
            name = "rotation" if row["part"] == "rotation" else "shifts, rotation, scales"
            explained = f"{1 - row['reconstruction_error'] / row['pixel_variance']:.0%}"
            lines.append([data, name, f"{row['ratio']:.2f}", explained, f"{row['bound']:.0f}"])
    return lines


def ablation_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Three conjectures on shapes."""
    lines = []
    for row in of(rows, part="ablations"):
        widths = [
            f"{w['0']:.0f} (L), {w['1']:.0f} (T)" for w in (row["width90_q"], row["width90_p"])
        ]
        lines.append(
            [
                CONJECTURES[row["which"]],
                row["side"],
                *widths,
                f"{row['share_outside']:.0%}",
                f"{row['bound']:.0f}",
            ]
        )
    return lines


def efficiency(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Bounds by kind, rotation and size."""
    grid = of(rows, part="figure9")
    sizes = sorted({row["size"] for row in grid})
    lines = []
    for added in sorted({row["added"] for row in grid}):
        for kind in KINDS:
            chosen = {row["size"]: row for row in of(grid, added=added, kind=kind)}
            if chosen:
                lines.append([f"±{added:g}", kind, *cells(chosen, sizes, "bound")])
            if chosen and kind == "InvVAE":
                name = "InvVAE, on the prototype"
                lines.append([f"±{added:g}", name, *cells(chosen, sizes, "prototype_bound")])
    return ["added", "model", *(f"{size:,} images" for size in sizes)], lines


def cells(rows: dict[int, Row], sizes: Sequence[int], key: str) -> list[str]:
    """Bound and reconstruction error for each size."""
    error = "prototype_error" if key == "prototype_bound" else "reconstruction_error"
    return [
        f"{rows[size][key]:.1f} ({1e3 * rows[size][error]:.1f})" if size in rows else "not run"
        for size in sizes
    ]


def joint_rows(rows: Sequence[Row]) -> list[list[str]]:
    """The joint model beside the VAEs of the same 50,000 images, on the same test images."""
    lines = []
    for row in rotation_rows(rows):
        others = of(rows, part="figure9", source="mnist", added=row["added"], size=50_000)
        if others:
            name = f"joint, {row['steps']:,} steps of batch 256"
            lines.append(joint_line(name, row))
            lines += [
                joint_line(f"{o['kind']}, {o['steps']:,} steps of batch 512", o) for o in others
            ]
    return lines


def joint_line(name: str, row: Row) -> list[str]:
    """Bound and error of a model."""
    error = f"{1e3 * row['reconstruction_error']:.1f}e-3"
    return [name, f"±{row['added']:g}", f"{row['bound']:.0f}", error]


def timing_rows(results: Row) -> list[list[str]]:
    """Pace of the joint model and of a VAE."""
    return [
        [row["what"], row["how"], f"{row['ms_per_step']:.2f}", row["whole"]]
        for row in results["timing"]
    ]


def goals(results: Row, expected: Row, verdict: Verdict) -> list[list[str]]:
    """What the project wanted of this paper."""
    rows, shapes = results["rows"], results["shapes"]["rows"]
    goal = expected["targets"]
    low, high = goal["width_ratio"]
    lines = []
    earlier = [row for row in results["earlier"]["rows"] if row["added"]]
    named = (("MNIST", rows), ("MNIST, one turn, earlier", earlier), ("shapes", shapes))
    for name, part in named:
        for row in rotation_rows(part):
            if row["added"] and "ratio" in row:
                what = f"width90 over expected, {name}, ±{row['added']:g}, {row['steps']:,} steps"
                holds = low <= row["ratio"] <= high
                lines.append([what, f"{low} to {high}", f"{row['ratio']:.2f}", verdict(holds)])
    shares = [row["agreement"]["share_within_10"] for row in of(rows, part="rotation")]
    lines.append(
        [
            "prototypes of turned copies, registered to each other, MNIST",
            "within 10 degrees",
            f"{min(shares):.0%} of them, in the worst run",
            verdict(min(shares) >= goal["share_within_10"]),
        ]
    )
    lines += losses(of(rows, source="mnist"), goal, verdict)
    for row in results["timing"]:
        if "seconds" in row:
            said = f"{row['seconds']:.0f} s, {row['how']}"
            holds = row["seconds"] < goal[row["goal"]]
            lines.append([row["what"], f"under {goal[row['goal']]} s", said, verdict(holds)])
    return lines


def losses(rows: Sequence[Row], goal: Row, verdict: Verdict) -> list[list[str]]:
    """How much each kind loses with fewer examples and with more rotation, in nats."""
    found = {(r["kind"], r["added"], r["size"]): r for r in of(rows, part="figure9")}
    sizes = sorted({size for *_, size in found})
    if len(sizes) < 2:
        return []
    few, many = sizes[0], sizes[-1]

    def change(kind: str, to: tuple[float, int], at: tuple[float, int], key: str = "bound") -> Any:  # noqa: ANN401
        pair = found.get((kind, *to)), found.get((kind, *at))
        return None if None in pair else pair[0][key] - pair[1][key]

    lines = []
    steps = [(f"{few:,} for {many:,} images, ±{a:g}", (a, few), (a, many)) for a in (0.0, 180.0)]
    steps += [(f"±180 for ±0, {n:,} images", (180.0, n), (0.0, n)) for n in (few, many)]
    for what, to, at in steps:
        lost = {kind: change(kind, to, at) for kind in KINDS}
        if lost["VAE"] is None:
            continue
        said = f"{lost['VAE']:+.1f} nats"
        lines.append([f"VAE: {what}", "gets worse", said, verdict(lost["VAE"] < 0)])
        if lost["AugVAE"] is not None:
            holds = lost["AugVAE"] > goal["augvae_share"] * lost["VAE"] and lost["VAE"] < 0
            said = f"{lost['AugVAE']:+.1f} nats"
            lines.append([f"AugVAE: {what}", "loses less than half of it", said, verdict(holds)])
    for n in (few, many):
        gap = change("VAE", (180.0, n), (0.0, n))
        for key, where in (("bound", "on x"), ("prototype_bound", "on the prototype")):
            moved = change("InvVAE", (180.0, n), (0.0, n), key)
            if gap is None or moved is None:
                continue
            lines.append(
                [
                    f"InvVAE {where}: ±180 for ±0, {n:,} images",
                    f"at most 10 % of the VAE's {gap:+.1f}",
                    f"{moved:+.1f} nats",
                    verdict(abs(moved) <= goal["invvae_share"] * abs(gap)),
                ]
            )
    return lines
