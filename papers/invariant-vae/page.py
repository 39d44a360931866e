"""The tables of this page, from results.json; ``papers/tables.py`` writes them into the README."""

from collections.abc import Callable, Sequence
from operator import itemgetter

from sample_rows import code_rows, likeness_rows
from vae_moves import goal_rows, loss_rows, setting_rows
from vae_rows import (
    KINDS,
    Row,
    Verdict,
    chosen,
    efficiency,
    of,
    stage_rows,
)

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
CONJECTURES = {
    "flexible": "1: p(eta) must be flexible",
    "invariance": "2: the encoder must be fully invariant",
    "conditional": "3: eta must depend on the prototype",
}


def tables(results: Row, expected: Row, table: Table, verdict: Verdict) -> dict[str, str]:
    """All tables of the page by name."""
    rows, shapes = results["rows"], results["shapes"]["rows"]
    nine = chosen(of(rows, part="figure9"))
    return {
        "goals": table(["what", "goal", "ours", ""], goals(results, expected, verdict)),
        "images": table(["images", "roughness"], roughness_rows(rows)),
        "known": table(
            ["added", "roughness", "20 components", "50", "100"],
            known_rows(rows),
        ),
        "shape": table(["all digits", "nats that 100 components leave"], shape_rows(rows)),
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
            [
                "data",
                "transformations",
                "steps",
                "ratio of width90",
                "explained",
                "KL of z",
                "bound",
            ],
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
        "figure9": table(*efficiency(nine)),
        "losses": table(
            ["", "VAE", "fixed", "AugVAE", "InvVAE, on the prototype", "InvVAE, on x"],
            loss_rows(nine, expected["targets"]),
        ),
        "settings": table(
            ["50,000 images", "held out, ±0", "±180", "test, ±0", "±180", "lost"],
            setting_rows(results),
        ),
        "stages": table(
            ["prototypes", "images", "VAE", "10 % of it", "InvVAE, on the prototype", "on x"],
            stage_rows(results),
        ),
        "residual": table(["components", "upright", "turned", "nats lost"], residual_rows(rows)),
        "joint": table(
            ["model", "added", "bound on x, nats", "error"],
            joint_rows(rows),
        ),
        "likeness": table(
            ["model", "planted", "least noise", "prior", "density", "test, reconstructed", "test"],
            likeness_rows(rows),
        ),
        "codes": table(
            [
                *("model", "planted", "least noise", "codes", "components"),
                *("bound, nats: prior", "density", "rarest digit"),
                *("nearest training image: density", "test, reconstructed"),
            ],
            code_rows(rows),
        ),
    }


def roughness_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Mean square differences of neighbouring pixels."""
    found = [row for row in of(rows, part="images") if "images" in row]
    return [[row["images"], f"{row['roughness']:.4f}"] for row in found]


def named(added: float, source: str) -> str:
    """The planted range, and whether digits were shifted, too."""
    return f"±{added:g}" + (", shifted" if source == "mnist-alike" else "")


def known_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Nats that components leave of images turned back by the angles that were planted."""
    found = [row for row in of(rows, part="images") if "known" in row]
    return [
        [
            named(row["known"], row["source"]),
            f"{row['roughness']:.4f}",
            *(f"{row[f'nats_{k}']:.0f}" for k in (20, 50, 100)),
        ]
        for row in found
    ]


def shape_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Nats of the same digits, if all are zoomed or stretched alike."""
    lines = []
    for row in [row for row in of(rows, part="images") if "stretch" in row]:
        changes = [f"{name} {row[name]:+g}" for name in ("zoom", "stretch") if row[name]]
        lines.append([", ".join(changes) or "as they are", f"{row['nats']:.0f}"])
    return lines


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
    """One transformation against five, by the number of steps."""
    lines = []
    affine = of(rows, part="affine")
    same = [row for row in rotation_rows(rows) if row["added"] == affine[0]["added"]]
    for row in sorted(same + affine, key=itemgetter("steps")):
        name = "rotation" if row["part"] == "rotation" else "shifts, rotation, scales"
        explained = f"{1 - row['reconstruction_error'] / row['pixel_variance']:.0%}"
        numbers = [f"{row['ratio']:.2f}", explained, f"{row['last']['kl_z']:.1f}"]
        lines.append([data, name, f"{row['steps']:,}", *numbers, f"{row['bound']:.0f}"])
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


def joint_rows(rows: Sequence[Row]) -> list[list[str]]:
    """The joint model beside the VAEs of the same 50,000 images, on the same test images."""
    lines = []
    names = {"same": "noise 0.2", "same-learned": "noise learned"}
    every = [row for part in names for row in of(rows, part=part)]
    for added in sorted({row["added"] for row in every}):
        for row in sorted(of(every, added=added), key=itemgetter("part", "steps")):
            name = f"joint, {names[row['part']]}, {row['steps']:,} steps of batch 256"
            lines.append(joint_line(name, row))
        nine = chosen(of(rows, part="figure9", added=added, size=50_000))
        for kind in KINDS:
            same = of(nine, kind=kind)
            if same:
                steps = " or ".join(sorted({f"{row['steps']:,}" for row in same}))
                keys = ("bound", "reconstruction_error")
                mean = {key: sum(row[key] for row in same) / len(same) for key in keys}
                lines.append(joint_line(f"{kind}, {steps} steps of batch 512", same[0] | mean))
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
    lines += goal_rows(chosen(of(rows, part="figure9")), goal, verdict)
    today = of(rows, part="rotation", steps=15_000)
    earlier = of(results["earlier"]["rows"], part="rotation", steps=15_000)
    timed = {"joint_seconds": today or earlier}
    timed["vae_seconds"] = of(rows, part="figure9", kind="AugVAE", steps=20_000)
    names = {"joint_seconds": "joint, 15,000 steps of batch 256" + ("" if today else ", earlier q")}
    names["vae_seconds"] = "a VAE, 20,000 steps of batch 512 (AugVAE, the slowest run)"
    for key, runs in timed.items():
        for row in sorted(runs, key=itemgetter("seconds"))[-1:]:
            said = f"{row['seconds']:.0f} s, {'alone' if row.get('alone') else 'others'} on the GPU"
            holds = row["seconds"] < goal[key]
            lines.append([names[key], f"under {goal[key]} s", said, verdict(holds)])
    return lines
