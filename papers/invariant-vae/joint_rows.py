"""Rows of the joint model for the tables of this page."""

from collections.abc import Sequence
from operator import itemgetter
from statistics import mean

from sample_rows import share
from vae_rows import KINDS, Row, average, chosen, of, with_scatter

CONJECTURES = {
    "flexible": "1: p(eta) must be flexible",
    "invariance": "2: the encoder must be fully invariant",
    "conditional": "3: eta must depend on the prototype",
}


def rotation_rows(rows: Sequence[Row]) -> list[Row]:
    """Runs of the joint model with rotation alone, by planted range and steps."""
    return sorted(of(rows, part="rotation"), key=lambda r: (r["added"], r["steps"], seed_of(r)))


def seed_of(row: Row) -> int:
    """The seed of a run; the first runs did not store theirs, 0."""
    return int(row.get("seed", 0))


def steps_of(row: Row) -> str:
    """Steps of a run, and its seed, if that is not the first."""
    return f"{row['steps']:,}" + (f", seed {seed_of(row)}" if seed_of(row) else "")


def width_rows(rows: Sequence[Row], name: str) -> list[list[str]]:
    """Planted range, width found, width expected; beside them what Augerino learns."""
    lines = []
    for row in rotation_rows(rows):
        first = row["added"] == 0 or "ratio" not in row
        beside = of(rows, part="augerino", added=row["added"])
        lines.append(
            [
                f"±{row['added']:g}",
                name,
                steps_of(row),
                f"{row['width90']['mean']:.1f}",
                "-" if first else f"{row['expected']['mean']:.1f}",
                "-" if first else f"{row['ratio']:.2f}",
                "-" if first else f"{row['ratio_pooled']:.2f}",
                f"{row['agreement']['share_within_10']:.0%}",
                f"{average(beside, 'half_width'):.1f}" if beside else "-",
                " / ".join(f"{row[key]:.0f}" for key in ("bound_own_noise", "bound")),
            ]
        )
    return lines


def augerino_rows(*sets: Sequence[Row]) -> list[list[str]]:
    """The half-width in degrees that Augerino learns, a column for each set; means over seeds."""
    found = [of(rows, part="augerino") for rows in sets]
    added = sorted({row["added"] for row in found[0]})
    columns = [[with_scatter(of(part, added=a), "half_width") for a in added] for part in found]
    return [[f"±{a:g}", *cells] for a, *cells in zip(added, *columns, strict=True)]


def affine_rows(rows: Sequence[Row], data: str) -> list[list[str]]:
    """One transformation against five, by the number of steps."""
    lines = []
    affine = of(rows, part="affine")
    same = [row for row in rotation_rows(rows) if row["added"] == affine[0]["added"]]
    for row in sorted(same + affine, key=itemgetter("steps")):
        name = "rotation" if row["part"] == "rotation" else "shifts, rotation, scales"
        numbers = [f"{row['ratio']:.2f}", explained([row]), f"{row['last']['kl_z']:.1f}"]
        lines.append([data, name, steps_of(row), *numbers, f"{row['bound']:.0f}"])
    return lines


def growing_rows(rows: Sequence[Row]) -> list[list[str]]:
    """What codes hold as the space of transformations grows; means over seeds."""
    lines = []
    for q, space in dict.fromkeys((row["q"], row["space"]) for row in rows):
        same = of(rows, q=q, space=space)
        kl = [{"kl": row["last"]["kl_z"]} for row in same]
        alike = [row["agreement"]["variance_ratio"] for row in same]
        numbers = [with_scatter(kl, "kl"), share(same, "accuracy")]
        numbers += [explained(same), f"{mean(alike):.1e}", f"{average(same, 'bound'):.0f}"]
        lines.append([{"paper": "the paper's"}.get(q, q), space, *numbers])
    return lines


def explained(rows: Sequence[Row]) -> str:
    """The share of the variance of pixels that reconstructions have, the mean over runs."""
    return f"{mean(1 - row['reconstruction_error'] / row['pixel_variance'] for row in rows):.0%}"


def ablation_rows(rows: Sequence[Row], before: Sequence[Row]) -> list[list[str]]:
    """Three conjectures, on digits, the longest runs; beside the bound that of a run before."""
    lines = []
    longest: dict[tuple[str, str], Row] = {}
    for row in sorted(of(rows, part="ablations"), key=itemgetter("steps")):
        longest[row["which"], row["side"]] = row
    for row in sorted(longest.values(), key=lambda row: CONJECTURES[row["which"]]):
        lines.append(
            [
                CONJECTURES[row["which"]],
                row["side"],
                f"{row['steps']:,}",
                ablation_width(row, "width90_q"),
                ablation_width(row, "width90_p"),
                f"{row['share_outside']:.0%}",
                f"{row['agreement']['variance_ratio']:.1e}",
                f"{row['last']['kl_z']:.1f}",
                f"{row['bound']:.0f}",
                *(
                    f"{old['bound']:.0f}"
                    for old in of(before, which=row["which"], side=row["side"])
                ),
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
