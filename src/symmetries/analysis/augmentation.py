"""New versions of images, moved as the data moves: what ``symmetries augment`` computes."""

from pathlib import Path

import torch
from torch import Tensor

from symmetries._validation.checks import as_path, wrong_type
from symmetries.analysis.inputs import Readable, read_images
from symmetries.analysis.parts import Over, in_parts
from symmetries.analysis.pictures import to_bytes
from symmetries.analysis.progress import progress_bar
from symmetries.analysis.settings import choose_device, choose_preset
from symmetries.data import ImageSet
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.results import SymmetryResult
from symmetries.training.checkpoint import rebuilding
from symmetries.training.step import mix

AT_ONCE = 256  # images at a time, and in each file of an interrupted run
REFINE = {"quick": 0, "default": 2, "paper": 5}  # how often prototypes are inferred again
DTYPES = {"64-true": torch.float64, "bf16-true": torch.bfloat16}


def augment(
    model: str | Path | SymmetryModel | SymmetryResult,
    data: Readable,
    copies: int = 1,
    *,
    preset: str | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "32-true",
    progress: bool = True,
) -> ImageSet:
    """New natural versions of every image, labels carried along.

    Args:
        model: a fitted :class:`~symmetries.SymmetryModel`, what :func:`symmetries.discover`
            returned, or the folder that ``symmetries discover`` wrote.
        data: a name ("digits"), a file or a folder; or a tensor or array, an
            :class:`~symmetries.data.ImageSet`, a ``DataLoader``, or a pair (images, labels).
        copies: new versions of each image.
        preset: how often a prototype is inferred again from itself: "quick" never, "default"
            twice, "paper" five times; None is "quick" on a CPU, "default" on a GPU.
        seed: of the samples.
        device: "auto", "cpu", "cuda", ...
        precision: "32-true", "64-true", "bf16-true" or "bf16-mixed".
        progress: show a bar.

    Returns:
        N copies images; those of image i are at i copies, ..., (i + 1) copies - 1.
    """
    place = choose_device(device)
    images = read_images(data)
    learner = load_symmetry_model(model, place, precision)
    total = -(-len(images) // AT_ONCE)
    with progress_bar("augment", total=total, quiet=not progress) as advance:
        pixels = new_versions(
            learner,
            images,
            copies,
            choose_preset(preset, place),
            over=in_parts(AT_ONCE, advance),
            seed=seed,
            precision=precision,
        )
    labels = None if images.labels is None else images.labels.repeat_interleave(copies)
    moved = pixels.movedim(-1, -3).float() / 255
    return ImageSet(moved, labels, images.name, images.class_names)


def load_symmetry_model(
    model: str | Path | SymmetryModel | SymmetryResult, device: torch.device, precision: str
) -> SymmetryModel:
    """A symmetry model; one that is read goes to the device, in the precision of this name."""
    if isinstance(model, SymmetryResult) and model.fitted is not None:
        model = model.fitted
    if isinstance(model, str | Path):
        folder = as_path(model, "model").expanduser()
        folder = folder / "model" if (folder / "model").is_dir() else folder
        with rebuilding(folder, "a symmetry model"):
            read = SymmetryModel.load(folder, device)
        return read.to(DTYPES.get(precision, torch.float32))
    if not isinstance(model, SymmetryModel):
        remedy = "give a fitted SymmetryModel, or the folder of one"
        raise wrong_type("model", "a symmetry model", model, remedy)
    return model


def new_versions(
    model: SymmetryModel,
    images: ImageSet,
    copies: int,
    preset: str,
    *,
    over: Over,
    seed: int,
    precision: str = "32-true",
) -> Tensor:
    """New versions of images as bytes (N copies, H, W, C).

    Args:
        model: fitted, in its precision.
        images: that versions are made of.
        copies: versions of each.
        preset: how often prototypes are inferred again.
        over: how to go through the images.
        seed: of the samples.
        precision: "bf16-mixed" computes products in bfloat16.
    """
    first = next(model.parameters())

    def part(start: int, stop: int) -> dict[str, Tensor]:
        # The seed of a part follows from its place, so that parts can be made by any process.
        generator = torch.Generator(first.device).manual_seed(mix(seed, start))
        given = images.images[start:stop].to(first)
        with torch.autocast(first.device.type, torch.bfloat16, enabled=precision == "bf16-mixed"):
            versions = model.sample(given, copies, generator, REFINE[preset]).flatten(0, 1)
        return {"images": torch.from_numpy(to_bytes(versions.float()))}

    return over(part, len(images))["images"]
