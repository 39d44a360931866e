"""Which transformations occur in data, and how much: what ``symmetries discover`` computes."""

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from symmetries._validation.checks import check_choice, invalid
from symmetries.analysis.collected_warnings import collect_warnings
from symmetries.analysis.inputs import (
    Readable,
    check_pictures,
    check_what_stays,
    read_images,
    resolve_background,
    without_constant,
)
from symmetries.analysis.orbit_densities import (
    check_orbit_group,
    check_orbit_preset,
    describe_orbits,
    fit_orbits,
)
from symmetries.analysis.provenance import Info
from symmetries.analysis.settings import Session
from symmetries.analysis.two_stage import describe_two_stage, fit_two_stage
from symmetries.data import ImageSet
from symmetries.groups import Group
from symmetries.groups.names import as_group
from symmetries.learners.orbit_posterior import OrbitPosterior
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.results import SymmetryResult

METHODS = ("orbit", "two-stage")
STAGES = ("inference", "generative")  # folders of a two-stage model's checkpoints


def discover(
    data: Readable,
    group: str | Group[Any] = "affine",
    *,
    method: str = "orbit",
    preset: str | None = None,
    check: bool = True,
    fill: float | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: bool = True,
    **training: Any,  # noqa: ANN401 - of the learner's fit
) -> SymmetryResult:
    """Find the symmetries of images without labels: which transformations occur, and how widely.

    Args:
        data: a name ("digits"), a file or a folder; or a tensor or array (N, C, H, W), an
            :class:`~symmetries.data.ImageSet`, a ``DataLoader``, or a pair (images, labels).
        group: the transformations to look for, a group or its name.
        method: "orbit" learns the density of poses along the orbit of each picture
            (:class:`~symmetries.OrbitPosterior`); "two-stage" learns prototypes and how they are
            moved (:class:`~symmetries.SymmetryModel`), as published.
        preset: "quick", "default" or, for the two-stage model, "paper"; None is "quick" on a CPU,
            "default" on a GPU.
        check: plant known transformations into the data and report what is recovered of them, which
            takes about as long again; the two-stage model has no such test.
        fill: background value from 0 to 1; None looks for it at the borders.
        seed: of the initial weights, training and samples.
        device: "auto", "cpu", "cuda", ...
        progress: show bars.
        training: further options of the learner's ``fit``, such as ``out`` and ``resume``.

    Returns:
        Warnings, widths with intervals, and verdicts; ``fitted`` is the model, ``to_html`` and
        ``plot`` show the result. The warnings are issued as Python's, too.
    """
    given: dict[str, object] = {"data": data, "group": group}
    given["method"] = None if method == METHODS[0] else method
    given |= {"check": None if check else False, "preset": preset, "fill": fill, "seed": seed}
    run = Session.of_call("discover", given, seed, device, preset, progress, training)
    result = search_symmetries(data, group, run, method, check, fill).describe(run.info)
    for text in result.warnings:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return result


@dataclass(frozen=True)
class Discovered:
    """A fitted model, its training images, and the warnings of the training."""

    images: ImageSet
    model: OrbitPosterior | SymmetryModel
    warnings: list[str] = field(default_factory=list)

    def describe(self, info: Info) -> SymmetryResult:
        """Return widths, verdicts and pictures; warnings of the training come first.

        Args:
            info: says how the model was fitted, and how long all of it took.
        """
        texts = list(self.warnings)
        with collect_warnings(texts):
            if isinstance(self.model, OrbitPosterior):
                result = describe_orbits(self.images, self.model, info)
            else:
                result = describe_two_stage(self.images, self.model, info)
        every = tuple(dict.fromkeys((*result.warnings, *texts)))
        whole = result.model_copy(update={"warnings": every})
        return whole.attach(result.pictures, result.fitted)


def search_symmetries(
    data: Readable,
    group: str | Group[Any],
    run: Session,
    method: str = METHODS[0],
    check: bool = True,
    fill: float | None = None,
) -> Discovered:
    """Read images and fit a model to them; arguments as in :func:`discover`."""
    check_choice(method, METHODS, "method")
    group = as_group(group)
    if method == "orbit":
        check_orbit_preset(run.preset)
        check_orbit_group(group)
    if run.training.get("resume"):
        _check_same_method(method, Path(run.training["out"]))
    texts: list[str] = []
    with collect_warnings(texts):
        images = without_constant(read_images(data, **run.reading))
        check_pictures(images)
        colours = bool({"hue", "saturation", "value"} & set(group.names))
        own = method == "orbit" and not colours
        if method == "orbit":
            check_what_stays(images, colours)
        value = resolve_background(images, fill, run.say, per_channel=own)
        training = {**run.training, "fill": value, "seed": run.seed}
        model: OrbitPosterior | SymmetryModel
        if method == "orbit":
            model = fit_orbits(images, group, run.preset, check=check, **training)
        else:
            model = fit_two_stage(images, group, run.preset, **training)
    return Discovered(images, model, texts)


def _check_same_method(method: str, out: Path) -> None:
    """Raise an error if the checkpoint to resume from belongs to the other method."""
    if not out.is_dir():
        return
    stages = any((out / name).is_dir() for name in STAGES)
    found = "two-stage" if stages else "orbit" if any(out.glob("fold*")) else method
    if found != method:
        expected = f"{found}, as in the checkpoints of {out.name}"
        raise invalid("method", expected, method, "resume with that method, or start anew")
