"""Pictures: planted symmetries of tasks and of sets, MNIST moved in several ways, a network.

Planted: pictures of dots, and functions of them that a rotation, a zoom, shifts and shears along x,
or a swirl leave alone, or nothing does; sets of one shape that is turned fully, in part, or not.
MNIST: 6,000 digits that are upright, turned, sheared, shifted or scaled (Ouderaa & Wilk 2022). The
network is a small convolutional one, trained on 10,000 turned digits.

Run with: python -m benchmarks.generators.pictures --folder DATA
"""

import argparse
import math
import time

import torch
from benchmarks.generators.planted_pictures import (
    HEIGHTS,
    RAYS,
    RINGS,
    scattered,
    swirled,
    turned,
    uneven,
)
from benchmarks.generators.records import Clock, record
from torch import nn

import symmetries
from symmetries.actions import ImageAction
from symmetries.data import ImageSet, load
from symmetries.results import GeneratorResult

TASKS = {
    "rotation": (RINGS, "affine", ("rotation",)),
    "rotation and swirl": (RINGS, "cubic", ("rotation", "swirl")),
    "zoom": (RAYS, "affine", ("zoom",)),
    "shift and shear along x": (HEIGHTS, "affine", ("shift along x", "shear along x")),
    "swirl": (swirled, "cubic", ("swirl",)),
    "none": (uneven, "cubic", ()),
}
SETS = {"fully turned": 2 * math.pi, "turned by 2 radians": 2.0, "turned by half of one": 0.5}
MOVED = ("mnist", "mnist-rotated", "mnist-partially-rotated", "mnist-translated", "mnist-scaled")


def words(found: GeneratorResult) -> tuple[str, ...]:
    """The names of the generators."""
    return tuple(part.text.partition(":")[0] for part in found.generators)


def sheared(data: ImageSet) -> ImageSet:
    """Every picture sheared by its own amount, uniform in -1/2 to 1/2."""
    group = symmetries.Affine2("shear")
    eta = torch.rand(len(data), 1, generator=torch.Generator().manual_seed(0)) - 0.5
    moved = ImageAction(group)(group.exp(eta), data.images)
    return ImageSet(moved.clamp(0, 1), name="mnist-sheared")


def network(data: ImageSet, seed: int) -> nn.Module:
    """A convolutional network, trained for five epochs."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2),
        nn.SiLU(),
        nn.Conv2d(16, 32, 5, stride=2, padding=2),
        nn.SiLU(),
        nn.Flatten(),
        nn.Linear(32 * 49, 10),
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(5):
        for rows in torch.randperm(len(data)).split(100):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(data.images[rows]), data.labels[rows])
            loss.backward()
            optimiser.step()
    return model


def answered(found: GeneratorResult, began: float) -> dict[str, object]:
    """What a row records of an answer."""
    first = found.spectrum[0]
    return {
        "answer": found.answer,
        "dimension": list(found.dimension),
        "generators": list(words(found)),
        "first defect": [round(v, 3) for v in (first.defect, first.low, first.high)],
        "second defect": round(found.spectrum[1].defect, 3),
        "processor seconds": round(time.process_time() - began, 1),
    }


def judged(found: GeneratorResult, truth: tuple[str, ...]) -> dict[str, bool]:
    """Whether the generators are those that were planted, and whether some were not."""
    mine = words(found)
    return {"right": mine == truth, "false": bool(set(mine) - set(truth))}


def planted(seeds: int) -> list[dict[str, object]]:
    """All planted tasks and sets."""
    rows = []
    for seed in range(seeds):
        pictures = scattered(600, seed)
        for name, (model, fields, truth) in TASKS.items():
            began = time.process_time()
            found = symmetries.generators(pictures, model=model, fields=fields, seed=seed)
            row = {"what": f"task, {name}", "seed": seed, **answered(found, began)}
            rows.append(
                row
                | {"right": words(found) == truth, "false": bool(set(words(found)) - set(truth))}
            )
        for name, angles in SETS.items():
            began = time.process_time()
            found = symmetries.generators(turned(6000, seed, angles), seed=seed)
            truth = ("rotation",) if name == "fully turned" else ()
            row = {"what": f"set, {name}", "seed": seed, **answered(found, began)}
            rows.append(
                row
                | {"right": words(found) == truth, "false": bool(set(words(found)) - set(truth))}
            )
    return rows


def digits(folder: str) -> list[dict[str, object]]:
    """MNIST moved in several ways, and a network."""
    rows = []
    sets: dict[str, ImageSet] = {
        name: load(name, folder=folder).subset(range(6000)) for name in MOVED
    }
    sets["mnist-sheared"] = sheared(sets["mnist"])
    for name, data in sets.items():
        for fields in ("affine", "cubic"):
            began = time.process_time()
            found = symmetries.generators(data, fields=fields)
            rows.append({"what": f"{name}, {fields}", **answered(found, began)})
            print(rows[-1], flush=True)
    data = load("mnist-rotated", folder=folder)
    model = network(data.subset(range(10_000)), 0)
    held = data.subset(range(10_000, 12_000))
    with torch.no_grad():
        right = float((model(held.images).argmax(1) == held.labels).double().mean())
    began = time.process_time()
    found = symmetries.generators(held, model=model)
    what = f"network on turned digits, {100 * right:.1f} % right"
    rows.append({"what": what, **answered(found, began)})
    return rows


def main() -> None:
    """Run and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", required=True, help="that holds mnist/")
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    torch.set_num_threads(1)
    clock = Clock()
    rows = digits(given.folder) + planted(given.seeds)
    summary: dict[str, object] = {}
    for row in rows:
        if "seed" not in row:
            low, high = row["first defect"][1:]
            summary[row["what"]] = f"{row['answer']} (first defect {low} to {high})"
    for what in dict.fromkeys(row["what"] for row in rows if "seed" in row):
        mine = [row for row in rows if row["what"] == what]
        right, wrong = (sum(row[key] for row in mine) for key in ("right", "false"))
        summary[what] = f"right {right} of {len(mine)}, false {wrong}"
    record("pictures", summary, rows, clock, {"epsilon": 0.1, "level": 0.95, "seeds": given.seeds})


if __name__ == "__main__":
    main()
