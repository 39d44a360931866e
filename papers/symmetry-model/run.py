"""The symmetry-aware generative model (Allingham et al. 2024) on its data sets, with numbers.

    python papers/symmetry-model/run.py --data DATA --out OUT
    python papers/symmetry-model/run.py --data DATA --out OUT --added 0 45 --steps 15000 8000
    python papers/symmetry-model/run.py --task sprites-affine --out OUT
    python papers/symmetry-model/run.py --ablations --data DATA --out OUT --steps 3000 2
    python papers/symmetry-model/run.py --quick --out OUT
    python papers/symmetry-model/run.py --draw OUT

Every run adds its row to OUT/results.json as soon as it is done, and its pictures' numbers to
OUT/TASK-ADDED-SEED.npz, from which --draw makes PNG files (and so does a run itself where
matplotlib is installed). Models go to OUT/models, which classifiers.py reads. Runs already in
results.json are not repeated.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
import measures
import planted
from shown import pictures, special_pictures
from tasks import ABLATIONS, OURS_NAME, QUICK_TASKS, TASKS, Task, with_steps

from symmetries._utils.provenance import provenance
from symmetries.data import ImageSet
from symmetries.groups.affine import Affine2
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.training.atomic_files import write_atomic

HERE = Path(__file__).parent
FAMILY_IMAGES = 256


def main() -> None:
    """Train, measure, write."""
    arguments = parse()
    if arguments.draw:
        from figures import draw

        for path in draw(arguments.draw):
            print(path)
        return
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    file = out / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {"runs": []}
    todo = [
        {"task": task, "added": added, "seed": seed, "variant": variant}
        for task in (QUICK_TASKS if arguments.quick else [arguments.task])
        for variant in variants(arguments)
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds)
        for added in arguments.added
    ]
    for key in todo:
        if any(all(row[k] == v for k, v in key.items()) for row in results["runs"]):
            continue
        arguments.task = key["task"]
        row = one_run(arguments, key["added"], key["seed"], key["variant"])
        made = provenance("cuda" if torch.cuda.is_available() else "cpu")
        results["runs"].append({**key, **row, "made": made})
        write_atomic(file, (json.dumps(results, indent=1) + "\n").encode())
        print(json.dumps({**key, **row}), flush=True)
    try:
        from figures import draw
    except ImportError:
        print("matplotlib is missing: draw with --draw where it is installed")
    else:
        draw(out)


def variants(arguments: argparse.Namespace) -> list[str]:
    """All ablations of a task, or those that were named; without --ablations one variant."""
    if not arguments.ablations:
        return [arguments.label]
    return arguments.only or list(ABLATIONS[arguments.task])


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", default="mnist-affine", choices=sorted(TASKS))
    parser.add_argument("--data", default=None, help="folder of the data sets")
    parser.add_argument("--out", type=Path, default=HERE / "out")
    parser.add_argument("--added", type=float, nargs="+", default=None, help="degrees")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--ablations", action="store_true", help="of appendix B, and of ours")
    parser.add_argument("--only", nargs="+", help="of the ablations")
    parser.add_argument("--label", default=OURS_NAME, help="a variant of the ablations, in full")
    parser.add_argument("--steps", type=int, nargs=2, default=(None, None), help="of each stage")
    parser.add_argument("--images", type=int, default=None, help="use the first so many")
    parser.add_argument("--looked-at", type=int, default=None, help="test images to measure on")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true", help="two small sets, a minute on a CPU")
    parser.add_argument("--draw", type=Path, default=None, help="draw what this folder holds")
    arguments = parser.parse_args()
    arguments.looked_at = arguments.looked_at or (100 if arguments.quick else 1000)
    if arguments.added is None:
        many = arguments.task == "mnist-affine"
        many = many and not arguments.ablations
        arguments.added = [0.0, 15.0, 45.0, 90.0, 180.0] if many else [0.0]
        if arguments.quick:
            arguments.added = [45.0]
    return arguments


def one_run(arguments: argparse.Namespace, added: float, seed: int, variant: str) -> dict[str, Any]:
    """Train one model and measure it on test images."""
    task: Task = TASKS[arguments.task]
    train = task.load("train", added, arguments.data)
    test = task.load("test", added, arguments.data)
    if arguments.images:
        train = train.subset(torch.arange(min(arguments.images, len(train))))
    known = {OURS_NAME: {}} | ABLATIONS.get(arguments.task, {})
    if variant not in known:
        raise SystemExit(f"--label {variant}: {arguments.task} has {', '.join(known)}")
    changes = dict(known[variant])
    bounds = changes.pop("bounds", task.bounds)
    group = changes.pop("group", task.group)
    config = with_steps(task.config.replace(**changes), *arguments.steps)
    shape = tuple(train.images.shape[1:])
    model = SymmetryModel(group, shape, config, bounds=bounds, seed=seed)
    histories, seconds = {}, 0.0
    for stage in ("inference", "generative"):
        start = time.perf_counter()
        run: dict[str, Any] = {"device": arguments.device, "progress": False, "log_every": 500}
        histories |= model.fit(train, stages=(stage,), **run).stages
        seconds += time.perf_counter() - start
        if stage == "inference" and not arguments.ablations:
            x = test.images[: arguments.looked_at].to(model.device)
            said = {"task": arguments.task, "added": added, "seed": seed, "variant": variant}
            print(json.dumps(said | {stage: seconds} | prototype_measures(model, x)), flush=True)
    device = model.device
    test = ImageSet(
        test.images.to(device),
        None if test.labels is None else test.labels.to(device),
        test.name,
        test.class_names,
    )
    row: dict[str, Any] = {
        "images": len(train),
        "group": group,
        "seconds": seconds,
        "settings": settings(config),
        "stages": {
            name: {
                "steps": history.step[-1],
                "seconds": history.seconds,
                "steps_per_second": history.steps_per_second,
                "last": history.last,
            }
            for name, history in histories.items()
        },
    }
    row |= prototype_measures(model, test.images[: arguments.looked_at])
    if "rotation" in model.group.names:
        learned = train.images[: arguments.looked_at // 2].to(device)
        row["orbit_variance_learned"] = measures.orbit_variance(model, learned)
    if arguments.task.startswith("sprites-affine"):
        row["heart_prototypes"] = planted.heart_prototypes(model, test)
    if not arguments.ablations:
        row |= family_measures(model, test.images[:FAMILY_IMAGES])
        row |= distribution_measures(arguments, model, test, added, seed)
        name = f"{arguments.task}-{added:g}-{seed}"
        name += "" if variant == OURS_NAME else f"-{variant}"
        count = max(20, arguments.looked_at // 10)
        shown = pictures(model, test) | special_pictures(arguments.task, model, test, count)
        np.savez_compressed(arguments.out / f"{name}.npz", **shown)
        model.save(arguments.out / "models" / name)
    return row


def settings(config: SymmetryConfig) -> dict[str, Any]:
    """Where a configuration differs from the paper's, and its loss of idempotence."""
    own, paper = flat(config), flat(SymmetryConfig.preset("paper"))
    return {
        name: value
        for name, value in own.items()
        if value != paper[name] or name.startswith("idempotence")
    }


def flat(config: SymmetryConfig) -> dict[str, Any]:
    """Fields of networks and objectives beside each other, and both stages."""
    parts = config.to_dict()
    return parts.pop("network") | parts.pop("objective") | parts.pop("flow") | parts


def prototype_measures(model: SymmetryModel, x: torch.Tensor) -> dict[str, Any]:
    """How well prototypes agree, come to rest, and keep the picture."""
    row: dict[str, Any] = {
        "content_kept": model.content_kept(x),
        "iterated": measures.iterated(model, x),
    }
    if "rotation" in model.group.names:
        for refine in (0, 2):
            found = measures.orbit_variance(model, x[: len(x) // 2], refine)
            row[f"orbit_variance_refine_{refine}"] = found
    return row


def family_measures(model: SymmetryModel, x: torch.Tensor) -> dict[str, Any]:
    """What a perfect f could reach, if the family is not closed under composition."""
    if not isinstance(model.group, Affine2) or model.group.closed:
        return {}
    eta, bounds = model.infer(x).cpu(), model.bounds
    return {
        "family_floor": measures.family_floor(model.group, eta, bounds),
        "family_orbit": measures.family_orbit(model, x),
    }


def distribution_measures(
    arguments: argparse.Namespace, model: SymmetryModel, test: ImageSet, added: float, seed: int
) -> dict[str, Any]:
    """What p(eta | x_hat) says, against what was planted."""
    most = arguments.looked_at
    row: dict[str, Any] = {"summary": summary_rows(model, test, most)}
    if arguments.task.startswith("mnist-colour"):
        row["colours"] = planted.colour_measures(model, test.images[: 2 * most])
    elif arguments.task.startswith("sprites-affine"):
        row["sprites"] = planted.sprite_measures(model, test, most // 2)
        row["by_shape"] = {
            name: summary_rows(model, test.subset(torch.nonzero(test.labels == kind)[:256, 0]), 256)
            for kind, name in enumerate(test.class_names)
        }
    else:
        one_way = test if "sprites" in arguments.task else measures.readable(test, most // 2)
        samples = measures.rotation_samples(model, one_way)
        base = arguments.out / f"rotation-0-{seed}.npy"  # of the run without added rotation
        if added == 0 and not base.exists():
            np.save(base, samples.half().cpu().numpy())
        start = torch.from_numpy(np.load(base)).to(samples) if base.exists() else None
        row["rotation"] = measures.rotation_widths(samples, start, added)
        row["modes"] = mode_table(model, test, most // 10)
        if arguments.task == "mnist-affine":
            row["zeros"] = planted.zeros(model, test, most)
    return row


def summary_rows(model: SymmetryModel, data: ImageSet, most: int) -> list[dict[str, Any]]:
    """Width, floor and verdict of every parameter, and its width in each class."""
    kept = ("name", "unit", "width90", "noise_floor", "verdict")
    found = model.summary(data, most=most, n=2048)
    return [
        {k: getattr(part, k) for k in kept}
        | {"per_class": {name: c.width90[part.name] for name, c in found.classes.items()}}
        for part in found.transformations
    ]


def mode_table(model: SymmetryModel, test: ImageSet, count: int) -> dict[str, dict[str, float]]:
    """For each class the share of images whose rotation has 1, 2, ... modes."""
    if test.labels is None:
        return {}
    table = {}
    for label in sorted(set(test.labels.tolist())):
        part = test.subset(torch.nonzero(test.labels == label)[:count, 0])
        found = measures.modes(measures.rotation_samples(model, part, 1024))
        counts = torch.bincount(found, minlength=2)[1:5].tolist()
        table[str(label)] = {str(i + 1): c / len(found) for i, c in enumerate(counts)}
    return table


if __name__ == "__main__":
    main()
