"""Are affine widths that ended on the edge of the search optima? The bound inside and beyond it.

The search of ``crossed.py`` tries shifts of up to 0.6 half-images and factors of up to 2.2. Here
the box that it found is taken, the parameters that lie on the edge are made narrower and wider by
common factors, and the bound on images that the filters have not seen is measured anew, with
several draws of the filters.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import torch
from building import cached, clock
from crossed import GROUP, WIDEST, Crossed, bounds

RESULTS = Path(__file__).with_name("results.json")
FACTORS = (0.5, 0.75, 1.0, 1.125, 1.25, 1.5)
MOST = 1.0  # half-images, and the logarithm of a factor: the group's own bounds
SETS = ("mnist-translated", "mnist-scaled")  # whose boxes ended there
TURN = GROUP.names.index("rotation")  # cannot go beyond half a turn
DRAWS = 3


def stretched(box: tuple[float, ...], factor: float) -> tuple[float, ...]:
    """A box whose parameters on the edge are changed by a factor; rotation stays."""
    return tuple(
        min(width * factor, MOST) if i != TURN and width >= 0.999 * most else width
        for i, (width, most) in enumerate(zip(box, WIDEST, strict=True))
    )


def found_box(name: str) -> tuple[float, ...]:
    """Half-widths that the search has found for a set, from the stored results."""
    batches = json.loads(RESULTS.read_text())["tables"]["table2-crossed"]
    runs = [r for b in batches if (b["tag"], b["seed"]) == ("crossed", 0) for r in b["runs"]]
    return next(tuple(r["half_width"].values()) for r in runs if r["set"] == name)


def edges(
    folder: str | None, device: torch.device, seed: int, steps: int | None = None
) -> Iterator[dict[str, object]]:
    """The bound by factor, for each set."""
    how = replace(Crossed(), seed=seed, draws=DRAWS)
    if steps:
        how = replace(how, steps=steps, features=16, seen=60, unseen=60, samples=2, draws=2)
    sets = [cached(name, "train", folder) for name in SETS]
    images, labels = [part.images.to(device) for part in sets], sets[0].labels.to(device)
    found = {
        (number, stretched(found_box(name), factor)): factor
        for number, name in enumerate(SETS)
        for factor in reversed(FACTORS)
    }  # boxes that reach the bounds of the group are tried once
    cases = sorted((number, factor, box) for (number, box), factor in found.items())
    boxes = [box for *_, box in cases]
    began = clock(device)
    numbers = bounds(boxes, [number for number, *_ in cases], images, labels, how)
    seconds = clock(device) - began
    rows = [
        {"set": SETS[number], "factor": factor, "half_widths": box, "bounds": values}
        for (number, factor, box), values in zip(cases, numbers.T.tolist(), strict=True)
    ]
    for row in rows:
        mean = sum(row["bounds"]) / len(row["bounds"])
        print(f"{row['set']} x {row['factor']}: bound {mean:.4f}", flush=True)
    yield {"tag": "edges", "seed": seed, "rows": rows, "how": asdict(how), "seconds": seconds}
