"""``symmetries audit``: is a classifier really invariant?"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from symmetries.cli import options
from symmetries.cli.output import output_folder
from symmetries.cli.runs import command_line, say_written

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from symmetries.actions import ImageAction
    from symmetries.audit import AuditResult
    from symmetries.cli.inputs import Source
    from symmetries.cli.models import Model
    from symmetries.data import ImageSet
    from symmetries.report.audits import AuditPictures, DriftRow, Track
    from symmetries.results import RunInfo

EXAMPLES = 5
SHOWN = 6
STEPS = 25
CURVE_EXAMPLES = 256
DRIFT_EXAMPLES = 100
BETAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def audit(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="The model/ of symmetries fit, a .pt2 file of torch.export, module:callable, or "
            "a TorchScript file (with --trust).",
        ),
    ],
    data: options.Data,
    group: options.GroupName = "c4",
    drift: Annotated[
        str | None,
        typer.Option(
            "--drift", metavar="DATA", help="Also measure on the way to these data, blended in."
        ),
    ] = None,
    out: options.Out = None,
    examples: Annotated[
        int, typer.Option("--examples", help="Test images to look at.", min=2)
    ] = 500,
    trust: Annotated[
        bool, typer.Option("--trust", help="Load TorchScript, which runs code in the file.")
    ] = False,
    overwrite: options.Overwrite = False,
    folder: options.Folder = None,
    resize: options.Resize = None,
    skip_bad: options.SkipBad = False,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Measure how invariant a classifier is: its outputs, where it looks, layer by layer.

    Writes audit.json and report.html.

    [dim]Example:[/] symmetries audit out/fit-digits/model digits --group c4
    """
    from symmetries.cli.inputs import Source
    from symmetries.cli.runs import choose_device

    out = out or Path("out") / f"audit-{Path(data).stem}"
    source = Source(data, folder, resize, skip_bad)
    place = choose_device(device)
    given = [model, data, "--group", group, "--out", str(out), "--examples", str(examples)]
    given += [*source.options(), "--seed", str(seed), *(["--trust"] if trust else [])]
    given += [] if drift is None else ["--drift", drift]
    command = command_line("audit", given)
    away = None if drift is None else Source(drift, folder, resize, skip_bad)
    console = Console(stderr=json, quiet=quiet)
    with output_folder(out, overwrite) as partial:
        result = run(
            model, trust, source, away, group, examples, seed, place, command, partial, quiet
        )
    if json:
        sys.stdout.write(result.model_dump_json(indent=2) + "\n")
    console.print(table(result))
    say_written(console, out, ("audit.json", "report.html"))


def run(
    name: str,
    trust: bool,
    source: "Source",
    away: "Source | None",
    group: str,
    examples: int,
    seed: int,
    device: "torch.device",
    command: str,
    into: Path,
    quiet: bool,
) -> "AuditResult":
    """Measure, draw, and write everything ``into`` a folder."""
    from symmetries.audit import audit as measure
    from symmetries.audit.models import untouched
    from symmetries.cli.classifiers import Classifier
    from symmetries.cli.discover import spread_indices
    from symmetries.cli.fit import unlabelled
    from symmetries.cli.models import check_batches, load_classifier, unfit
    from symmetries.cli.progress import progress_bar
    from symmetries.cli.runs import run_info
    from symmetries.groups import parse_group

    start = time.perf_counter()
    parsed = parse_group(group)
    images = source.splits(seed)[1]
    if images.labels is None:
        raise unlabelled(source.data)
    images = images.subset(spread_indices(len(images), examples))
    model = load_classifier(name, trust, device)
    inputs, labels = images.images.to(device), images.labels.to(device)  # type: ignore[union-attr]
    with untouched(model):
        check_batches(model, inputs)
    # Layers of our own classifier hold all samples at once, and no rows of examples.
    layers = () if isinstance(model, Classifier) else None
    try:
        result = measure(
            model, (inputs, labels), parsed, layers=layers, seed=seed, progress=not quiet
        )
    except AssertionError as error:  # an exported program that takes only so many images
        raise unfit(error, inputs) from error
    with progress_bar("report", total=3, quiet=quiet) as advance:
        points = [] if away is None else drift_points(model, images, away, parsed, device, seed)
        advance("drift")
        pictures = replace(draw(model, images, parsed, device, seed), drift=points)
        advance("pictures")
        info = run_info(command, seed, device, time.perf_counter() - start)
        html = write_page(result, pictures, images, info)
        result.save(into / "audit.json")
        (into / "report.html").write_text(html, encoding="utf-8")
        advance("page")
    return result


def drift_points(
    model: "Model",
    images: "ImageSet",
    away: "Source",
    group: Any,  # noqa: ANN401 - any group
    device: "torch.device",
    seed: int,
) -> "list[DriftRow]":
    """The measures as the images are blended into others of the same classes."""
    from symmetries.audit import drift_curve
    from symmetries.data import drift
    from symmetries.report.audits import DriftRow

    few = images.subset(range(min(len(images), DRIFT_EXAMPLES)))
    second = drift(few, away.splits(seed)[1], 1.0)
    if few.labels is None:
        return []
    first, last, labels = (t.to(device) for t in (few.images, second.images, few.labels))
    curve = drift_curve(model, first, last, labels, group, betas=BETAS, steps=20, seed=seed)
    return [
        DriftRow(p.beta, p.accuracy.mean, p.saliency_similarity.mean, p.logit_invariance.mean)
        for p in curve
    ]


def write_page(
    result: "AuditResult", pictures: "AuditPictures", images: "ImageSet", info: "RunInfo"
) -> str:
    """The page, from plain numbers."""
    from symmetries.cli.runs import summary
    from symmetries.report import audit_page, render

    return render(audit_page(result.model_dump(), pictures, summary(images), info))


def draw(
    model: "Model",
    images: "ImageSet",
    group: Any,  # noqa: ANN401 - any group
    device: "torch.device",
    seed: int,
) -> "AuditPictures":
    """Orbits of some examples with the model's answers along them, and aligned saliency maps."""
    from symmetries.audit.models import untouched
    from symmetries.cli.orbit import example_indices, example_labels
    from symmetries.report.audits import AuditPictures

    chosen = example_indices(images, EXAMPLES)
    with untouched(model):
        tracks = orbit_tracks(model, images, group, chosen, device)
        maps = saliency_rows(model, images, group, chosen, device, seed)
    return AuditPictures(example_labels(images, chosen), tracks, maps)


def orbit_tracks(
    model: "Model",
    images: "ImageSet",
    group: Any,  # noqa: ANN401 - any group
    chosen: list[int],
    device: "torch.device",
) -> "list[Track]":
    """Probability of the right class along every parameter, or along the elements."""
    import torch

    from symmetries.actions import ImageAction
    from symmetries.cli.orbit import element_labels, for_display, to_bytes
    from symmetries.groups import FiniteGroup
    from symmetries.report.audits import Track

    act = ImageAction(group)
    side = max(images.images.shape[-2:])
    walks: list[tuple[str, str, list[float], Any]] = []
    if isinstance(group, FiniteGroup):
        elements = group.elements(device)
        places = [float(i) for i in range(len(elements))]
        walks.append((",".join(group.names), "elements", places, elements))
    else:
        for i, parameter in enumerate(group.parameters):
            eta = torch.zeros(STEPS, group.dim, device=device)
            eta[:, i] = torch.linspace(-parameter.bound, parameter.bound, STEPS, device=device)
            values = [parameter.display(float(v), side) for v in eta[:, i]]
            walks.append((parameter.name, values[0][1], [v for v, _ in values], group.exp(eta)))
    x = images.images[:CURVE_EXAMPLES].to(device)
    y = images.labels[:CURVE_EXAMPLES].to(device)  # type: ignore[index]
    shown = for_display(images.images[chosen].to(device))
    tracks = []
    for name, unit, values, element in walks:
        p, right = answers_along(model, act, element, x, y)
        frames = to_bytes(act.orbit(element, shown))
        names = element_labels(group)
        tracks.append(Track(name, unit, values, p.tolist(), right.tolist(), frames, names))
    return tracks


def answers_along(
    model: "Model",
    act: "ImageAction",
    element: Any,  # noqa: ANN401 - elements differ by group
    x: "Tensor",
    y: "Tensor",
) -> "tuple[Tensor, Tensor]":
    """Mean probability of the right class and accuracy (S,) at each of S elements."""
    import torch

    with torch.no_grad():
        orbit = act.orbit(element, x)
        logits = torch.stack([model(orbit[:, s]) for s in range(orbit.shape[1])])
    p = logits.softmax(-1).gather(-1, y.expand(len(logits), -1)[..., None])[..., 0]
    return p.mean(1).cpu(), (logits.argmax(-1) == y).float().mean(1).cpu()


def saliency_rows(
    model: "Model",
    images: "ImageSet",
    group: Any,  # noqa: ANN401 - any group
    chosen: list[int],
    device: "torch.device",
    seed: int,
) -> "NDArray[np.uint8]":
    """Rows (E, 1 + M, H, W, C): the picture, then where the model looks when it is moved."""
    import torch

    from symmetries.audit.moves import make_moves
    from symmetries.audit.saliency import aligned, saliency_map
    from symmetries.cli.orbit import for_display, to_bytes

    x = images.images[chosen].to(device)
    y = images.labels[chosen].to(device)  # type: ignore[index]
    moves = make_moves(group, x, identity=True, samples=SHOWN, seed=seed)
    columns = [for_display(x)[:, :1].cpu()]
    for element in list(moves.of(0, len(x), device))[:SHOWN]:
        found = saliency_map(model, moves.action(element, x), y, threshold=0.2)
        back = aligned(moves, element, found).sum(1, keepdim=True)
        scaled = back / back.flatten(1).amax(1).clamp_min(1e-12)[:, None, None, None]
        columns.append(for_display(scaled.detach()).cpu())
    return to_bytes(torch.stack(columns, 1))


def table(result: "AuditResult") -> Table:
    """The table that the command prints."""
    from symmetries.report.audits import MEASURES

    shown = Table("measure", box=None, pad_edge=False, header_style="dim")
    shown.add_column("value", justify="right")
    shown.add_column("± standard error", justify="right")
    shown.add_column("resampling alone", justify="right")
    for name, meaning in MEASURES.items():
        measure = getattr(result, name)
        alone = "" if measure.discretisation is None else f"{measure.discretisation:.3g}"
        shown.add_row(meaning, f"{measure.mean:.3g}", f"{measure.standard_error:.2g}", alone)
    return shown
