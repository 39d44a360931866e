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
import json
import sys
import time
from collections.abc import Sequence
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

from symmetries.learners.invariant_vae import PRESETS, InvariantVAEConfig
from symmetries.provenance import provenance

HERE = Path(__file__).parent
PARTS = (
    "rotation",
    "affine",
    "growing",
    "augerino",
    "ablations",
    "learned-noise",
    "same",
    "same-learned",
    "figure9",
    "samples",
    "images",
)
SETS = ("mnist", "mnist-alike")  # of which pictures are kept
SAME = ("same", "same-learned")  # the joint model on the images of the VAEs
QUICK = replace(
    PRESETS["quick"],
    channels=(8, 16),
    hidden=32,
    samples=3,
    features=(64, 32),
    steps=40,
    batch_size=32,
    warmup=10,
)
SHAPES = replace(
    QUICK,
    latent=3,
    channels=(8, 8),
    samples=4,
    noise=0.15,
    base=(16,),
    conditioner=16,
    lr=1e-2,
    warmup=20,
)


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
        self.file.write_text(json.dumps(self.content, indent=1) + "\n")

    def add(self, row: dict[str, Any], arrays: dict[str, np.ndarray] | None = None) -> None:
        """Write a row, and the numbers of its pictures."""
        made = provenance("cuda" if torch.cuda.is_available() else "cpu")
        self.content["rows"].append(row | self.said | {"made": made})
        self.write()
        if arrays:
            named = ("part", "kind", "size", "added", "seed")
            if "group" in row:  # joint models
                named = ("part", "steps", "added")
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
    angles = joint.stored_angles(folder / f"rotation-{base}-0.0.npz")
    for row in results.content["rows"]:
        if row["part"] == "rotation" and "ratio" not in row:
            row |= joint.compared(row["width90"], angles, row["added"])
    results.write()


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--data", default=None, help="folder of the data sets")
    parser.add_argument("--out", type=Path, default=HERE / "out")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--added", type=float, nargs="+", default=[0, 15, 45, 90, 180])
    parser.add_argument("--steps", type=int, default=15_000, help="of the joint model")
    parser.add_argument("--short", type=int, default=300, help="steps on shapes, and of ablations")
    parser.add_argument("--base", type=int, default=None, help="steps of the run without rotation")
    parser.add_argument("--which", nargs="+", default=list(joint.ABLATIONS), help="ablations")
    parser.add_argument("--augerino-steps", type=int, default=2000)
    parser.add_argument("--views", type=int, default=None, help="of the encoder, in ablations")
    parser.add_argument("--once", action="store_true", help="digits turned once, not alike")
    parser.add_argument("--alike", action="store_true", help="upright digits as smooth as others")
    parser.add_argument("--shapes", action="store_true", help="rotation and affine on shapes")
    parser.add_argument("--paper", action="store_true", help="the paper's own networks")
    parser.add_argument("--full-precision", action="store_true", help="no bfloat16")
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[12_500, 25_000, 50_000])
    parser.add_argument("--rotations", type=float, nargs="+", default=[0, 45, 90, 180])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=None)
    parser.add_argument("--least-noise", type=float, nargs="+", default=[0.2, 0.01], help="samples")
    parser.add_argument("--vae-steps", type=int, default=10_000)
    parser.add_argument("--vae-lr", type=float, default=3e-3)
    parser.add_argument("--own", action="store_true", help="symmetry models of a VAE's own images")
    parser.add_argument("--live", action="store_true", help="AugVAE: new versions at every step")
    parser.add_argument("--channels", type=int, nargs="+", default=[64, 128], help="of the VAEs")
    parser.add_argument("--hidden", type=int, default=256, help="units between them and the code")
    parser.add_argument("--vae-batch", type=int, default=512)
    parser.add_argument("--symmetry-steps", type=int, nargs=2, default=(12_000, 5000))
    parser.add_argument("--small", action="store_true", help="MNIST at 14 x 14, minutes on a CPU")
    parser.add_argument("--alone", action="store_true", help="nothing else is on the GPU")
    parser.add_argument("--quick", action="store_true", help="small digits, a minute on a CPU")
    parser.add_argument("--figures", action="store_true", help="draw at the end")
    parser.add_argument("--samples", type=Path, default=None, help="with --draw: a page of digits")
    parser.add_argument("--ratios", type=Path, default=None, help="compare widths in this folder")
    parser.add_argument("--draw", type=Path, default=None, help="draw what this folder holds")
    arguments = parser.parse_args(words)
    arguments.source = "mnist-14" if arguments.small else "mnist"
    if arguments.once:
        arguments.source = "mnist-once"
    if arguments.alike:
        arguments.source = "mnist-alike"
    if arguments.shapes:
        arguments.source, arguments.images = "shapes", 2000
    if arguments.quick:
        arguments.source = "digits"
        arguments.added, arguments.images, arguments.short = [0.0, 90.0], 1000, 20
        arguments.steps = QUICK.steps
    return arguments


def joint_config(arguments: argparse.Namespace) -> InvariantVAEConfig:
    """Of the joint model."""
    if arguments.quick:
        return QUICK
    if arguments.shapes:
        paper = {"angles": "line", "views": 1, "features": (64, 32)} if arguments.paper else {}
        return replace(SHAPES, steps=arguments.short, **paper)
    config = PRESETS["paper" if arguments.paper else "default"]
    return replace(config, steps=arguments.steps, half=not arguments.full_precision)


def run_part(part: str, arguments: argparse.Namespace, results: Results) -> Any:  # noqa: ANN401
    """Rows of one part, written as they come."""
    if part == "samples":
        yield from new_images(arguments, results)
    elif part == "figure9":
        setting = efficiency.figure9_setting(arguments)

        def done(key: dict[str, Any]) -> bool:
            return results.has({"part": part} | key)

        for row, arrays in efficiency.runs(setting, done):
            keep = row["seed"] == 0 and row["size"] == 50_000 and setting.source in SETS
            results.add({"part": part} | row, arrays if keep else None)
            yield row
    elif part == "growing":
        source = "digits" if arguments.quick else "mnist-14"
        where = (arguments.steps, arguments.images, (source, arguments.data), arguments.device)
        for row in growing.runs(*where, lambda key: results.has({"part": part} | key)):
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
            if not results.has({"part": part} | row):
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
        config = replace(config, learn_noise=True)
    source = arguments.source
    if part in SAME and source == "mnist":
        source = "mnist-alike"
    count = 2000 if source in SETS else 100
    planted = [a for a in arguments.added if a][:1] if part == "affine" else arguments.added
    for added in planted:
        key = {"part": part, "steps": config.steps, "added": float(added)}
        if results.has(key):
            continue
        upright = f"rotation-{arguments.base or config.steps}-0.0.npz"
        base = joint.stored_angles(arguments.out / upright)
        test = 3000 if source in SETS else 1000
        both = (
            sets.load("train", added, arguments.data, source, arguments.images),
            sets.load("test", added, arguments.data, source, test),
        )
        row, arrays, _ = joint.rotation_run(
            added, config, both, arguments.device, base, count, group
        )
        row = row | key | {"group": group, "source": source, "config": config.to_dict()}
        results.add(row, arrays)
        yield row


def new_images(arguments: argparse.Namespace, results: Results) -> Any:  # noqa: ANN401
    """New images of each kind of model, and how many of them a classifier is sure of."""
    setting = efficiency.figure9_setting(arguments)

    def done(key: dict[str, Any]) -> bool:
        return results.has({"part": "samples"} | key)

    setting = replace(setting, kinds=tuple(arguments.kinds or samples.KINDS))
    noises = tuple(arguments.least_noise)
    for row, arrays in samples.runs(setting, joint_config(arguments), noises, done):
        results.add({"part": "samples"} | row, arrays)
        yield row


def augerino(arguments: argparse.Namespace, results: Results) -> Any:  # noqa: ANN401
    """The width that Augerino's objective learns, on each planted range."""
    for added in arguments.added:
        key = {"part": "augerino", "added": float(added)}
        if results.has(key):
            continue
        data = sets.load("train", added, arguments.data, arguments.source, arguments.images)
        steps = arguments.augerino_steps
        steps = {"digits": 20, "shapes": 300, "mnist-14": 300}.get(arguments.source, steps)
        row = key | joint.augerino_width(data, steps, arguments.device)
        results.add(row)
        yield row


def ablations(arguments: argparse.Namespace, results: Results) -> Any:  # noqa: ANN401
    """Three conjectures, each with and without."""
    on_mnist = arguments.source == "mnist"
    config = joint_config(arguments) if on_mnist else SHAPES
    config = replace(config, steps=arguments.short, samples=arguments.views or config.samples)
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
