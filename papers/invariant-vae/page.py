"""The tables of this page, from results.json; ``papers/tables.py`` writes them into the README."""

from collections.abc import Callable, Sequence
from operator import itemgetter

from joint_rows import (
    ablation_rows,
    affine_rows,
    augerino_rows,
    growing_rows,
    joint_rows,
    rotation_rows,
    steps_of,
    width_rows,
)
from sample_rows import code_rows, likeness_rows
from vae_moves import goal_rows, loss_rows, setting_rows
from vae_rows import (
    KINDS,
    Row,
    Verdict,
    alike_rows,
    chosen,
    efficiency,
    of,
    stage_rows,
)

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


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
                "bound in nats, noise as trained / refitted",
            ],
            width_rows(rows, "MNIST") + width_rows(shapes, "shapes †"),
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
        "growing": table(
            [
                *("q of eta", "transformations", "KL of z", "digit told from the code"),
                *("explained", "variance of prototypes of turned copies", "bound"),
            ],
            growing_rows(results["growing"]["rows"]),
        ),
        "ablations": table(
            [
                "conjecture",
                "",
                "steps",
                "width90 of q",
                "width90 of p",
                "p where q has none",
                "variance of prototypes of turned copies",
                "KL of z",
                "bound",
                "before, 600 steps",
            ],
            ablation_rows(rows, results["first_loss"]["rows"]),
        ),
        "figure9": table(*efficiency(nine)),
        "alike": table(
            ["added", "images", *KINDS[:3]], alike_rows(of(rows, part="figure9", seed=0))
        ),
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


def goals(results: Row, expected: Row, verdict: Verdict) -> list[list[str]]:
    """What the project wanted of this paper."""
    rows = results["rows"]
    goal = expected["targets"]
    low, high = goal["width_ratio"]
    lines = []
    for name, part in (("MNIST", rows), ("shapes †", results["shapes"]["rows"])):
        for row in rotation_rows(part):
            if row["added"] and "ratio" in row:
                what = f"width90 over expected, {name}, ±{row['added']:g}, {steps_of(row)} steps"
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
    today = [row for row in today if row.get("alone")] or today
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
