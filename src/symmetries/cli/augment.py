"""``symmetries augment``: more data like this, moved as the data moves."""

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from symmetries.cli import options
from symmetries.cli.errors import OutputError
from symmetries.cli.progress import progress_bar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from symmetries.cli.inputs import Source

AT_ONCE = 256


def augment(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="The model/ that symmetries discover wrote.")
    ],
    data: options.Data,
    out: Annotated[Path, typer.Option("--out", help="The .npz file to write.")],
    copies: Annotated[int, typer.Option("--copies", help="New versions of each image.", min=1)] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    folder: options.Folder = None,
    resize: options.Resize = None,
    skip_bad: options.SkipBad = False,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Write new natural versions of every image to a .npz file, labels carried along.

    The file holds images (N copies, H, W[, 3]) as bytes, labels where there are any, and source,
    the number of the image that each version comes from.

    [dim]Example:[/] symmetries augment out/discover-digits/model digits --copies 5 --out more.npz
    """
    from symmetries.cli.inputs import Source

    check_target(out, overwrite)
    source = Source(data, folder, resize, skip_bad)
    arrays = run(model, source, copies, seed, device, quiet)
    write_npz(out, arrays)
    console = Console(quiet=quiet)
    count = len(arrays["images"])
    console.print(f"wrote [bold]{escape(str(out))}[/]: {count:,} images", soft_wrap=True)


def run(
    name: str, source: "Source", copies: int, seed: int, device: str, quiet: bool
) -> "dict[str, NDArray[np.generic]]":
    """The new images and what belongs to them."""
    import numpy as np
    import torch

    from symmetries.cli.orbit import to_bytes
    from symmetries.cli.runs import choose_device
    from symmetries.learners.symmetry_model import SymmetryModel

    place = choose_device(device)
    folder = Path(name)
    model = SymmetryModel.load(folder / "model" if (folder / "model").is_dir() else folder, place)
    images = source.load()
    generator = torch.Generator(place).manual_seed(seed)
    parts = images.images.split(AT_ONCE)
    made = []
    with progress_bar("augment", total=len(parts), quiet=quiet) as advance:
        for part in parts:
            made.append(to_bytes(model.sample(part.to(place), copies, generator).flatten(0, 1)))
            advance("")
    pixels = np.concatenate(made)
    arrays: dict[str, NDArray[np.generic]] = {
        "images": pixels[..., 0] if pixels.shape[-1] == 1 else pixels,
        "source": np.repeat(np.arange(len(images)), copies),
    }
    if images.labels is not None:
        arrays["labels"] = np.repeat(images.labels.numpy(), copies)
    return arrays


def check_target(out: Path, overwrite: bool) -> None:
    """Refuse a file that cannot or must not be written, before any work is done."""
    if out.suffix != ".npz":
        raise OutputError(f"{out}: expected a name that ends with .npz; choose another --out")
    if out.is_dir():
        raise OutputError(f"{out}: a folder of that name is in the way; choose another --out")
    if out.exists() and not overwrite:
        raise OutputError(f"{out}: the file exists; add --overwrite, or choose another --out")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_place(out, error) from error


def write_npz(out: Path, arrays: "dict[str, NDArray[np.generic]]") -> None:
    """Write arrays to a .npz file, whole or not at all."""
    import numpy as np

    partial = out.with_name(f".{out.name}-{os.getpid()}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        os.replace(partial, out)
    except OSError as error:
        raise _no_place(out, error) from error
    finally:
        partial.unlink(missing_ok=True)


def _no_place(out: Path, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    return OutputError(f"{out}: {reason}; choose an --out that you may write to, with some space")
