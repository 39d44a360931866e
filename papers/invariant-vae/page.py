"""The tables of this page, from results.json; ``papers/tables.py`` writes them into the README."""

from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
Verdict = Callable[[bool], str]
EMPTY: Row = {"rows": []}
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
            [line for name, part in widths(results) for line in width_rows(part, name)],
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
                "data",
                "",
                "width90 of q",
                "width90 of p",
                "p where q has none",
                "KL of z",
                "bound",
            ],
            ablation_rows(rows) + ablation_rows(results["small"]["rows"]),
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


def widths(results: Row) -> list[tuple[str, Sequence[Row]]]:
    """Runs of the joint model with rotation, and what they are called."""
    return [
        ("MNIST", results["rows"]),
        ("MNIST, settle=0.7", results.get("settled", EMPTY)["rows"]),
        ("MNIST, turns without a lead, earlier", results.get("no_lead", EMPTY)["rows"]),
        ("MNIST, one turn, earlier", results["earlier"]["rows"]),
        ("shapes", results["shapes"]["rows"]),
    ]


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
    """Three conjectures, on digits or on shapes."""
    lines = []
    for row in of(rows, part="ablations"):
        lines.append(
            [
                CONJECTURES[row["which"]],
                "MNIST" if row.get("data") == "mnist" else "shapes",
                row["side"],
                ablation_width(row, "width90_q"),
                ablation_width(row, "width90_p"),
                f"{row['share_outside']:.0%}",
                f"{row['last']['kl_z']:.1f}",
                f"{row['bound']:.0f}",
            ]
        )
    return lines


def ablation_width(row: Row, key: str) -> str:
    """Widths in degrees: of an L and a T, of the two halves of the digits, or of all digits."""
    each = row[key]
    if row.get("data") != "mnist":
        return f"{each['0']:.0f} (L), {each['1']:.0f} (T)"
    if row["which"] == "conditional":
        halves = [sum(each[str(c)] for c in part) / 5 for part in (range(5), range(5, 10))]
        return f"{halves[0]:.0f} (0 to 4), {halves[1]:.0f} (5 to 9)"
    return f"{each['mean']:.0f}"


INVVAE = {
    "bound": "InvVAE, on x",
    "bound_image_noise": "InvVAE, on x, noise that stays",
    "prototype_bound": "InvVAE, on the prototype",
}


def efficiency(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Bounds by kind, rotation and size."""
    grid = of(rows, part="figure9")
    sizes = sorted({row["size"] for row in grid})
    lines = []
    for added in sorted({row["added"] for row in grid}):
        for kind in KINDS:
            names = INVVAE if kind == "InvVAE" else {"bound": kind}
            for key, name in names.items():
                chosen = [row for row in of(grid, added=added, kind=kind) if key in row]
                if chosen:
                    lines.append([f"±{added:g}", name, *cells(chosen, sizes, key)])
    return ["added", "model", *(f"{size:,} images" for size in sizes)], lines


def cells(rows: Sequence[Row], sizes: Sequence[int], key: str) -> list[str]:
    """Bound and reconstruction error for each size, means over seeds."""
    error = "prototype_error" if key == "prototype_bound" else "reconstruction_error"
    texts = []
    for size in sizes:
        same = of(rows, size=size)
        seeds = f", {len(same)} seeds" if len(same) > 1 else ""
        text = f"{average(same, key):.1f} ({1e3 * average(same, error):.1f}{seeds})" if same else ""
        texts.append(text or "not run")
    return texts


def average(rows: Sequence[Row], key: str) -> float:
    """The mean of an entry."""
    return float(sum(row[key] for row in rows) / len(rows))


def joint_rows(rows: Sequence[Row]) -> list[list[str]]:
    """The joint model beside the VAEs of the same 50,000 images, on the same test images."""
    lines = []
    every = rotation_rows(rows) + of(rows, part="learned-noise")
    for added in sorted({row["added"] for row in every}):
        others = of(rows, part="figure9", source="mnist", added=added, size=50_000, seed=0)
        if not others:
            continue
        for row in of(every, added=added):
            learned = ", noise learned" if row["part"] == "learned-noise" else ""
            lines.append(joint_line(f"joint, {row['steps']:,} steps of batch 256{learned}", row))
        lines += [joint_line(f"{o['kind']}, {o['steps']:,} steps of batch 512", o) for o in others]
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
    rows = results["rows"]
    goal = expected["targets"]
    low, high = goal["width_ratio"]
    lines = []
    for name, part in widths(results):
        for row in rotation_rows(part if name in ("MNIST", "MNIST, settle=0.7", "shapes") else []):
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
    grid = of(rows, part="figure9")
    sizes = sorted({row["size"] for row in grid})
    if len(sizes) < 2:
        return []
    few, many = sizes[0], sizes[-1]

    def change(kind: str, to: tuple[float, int], at: tuple[float, int], key: str = "bound") -> Any:  # noqa: ANN401
        """The mean over the seeds that both have."""
        ends = [
            {r["seed"]: r[key] for r in of(grid, kind=kind, added=a, size=n) if key in r}
            for a, n in (to, at)
        ]
        both = ends[0].keys() & ends[1].keys()
        return sum(ends[0][s] - ends[1][s] for s in both) / len(both) if both else None

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
        for key, name in INVVAE.items():
            moved = change("InvVAE", (180.0, n), (0.0, n), key)
            if gap is None or moved is None:
                continue
            lines.append(
                [
                    f"{name}: ±180 for ±0, {n:,} images",
                    f"at most 10 % of the VAE's {gap:+.1f}",
                    f"{moved:+.1f} nats",
                    verdict(abs(moved) <= goal["invvae_share"] * abs(gap)),
                ]
            )
    return lines
