"""``symmetries watch``: whether a stream of pictures has changed, how, and since when."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from symmetries.cli import options
from symmetries.cli.errors import CHANGED, OutputError
from symmetries.cli.shown import escape, write_json

if TYPE_CHECKING:
    from torch import Tensor

    from symmetries.monitoring import Watcher
    from symmetries.results import WatchResult

STATE = "state"  # the folder of the watcher, in the output


@options.unbundled
def watch(
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="Pictures as they should be, as DATA.")
    ],
    stream: Annotated[
        str,
        typer.Argument(
            metavar="STREAM",
            help="A folder of pictures that grows, other DATA, or - for names on standard input.",
        ),
    ],
    *,
    alpha: Annotated[
        float, typer.Option("--alpha", help="Largest probability of any false alarm.")
    ] = 0.01,
    fill: options.Fill = None,
    output: options.Output,
    seed: options.Seed = 0,
    reading: options.Reading,
) -> None:
    """Watch pictures for a change: rotation, shift, zoom, hue, value, blur, or none of these.

    Run it again to go on with what has come since: the output folder keeps the state. Writes
    watch.json, watch.prom (for Prometheus) and state/, all in one step; --json prints a line for
    every 50 pictures. Exit code 6 says that the stream has changed.

    [dim]Example:[/] symmetries watch reference/ camera-3/ --out out/camera-3
    """
    from symmetries.analysis.inputs import read_images
    from symmetries.analysis.provenance import data_summary
    from symmetries.analysis.watching import describe, sentence
    from symmetries.cli.inputs import reading_arguments
    from symmetries.cli.output import owned
    from symmetries.cli.runs import begin
    from symmetries.monitoring import Watcher

    machine = options.Machine(seed=seed, device="cpu")
    chosen = [reference, stream, *options.given(alpha=alpha, fill=fill), *reading.words()]
    run = begin("watch", chosen, output.folder("watch", stream), machine, output)
    with owned(run.out):
        images = read_images(reference, **reading_arguments(reading))
        summary = data_summary(images)
        started = {"reference": summary.sha256, "alpha": alpha, "seed": seed, "stream": stream}
        watcher = None if output.overwrite else resumed(run.out, started)
        if watcher is None:
            watcher = Watcher.fit(images.images, alpha, seed, fill)
            watcher.position = {**started, "after": None}
        result = describe(watcher, summary, run.info)
        write(run.out, watcher, result)
        for pictures, after in arriving(stream, watcher, reading):
            watcher.update(pictures)
            watcher.position = {**started, "after": after}
            result = describe(watcher, summary, run.info)
            write(run.out, watcher, result)
            if output.json:
                facts = result.model_dump(mode="json", exclude={"run", "reference"})
                write_json(facts, indent=None)
    console = Console(emoji=False, stderr=output.json, quiet=output.quiet, highlight=False)
    console.print(escape(sentence(result)), soft_wrap=True)
    if result.alarm:
        raise typer.Exit(CHANGED)


def resumed(out: Path, started: dict[str, Any]) -> "Watcher | None":
    """The watcher that a run before has left; None where there is nothing."""
    from symmetries.monitoring import Watcher

    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not (out / STATE).is_dir():
        raise OutputError(f"{out}: nothing of watch is there; add --overwrite, or choose another")
    found = Watcher.load(out / STATE)
    before = found.position if isinstance(found.position, dict) else {}
    others = [name for name, value in started.items() if before.get(name) != value]
    if others:
        names = ", ".join(others)
        raise OutputError(f"{out}: of another {names}; add --overwrite to begin anew")
    return found


def write(out: Path, watcher: "Watcher", result: "WatchResult") -> None:
    """Replace the output in one step: numbers, metrics and state are of one moment."""
    from symmetries.analysis.watching import prometheus
    from symmetries.cli.output import output_folder

    with output_folder(out, True) as into:
        result.save(into / "watch.json")
        (into / "watch.prom").write_text(prometheus(result))
        watcher.save(into / STATE)


def arriving(
    stream: str, watcher: "Watcher", reading: options.Reading
) -> "Iterator[tuple[Tensor, Any]]":
    """Pictures (n, C, H, W) that came after the watcher's position, and the position after them."""
    import torch

    from symmetries.analysis.inputs import read_images
    from symmetries.analysis.watching import AT_ONCE, new_files, picture_tensor
    from symmetries.cli.inputs import reading_arguments

    arguments, after = reading_arguments(reading), watcher.position["after"]
    channels, size = watcher.reader.shape[0], arguments["size"]
    if stream == "-":
        for line in sys.stdin:
            if line.strip():
                yield picture_tensor(Path(line.strip()), size, channels), None
        return
    folder = Path(stream).expanduser()
    if not folder.is_dir():
        images = read_images(stream, **arguments).images
        for start in range(after or 0, len(images), AT_ONCE):
            part = images[start : start + AT_ONCE]
            yield part, start + len(part)
        return
    files = new_files(folder, None if after is None else (after[0], after[1]))
    for start in range(0, len(files), AT_ONCE):
        some = files[start : start + AT_ONCE]
        read = [picture_tensor(folder / name, size, channels) for _, name in some]
        if any(one.shape != read[0].shape for one in read):
            raise ValueError(f"{stream}: expected pictures of one size; resize them: --resize")
        yield torch.cat(read), list(some[-1])
