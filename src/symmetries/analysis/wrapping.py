"""Make a frozen model invariant and measure the gain: what ``symmetries wrap`` computes."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from symmetries._validation.checks import check_number, check_whole, invalid
from symmetries.analysis.audited_data import with_labels
from symmetries.analysis.canonicalised import CanonicalisedModel, check_kind
from symmetries.analysis.classifiers import Classifier
from symmetries.analysis.collected_warnings import collect_warnings
from symmetries.analysis.inputs import (
    Readable,
    Reading,
    check_pictures,
    read_images,
    resolve_background,
    without_constant,
)
from symmetries.analysis.orbit_densities import check_orbit_group, check_orbit_preset
from symmetries.analysis.preprocessing import make_preprocessing
from symmetries.analysis.settings import Session
from symmetries.analysis.stored_models import load_classifier
from symmetries.analysis.wrap_files import export_checked
from symmetries.analysis.wrap_results import Wrapped, check_pictures_of, describe_wrapped
from symmetries.analysis.wrap_rules import LIMIT, bare_answers, choose_rule, draw_moves, score
from symmetries.auditing.answers import CLASSIFIERS
from symmetries.auditing.models import PROBE, Model, check_answers
from symmetries.auditing.run import Output
from symmetries.data import ImageSet
from symmetries.data.base import NEARLY, check_unit_range
from symmetries.groups import CyclicShift, Group
from symmetries.groups.names import as_group
from symmetries.groups.ranges import Range, parse_range
from symmetries.learners.orbit_posterior import OrbitConfig, OrbitPosterior
from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.pose_reader import fit_whole
from symmetries.learners.orbit_posterior.versions import action_on
from symmetries.results import ExportedFile, Preprocessing, WrapResult
from symmetries.training.step import mix

HELD_OUT = 0.2  # of the reference
MOST_HELD_OUT = 10_000
LEAST_HELD_OUT = 40
BLURRED = 0.5  # of the blur of an orbit posterior's own views
BEYOND = 1.15  # times the range: how far random moves go while the posterior is fitted


def wrap(
    model: str | Path | Model | Classifier,
    reference: Readable,
    group: str | Group[Any] = "rotation",
    *,
    views: int = 1,
    range: Range | None = None,
    limit: float = LIMIT,
    held_out: Readable | None = None,
    export: str | Path | None = None,
    output: Output = None,
    inputs: str | Mapping[str, Any] | None = None,
    normalize: str | None = None,
    channels: str | None = None,
    preset: str | OrbitConfig | None = None,
    fill: float | None = None,
    trust: bool = False,
    seed: int = 0,
    device: str = "auto",
    progress: bool = True,
    **training: Any,  # noqa: ANN401 - of OrbitPosterior.fit
) -> WrapResult:
    """Put a canonicaliser in front of a frozen model, which then answers moved pictures as well.

    Pictures are moved to the most likely pose of the reference data, where that is more likely than
    the pose that they have by a threshold; answers with positions are moved back. The rule is
    chosen on held-out pictures of the reference, half of which decide and half of which are
    measured: the best on moved pictures, if pictures as they are lose at most ``limit`` points.

    Args:
        model: a module, an ONNX or exported file, or whatever :func:`symmetries.audit` takes.
        reference: pictures in the poses that the model knows, in [0, 1] or as it takes them; with
            labels if there are any, else the model's own answers decide.
        group: transformations to undo: rotations, shifts, zooms, flips, hue, finite groups.
        views: poses of each picture that the model may see, each a forward pass.
        range: how far the transformations will go, "rotation=45"; by default angles go all around,
            shifts over 15 % of the side and zooms up to 1.5.
        limit: points that pictures as they are may lose; a larger one restores more moved pictures
            where poses are hard to read.
        held_out: other pictures like the reference, best those that the model has not seen; by
            default a fifth of the reference.
        export: folder to write wrapped.pt2 and wrapped.onnx to.
        output: kind of the model's answer, see :func:`symmetries.audit`.
        inputs: other inputs of an ONNX file.
        normalize: of the model's inputs, "imagenet" or "0.5/0.25"; it becomes part of the files.
        channels: "bgr" if the model wants blue first.
        preset: of the orbit posterior: "quick", "default" or an ``OrbitConfig``.
        fill: background value from 0 to 1; None looks for it at the borders.
        trust: load files that can run code.
        seed: of everything drawn.
        device: "auto", "cpu", "cuda", ...
        progress: show bars.
        training: further options of the orbit posterior's ``fit``.

    Returns:
        Scores before and after; ``fitted`` is the wrapped module, a
        :class:`~symmetries.analysis.canonicalised.CanonicalisedModel`.
    """
    given = {"model": model, "reference": reference, "group": group, "views": views, "seed": seed}
    config = preset if isinstance(preset, OrbitConfig) else None
    chosen = None if isinstance(preset, OrbitConfig) else preset
    run = Session.of_call("wrap", given, seed, device, chosen, progress, training)
    found = wrap_model(
        model,
        reference,
        group,
        run,
        views=views,
        range=range,
        limit=limit,
        held_out=held_out,
        output=output,
        inputs=inputs,
        preprocessing=make_preprocessing(normalize, channels),
        config=config,
        fill=fill,
        trust=trust,
    )
    files: tuple[ExportedFile, ...] = ()
    if export is not None:
        folder = Path(export)
        folder.mkdir(parents=True, exist_ok=True)
        files = export_checked(found.module, folder, check_pictures_of(found))
    name = str(model) if isinstance(model, str | Path) else type(model).__name__
    result = describe_wrapped(found, name, files, run.info)
    for text in result.warnings:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return result


def wrap_model(
    model: str | Path | Model | Classifier,
    reference: Readable,
    group: str | Group[Any],
    run: Session,
    *,
    views: int,
    range: Range | None,
    limit: float,
    held_out: Readable | None,
    output: Output,
    inputs: str | Mapping[str, Any] | None,
    preprocessing: Preprocessing,
    fill: float | None,
    trust: bool,
    config: OrbitConfig | None = None,
) -> Wrapped:
    """Fit the orbit posterior, choose the rule, and score it; arguments as in :func:`wrap`."""
    check_whole(views, "views", most=64)
    check_number(limit, "limit", 0, 100)
    group = check_group(as_group(group))
    if config is None:
        check_orbit_preset(run.preset)
    texts: list[str] = []
    with collect_warnings(texts):
        images = without_constant(read_images(reference, **run.reading))
        check_pictures(images)
        kept, held = split_reference(images, held_out, run.reading, run.seed)
        loaded = load_classifier(
            model,
            trust,
            run.place,
            images=kept.images[:PROBE].to(run.place),
            preprocessing=preprocessing,
            labels=images.labels,
            output=output,
            inputs=inputs,
        )
        check_kind(loaded.kind, views)
        if loaded.kind in CLASSIFIERS:
            check_answers(loaded.call, kept.images[:PROBE].to(run.place))
        own = not {"hue", "saturation", "value"} & set(group.names)
        if not own:
            check_unit_range(images.images, "reference", NEARLY)  # colours are those of [0, 1]
        if fill is not None and images.images.min() >= 0 and images.images.max() <= 1:
            check_number(fill, "fill", 0, 1)
        value = resolve_background(
            kept, loaded.fill if fill is None else fill, run.say, per_channel=own
        )
        widths = widths_of(group, range, max(images.images.shape[-2:]))
        posterior = fit_posterior(kept, group, config or run.preset, widths, value, run)
        limits = {"rotation": widths["rotation"]} if "rotation" in widths else {}
        module = CanonicalisedModel(
            loaded.call, posterior, loaded.kind, views=views, limits=limits
        ).to(run.place)
        labelled = loaded.kind in CLASSIFIERS and held.labels is not None
        if labelled:
            held, notes = with_labels(held, loaded)
            loaded = replace(loaded, notes=loaded.notes + notes)
        still = torch.zeros(len(held), len(module.chart.coordinates))
        planted = draw_moves(module.chart, widths, len(held), mix(run.seed, 71) % 2**31)
        targets = held.labels if labelled else bare_answers(module, held.images)
        both = [score(module, held.images, moves, targets) for moves in (still, planted)]
    deciding = torch.arange(len(held)) % 2 == 0
    chosen, candidates = choose_rule(both[0].rows(deciding), both[1].rows(deciding), limit)
    settled = CanonicalisedModel(
        loaded.call,
        posterior,
        loaded.kind,
        threshold=chosen.threshold,
        views=views if chosen.rule == "views" else 1,
        limits=limits,
    ).to(run.place)
    return Wrapped(
        settled, loaded, images, held, labelled, planted, widths, both[0], both[1], chosen,
        candidates, limit, preprocessing, texts,
    )  # fmt: skip


def check_group(group: Group[Any]) -> Group[Any]:
    """Return the group, if pictures can be moved back by it."""
    check_orbit_group(group)
    if any(isinstance(factor, CyclicShift) for factor in group.factors):
        remedy = "name translation instead: pictures are moved, not rolled"
        raise invalid("group", "motions of the plane or colours", repr(group), remedy)
    return group


def split_reference(
    images: ImageSet, held_out: Readable | None, reading: Reading, seed: int
) -> tuple[ImageSet, ImageSet]:
    """Return pictures to learn poses from, and shuffled ones to choose by and to measure on."""
    generator = torch.Generator().manual_seed(mix(seed, 70))
    if held_out is not None:
        held = without_constant(read_images(held_out, **reading))
        if held.images.shape[1:] != images.images.shape[1:]:
            got = f"{tuple(held.images.shape[1:])} and {tuple(images.images.shape[1:])}"
            raise invalid("held_out", "pictures of the reference's shape", got, "resize them")
        order = torch.randperm(len(held), generator=generator)
        kept, held = images, held.subset(order[:MOST_HELD_OUT])
    else:
        order = torch.randperm(len(images), generator=generator)
        count = min(round(HELD_OUT * len(images)), MOST_HELD_OUT)
        kept, held = images.subset(order[count:]), images.subset(order[:count])
    if len(held) < LEAST_HELD_OUT:
        remedy = "a rule that is chosen on fewer says nothing: give more pictures"
        expected = f"at least {LEAST_HELD_OUT} held-out pictures"
        raise invalid("reference", expected, len(held), remedy)
    return kept, held


def widths_of(group: Group[Any], given: Range | None, side: int) -> dict[str, float]:
    """Return half-widths of the moves by name: as given, or the orbit posterior's initial range."""
    if given is None:
        return Chart(group, 8).reach
    return dict(zip(group.names, parse_range(group, given, side), strict=True))


def fit_posterior(
    images: ImageSet,
    group: Group[Any],
    preset: str | OrbitConfig,
    widths: dict[str, float],
    fill: float,
    run: Session,
) -> OrbitPosterior:
    """Return an orbit posterior whose one network reads poses.

    Views are half as blurred as those that widths are read from, and not jittered: what
    interpolation leaves in a picture matters less here, and details tell poses.
    """
    config = OrbitConfig.resolve(preset).replace(check=False)
    if isinstance(preset, str):
        names = ("before", "least", "most", "edges")
        blurs = {name: BLURRED * getattr(config.views, name) for name in names}
        config = config.replace(views={**blurs, "jitter": 0.0})
    action = action_on(images.images, group, fill)
    lines = {c.name for c in Chart(group, 8).coordinates if c.kind == "line"}
    reach = {name: BEYOND * width for name, width in widths.items() if name in lines}
    _, channels, height, width = images.images.shape
    model = OrbitPosterior(action, (channels, height, width), config, run.seed, reach=reach)
    fit_whole(model, images, **run.training)
    return model
