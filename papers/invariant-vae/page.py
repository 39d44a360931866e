"""The tables of this page, from results.json; ``papers/tables.py`` writes them into the README."""

from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
KINDS = ("VAE", "fixed", "AugVAE", "InvVAE")


def tables(results: Row, expected: Row, table: Table, verdict: Callable[[bool], str]) -> dict:
    """All tables of the page by name."""
    rows, small = results["rows"], results["small"]["rows"]
    return {
        "goals": table(["what", "goal", "ours", ""], goals(results, expected, verdict)),
        "widths": table(
            ["planted", "data", "steps", "width90", "expected", "ratio", "agree within 10 degrees"],
            width_rows(rows, "MNIST") + width_rows(small, "shapes"),
        ),
        "augerino": table(["planted", "Augerino's half-width", "ratio"], augerino_rows(small)),
        "affine": table(
            ["transformations", "width90 of rotation / expected", "variance explained", "bound"],
            affine_rows(small),
        ),
        "ablations": table(
            [
                "conjecture",
                "p(eta), encoder",
                "width90 of q",
                "width90 of p",
                "mass of p where q has none",
                "bound",
            ],
            ablation_rows(small),
        ),
        "figure9": table(*efficiency(rows)),
        "figure9-small": table(*efficiency(small)),
        "joint": table(
            ["model", "added", "bound on x, nats", "reconstruction error"], joint_rows(rows)
        ),
        "timing": table(
            ["network", "convolutions", "ms per step", "15,000 steps"], timing_rows(results)
        ),
    }


def of(rows: Sequence[Row], **wanted: Any) -> list[Row]:  # noqa: ANN401 - values of rows
    """The rows that have these entries."""
    return [row for row in rows if all(row.get(k) == v for k, v in wanted.items())]


def width_rows(rows: Sequence[Row], name: str) -> list[list[str]]:
    """Planted range, width found, width expected."""
    lines = []
    for row in sorted(of(rows, part="rotation"), key=lambda row: row["added"]):
        first = row["added"] == 0
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


def augerino_rows(rows: Sequence[Row]) -> list[list[str]]:
    """The width that Augerino learns."""
    chosen = sorted(of(rows, part="augerino"), key=lambda row: row["added"])
    return [
        [f"±{row['added']:g}", f"{row['half_width']:.1f}", ratio(row["half_width"], row["added"])]
        for row in chosen
    ]


def ratio(found: float, planted: float) -> str:
    """Found over planted, where something was planted."""
    return f"{found / planted:.2f}" if planted else "-"


def affine_rows(rows: Sequence[Row]) -> list[list[str]]:
    """One transformation against five."""
    lines = []
    for part, name in (("rotation", "rotation"), ("affine", "shifts, rotation, scales")):
        for row in of(rows, part=part, added=45.0):
            explained = 1 - row["reconstruction_error"] / row["pixel_variance"]
            lines.append([name, f"{row['ratio']:.2f}", f"{explained:.0%}", f"{row['bound']:.1f}"])
    return lines


def ablation_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Three conjectures."""
    names = {
        "flexible": "1: p(eta) must be flexible",
        "invariance": "2: the encoder must be fully invariant",
        "conditional": "3: eta must depend on the prototype",
    }
    lines = []
    for row in of(rows, part="ablations"):
        q, p = row["width90_q"], row["width90_p"]
        shown = [f"{part['0']:.0f} (L), {part['1']:.0f} (T)" for part in (q, p)]
        lines.append(
            [
                names[row["which"]],
                row["side"],
                *shown,
                f"{row['share_outside']:.0%}",
                f"{row['bound']:.1f}",
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
    """The joint model beside the VAEs, with the numbers at hand."""
    lines = []
    for row in sorted(of(rows, part="rotation"), key=lambda row: row["added"]):
        name = f"joint, {row['steps']:,} steps, noise found afterwards"
        error = f"{1e3 * row['reconstruction_error']:.1f}e-3"
        lines.append([name, f"±{row['added']:g}", f"{row['bound']:.0f}", error])
    for row in of(rows, part="figure9", kind="InvVAE"):
        name = f"InvVAE, {row['size']:,} images"
        error = f"{1e3 * row['reconstruction_error']:.1f}e-3"
        lines.append([name, f"±{row['added']:g}", f"{row['bound']:.0f}", error])
    return lines


def timing_rows(results: Row) -> list[list[str]]:
    """Pace of the joint model."""
    return [
        [
            row["network"],
            row["precision"],
            f"{row['ms_per_step']:.1f}",
            f"{15 * row['ms_per_step']:.0f} s",
        ]
        for row in results["timing"]
    ]


def goals(results: Row, expected: Row, verdict: Callable[[bool], str]) -> list[list[str]]:
    """What the project wanted of this paper."""
    rows, small = results["rows"], results["small"]["rows"]
    goal = expected["targets"]
    low, high = goal["width_ratio"]
    lines = []
    for name, part in (("MNIST", rows), ("shapes", small)):
        for row in sorted(of(part, part="rotation"), key=lambda row: row["added"]):
            if row["added"]:
                what = f"width90 over expected, {name}, ±{row['added']:g}"
                holds = low <= row["ratio"] <= high
                said = f"{low} to {high}"
                lines.append([what, said, f"{row['ratio']:.2f}", verdict(holds)])
    shares = [row["agreement"]["share_within_10"] for row in of(rows, part="rotation")]
    lines.append(
        [
            "prototypes of turned copies, registered to each other, MNIST",
            "within 10 degrees",
            f"{min(shares):.0%} of them, in the worst run",
            verdict(min(shares) >= goal["share_within_10"]),
        ]
    )
    lines += losses(rows, "MNIST", goal, verdict) + losses(small, "small", goal, verdict)
    run = of(rows, part="rotation", added=45.0)[0]
    lines.append(
        [
            "15,000 steps of batch 256",
            "under 180 s",
            f"{run['seconds']:.0f} s, five jobs on the GPU",
            verdict(run["seconds"] < goal["joint_seconds"]),
        ]
    )
    paces = [row["ms_per_step"] for row in of(rows, part="figure9", kind="VAE")]
    lines.append(
        [
            "VAE, 20,000 steps of batch 512, from the pace of 2,000",
            "under 180 s",
            f"{20 * min(paces):.0f} to {20 * max(paces):.0f} s, five jobs on the GPU",
            verdict(20 * max(paces) < goal["vae_seconds"]),
        ]
    )
    return lines


def losses(
    rows: Sequence[Row], name: str, goal: Row, verdict: Callable[[bool], str]
) -> list[list[str]]:
    """How much each kind loses with fewer examples and with more rotation, in nats."""
    grid = of(rows, part="figure9")
    sizes = sorted({row["size"] for row in grid})
    if len(sizes) < 2:
        return []
    few, many = sizes[0], sizes[-1]

    def bound(kind: str, added: float, size: int, key: str = "bound") -> float | None:
        found = of(grid, kind=kind, added=added, size=size)
        return found[0][key] if found else None

    def change(kind: str, to: tuple[float, int], at: tuple[float, int], key: str = "bound") -> Any:  # noqa: ANN401
        a, b = bound(kind, *to, key), bound(kind, *at, key)
        return None if a is None or b is None else a - b

    lines = []
    fewer = {kind: change(kind, (0.0, few), (0.0, many)) for kind in KINDS}
    turned = {kind: change(kind, (180.0, few), (0.0, few)) for kind in KINDS}
    for what, found in (("fewer images", fewer), ("rotation of ±180", turned)):
        if None in found.values():
            continue
        lines.append(
            [
                f"{name}: VAE with {what}",
                "gets worse",
                f"{found['VAE']:+.1f} nats",
                verdict(found["VAE"] < 0),
            ]
        )
        lines.append(
            [
                f"{name}: AugVAE with {what}",
                "loses less than half as much",
                f"{found['AugVAE']:+.1f} nats",
                verdict(found["AugVAE"] > goal["augvae_share"] * found["VAE"]),
            ]
        )
    gap = turned["VAE"]
    for key, where in (("bound", "on x"), ("prototype_bound", "on the prototype")):
        moved = change("InvVAE", (180.0, few), (0.0, few), key)
        if gap is None or moved is None:
            continue
        lines.append(
            [
                f"{name}: InvVAE {where} with rotation of ±180",
                f"moves by at most 10 % of the VAE's {gap:+.1f}",
                f"{moved:+.1f} nats",
                verdict(abs(moved) <= goal["invvae_share"] * abs(gap)),
            ]
        )
    return lines
