"""``symmetries fit``: a classifier that learns how much invariance its task has."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from symmetries.cli import options
from symmetries.cli.output import output_folder
from symmetries.cli.resuming import Checkpoints, is_helper
from symmetries.cli.runs import Training, command_line, say_written

if TYPE_CHECKING:
    import torch

    from symmetries.cli.classifiers import Classifier
    from symmetries.cli.inputs import Source
    from symmetries.cli.relaxed import RelaxedClassifier
    from symmetries.data import ImageSet
    from symmetries.report.fits import FitPictures
    from symmetries.results import FitResult, Invariance, WidthCurve

METHODS = ("invariant", "plain", "augmented", "relaxed")
START = 0.1  # half-width at the start of learning
COPIES = 4  # moved versions of each image for "augmented"
SHOWN = 6
STEPS = 41


def fit(
    data: options.Data,
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
    out: options.Out = None,
    preset: options.Preset = None,
    overwrite: options.Overwrite = False,
    resume: options.Resume = False,
    folder: options.Folder = None,
    resize: options.Resize = None,
    skip_bad: options.SkipBad = False,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    precision: options.Precision = "32-true",
    devices: options.Devices = 1,
    nodes: options.Nodes = 1,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Train a classifier that learns from the training set alone how invariant it should be.

    Writes metrics.json (test accuracy, evidence, half-widths), report.html and model/.

    [dim]Example:[/] symmetries fit digits --method invariant --group rotation --out out/fit
    """
    from symmetries.checks import check_choice, invalid
    from symmetries.cli.inputs import Source
    from symmetries.cli.runs import choose_device, choose_preset

    check_choice(method, METHODS, "method")
    if half_width is not None and (method != "augmented" or not 0 < half_width <= 1):
        remedy = "give a share of each range, such as 0.25"
        raise invalid("--half-width", "a number in (0, 1] with --method augmented", method, remedy)
    if method != "relaxed" and (resume or (precision, devices, nodes) != ("32-true", 1, 1)):
        got = f"--method {method}, which trains on one device in a minute"
        options_ = "--method relaxed with --resume, --precision, --devices and --nodes"
        raise invalid("method", options_, got, "leave these options out")
    group = group or ("c4" if method == "relaxed" else "rotation")
    out = out or Path("out") / f"fit-{Path(data).stem}"
    source = Source(data, folder, resize, skip_bad)
    place = choose_device(device)
    preset = choose_preset(preset, place)
    training = Training(device, precision, devices, nodes, seed, preset, progress=not quiet)
    given = [data, "--method", method, "--group", group, "--out", str(out), "--preset", preset]
    given += [] if half_width is None else ["--half-width", str(half_width)]
    command = command_line("fit", [*given, *source.options(), *training.options()])
    checkpoints = Checkpoints(out, resume, command)
    if is_helper():  # another process of the same run: it trains and writes nothing
        train_relaxed(source, group, training, checkpoints)
        return
    console = Console(stderr=json, quiet=quiet)
    with output_folder(out, overwrite) as partial, checkpoints:
        if method == "relaxed":
            result = run_relaxed(source, group, training, checkpoints, place, command, partial)
        else:
            share = half_width or 1.0
            result = run(source, method, group, share, training, place, command, partial)
    if json:
        sys.stdout.write(result.model_dump_json(indent=2) + "\n")
    console.print(table(result))
    say_written(console, out, ("metrics.json", "report.html", "model"))


def run(
    source: "Source",
    method: str,
    group: str,
    share: float,
    training: Training,
    device: "torch.device",
    command: str,
    into: Path,
) -> "FitResult":
    """Train, evaluate, draw, and write everything ``into`` a folder."""
    from symmetries.cli.progress import progress_bar
    from symmetries.cli.runs import run_info, summary
    from symmetries.learners.invariant_weights import evaluate
    from symmetries.report import fit_page, render
    from symmetries.results import FitResult

    start = time.perf_counter()
    seed, preset, quiet = training.seed, training.preset, not training.progress
    train, test = source.splits(seed)
    if test.labels is None:
        raise unlabelled(source.data)
    classifier, looks, elbo = learn(train, method, group, share, preset, seed, device, quiet)
    model = classifier.model
    with progress_bar("report", total=3, quiet=quiet) as advance:
        found = evaluate(model, [test.images], test.labels.to(device), seed=seed)
        advance("accuracy")
        curve = width_curve(looks, classifier)
        value = float(found.score[0])
        result = FitResult(
            method=method,  # type: ignore[arg-type]  # checked before
            group=classifier.design.group,
            data=summary(train),
            examples=len(test),
            accuracy=value,
            accuracy_interval=wilson(value, len(test)),
            elbo=elbo,
            log_likelihood=float(found.log_likelihood[0]),
            invariance=half_widths(classifier),
            training=curve,
            run=run_info(command, seed, device, time.perf_counter() - start),
        )
        pictures = draw(classifier, test, device)
        advance("pictures")
        classifier.save(into / "model")
        result.save(into / "metrics.json")
        html = render(fit_page(result, pictures))
        (into / "report.html").write_text(html, encoding="utf-8")
        advance("page")
    return result


def train_relaxed(
    source: "Source", group: str, training: Training, checkpoints: Checkpoints
) -> "tuple[ImageSet, ImageSet, RelaxedClassifier]":
    """Load the data and train a network with relaxed layers."""
    from symmetries.cli.relaxed import learn_relaxed
    from symmetries.cli.runs import summary

    train, test = source.splits(training.seed)
    if train.labels is None:
        raise unlabelled(source.data)
    classes = summary(train).classes
    return train, test, learn_relaxed(train, group, classes, training, checkpoints)


def run_relaxed(
    source: "Source",
    group: str,
    training: Training,
    checkpoints: Checkpoints,
    device: "torch.device",
    command: str,
    into: Path,
) -> "FitResult":
    """The same for a network with relaxed layers."""
    import torch
    import torch.nn.functional as F

    from symmetries.cli.runs import run_info, summary
    from symmetries.report import fit_page, render
    from symmetries.report.fits import FitPictures
    from symmetries.results import FitResult, WidthCurve

    start = time.perf_counter()
    train, test, classifier = train_relaxed(source, group, training, checkpoints)
    if test.labels is None:
        raise unlabelled(source.data)
    classifier.to(device)
    with torch.no_grad():
        parts = [classifier(part.to(device)).float().cpu() for part in test.images.split(500)]
    logits = torch.cat(parts)
    value = float((logits.argmax(1) == test.labels).float().mean())
    result = FitResult(
        method="relaxed",
        group=classifier.design.group,
        data=summary(train),
        examples=len(test),
        accuracy=value,
        accuracy_interval=wilson(value, len(test)),
        elbo=None,
        log_likelihood=-float(F.cross_entropy(logits, test.labels)),
        invariance=(),
        relaxation=classifier.relaxations(),
        training=WidthCurve(step=(), half_width={}),
        run=run_info(command, training.seed, device, time.perf_counter() - start),
    )
    classifier.save(into / "model")
    result.save(into / "metrics.json")
    html = render(fit_page(result, FitPictures([], {}, {})))
    (into / "report.html").write_text(html, encoding="utf-8")
    return result


def learn(
    train: "ImageSet",
    method: str,
    group: str,
    share: float,
    preset: str,
    seed: int,
    device: "torch.device",
    quiet: bool,
) -> "tuple[Classifier, list[list[float]], float]":
    """The trained classifier, its half-widths along the way, and the ELBO per example."""
    from symmetries.cli.classifiers import (
        PRESETS,
        Classifier,
        Design,
        augmented,
        frequency_scale,
        natural_config,
    )
    from symmetries.cli.progress import progress_bar
    from symmetries.cli.runs import summary
    from symmetries.groups import group_name, parse_group
    from symmetries.learners.invariant_weights import evaluate, fit_natural

    if train.labels is None:
        raise unlabelled(train.name)
    parsed = parse_group(group)
    images, labels = train.images.to(device), train.labels.to(device)
    _, channels, height, width = images.shape
    invariant = method == "invariant"
    design = Design(
        group=group_name(parsed),
        shape=(channels, height, width),
        classes=summary(train).classes,
        features=PRESETS[preset]["features"],
        sigma=frequency_scale(images),
        half_width=((START if invariant else 0.0),) * parsed.dim,
        learn=invariant,
        seed=seed,
    )
    classifier = Classifier(design).to(device)
    if method == "augmented":
        reach = tuple(share * bound for bound in parsed.bounds)
        images, labels = augmented(images, labels, design.group, reach, COPIES, seed)
    config = natural_config(preset, seed)
    with progress_bar("training", total=config.steps, quiet=quiet) as advance:
        looks = fit_natural(
            classifier.model, [images], labels, config, on_step=lambda step, fit: advance("")
        )
    fit = evaluate(classifier.model, [images], labels, seed=seed).log_likelihood
    elbo = float((fit - classifier.model.head.kl() / len(labels))[0])
    return classifier.eval(), looks, elbo


def unlabelled(name: str) -> ValueError:
    """The error for data without labels."""
    from symmetries.checks import invalid

    remedy = "add labels (an array, or a folder per class), or use symmetries discover"
    return invalid(name, "labelled images", "no labels", remedy)


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


def half_widths(classifier: "Classifier") -> "tuple[Invariance, ...]":
    """What was learned, in the units that a person reads."""
    from symmetries.results import Invariance

    side = max(classifier.design.shape[1:])
    values = classifier.model.half_width[0].tolist()
    pairs = zip(classifier.model.group.parameters, values, strict=True)
    shown = ((parameter.name, *parameter.display(value, side)) for parameter, value in pairs)
    return tuple(Invariance(name=n, half_width=value, unit=unit) for n, value, unit in shown)


def width_curve(looks: list[list[float]], classifier: "Classifier") -> "WidthCurve":
    """Half-widths along the training."""
    from symmetries.results import WidthCurve

    side = max(classifier.design.shape[1:])
    parameters = classifier.model.group.parameters
    return WidthCurve(
        step=tuple(round(look[0]) for look in looks),
        half_width={
            parameter.name: tuple(parameter.display(look[1 + i], side)[0] for look in looks)
            for i, parameter in enumerate(parameters)
        },
    )


def draw(classifier: "Classifier", test: "ImageSet", device: "torch.device") -> "FitPictures":
    """Examples along each parameter, across and beyond what the classifier averages over."""
    import torch

    from symmetries.actions import ImageAction
    from symmetries.cli.orbit import example_indices, example_labels, for_display, to_bytes
    from symmetries.report.fits import FitPictures

    group = classifier.model.group
    chosen = example_indices(test, SHOWN)
    shown = for_display(test.images[chosen].to(device))
    act = ImageAction(group, interpolation="bicubic")
    side = max(classifier.design.shape[1:])
    frames, values = {}, {}
    for i, parameter in enumerate(group.parameters):
        eta = torch.zeros(STEPS, group.dim, device=device)
        eta[:, i] = torch.linspace(-parameter.bound, parameter.bound, STEPS, device=device)
        frames[parameter.name] = to_bytes(act.orbit(group.exp(eta), shown))
        values[parameter.name] = [parameter.display(float(v), side)[0] for v in eta[:, i]]
    return FitPictures(example_labels(test, chosen), frames, values)


def table(result: "FitResult") -> Table:
    """The table that the command prints."""
    from symmetries.report.fits import reach_of

    low, high = (100 * end for end in result.accuracy_interval)
    shown = Table(box=None, pad_edge=False, show_header=False)
    shown.add_row("accuracy", f"{100 * result.accuracy:.1f} %  ({low:.1f} to {high:.1f})")
    if result.elbo is not None:
        shown.add_row("ELBO per example", f"{result.elbo:.3f}")
    for row in result.relaxation:
        shown.add_row(f"{escape(row.layer)} relaxed in {row.coordinate}", f"{row.value:.3f}")
    for part in result.invariance:
        shown.add_row(f"invariant to {escape(part.name)}", reach_of(part))
    return shown
