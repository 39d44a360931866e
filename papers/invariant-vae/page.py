"""The tables of this page, from results.json; ``papers/tables.py`` writes them into the README."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

Row = dict[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
Verdict = Callable[[bool], str]
SHORT = 2500  # steps of the whole grid of Figure 9
KINDS = ("VAE", "fixed", "AugVAE", "InvVAE", "InvVAE-similarities")
CONJECTURES = {
    "flexible": "1: p(eta) must be flexible",
    "invariance": "2: the encoder must be fully invariant",
    "conditional": "3: eta must depend on the prototype",
}


def tables(results: Row, expected: Row, table: Table, verdict: Verdict) -> dict[str, str]:
    """All tables of the page by name."""
    rows, shapes = results["rows"], results["shapes"]["rows"]
    nine = of(rows, part="figure9", source="mnist")
    return {
        "goals": table(["what", "goal", "ours", ""], goals(results, expected, verdict)),
        "images": table(["images", "roughness"], roughness_rows(rows)),
        "widths": table(
            [
                "planted",
                "data",
                "steps",
                "width90",
                "expected",
                "ratio",
                "ratio, all classes pooled",
                "agree within 10 degrees",
                "Augerino's half-width",
            ],
            width_rows(rows, "MNIST") + width_rows(shapes, "shapes"),
        ),
        "augerino": table(
            ["planted", "MNIST", "digits, 8 x 8"],
            augerino_rows(rows, results["small"]["rows"]),
        ),
        "affine": table(
            ["data", "transformations", "ratio of width90", "explained", "KL of z", "bound"],
            affine_rows(rows, "MNIST")
            + affine_rows(shapes, "shapes")
            + affine_rows(results["shapes_paper"]["rows"], "shapes, the paper's q"),
        ),
        "ablations": table(
            [
                "conjecture",
                "",
                "width90 of q",
                "width90 of p",
                "p where q has none",
                "variance of prototypes of turned copies",
                "KL of z",
                "bound",
            ],
            ablation_rows(rows),
        ),
        "figure9": table(*efficiency(of(nine, steps=SHORT))),
        "long": table(*efficiency([row for row in nine if row["steps"] > SHORT])),
        "half-size": table(*efficiency(results["half_size"]["rows"])),
        "residual": table(["components", "upright", "turned", "nats lost"], residual_rows(rows)),
        "joint": table(["model", "added", "bound on x, nats", "error"], joint_rows(rows)),
    }


def roughness_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Mean square differences of neighbouring pixels."""
    found = [row for row in of(rows, part="images") if "roughness" in row]
    return [[row["images"], f"{row['roughness']:.4f}"] for row in found]


def residual_rows(rows: Sequence[Row]) -> list[list[str]]:
    """What principal components leave, described pixel by pixel, upright and turned."""
    found = [row for row in of(rows, part="images") if "components" in row]
    return [
        [
            str(row["components"]),
            f"{row['upright']:.0f}",
            f"{row['turned']:.0f}",
            f"{row['turned'] - row['upright']:+.0f}",
        ]
        for row in found
    ]


def of(rows: Sequence[Row], **wanted: Any) -> list[Row]:  # noqa: ANN401 - values of rows
    """The rows that have these entries."""
    return [row for row in rows if all(row.get(k) == v for k, v in wanted.items())]


def rotation_rows(rows: Sequence[Row]) -> list[Row]:
    """Runs of the joint model with rotation alone, by planted range and steps."""
    return sorted(of(rows, part="rotation"), key=itemgetter("added", "steps"))


def width_rows(rows: Sequence[Row], name: str) -> list[list[str]]:
    """Planted range, width found, width expected; beside them what Augerino learns."""
    augerino = {row["added"]: row["half_width"] for row in of(rows, part="augerino")}
    lines = []
    for row in rotation_rows(rows):
        first = row["added"] == 0 or "ratio" not in row
        beside = augerino.get(row["added"])
        lines.append(
            [
                f"±{row['added']:g}",
                name,
                f"{row['steps']:,}",
                f"{row['width90']['mean']:.1f}",
                "-" if first else f"{row['expected']['mean']:.1f}",
                "-" if first else f"{row['ratio']:.2f}",
                "-" if first else f"{row['ratio_pooled']:.2f}",
                f"{row['agreement']['share_within_10']:.0%}",
                "-" if beside is None else f"{beside:.1f}",
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
            codes = f"{row['last']['kl_z']:.1f}"
            ratio = f"{row['ratio']:.2f}"
            lines.append([data, name, ratio, explained, codes, f"{row['bound']:.0f}"])
    return lines


def ablation_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Three conjectures, on digits."""
    lines = []
    for row in sorted(of(rows, part="ablations"), key=lambda row: CONJECTURES[row["which"]]):
        lines.append(
            [
                CONJECTURES[row["which"]],
                row["side"],
                ablation_width(row, "width90_q"),
                ablation_width(row, "width90_p"),
                f"{row['share_outside']:.0%}",
                f"{row['agreement']['variance_ratio']:.1e}",
                f"{row['last']['kl_z']:.1f}",
                f"{row['bound']:.0f}",
            ]
        )
    return lines


def ablation_width(row: Row, key: str) -> str:
    """Widths in degrees: of the two halves of the digits, or of all digits."""
    each = row[key]
    if row["which"] == "conditional":
        halves = [sum(each[str(c)] for c in part) / 5 for part in (range(5), range(5, 10))]
        return f"{halves[0]:.0f} (0 to 4), {halves[1]:.0f} (5 to 9)"
    return f"{each['mean']:.0f}"


BOUNDS = {
    "bound": "on x",
    "bound_image_noise": "on x, noise that stays",
    "prototype_bound": "on the prototype",
}


def names_of(kind: str) -> dict[str, str]:
    """The bounds that a kind of model has, and what they are called."""
    if kind.startswith("InvVAE"):
        return {key: f"{kind}, {name}" for key, name in BOUNDS.items()}
    return {"bound": kind}


def efficiency(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Bounds by kind, rotation and size."""
    sizes = sorted({row["size"] for row in rows})
    lines = []
    for steps in sorted({row["steps"] for row in rows}):
        for added in sorted({row["added"] for row in rows}):
            for kind in KINDS:
                for key, name in names_of(kind).items():
                    chosen = of(rows, steps=steps, added=added, kind=kind)
                    chosen = [row for row in chosen if key in row]
                    if chosen:
                        said = [f"{steps:,}", f"±{added:g}", name]
                        lines.append([*said, *cells(chosen, sizes, key)])
    return ["steps", "added", "model", *(f"{size:,} images" for size in sizes)], lines


def cells(rows: Sequence[Row], sizes: Sequence[int], key: str) -> list[str]:
    """Bound and reconstruction error for each size, means over runs."""
    error = "prototype_error" if key == "prototype_bound" else "reconstruction_error"
    texts = []
    for size in sizes:
        same = of(rows, size=size)
        seeds = f", {len(same)} runs" if len(same) > 1 else ""
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
        others = [row for row in others if "bound" in row]
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


def goals(results: Row, expected: Row, verdict: Verdict) -> list[list[str]]:
    """What the project wanted of this paper."""
    rows = results["rows"]
    goal = expected["targets"]
    low, high = goal["width_ratio"]
    lines = []
    for name, part in (("MNIST", rows), ("shapes", results["shapes"]["rows"])):
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
    nine = of(rows, part="figure9", source="mnist")
    for steps in sorted({row["steps"] for row in nine}):
        lines += losses(of(nine, steps=steps), goal, verdict, f"{steps:,} steps")
    lines += losses(results["half_size"]["rows"], goal, verdict, "14 x 14 pixels")
    every = rows + results["earlier"]["rows"]
    timed = {"joint_seconds": of(every, part="rotation", steps=15_000)}
    timed["vae_seconds"] = of(nine, kind="VAE", steps=20_000)
    names = {"joint_seconds": "joint, 15,000 steps of batch 256"}
    names["vae_seconds"] = "VAE, 20,000 steps of batch 512"
    for key, runs in timed.items():
        for row in runs[:1]:
            said = f"{row['seconds']:.0f} s, others on the GPU"
            holds = row["seconds"] < goal[key]
            lines.append([names[key], f"under {goal[key]} s", said, verdict(holds)])
    return lines


def losses(grid: Sequence[Row], goal: Row, verdict: Verdict, said_of: str) -> list[list[str]]:
    """How much each kind loses with fewer examples and with more rotation, in nats."""
    sizes = sorted({row["size"] for row in grid})

    def change(kind: str, to: tuple[float, int], at: tuple[float, int], key: str = "bound") -> Any:  # noqa: ANN401
        """The difference of the means over runs."""
        ends = [[r for r in of(grid, kind=kind, added=a, size=n) if key in r] for a, n in (to, at)]
        return average(ends[0], key) - average(ends[1], key) if all(ends) else None

    lines = []
    few, many = sizes[0], sizes[-1]
    added = sorted({row["added"] for row in grid})
    cases = [(f"{few:,} for {many:,} images, ±{a:g}", (a, few), (a, many)) for a in added]
    cases = cases if few < many else []
    cases += [(f"±180 for ±0, {n:,} images", (180.0, n), (0.0, n)) for n in sizes]
    for what, to, at in cases:
        lost = {kind: change(kind, to, at) for kind in KINDS}
        gap, what = lost["VAE"], f"{what}, {said_of}"
        if gap is None:
            continue
        lines.append([f"VAE: {what}", "gets worse", f"{gap:+.1f} nats", verdict(gap < 0)])
        if lost["AugVAE"] is not None:
            holds = lost["AugVAE"] > goal["augvae_share"] * gap and gap < 0
            said = f"{lost['AugVAE']:+.1f} nats"
            lines.append([f"AugVAE: {what}", "loses less than half of it", said, verdict(holds)])
        if to[1] != at[1]:
            continue
        for kind in KINDS[3:]:
            for key, name in names_of(kind).items():
                moved = change(kind, to, at, key)
                if moved is not None:
                    wanted = f"at most 10 % of the VAE's {gap:+.1f}"
                    holds = abs(moved) <= goal["invvae_share"] * abs(gap)
                    said = f"{moved:+.1f} nats"
                    lines.append([f"{name}: {what}", wanted, said, verdict(holds)])
    return lines
