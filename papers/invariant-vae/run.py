"""Invariant generative models: the joint one (Allingham et al. 2022), VAEs with symmetry models.

The latter are VAE, AugVAE and InvVAE of Allingham et al. 2024, section 4.2.

    python papers/invariant-vae/run.py --data DATA --out OUT
    python papers/invariant-vae/run.py --data DATA --out OUT --parts rotation augerino
    python papers/invariant-vae/run.py --data DATA --out OUT --parts figure9 --seeds 3
    python papers/invariant-vae/run.py --quick --out OUT
    python papers/invariant-vae/run.py --ratios OUT --base 1000
    python papers/invariant-vae/run.py --draw OUT
    python papers/invariant-vae/run.py --draw OUT --samples docs/_static/samples.png

Every run adds its row to OUT/results.json as soon as it is done, and its pictures' numbers to a
.npz file, from which --draw makes PNG files. Runs already in results.json are not repeated.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
import efficiency
import growing
import images
import joint
import samples
import sets
from options import SHAPES, joint_config, parse
from setting import figure9_setting, seeds_of

from symmetries._utils.provenance import provenance
from symmetries.training.atomic_files import write_atomic

SETS = ("mnist", "mnist-alike")  # of which pictures are kept
SAME = ("same", "same-learned")  # the joint model on the images of the VAEs


class Results:
    """Rows on disk: added one by one, none twice."""

    def __init__(self, folder: Path, **said: Any) -> None:  # noqa: ANN401 - of all rows
        folder.mkdir(parents=True, exist_ok=True)
        self.said = said
        self.folder = folder
        self.file = folder / "results.json"
        empty: dict[str, Any] = {"rows": []}
        self.content = json.loads(self.file.read_text()) if self.file.exists() else empty

    def has(self, key: dict[str, Any]) -> bool:
        """Whether there is a row with these entries."""
        return any(all(row.get(k) == v for k, v in key.items()) for row in self.content["rows"])

    def write(self) -> None:
        """All rows, to the file."""
        write_atomic(self.file, (json.dumps(self.content, indent=1) + "\n").encode())

    def add(self, row: dict[str, Any], arrays: dict[str, np.ndarray] | None = None) -> None:
        """Write a row, and the numbers of its pictures."""
        made = provenance("cuda" if torch.cuda.is_available() else "cpu")
        self.content["rows"].append(row | self.said | {"made": made})
        self.write()
        if arrays:
            named = ("part", "kind", "size", "added", "seed")
            if row["part"] == "figure9":
                named = (*named, "steps", "hidden")
            if "group" in row:  # joint models
                named = ("part", "steps", "added", "seed")
            if row["part"] == "samples":
                named = (*named, "least_noise")
            words = [str(row[k]) for k in named if k in row]
            np.savez_compressed(self.folder / f"{'-'.join(words)}.npz", **arrays)


def main(words: Sequence[str] | None = None) -> None:
    """Train, measure, write; ``words`` are those of the command line."""
    arguments = parse(words)
    if arguments.draw:
        from figures import draw, samples_page

        if arguments.samples:
            print(samples_page(arguments.draw, arguments.samples))
            return
        for path in draw(arguments.draw):
            print(path)
        return
    if arguments.ratios:
        add_ratios(arguments.ratios, arguments.base)
        return
    torch.set_float32_matmul_precision("high")
    results = Results(arguments.out, **({"alone": True} if arguments.alone else {}))
    start = time.perf_counter()
    for part in arguments.parts:
        for row in run_part(part, arguments, results):
            short = {k: v for k, v in row.items() if not isinstance(v, dict)}
            joint.stamp(start, json.dumps(short))
    if arguments.figures:
        from figures import draw

        draw(arguments.out)


def add_ratios(folder: Path, base: int) -> None:
    """Compare widths of runs that did not have the one without added rotation beside them."""
    results = Results(folder)
    for row in results.content["rows"]:
        if row["part"] == "rotation" and "ratio" not in row:
            angles = joint.stored_angles(folder / f"rotation-{base}-0.0-{row['seed']}.npz")
            row |= joint.compared(row["width90"], angles, row["added"])
    results.write()


def run_part(part: str, arguments: argparse.Namespace, results: Results) -> Any:  # noqa: ANN401
    """Rows of one part, written as they come."""

    def done(key: dict[str, Any]) -> bool:
        return results.has({"part": part} | key)

    if part == "samples":
        for row, arrays in new_images(arguments, done):
            results.add({"part": part} | row, arrays)
            yield row
    elif part == "figure9":
        setting = figure9_setting(arguments)
        for row, arrays in efficiency.runs(setting, done):
            keep = row["seed"] == 0 and row["size"] == 50_000 and setting.source in SETS
            results.add({"part": part} | row, arrays if keep else None)
            yield row
    elif part == "growing":
        where = ("digits" if arguments.quick else "mnist-14", arguments.data)
        sizes = (arguments.steps, arguments.images)
        for seed in seeds_of(arguments):
            for row in growing.runs(*sizes, where, arguments.device, seed, done):
                results.add({"part": part} | row)
                yield row
    elif part == "ablations":
        yield from ablations(arguments, results)
    elif part == "augerino":
        yield from augerino(arguments, results)
    elif part == "images":
        where = (arguments.data, arguments.source)
        rows = [*images.roughness_rows(*where, 3000), *images.residual_rows(*where, 8000)]
        if arguments.source == "mnist":
            rows += images.known_rows(arguments.data, 8000)
            rows += images.shape_rows(arguments.data, 8000)
        for row in rows:
            if not done(row):
                results.add({"part": part} | row)
                yield row
    else:
        yield from rotations(part, arguments, results)


def rotations(part: str, arguments: argparse.Namespace, results: Results) -> Any:  # noqa: ANN401
    """The joint model on each planted range; all affine parameters at once; with learned noise.

    And, with and without that, on the images of the VAEs.
    """
    config = joint_config(arguments)
    group = joint.AFFINE if part == "affine" else "rotation"
    if part in ("learned-noise", "same-learned"):
        config = config.replace(learn_noise=True)
    source = arguments.source
    if part in SAME and source == "mnist":
        source = "mnist-alike"
    count = 2000 if source in SETS else 100
    planted = [a for a in arguments.added if a][:1] if part == "affine" else arguments.added
    begin, longest = time.perf_counter(), 0.0
    for seed, added in itertools.product(seeds_of(arguments), planted):
        key = {"part": part, "steps": config.training.steps, "added": float(added), "seed": seed}
        if results.has(key):
            continue
        began = time.perf_counter()
        if arguments.limit and began - begin + longest > arguments.limit:
            joint.stamp(begin, f"no time for {key}")
            continue
        upright = f"rotation-{arguments.base or config.training.steps}-0.0-{seed}.npz"
        base = joint.stored_angles(arguments.out / upright)
        test = 3000 if source in SETS else 1000
        both = (
            sets.load("train", added, arguments.data, source, arguments.images),
            sets.load("test", added, arguments.data, source, test),
        )
        row, arrays, _ = joint.rotation_run(
            added, config, both, arguments.device, base, count, group, seed
        )
        row = row | key | {"group": group, "source": source, "config": config.to_dict()}
        results.add(row, arrays)
        longest = max(longest, time.perf_counter() - began)
        yield row


def new_images(arguments: argparse.Namespace, done: Callable[[dict[str, Any]], bool]) -> Any:  # noqa: ANN401
    """New images of each kind of model, and how many of them a classifier is sure of."""
    setting = figure9_setting(arguments)
    setting = replace(setting, kinds=tuple(arguments.kinds or samples.KINDS))
    noises = tuple(arguments.least_noise)
    return samples.runs(setting, joint_config(arguments), noises, done)


def augerino(arguments: argparse.Namespace, results: Results) -> Any:  # noqa: ANN401
    """The width that Augerino's objective learns, on each planted range."""
    for seed in seeds_of(arguments):
        for added in arguments.added:
            key = {"part": "augerino", "added": float(added), "seed": seed}
            if results.has(key):
                continue
            data = sets.load("train", added, arguments.data, arguments.source, arguments.images)
            row = joint.augerino_width(data, arguments.augerino_steps, arguments.device, seed)
            row |= key | {"source": arguments.source, "images": len(data)}
            results.add(row | {"steps": arguments.augerino_steps})
            yield row


def ablations(arguments: argparse.Namespace, results: Results) -> Any:  # noqa: ANN401
    """Three conjectures, each with and without."""
    on_mnist = arguments.source == "mnist"
    config = joint_config(arguments) if on_mnist else SHAPES
    config = config.replace(
        steps=arguments.short, samples=arguments.views or config.objective.samples
    )
    images = {"mnist": arguments.images, "digits": 400}.get(arguments.source, 2000)
    count = {"mnist": 500, "digits": 50}.get(arguments.source, 200)
    for which in arguments.which:
        source = "mnist" if on_mnist else "shapes"
        both = joint.ablation_sets(which, source, images, arguments.data)
        for name, changes in joint.ABLATIONS[which].items():
            key = {"part": "ablations", "data": source, "which": which, "side": name}
            if results.has(key):
                continue
            row = joint.ablation_run(which, changes, config, both, arguments.device, count)
            results.add(key | row)
            yield key | row


if __name__ == "__main__":
    main()
