"""How to augment labelled pictures, and what that should bring: ``symmetries prescribe``."""

import math
import warnings
from pathlib import Path

import torch
from torch import Tensor

from symmetries._validation.checks import check_number, invalid
from symmetries.analysis.classifiers import Classifier
from symmetries.analysis.inputs import (
    Readable,
    check_labelled,
    check_pictures,
    read_images,
    resolve_background,
    without_constant,
)
from symmetries.analysis.label_conflicts import find_conflicts, limits_of
from symmetries.analysis.prescribe_results import describe, load_model, model_curves
from symmetries.analysis.prescribe_trials import (
    REPEATS,
    Amounts,
    Task,
    confirm,
    is_confirmed,
    try_policies,
)
from symmetries.analysis.progress import progress_bar
from symmetries.analysis.provenance import class_names
from symmetries.analysis.quick_networks import SIZES, prepared, unmoved_networks
from symmetries.analysis.settings import Session
from symmetries.auditing.models import PROBE, Model
from symmetries.learners.orbit_posterior.frames import find_frame
from symmetries.results import PrescribeResult, SymmetryResult
from symmetries.training.step import mix

BASES: tuple[Amounts, ...] = (
    {"mix": 1.0},
    {"shift": 0.1, "mix": 1.0},
    {"rotation": 10.0, "shift": 0.05, "zoom": 1.1, "mix": 1.0},
    {"rotation": 20.0, "shift": 0.1, "zoom": 1.2, "mix": 1.0},
    {"rotation": 30.0, "shift": 0.15, "zoom": 1.4, "mix": 1.0},
    {"rotation": 180.0, "shift": 0.1, "zoom": 1.2, "mix": 1.0},
)
ADDED: tuple[Amounts, ...] = ({"flip_x": 0.5}, {"erase": 0.25}, {"mix": 0.0})
FEWEST = 80  # pictures
EACH = 8  # of a class


def prescribe(
    data: Readable,
    *,
    model: str | Path | Model | Classifier | None = None,
    discovered: str | Path | SymmetryResult | None = None,
    preset: str | None = None,
    fill: float | None = None,
    trust: bool = False,
    seed: int = 0,
    device: str = "auto",
    progress: bool = True,
) -> PrescribeResult:
    """Find out how to augment labelled pictures: with which moves, how far, for which class.

    Labels limit each class: where a move makes it look like another class, both may go half as
    far. Small networks are trained with motions from none to wide, beside one shear or change of
    light for each picture, then with mirror images and erased squares on top of the best, and
    compared on held-out folds; the gain that is reported comes from other folds.

    Args:
        data: labelled images: a name, a file, a folder, or data in memory.
        model: whose accuracy along the prescribed moves is reported, see :func:`symmetries.audit`.
        discovered: a result of :func:`symmetries.discover` on the data, or its symmetries.json: how
            far moves occur is tried, too, and counts where labels limit them.
        preset: "quick" (convolutional networks) or "default" (residual ones), 800 steps each, with
            many labels up to 3,200; None is "quick" on a CPU.
        fill: value around moved pictures, from 0 to 1; None looks for it at the borders, and where
            these differ pictures are reflected at their edges.
        trust: load a model's file that can run code.
        seed: of folds, networks and draws.
        device: "auto", "cpu", "cuda", ...
        progress: show a bar.

    Returns:
        Moves with their limits, the predicted gain with its interval, and code for four libraries.
    """
    given = {"data": data, "preset": preset, "fill": fill, "seed": seed}
    run = Session.of_call("prescribe", given, seed, device, preset, progress)
    result = prescription(data, model, discovered, fill, trust, run)
    for text in result.warnings:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return result


def prescription(
    data: Readable,
    model: str | Path | Model | Classifier | None,
    discovered: str | Path | SymmetryResult | None,
    fill: float | None,
    trust: bool,
    run: Session,
) -> PrescribeResult:
    """Compute the result of :func:`prescribe`; arguments as there."""
    if run.preset not in SIZES:
        raise invalid("preset", "quick or default", repr(run.preset), "there is no paper behind it")
    images = without_constant(read_images(data, **run.reading))
    labels = check_labelled(images)
    check_pictures(images)
    names = class_names(images)
    check_classes(labels, names)
    around = fill
    if fill is not None:
        check_number(fill, "fill", 0, 1)
    else:
        value = resolve_background(images, None, run.say)
        around = value if find_frame(images.images, value).plain else None
    found = occurring(discovered)
    probe = images.images[:PROBE].to(run.place)
    loaded = None if model is None else load_model(model, probe, labels, trust)
    with progress_bar("prescribe", total=5, quiet=not run.progress) as advance:
        pixels, size = prepared(images.images).to(run.place), SIZES[run.preset]
        seen = unmoved_networks(pixels, labels, len(names), size, mix(run.seed, 9))
        own = found[0] if found else {}
        conflicts = find_conflicts(*seen, names, around, own)
        advance("what labels forbid")
        task = Task(
            images=images,
            pixels=pixels,
            labels=labels,
            names=names,
            fill=around,
            conflicts=conflicts,
            limits=[limits_of(conflicts, name) for name in names],
            size=size.long_enough(len(labels)),
            seed=run.seed,
            advance=advance,
            poses_known=discovered is not None,
        )
        tried, best = try_policies(task, (*BASES, *found), ADDED)
        networks = size.folds * (len(tried) + 2 + REPEATS * (2 if best else 1))
        scores = confirm(task, best)
        if best and not is_confirmed(scores):
            best, scores = {}, scores[:1].expand(2, -1, -1, -1, -1)  # chance on the first folds
        scores = scores[:, :, :, 0]
    curves = () if loaded is None else model_curves(task, loaded, best)
    return describe(task, tried, best, scores, networks, curves, run.info)


def check_classes(labels: Tensor, names: tuple[str, ...]) -> None:
    """Raise an error if there is too little to train and to test on."""
    counts = torch.bincount(labels, minlength=len(names))
    if len(labels) < FEWEST or int((counts > 0).sum()) < 2:
        got = f"{len(labels)} of {int((counts > 0).sum())} classes"
        expected = f"at least {FEWEST} labelled pictures of 2 classes"
        raise invalid("data", expected, got, "a gain cannot be seen on fewer")
    few = [names[i] for i in range(len(names)) if 0 < int(counts[i]) < EACH]
    if few:
        remedy = "leave these classes out: what their labels forbid cannot be seen"
        got = f"fewer of {', '.join(few[:5])}" + (f" and {len(few) - 5} others" * (len(few) > 5))
        raise invalid("data", f"at least {EACH} pictures of each class", got, remedy)


def occurring(discovered: str | Path | SymmetryResult | None) -> tuple[Amounts, ...]:
    """Amounts of motion that ``discover`` found in the data; empty without a result.

    Poses a whole fraction of a turn apart are no range of angles, and are left out.
    """
    if discovered is None:
        return ()
    if not isinstance(discovered, SymmetryResult):
        discovered = SymmetryResult.load(discovered)
    found: Amounts = {}
    side = max(discovered.data.height, discovered.data.width)
    for part in discovered.transformations:
        if part.verdict not in ("partial", "full") or part.poses > 1:
            continue
        half = part.width90 / 0.9 / 2  # of a uniform law with this width
        if part.name == "rotation" and part.unit == "degrees":
            found["rotation"] = min(180.0, half)
        elif part.name in ("shift_x", "shift_y") and part.unit == "pixels":
            found["shift"] = max(found.get("shift", 0.0), min(0.5, half / side))
        elif part.name == "zoom":
            found["zoom"] = math.sqrt(max(part.width90, 1.0))
    return ({**found, "mix": 1.0},) if found else ()
