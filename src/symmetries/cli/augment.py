"""``symmetries augment``: new versions of images, transformed as the data is."""

import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from symmetries._utils.text import printable
from symmetries.cli import options
from symmetries.cli.errors import OutputError
from symmetries.cli.resuming import is_helper
from symmetries.cli.shown import escape, write_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from symmetries.cli.runs import Run
    from symmetries.results import AugmentResult


@options.command
def augment(
    model: str,
    data: options.Data,
    *,
    out: Path,
    copies: Annotated[int, typer.Option(min=1)] = 1,
    preset: options.Preset = None,
    overwrite: bool = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
    machine: options.Machine,
    reading: options.Reading,
) -> None:
    """Write new natural versions of every image to a .npz file, labels carried along.

    The file holds images (N copies, H, W[, 3]) as bytes, labels and class_names where there are
    any, source, the number of the image that each version comes from, and run.json, how it was
    made. For a two-stage model presets differ in how often a prototype is inferred again: never,
    twice, or five times.

    [dim]Example:[/] symmetries augment out/discover-digits/model digits --copies 5 --out more.npz

    Options:
        model: The folder model/ that symmetries discover wrote, or the generators.json of
            symmetries generators.
        out: The .npz file to write.
        copies: Number of new versions of each image.
        overwrite: Replace an existing file.
    """
    from symmetries.cli.output import owned
    from symmetries.cli.parts import stop_processes
    from symmetries.cli.runs import begin

    output = options.Output(out, overwrite, quiet, json)
    run = begin("augment", out, machine, output, preset)
    if is_helper(run.processes):  # another process of the same run: it makes its share
        make(model, data, reading, copies, run)
        stop_processes()
        return
    with owned(out), run.checkpoints, no_place_named(out, run.checkpoints.folder):
        check_target(out, overwrite)
        arrays, result = make(model, data, reading, copies, run)
        write_npz(out, arrays, result)
    if json:
        write_json(result.model_dump(mode="json"))
    console = Console(emoji=False, stderr=json, quiet=quiet)
    written = f"wrote [bold]{escape(str(out))}[/]: {result.images:,} images"
    console.print(written, soft_wrap=True)


def make(
    model: str, data: str, reading: options.Reading, copies: int, run: "Run"
) -> "tuple[dict[str, NDArray[np.generic]], AugmentResult]":
    """Return the arrays of the file (new images, their labels and sources), and the record."""
    import numpy as np

    from symmetries.analysis import augmentation
    from symmetries.analysis.identity import model_digest
    from symmetries.analysis.inputs import read_images
    from symmetries.analysis.progress import progress_bar
    from symmetries.analysis.provenance import data_summary
    from symmetries.cli.parts import Parts
    from symmetries.results import AugmentResult

    session = run.session(reading)
    learner = augmentation.load_symmetry_model(model, session)
    digest = model_digest(str(augmentation.model_folder(model)), learner)
    images = read_images(data, **session.reading)
    folds = augmentation.unseen_folds(model, learner, images)
    identity = f"{digest} {'all' if folds is None else 'unseen'}"
    size, quiet = augmentation.AT_ONCE, run.quiet or is_helper(run.processes)
    with progress_bar("augment", total=-(-len(images) // size), quiet=quiet) as advance:
        over = Parts(run, size, advance, images, identity)
        made = augmentation.new_versions(learner, images, copies, session, over, folds)
        pixels = made.numpy()
    arrays: dict[str, NDArray[np.generic]] = {
        "images": pixels[..., 0] if pixels.shape[-1] == 1 else pixels,
        "source": np.repeat(np.arange(len(images)), copies),
    }
    if images.labels is not None:
        arrays["labels"] = np.repeat(images.labels.numpy(), copies)
        if images.class_names is not None:
            arrays["class_names"] = np.array(images.class_names, dtype=np.str_)
    result = AugmentResult(
        file=printable(str(run.out)),
        images=len(pixels),
        shape=arrays["images"].shape,
        labels="labels" in arrays,
        copies=copies,
        preset=run.preset,
        precision=session.precision,
        model=printable(model),
        model_sha256=digest,
        unseen=folds is not None,
        data=data_summary(images),
        run=run.info(),
    )
    return arrays, result


def check_target(out: Path, overwrite: bool) -> None:
    """Raise an error, before any work is done, if the file cannot or must not be written."""
    if out.suffix != ".npz":
        raise OutputError(f"{out}: expected a name that ends with .npz; choose another --out")
    if out.is_dir():
        raise OutputError(f"{out}: a folder of that name is in the way; choose another --out")
    if out.exists() and not overwrite:
        raise OutputError(f"{out}: the file exists; add --overwrite, or choose another --out")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out.parent):  # whether anything may be written there
            pass
    except OSError as error:
        raise _no_place(out, error) from error


@contextmanager
def no_place_named(out: Path, folder: Path) -> Iterator[None]:
    """Turn an error about the output or its checkpoints into one with a remedy."""
    try:
        yield
    except OSError as error:
        if isinstance(error, OutputError) or str(folder) not in str(error):
            raise
        raise _no_place(out, error) from error


def write_npz(out: Path, arrays: "dict[str, NDArray[np.generic]]", result: "AugmentResult") -> None:
    """Write arrays and a record to a .npz file atomically; the caller holds the lock of it."""
    import numpy as np

    from symmetries.cli.output import NEW, beside, real_path

    partial = beside(real_path(out), NEW)
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
            archive.writestr(result.member, result.to_bytes())
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, real_path(out))
    except OSError as error:
        raise _no_place(out, error) from error
    finally:
        partial.unlink(missing_ok=True)


def _no_place(out: Path, error: OSError) -> OutputError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return OutputError(f"{out}: {reason}; choose an --out that you may write to, with some space")
