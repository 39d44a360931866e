"""What VAE, AugVAE and InvVAE lose from one cell of Figure 9 to another, in nats."""

from collections.abc import Sequence
from dataclasses import dataclass

from vae_rows import BOUNDS, Row, Verdict, change, of

FEW, MANY = 12_500, 50_000
TURNED = 180.0
Cell = tuple[float, int]  # added rotation, images
INVARIANT = ("prototype_bound", "bound")


@dataclass(frozen=True)
class Move:
    """From one cell to another, or the mean over several such pairs.

    Args:
        name: what changes.
        pairs: (to, from).
        turns: rotation changes and nothing else, so that InvVAE has a goal.
        judged: whether it counts among the goals; means and sums of others do not.
    """

    name: str
    pairs: tuple[tuple[Cell, Cell], ...]
    turns: bool = False
    judged: bool = True

    def lost(self, grid: Sequence[Row], kind: str, key: str = "bound") -> float | None:
        """The mean change, if all cells are there."""
        found = [change(grid, kind, to, at, key) for to, at in self.pairs]
        if not found or any(part is None for part in found):
            return None
        return sum(part for part in found if part is not None) / len(found)

    def gap(self, grid: Sequence[Row]) -> float | None:
        """What the VAE loses from 0 to 180 degrees, with as many images."""
        ends = tuple(((TURNED, n), (0.0, n)) for (_, n), _ in self.pairs)
        return Move(self.name, ends).lost(grid, "VAE")


def moves(grid: Sequence[Row]) -> list[Move]:
    """Fewer images at each rotation; more rotation at each size; all sizes together; both."""
    sizes = sorted({row["size"] for row in grid})
    added = sorted({row["added"] for row in grid})
    found = [Move(f"{FEW:,} for {MANY:,} images, ±{a:g}", (((a, FEW), (a, MANY)),)) for a in added]
    for a in added[1:]:
        found += [Move(f"±{a:g} for ±0, {n:,} images", (((a, n), (0.0, n)),), True) for n in sizes]
    every = tuple(((TURNED, n), (0.0, n)) for n in sizes)
    found.append(Move("±180 for ±0, mean over sizes", every, True, judged=False))
    whole = (((TURNED, FEW), (0.0, MANY)),)
    found.append(Move(f"{FEW:,} at ±180 for {MANY:,} at ±0", whole, judged=False))
    return [move for move in found if move.lost(grid, "VAE") is not None]


def augmented(grid: Sequence[Row], move: Move, goal: Row) -> tuple[float, bool] | None:
    """What AugVAE loses as a share of what the VAE loses, and whether it is little enough."""
    gap, lost = move.lost(grid, "VAE"), move.lost(grid, "AugVAE")
    if gap is None or lost is None:
        return None
    return lost / gap, gap < 0 and lost > goal["augvae_share"] * gap


def invariant(grid: Sequence[Row], move: Move, goal: Row, key: str) -> tuple[float, bool] | None:
    """How far InvVAE moves as a share of the VAE's gap, and whether it is little enough."""
    gap, lost = move.gap(grid), move.lost(grid, "InvVAE", key)
    if gap is None or lost is None or not move.turns:
        return None
    return abs(lost / gap), abs(lost) <= goal["invvae_share"] * abs(gap)


def said(lost: float | None, judged: tuple[float, bool] | None) -> str:
    """Nats, their share, and whether that misses a goal."""
    if lost is None:
        return "not run"
    if judged is None:
        return f"{lost:+.1f}"
    return f"{lost:+.1f} ({judged[0]:.0%})" + ("" if judged[1] else " **missed**")


def loss_rows(grid: Sequence[Row], goal: Row) -> list[list[str]]:
    """Every move: VAE, the control, AugVAE, InvVAE by both bounds."""
    lines = []
    for move in moves(grid):
        line = [move.name, *(said(move.lost(grid, kind), None) for kind in ("VAE", "fixed"))]
        line.append(said(move.lost(grid, "AugVAE"), augmented(grid, move, goal)))
        for key in INVARIANT:
            judged = invariant(grid, move, goal, key)
            line.append(said(move.lost(grid, "InvVAE", key), judged))
        lines.append(line)
    return lines


def goal_rows(grid: Sequence[Row], goal: Row, verdict: Verdict) -> list[list[str]]:
    """How many moves are as they should be."""
    judged = [move for move in moves(grid) if move.judged]
    worse = [(move.lost(grid, "VAE") or 0.0) < 0 for move in judged]
    lines = [["VAE: fewer images, more rotation", "gets worse", *counted(worse, verdict)]]
    found = [augmented(grid, move, goal) for move in judged]
    half = f"loses less than {goal['augvae_share']:.0%} of that"
    lines.append(["AugVAE", half, *counted([part[1] for part in found if part], verdict)])
    for key in INVARIANT:
        found = [invariant(grid, move, goal, key) for move in judged]
        wanted = f"at most {goal['invvae_share']:.0%} of the VAE's gap"
        counts = counted([part[1] for part in found if part], verdict)
        lines.append([f"InvVAE, {BOUNDS[key]}: more rotation", wanted, *counts])
    return lines


def counted(holds: Sequence[bool], verdict: Verdict) -> tuple[str, str]:
    """How many hold, and whether all do; where there is none nothing is met."""
    met = bool(holds) and all(holds)
    return f"{sum(holds)} of {len(holds)} comparisons", verdict(met)


def setting_rows(results: Row) -> list[list[str]]:
    """Settings of VAE and AugVAE that were tried on 50,000 images, with one seed.

    And what AugVAE's network reaches with digits that are planted anew at every step.
    """
    tried: dict[str, list[Row]] = {}
    rows = of(results["rows"], part="figure9", size=MANY, seed=0)
    for row in [*rows, *results["settings"]["rows"]]:
        if row["kind"] != "InvVAE" and row["added"] in (0.0, TURNED):
            tried.setdefault(setting_of(row), []).append(row)
    lines = []
    for said_of, found in sorted(tried.items()):
        line = [said_of]
        for key in ("bound_held_out", "bound"):
            ends = [[row[key] for row in of(found, added=a)] for a in (0.0, TURNED)]
            line += [f"{end[0]:.1f}" if end else "-" for end in ends]
        lost = f"{ends[1][0] - ends[0][0]:+.1f}" if all(ends) else "-"
        lines.append([*line, lost])
    return lines


def setting_of(row: Row) -> str:
    """The kind and what else was tried for it."""
    units = f", {row['hidden']:,} hidden units" if row["hidden"] > 256 else ""
    steps = f", {row['steps']:,} steps"
    if row["kind"] in ("VAE", "fixed"):
        count = {2: "two", 3: "three"}[len(row["channels"])]
        half = ", bfloat16" if row["half"] else ""
        return f"{row['kind']}, {count} convolutions{units}{steps}{half}"
    kind = {"planted": "digits planted anew at every step"}.get(row["kind"], row["kind"])
    what = {"live": ", new versions at every step", "own": ", symmetry model of its 45,000 images"}
    said_of = f"{kind}, rate {row['lr']:g}{units}{steps}"
    return said_of + "".join(what[name] for name in what if row.get(name))
