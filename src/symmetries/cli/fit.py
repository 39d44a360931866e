"""``symmetries fit``: a classifier that learns how much invariance its task has."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from symmetries.cli import options
from symmetries.cli.resuming import is_helper
from symmetries.cli.shown import escape

if TYPE_CHECKING:
    from symmetries.cli.inputs import Source
    from symmetries.cli.runs import Run
    from symmetries.data import ImageSet
    from symmetries.estimators import InvariantClassifier, RelaxedClassifier
    from symmetries.report.fits import FitPictures
    from symmetries.results import FitResult, Invariance, LayerRelaxation, WidthCurve

METHODS = ("invariant", "plain", "augmented", "relaxed")


@options.unbundled
def fit(
    data: options.Data,
    *,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="invariant: learns how far each transformation may go. plain: none. "
            "augmented: trained on images moved by up to --half-width. "
            "relaxed: a convolutional network whose layers learn how equivariant to be.",
        ),
    ] = "invariant",
    group: Annotated[
        str | None,
        typer.Option("--group", help="[default: rotation; c4 for relaxed]", show_default=False),
    ] = None,
    half_width: Annotated[
        float | None,
        typer.Option("--half-width", help="For augmented: a share of each range, 0 to 1 [1]."),
    ] = None,
    preset: options.Preset = None,
    fill: options.Fill = None,
    output: options.Output,
    machine: options.Machine,
    reading: options.Reading,
) -> None:
    """Train a classifier that learns from the training set alone how invariant it should be.

    Writes metrics.json (test accuracy, evidence, half-widths), report.html and model/.

    [dim]Example:[/] symmetries fit digits --method invariant --group rotation --out out/fit
    """
    from symmetries._validation.checks import check_choice, invalid
    from symmetries.cli.inputs import Source
    from symmetries.cli.runs import begin

    check_choice(method, METHODS, "method")
    if half_width is not None and (method != "augmented" or not 0 < half_width <= 1):
        remedy = "give a share of each range, such as 0.25"
        got = f"{half_width:g} with --method {method}"
        raise invalid("--half-width", "a number in (0, 1] with --method augmented", got, remedy)
    group = group or ("c4" if method == "relaxed" else "rotation")
    words = [data, *options.given(method=method, group=group, half_width=half_width)]
    words += [*options.given(fill=fill), *reading.words()]
    run = begin("fit", words, output.folder("fit", data), machine, output, preset)
    source = Source(data, reading)
    if is_helper(run.processes):  # another process of the same run: it trains and writes nothing
        train(source, method, group, half_width, fill, run)
        return
    with run.folder() as partial:
        result = write(source, method, group, half_width, fill, run, partial)
    run.show(result, table(result), ("metrics.json", "report.html", "model"))


def train(
    source: "Source",
    method: str,
    group: str,
    half_width: float | None,
    fill: float | None,
    run: "Run",
) -> "tuple[ImageSet, ImageSet, InvariantClassifier | RelaxedClassifier]":
    """Training images, test images, and the classifier."""
    from symmetries.cli.classifiers import learn, unlabelled
    from symmetries.cli.inputs import around, check_content
    from symmetries.cli.relaxed import learn_relaxed

    seen, test = source.splits()
    if seen.labels is None or test.labels is None:
        raise unlabelled(source.data)
    check_content(seen)
    value = around(seen, fill, run)
    if method == "relaxed":
        return seen, test, learn_relaxed(seen, group, value, run)
    return seen, test, learn(seen, method, group, half_width or 1.0, value, run)


def write(
    source: "Source",
    method: str,
    group: str,
    half_width: float | None,
    fill: float | None,
    run: "Run",
    into: Path,
) -> "FitResult":
    """Train, evaluate, draw, and write everything ``into`` a folder."""
    from symmetries.cli.progress import progress_bar
    from symmetries.report import fit_page, render

    seen, test, classifier = train(source, method, group, half_width, fill, run)
    with progress_bar("report", total=3, quiet=run.quiet) as advance:
        result, pictures = describe(classifier, method, seen, test, run)
        advance("pictures")
        classifier.save(into / "model")
        advance("model")
        result.save(into / "metrics.json")
        html = render(fit_page(result, pictures))
        (into / "report.html").write_text(html, encoding="utf-8")
        advance("page")
    return result


def describe(
    classifier: "InvariantClassifier | RelaxedClassifier",
    method: str,
    seen: "ImageSet",
    test: "ImageSet",
    run: "Run",
) -> "tuple[FitResult, FitPictures]":
    """The numbers and the pictures of a classifier."""
    import numpy as np

    from symmetries.cli.fit_pictures import draw, draw_relaxed
    from symmetries.cli.runs import summary
    from symmetries.estimators import InvariantClassifier
    from symmetries.results import FitResult

    labels = np.asarray(test.labels)
    p = classifier.predict_proba(test.images.numpy())
    right = float((classifier.classes_[p.argmax(1)] == labels).mean())
    place = np.searchsorted(classifier.classes_, labels).clip(max=p.shape[1] - 1)
    known = classifier.classes_[place] == labels
    likely = np.where(known, p[np.arange(len(p)), place], 0.0)
    invariant = classifier if isinstance(classifier, InvariantClassifier) else None
    result = FitResult(
        method=method,  # type: ignore[arg-type]  # checked before
        group=str(classifier.group),
        data=summary(seen),
        examples=len(test),
        accuracy=right,
        accuracy_interval=wilson(right, len(test)),
        elbo=invariant and invariant.elbo_,
        log_likelihood=float(np.log(likely.clip(min=1e-12)).mean()),
        invariance=half_widths(invariant) if invariant else (),
        relaxation=() if invariant else relaxations(classifier),
        training=width_curve(invariant) if invariant else relaxation_curve(classifier),
        run=run.info(),
    )
    if invariant:
        return result, draw(invariant, test, run.place)
    return result, draw_relaxed(classifier.model_, classifier.image_size_[1:])


def relaxations(classifier: "RelaxedClassifier") -> "tuple[LayerRelaxation, ...]":
    """How far each layer gave up its equivariance."""
    from symmetries.results import LayerRelaxation

    return tuple(
        LayerRelaxation(
            layer=row["layer"],
            coordinate=row["coordinate"],
            value=row["value"],
            error=row["error"],
        )
        for row in classifier.relaxation_
    )


def relaxation_curve(classifier: "RelaxedClassifier") -> "WidthCurve":
    """Relaxations and the loss along the training."""
    from symmetries.results import WidthCurve

    seen: dict[str, Any] = classifier.history_
    names = [f"{row['layer']} {row['coordinate']}" for row in classifier.relaxation_]
    return WidthCurve(
        step=tuple(seen["step"]),
        half_width={},
        relaxation={name: tuple(seen[name]) for name in names if name in seen},
        loss=tuple(seen["loss"]),
    )


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of Wilson for a share of ``count`` examples.

    Example:
        >>> low, high = wilson(0.9, 100)
        >>> round(low, 3), round(high, 3)
        (0.826, 0.945)
    """
    z = 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    spread = z * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5
    half = spread / (1 + z * z / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def half_widths(classifier: "InvariantClassifier") -> "tuple[Invariance, ...]":
    """What was learned, in the units that a person reads."""
    from symmetries.results import Invariance

    return tuple(
        Invariance(
            name=part.name,
            half_width=part.half_width,
            unit=part.unit,
            interval=(part.low, part.high) if classifier.learn else None,
        )
        for part in classifier.invariance_
    )


def width_curve(classifier: "InvariantClassifier") -> "WidthCurve":
    """Half-widths along the training."""
    from symmetries.results import WidthCurve

    side = max(classifier.image_size_[1:])
    looks = classifier.history_
    parameters = classifier.model_.group.parameters
    return WidthCurve(
        step=tuple(round(look[0]) for look in looks),
        half_width={
            parameter.name: tuple(parameter.display(look[1 + i], side)[0] for look in looks)
            for i, parameter in enumerate(parameters)
        },
    )


def table(result: "FitResult") -> Table:
    """The table that the command prints."""
    from symmetries.report.fits import interval_text, reach_of

    low, high = (100 * end for end in result.accuracy_interval)
    shown = Table(box=None, pad_edge=False, show_header=False)
    shown.add_row("accuracy", f"{100 * result.accuracy:.1f} %  ({low:.1f} to {high:.1f})")
    if result.elbo is not None:
        shown.add_row("ELBO per example", f"{result.elbo:.3f}")
    for row in result.relaxation:
        shown.add_row(f"{escape(row.layer)} relaxed in {row.coordinate}", f"{row.value:.3f}")
    for part in result.invariance if result.method == "invariant" else ():
        text = reach_of(part) + interval_text(part)
        shown.add_row(f"invariant to {escape(part.name)}", text)
    return shown
