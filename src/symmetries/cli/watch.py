"""``symmetries watch``: whether a stream of pictures has changed, how, and since when."""

from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from symmetries.cli import options
from symmetries.cli.errors import CHANGED, OutputError
from symmetries.cli.shown import escape, write_json

if TYPE_CHECKING:
    from symmetries.monitoring import Watcher
    from symmetries.results import RunInfo, WatchResult

STATE = "state"  # the folder of the watcher, in the output
WRITE_EVERY = 1000  # pictures of a folder or of data, which a killed run reads again


@options.command
def watch(
    reference: str,
    stream: str,
    *,
    alpha: float = 0.01,
    model: Annotated[str | None, typer.Option(metavar="MODEL")] = None,
    normalize: options.Normalize = None,
    channels: options.Channels = None,
    trust: options.Trust = False,
    fill: options.Fill = None,
    output: options.Output,
    seed: options.Seed = 0,
    reading: options.Reading,
) -> None:
    """Watch pictures for a change: rotation, shift, zoom, hue, value, blur, or none of these.

    Run it again to go on with what has come since: the output folder keeps the state. Writes
    watch.json, report.html, watch.prom (for Prometheus) and state/, all in one step, after every
    1,000 pictures and at the end; --json prints a line for every 50 pictures. Exit code 6 says that
    the stream has changed.

    [dim]Example:[/] symmetries watch reference/ camera-3/ --out out/camera-3

    Options:
        reference: Pictures as they should be: a data set by name, a file, or a folder.
        stream: A folder of pictures that grows, a data set or a file, or - for names of pictures
            on the standard input.
        alpha: Largest probability of any false alarm.
        model: A classifier, in any form that symmetries audit takes. An alarm then comes with its
            expected loss of accuracy.
    """
    import torch

    from symmetries import __version__
    from symmetries._utils.provenance import threads
    from symmetries.analysis.arriving import arriving, check_stream, shape_of
    from symmetries.analysis.provenance import data_summary
    from symmetries.analysis.watching import describe, load_watched, read_reference, sentence
    from symmetries.cli.output import owned
    from symmetries.cli.runs import begin
    from symmetries.monitoring import Watcher

    check_stream(stream)
    machine = options.Machine(seed=seed, device="cpu")
    run = begin("watch", output.folder("watch", stream), machine, output)
    how = reading.arguments()
    with owned(run.out):
        images = read_reference(reference, **how)
        summary = data_summary(images)
        watched: tuple[Any, ...] = ()
        digest = None
        if model is not None:
            loaded, labels = load_watched(model, images, trust, normalize, channels)
            watched, digest = (loaded.call, labels), loaded.digest
        started = {
            "reference": summary.sha256,
            "stream": stream,
            **{"alpha": alpha, "seed": seed, "fill": fill, "resize": reading.resize},
            **{"model": digest or model, "normalize": normalize, "channels": channels},
            "version": f"symmetries {__version__}, torch {torch.__version__}",
        }
        watcher = None if output.overwrite else resumed(run.out, started)
        after = None if watcher is None or watcher.position is None else watcher.position["after"]
        coming = arriving(stream, after, shape_of(images), how)
        first = [] if stream == "-" else list(islice(coming, 1))  # refused before it learns
        if watcher is None:
            watcher = Watcher.fit(images.images, alpha, seed, fill, *watched)
            watcher.position = {**started, "threads": threads(), "after": None}
        before = run.info()  # asking for the commit takes longer than looking at some pictures

        def info() -> "RunInfo":
            return before.model_copy(update={"time": run.seconds})

        result = describe(watcher, summary, info)
        write(run.out, watcher, result)
        written = result.pictures
        position = watcher.position
        for pictures, after in chain(first, coming):
            watcher.update(pictures)
            watcher.position = {**position, "after": after}
            result = describe(watcher, summary, info)
            if stream == "-" or result.pictures >= written + WRITE_EVERY:
                write(run.out, watcher, result)
                written = result.pictures
            if output.json:
                facts = result.model_dump(mode="json", exclude={"run", "reference"})
                write_json(facts, indent=None)
        if result.pictures > written:
            write(run.out, watcher, result)
    console = Console(emoji=False, stderr=output.json, quiet=output.quiet, highlight=False)
    console.print(escape(sentence(result)), soft_wrap=True)
    if result.alarm:
        raise typer.Exit(CHANGED)


def resumed(out: Path, started: dict[str, Any]) -> "Watcher | None":
    """The watcher that a run before has left; None where there is nothing."""
    from symmetries.cli.runs import keep_threads
    from symmetries.monitoring import Watcher
    from symmetries.training.resume import MOST_THREADS

    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not (out / STATE).is_dir():
        raise OutputError(f"{out}: nothing of watch is there; add --overwrite, or choose another")
    found = Watcher.load(out / STATE)
    before = found.position or {}
    others = [name for name, value in started.items() if before.get(name) != value]
    if others:
        names = ", ".join(others)
        raise OutputError(f"{out}: of another {names}; add --overwrite to begin anew")
    number = before.get("threads")
    keep_threads(number if isinstance(number, int) and 0 < number <= MOST_THREADS else None)
    return found


def write(out: Path, watcher: "Watcher", result: "WatchResult") -> None:
    """Replace the output in one step: numbers, metrics and state are of one moment."""
    from symmetries.analysis.watching import prometheus
    from symmetries.cli.output import output_folder

    with output_folder(out, True) as into:
        result.save(into / "watch.json")
        result.to_html(into / "report.html")
        (into / "watch.prom").write_text(prometheus(result))
        watcher.save(into / STATE)
