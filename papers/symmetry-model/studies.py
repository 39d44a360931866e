"""Small studies beside the main runs; each adds its rows to OUT/studies.json.

    python papers/symmetry-model/studies.py few-images --out OUT     # 8 x 8 digits, 1,400 and 600
    python papers/symmetry-model/studies.py turns --out OUT          # floors with forgiven turns
    python papers/symmetry-model/studies.py moments --out OUT        # the quick preset's choice
    python papers/symmetry-model/studies.py presets --out OUT        # how "quick" should settle
    python papers/symmetry-model/studies.py collapse --out OUT       # what keeps prototypes from it
    python papers/symmetry-model/studies.py sharp --out OUT          # noise on prototypes
    python papers/symmetry-model/studies.py settling --out OUT       # MNIST, for a GPU

All but the last need no data file, and run on a CPU (minutes) as on a GPU (seconds).
"""

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import measures
import sharp
import torch
from tasks import SETTLINGS, SPRITES_PAPER, TASKS, WIDE, sprites_small

from symmetries._utils.provenance import provenance
from symmetries.data import ImageSet, digits, load, rotated
from symmetries.groups.affine import Affine2
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.training import Recipe
from symmetries.training.atomic_files import write_atomic

FAMILY = ("rotation", "translation")
QUICK = SymmetryConfig.preset("quick")
CHOSEN = "norm 0.2, range 0.05, start 0"  # on MNIST
HELD_OUT = 50_000  # of MNIST's images; those after it are not learned from
GIVEN = (("none", False), ("centre", False), ("centre", True), ("size", False), ("size", True))
Row = dict[str, Any]


class Open(Affine2):
    """The same family, said not to be closed: eta is then f(x), as in the paper."""

    closed = False


def summary(model: SymmetryModel, data: ImageSet, most: int = 512) -> Row:
    """Width, floor and verdict by parameter."""
    parts = model.summary(data, most=most).transformations
    return {p.name: [p.width90, p.noise_floor, p.verdict] for p in parts}


def by_class(model: SymmetryModel, data: ImageSet, most: int = 128) -> Row:
    """Width, floor and verdict of the rotation for each class alone."""
    found = {}
    for kind, name in enumerate(data.class_names):
        part = data.subset(torch.nonzero(data.labels == kind)[:most, 0])
        found[name] = summary(model, part)["rotation"]
    return found


def fitted(
    group: Affine2, data: ImageSet, config: SymmetryConfig, device: str, *stages: str, seed: int = 0
) -> tuple[SymmetryModel, Row]:
    """A model of the data, and the losses at the end (in nats for the second stage)."""
    model = SymmetryModel(group, tuple(data.images.shape[1:]), config, seed=seed)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run = {"device": device, "progress": False, "log_every": 20}
        histories = model.fit(data, stages=stages, **run).stages
    ends = {name: fmean(h["loss"][-3:]) for name, h in histories.items()}
    too_few = any("too few images" in str(warning.message) for warning in said)
    agreement = {"agreement": fmean(histories["inference"]["agreement"][-5:])}
    return model, {"losses": ends, "warned": too_few} | agreement


def few_images(device: str, share: float) -> Iterator[Row]:
    """Digits of 8 x 8 turned within +-45 degrees: what p learns from 1,400 and 600 of them."""
    every, test = (rotated(digits(split), 45.0, split) for split in ("train", "test"))
    for count in (1400, 600):
        data = every.subset(torch.arange(min(count, len(every))))
        for family, steps, dropout in (
            (Open(*FAMILY), 400, 0.5),
            (Affine2(*FAMILY), 400, 0.5),
            (Affine2(*FAMILY), QUICK.generative.steps, QUICK.feature_dropout),
        ):
            config = QUICK.replace(
                feature_dropout=dropout,
                inference=QUICK.inference.replace(steps=round(1500 * share)),
                generative=QUICK.generative.replace(steps=round(steps * share)),
            )
            model, ends = fitted(family, data, config, device, "inference", "generative")
            row: Row = {"images": len(data), "eta": "exact" if family.closed else "f(x)"}
            row |= {"generative_steps": config.generative.steps, "feature_dropout": dropout}
            row |= {"planted": 81.0, "learned": summary(model, data)["rotation"]}
            yield row | {"test": summary(model, test)["rotation"]} | ends


def turns(device: str, share: float) -> Iterator[Row]:
    """Floor of the rotation of small sprites by shape, given the centre, with turns forgiven."""
    data = sprites_small("train", 0.0, None)
    for turned in (False, True):
        stage = Recipe(steps=round(600 * share), batch_size=64, lr=1e-3, warmup=0.1)
        config = QUICK.replace(moments="centre", turns=turned, inference=stage)
        model, ends = fitted(Affine2(*FAMILY), data, config, device, "inference")
        floors = {name: part[1] for name, part in by_class(model, data).items()}
        yield {"turns": turned, "floor": floors} | ends


def moments(device: str, share: float) -> Iterator[Row]:
    """What the quick preset says of two sets, by what f is given of the picture's moments."""
    turned = rotated(digits("train"), 45.0, "train")
    for name, data, planted in (
        ("sprites", load("sprites"), {"shift_x": 14.0, "shift_y": 14.0, "rotation": 324.0}),
        ("digits, +-45 degrees", turned, {"rotation": 81.0}),
    ):
        for given, forgiven in GIVEN:
            config = QUICK.replace(
                moments=given,
                turns=forgiven,
                inference=QUICK.inference.replace(steps=round(2500 * share)),
                generative=QUICK.generative.replace(steps=round(1200 * share)),
            )
            model, ends = fitted(Affine2(*FAMILY), data, config, device, "inference", "generative")
            row: Row = {"data": name, "moments": given, "turns": forgiven, "planted": planted}
            row |= {"found": summary(model, data)} | ends
            if data.class_names is not None and len(data.class_names) == 3:
                row["by_class"] = by_class(model, data)
            yield row


def settling(device: str, share: float) -> Iterator[Row]:
    """How prototypes of MNIST agree and come to rest, on images held out from training.

    The settings of :data:`tasks.TASKS` were chosen by these rows: the least of the larger of
    "next eta over 2 %" and "orbit variance over 0.03".
    """
    every = load("mnist").images
    learned, held = every[:HELD_OUT], every[HELD_OUT:][: round(2000 * min(1.0, 2 * share))]
    for name, change in SETTLINGS.items():
        config = TASKS["mnist-affine"].config.replace(**change)
        config = config.replace(inference=config.inference.replace(steps=round(4000 * share)))
        model = SymmetryModel(TASKS["mnist-affine"].group, (1, 28, 28), config)
        ends = model.fit(learned, stages=("inference",), device=device, progress=False)
        x = held.to(model.device)
        limit = torch.tensor(model.bounds, device=model.device)
        after = (model.infer(model.prototype(x)) / limit).abs().mean(0)
        row: Row = {"variant": name, "change": change, "steps": config.inference.steps}
        row |= {"iterated": measures.iterated(model, x), "next": after.tolist()}
        row |= {f"orbit_{n}": measures.orbit_variance(model, x[:500], n) for n in (0, 2)}
        yield row | {"last": ends.last, "content_kept": model.content_kept(x)}


def presets(device: str, share: float) -> Iterator[Row]:
    """How the quick preset should settle: in squares, or by the norm that serves MNIST.

    Judged by the truth: widths and verdicts of test images against what was planted, and how far
    eta scatters.
    """
    rotated_digits = [rotated(digits(split), 45.0, split) for split in ("train", "test")]
    for seed in range(3):
        for form in ("squares", CHOSEN):
            for name, (data, test) in (
                ("digits, +-45 degrees", rotated_digits),
                ("sprites", (load("sprites"), load("sprites", "test"))),
            ):
                config = QUICK.replace(**SETTLINGS[form])
                config = config.replace(
                    inference=config.inference.replace(steps=round(2500 * share)),
                    generative=config.generative.replace(steps=round(1200 * share)),
                )
                both = ("inference", "generative")
                model, ends = fitted(Affine2(*FAMILY), data, config, device, *both, seed=seed)
                x = test.images[:300].to(model.device)
                row: Row = {
                    "data": name,
                    "settling": form,
                    "seed": seed,
                    "found": summary(model, test),
                }
                row |= {"orbit": measures.orbit_variance(model, x)["ratio"]}
                yield row | {"next": measures.iterated(model, x)[1]} | ends


# Changes to the symmetric loss alone, with unsquashed eta; the blur lasts half of the steps.
AGAINST_COLLAPSE: dict[str, Row] = {
    "nothing": {},
    "blur 3": {"blur": 3.0},
    "invertibility 0.1": {"invertibility": 0.1},
    "invertibility 0.1, blur 3": {"invertibility": 0.1, "blur": 3.0},
    "invertibility 1": {"invertibility": 1.0},
    "tanh": {"squash": "tanh"},
    "one-sided loss": {"loss": "one-sided"},
}


def collapse(device: str, share: float) -> Iterator[Row]:
    """What keeps prototypes of small sprites from becoming empty, with the paper's objective.

    "mass" is that of prototypes over that of the images, 0 if they are empty.
    """
    data = sprites_small("train", 0.0, None)
    task = TASKS["sprites-affine-small"]
    stage = Recipe(steps=round(300 * share), batch_size=128, lr=1e-3, warmup=0.05, clip=3.0)
    paper = {name: value for name, value in SPRITES_PAPER.items() if name != "bounds"} | {
        "interpolation": "bilinear",
        "loss": "symmetric",
        "squash": "scale",
        "invertibility": 0.0,
        "blur": 0.0,
        "blur_share": 0.5,
        "inference": stage,
    }
    x = data.images[:256]
    for name, change in AGAINST_COLLAPSE.items():
        for seed in range(3):
            config = task.config.replace(**(paper | change))
            model = SymmetryModel(task.group, (1, 32, 32), config, bounds=WIDE, seed=seed)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                model.fit(data, stages=("inference",), device=device, progress=False)
            kept = model.content_kept(x)
            mass = float(model.prototype(x.to(model.device)).sum() / x.sum())
            warned = any("collapsed" in str(warning.message) for warning in said)
            row: Row = {"variant": name, "seed": seed, "steps": config.inference.steps}
            yield row | {"content_kept": kept, "mass": mass, "warned": warned}


STUDIES = {
    "few-images": few_images,
    "turns": turns,
    "moments": moments,
    "presets": presets,
    "settling": settling,
    "collapse": collapse,
    "sharp": sharp.study,
}


def main() -> None:
    """Rows that are in the file are replaced by those of the same study."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--share", type=float, default=1.0, help="of the steps, for a trial")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "studies.json"
    studies = json.loads(file.read_text()) if file.exists() else {}
    made = provenance("cuda" if torch.cuda.is_available() else "cpu")
    rows: list[Row] = []
    for row in STUDIES[arguments.study](arguments.device, arguments.share):
        rows.append(row)
        studies[arguments.study] = {"made": made, "rows": rows}
        write_atomic(file, (json.dumps(studies, indent=1) + "\n").encode())
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
