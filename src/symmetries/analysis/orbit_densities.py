"""Fit an orbit posterior for ``symmetries discover`` and describe its result."""

from typing import Any

from symmetries._validation.checks import invalid
from symmetries.actions.images import ImageAction
from symmetries.analysis.pose_pictures import draw_poses
from symmetries.analysis.provenance import Info, class_names, data_summary
from symmetries.data import ImageSet
from symmetries.groups import Group
from symmetries.groups.names import group_name
from symmetries.learners.orbit_posterior import OrbitConfig, OrbitPosterior
from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.record import class_counts, symmetry_summary
from symmetries.learners.orbit_posterior.versions import action_on
from symmetries.results import Quality, SymmetryResult


def check_orbit_group(group: Group[Any]) -> None:
    """Raise an error, with the remedy, for a group that an orbit posterior does not support."""
    ImageAction(group)  # refuses groups of signals and of points
    try:
        Chart(group, 8)
    except ValueError as error:
        if not group.closed:
            error.add_note("the two-stage model takes it, too (method two-stage)")
        raise


def check_orbit_preset(preset: str) -> None:
    """Raise an error for a preset that only the two-stage model has."""
    if preset == "paper":
        remedy = 'only discover has it, by the published model: add the method "two-stage"'
        raise invalid("preset", "quick or default", repr(preset), remedy)


def fit_orbits(
    images: ImageSet,
    group: Group[Any],
    preset: str,
    *,
    check: bool,
    fill: float,
    seed: int,
    **training: Any,  # noqa: ANN401 - of OrbitPosterior.fit
) -> OrbitPosterior:
    """An orbit posterior, fitted to images; ``check`` says whether its summary tests itself."""
    _, channels, height, width = images.images.shape
    action = action_on(images.images, group, fill)
    config = OrbitConfig.preset(preset).replace(check=check)
    model = OrbitPosterior(action, (channels, height, width), config, seed)
    model.fit(images, **training)
    return model


def describe_orbits(images: ImageSet, model: OrbitPosterior, info: Info) -> SymmetryResult:
    """The numbers and the pictures of a fitted orbit posterior.

    Args:
        images: that it was fitted to, in their order.
        model: fitted; it tests itself here if its configuration says so.
        info: says how it was fitted, and how long all of it took.
    """
    names = class_names(images)
    found = model.findings(images, class_names=names, seed=model.seed)
    summary = symmetry_summary(found, class_counts(images.labels, names))
    last = {} if model.history is None else model.history.last
    result = SymmetryResult(
        warnings=summary.warnings,
        method="orbit",
        group=group_name(model.action.group),
        data=data_summary(images),
        transformations=summary.transformations,
        classes=summary.classes,
        check=summary.check,
        subgroup=summary.subgroup,
        quality=Quality(images=summary.images, gain=summary.gain, losses={"training": last}),
        run=info().model_copy(update={"threads": model.threads}),
    )
    return result.attach(draw_poses(images, model, found), model)
