"""The tables of this page, from results.json; ``papers/tables.py`` writes them into the README."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from statistics import stdev
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
    every = of(rows, part="figure9")
    nine = chosen(every)
    before = short_rows(results)
    head, short = efficiency(of(before, steps=2500))
    short += efficiency(of(before, steps=10_000), (12_500, 25_000, 50_000))[1]
    return {
        "goals": table(["what", "goal", "ours", ""], goals(results, expected, verdict)),
        "images": table(["images", "roughness"], roughness_rows(rows)),
        "known": table(
            ["added", "roughness", "20 components", "50", "100"],
            known_rows(rows),
        ),
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
        "figure9": table(*efficiency(nine)),
        "short": table(head, short),
        "prototypes": table(
            ["added", "zoom taken out", "variance over an orbit", "content kept"],
            prototype_rows(nine),
        ),
        "half-size": table(*efficiency(results["half_size"]["rows"])),
        "residual": table(["components", "upright", "turned", "nats lost"], residual_rows(rows)),
        "joint": table(["model", "added", "bound on x, nats", "error"], joint_rows(rows)),
    }


def roughness_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Mean square differences of neighbouring pixels."""
    found = [row for row in of(rows, part="images") if "images" in row]
    return [[row["images"], f"{row['roughness']:.4f}"] for row in found]


def named(added: float, source: str) -> str:
    """The planted range, and whether upright digits were made as smooth as others."""
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
    if kind == "InvVAE":
        return {key: f"{kind}, {name}" for key, name in BOUNDS.items()}
    return {"bound": kind}


def short_rows(results: Row) -> list[Row]:
    """VAE and AugVAE in fewer steps: neither depends on the size of prototypes."""
    return [row for row in results["before_sizes"]["rows"] if row["kind"] in ("VAE", "AugVAE")]


def chosen(rows: Sequence[Row]) -> list[Row]:
    """Of the settings tried for a kind, a set and a seed, the best on images held out."""
    tried: dict[tuple[Any, ...], list[Row]] = {}
    names = ("source", "kind", "added", "size", "seed")
    for row in rows:
        tried.setdefault(tuple(row[name] for name in names), []).append(row)
    return [max(same, key=itemgetter("bound_held_out")) for same in tried.values()]


def efficiency(rows: Sequence[Row], sizes: Sequence[int] = ()) -> tuple[list[str], list[list[str]]]:
    """Bounds by kind, rotation and size."""
    sizes = sizes or sorted({row["size"] for row in rows})
    lines = []
    for added, source in sorted({(row["added"], row["source"]) for row in rows}):
        for kind in KINDS:
            same = of(rows, added=added, source=source, kind=kind)
            for key, name in names_of(kind).items() if same else ():
                lines.append([named(added, source), name, *cells(same, sizes, key)])
    return ["added", "model", *(f"{size:,} images" for size in sizes)], lines


def cells(rows: Sequence[Row], sizes: Sequence[int], key: str) -> list[str]:
    """Bound, reconstruction error and setting for each size; means over seeds."""
    error = "prototype_error" if key == "prototype_bound" else "reconstruction_error"
    texts = []
    for size in sizes:
        same = of(rows, size=size)
        if not same:
            texts.append("not run")
            continue
        spread = f" ± {scatter(same, key):.1f}" if len(same) > 1 else ""
        settings = " or ".join(sorted({setting(row) for row in same}))
        said = f"{1e3 * average(same, error):.1f}; {settings}"
        texts.append(f"{average(same, key):.1f}{spread} ({said})")
    return texts


def setting(row: Row) -> str:
    """Thousands of steps, and whether there was a third convolution."""
    return f"{row['steps'] / 1000:g}k" + ("+" if len(row.get("channels", ())) > 2 else "")


def prototype_rows(rows: Sequence[Row]) -> list[list[str]]:
    """What symmetry models did to prototypes, one line for each model."""
    found = {(r["source"], r["added"], r["seed"]): r for r in of(rows, kind="InvVAE")}
    return [
        [
            named(added, source),
            f"{row['symmetry']['zoom']:+.3f}",
            f"{row['symmetry']['orbit_variance']:.3f}",
            f"{row['content_kept']:.2%}",
        ]
        for (source, added, _), row in sorted(found.items())
    ]


def scatter(rows: Sequence[Row], key: str) -> float:
    """Standard deviation of an entry."""
    return float(stdev(row[key] for row in rows))


def average(rows: Sequence[Row], key: str) -> float:
    """The mean of an entry."""
    return float(sum(row[key] for row in rows) / len(rows))


def joint_rows(rows: Sequence[Row]) -> list[list[str]]:
    """The joint model beside the VAEs of the same 50,000 images, on the same test images."""
    lines = []
    every = rotation_rows(rows) + of(rows, part="learned-noise")
    for added in sorted({row["added"] for row in every}):
        others = of(rows, part="figure9", source="mnist", added=added, size=50_000, seed=0)
        others = chosen(others)
        if not others:
            continue
        for row in of(every, added=added):
            learned = ", noise learned" if row["part"] == "learned-noise" else ""
            lines.append(joint_line(f"joint, {row['steps']:,} steps of batch 256{learned}", row))
        for other in sorted(others, key=lambda row: KINDS.index(row["kind"])):
            lines.append(
                joint_line(f"{other['kind']}, {other['steps']:,} steps of batch 512", other)
            )
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
    lines += losses(chosen(nine), goal, verdict)
    alike = of(rows, part="figure9", source="mnist-alike")
    if alike:
        both = chosen([*alike, *of(nine, added=180.0)])
        lines += losses(both, goal, verdict, ", ±0 shifted")
    before = short_rows(results)
    for steps in (2500, 10_000):
        lines += losses(of(before, steps=steps), goal, verdict, f", {steps:,} steps")
    lines += losses(results["half_size"]["rows"], goal, verdict, ", 14 x 14 pixels")
    today = of(rows, part="rotation", steps=15_000)
    earlier = of(results["earlier"]["rows"], part="rotation", steps=15_000)
    timed = {"joint_seconds": today or earlier}
    timed["vae_seconds"] = of(before, kind="VAE", steps=20_000)
    names = {"joint_seconds": "joint, 15,000 steps of batch 256" + ("" if today else ", earlier q")}
    names["vae_seconds"] = "VAE, 20,000 steps of batch 512, earlier commit"
    for key, runs in timed.items():
        for row in sorted(runs, key=lambda row: not row.get("alone"))[:1]:
            said = f"{row['seconds']:.0f} s, {'alone' if row.get('alone') else 'others'} on the GPU"
            holds = row["seconds"] < goal[key]
            lines.append([names[key], f"under {goal[key]} s", said, verdict(holds)])
    return lines


def losses(grid: Sequence[Row], goal: Row, verdict: Verdict, said_of: str = "") -> list[list[str]]:
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
        gap, what = lost["VAE"], what + said_of
        if gap is None:
            continue
        lines.append([f"VAE: {what}", "gets worse", f"{gap:+.1f} nats", verdict(gap < 0)])
        if lost["AugVAE"] is not None:
            holds = lost["AugVAE"] > goal["augvae_share"] * gap and gap < 0
            said = f"{lost['AugVAE']:+.1f} nats"
            lines.append([f"AugVAE: {what}", "loses less than half of it", said, verdict(holds)])
        if to[1] != at[1]:
            continue
        for key in ("prototype_bound", "bound"):
            moved = change("InvVAE", to, at, key)
            if moved is not None:
                wanted = f"at most 10 % of the VAE's {gap:+.1f}"
                holds = abs(moved) <= goal["invvae_share"] * abs(gap)
                said = f"{moved:+.1f} nats"
                lines.append([f"InvVAE, {BOUNDS[key]}: {what}", wanted, said, verdict(holds)])
    return lines
