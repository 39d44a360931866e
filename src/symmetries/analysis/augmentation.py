"""New versions of images, moved as the data moves: what ``symmetries augment`` computes."""

from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor, nn

from symmetries._utils.config import register_presets
from symmetries._validation.checks import as_path, invalid, wrong_type
from symmetries.actions import ImageAction
from symmetries.analysis.inputs import Readable, read_images
from symmetries.analysis.lie_generators import load_group, planar_group
from symmetries.analysis.pictures import to_bytes
from symmetries.analysis.progress import Over, in_parts, progress_bar
from symmetries.analysis.provenance import data_hash
from symmetries.analysis.settings import Session
from symmetries.data import ImageSet
from symmetries.data.background import background
from symmetries.groups.matrix import MatrixGroup
from symmetries.learners.orbit_posterior import OrbitPosterior
from symmetries.learners.orbit_posterior.accepted_pictures import first_copies
from symmetries.learners.orbit_posterior.versions import new_versions as versions_by_fits
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.results import GeneratorResult, SymmetryResult
from symmetries.training import load_state
from symmetries.training.checkpoint import rebuilding
from symmetries.training.step import mix

REACH = 0.25  # of parameters that are no angles: half-images, or logarithms of factors
AT_ONCE = 256  # images at a time, and in each file of an interrupted run
# How often prototypes are inferred again.
REFINE = register_presets("augment", {"quick": 0, "default": 2, "paper": 5})
DTYPES = {"64-true": torch.float64, "bf16-true": torch.bfloat16}
KINDS: dict[str, type[OrbitPosterior] | type[SymmetryModel]] = {
    "orbit_posterior": OrbitPosterior,
    "symmetry_model": SymmetryModel,
}


class LearnedMotions(nn.Module):
    """Pictures moved by exp(sum eta_i G_i): angles of any size, other parameters up to 0.25.

    Generators are certified near the identity. Rotations return to it, so that any angle is as
    good; other motions are kept small.

    Args:
        group: of the plane, as :func:`symmetries.analysis.lie_generators.load_group` reads it.
    """

    def __init__(self, group: MatrixGroup) -> None:
        super().__init__()
        self.group = group
        self.generators = nn.Parameter(group.generators.float(), requires_grad=False)

    def sample(
        self, x: Tensor, n: int = 1, generator: torch.Generator | None = None, refine: int = 0
    ) -> Tensor:
        """New versions (N, n, C, H, W) of pictures; ``refine`` is for models with prototypes.

        Args:
            x: (N, C, H, W).
            n: versions of each.
            generator: of random numbers.
            refine: not used.
        """
        parameters = self.group.parameters
        limits = [p.bound if p.angle else REACH for p in parameters]
        draw = torch.rand(len(x) * n, len(parameters), generator=generator, device=x.device)
        eta = (2 * draw - 1) * torch.tensor(limits, device=x.device)
        action = ImageAction(self.group, fill=background(x))
        moved = action(self.group.exp(eta), x.repeat_interleave(n, 0))
        return moved.reshape(len(x), n, *x.shape[1:])


Learned = OrbitPosterior | SymmetryModel | LearnedMotions


def augment(
    model: str | Path | Learned | SymmetryResult | GeneratorResult,
    data: Readable,
    copies: int = 1,
    *,
    preset: str | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "32-true",
    progress: bool = True,
) -> ImageSet:
    """Return new natural versions of every image, with the labels of the originals.

    Args:
        model: what :func:`symmetries.discover` returned, the folder that ``symmetries discover``
            wrote, or a fitted :class:`~symmetries.OrbitPosterior` or
            :class:`~symmetries.SymmetryModel`; or generators of the plane, as
            :func:`symmetries.generators` returned or ``symmetries generators`` wrote them.
        data: a name ("digits"), a file or a folder; or a tensor or array, an
            :class:`~symmetries.data.ImageSet`, a ``DataLoader``, or a pair (images, labels).
        copies: new versions of each image.
        preset: how often a two-stage model infers a prototype again from itself: "quick" never,
            "default" twice, "paper" five times; None is "quick" on a CPU, "default" on a GPU.
        seed: of the samples.
        device: "auto", "cpu", "cuda", ...
        precision: of a two-stage model: "32-true", "64-true", "bf16-true" or "bf16-mixed"; an orbit
            posterior computes in "32-true" only.
        progress: show a bar.

    Returns:
        N copies images; those of image i are at i copies, ..., (i + 1) copies - 1.
    """
    training = {"precision": precision}
    run = Session.of_call("augment", {}, seed, device, preset, progress, training)
    images = read_images(data)
    learner = load_symmetry_model(model, run)
    total = -(-len(images) // AT_ONCE)
    with progress_bar("augment", total=total, quiet=not progress) as advance:
        folds = unseen_folds(model, learner, images)
        pixels = new_versions(learner, images, copies, run, in_parts(AT_ONCE, advance), folds)
    labels = None if images.labels is None else images.labels.repeat_interleave(copies)
    moved = pixels.movedim(-1, -3).float() / 255
    return ImageSet(moved, labels, images.name, images.class_names)


def load_symmetry_model(
    model: str | Path | Learned | SymmetryResult | GeneratorResult, run: Session
) -> Learned:
    """Return the model of ``discover``; a stored one is loaded onto the device.

    A two-stage model computes in the precision of this name, an orbit posterior in "32-true" only.
    """
    if isinstance(model, SymmetryResult) and model.fitted is not None:
        model = model.fitted
    if isinstance(model, GeneratorResult):
        model = LearnedMotions(planar_group(model, "model"))
    if isinstance(model, str | Path) and str(model).endswith(".json"):
        model = LearnedMotions(load_group(model, pictures=True))
    if isinstance(model, str | Path):
        folder = model_folder(model)
        with rebuilding(folder, "an orbit posterior or a symmetry model"):
            found = load_state(folder)[1].get("learner")
            if found not in KINDS:
                got, remedy = f"a model of learner {found!r}", "give what symmetries discover wrote"
                raise invalid(str(folder), "a saved orbit posterior or symmetry model", got, remedy)
            model = KINDS[found].load(folder, run.place)
        if isinstance(model, SymmetryModel):
            model = model.to(DTYPES.get(run.precision, torch.float32))
    if isinstance(model, LearnedMotions):
        return model.to(run.place)
    if not isinstance(model, OrbitPosterior | SymmetryModel):
        remedy = "give what discover returned, or the folder that it wrote"
        raise wrong_type("model", "an orbit posterior or a symmetry model", model, remedy)
    if isinstance(model, OrbitPosterior) and run.precision != "32-true":
        remedy = "leave it out: only two-stage models compute in others"
        raise invalid("precision", "32-true for an orbit posterior", repr(run.precision), remedy)
    return model


def unseen_folds(
    model: str | Path | Learned | SymmetryResult | GeneratorResult,
    learner: Learned,
    images: ImageSet,
) -> Tensor | None:
    """Return, for each image (N,), the fit of an orbit posterior that has not seen it.

    None where that is not known: the images are others than those of the result, or there is no
    result. Then all fits take their turns.
    """
    if not isinstance(learner, OrbitPosterior):
        return None
    result = model if isinstance(model, SymmetryResult) else None
    if isinstance(model, str | Path):
        with suppress(ValueError, OSError):
            result = SymmetryResult.load(model_folder(model).parent / "symmetries.json")
    if result is None or result.data.sha256 != data_hash(images):
        return None
    learner.first = first_copies(images.images)
    return learner.folds(len(images))


def model_folder(model: str | Path) -> Path:
    """Return the folder of a saved model; the output folder that contains it may be given, too."""
    folder = as_path(model, "model").expanduser()
    return folder / "model" if (folder / "model").is_dir() else folder


def new_versions(
    model: Learned,
    images: ImageSet,
    copies: int,
    run: Session,
    over: Over,
    folds: Tensor | None = None,
) -> Tensor:
    """Return new versions of images as bytes (N copies, H, W, C).

    Args:
        model: fitted, in its precision.
        images: that versions are made of.
        copies: versions of each.
        run: its preset says how often a two-stage model infers prototypes again; its precision
            "bf16-mixed" computes products of such a model in bfloat16.
        over: how to go through the images.
        folds: (N,) which fit of an orbit posterior to ask; None asks all in turn.
    """
    first = next(model.parameters())

    def part(start: int, stop: int) -> dict[str, Tensor]:
        # The seed of a part follows from its place, so that parts can be made by any process.
        given = images.images[start:stop].to(first)
        if isinstance(model, OrbitPosterior):
            numbers = torch.Generator().manual_seed(mix(run.seed, start))
            own = None if folds is None else folds[start:stop]
            versions = versions_by_fits(model, given, copies, numbers, own)
        else:
            numbers = torch.Generator(first.device).manual_seed(mix(run.seed, start))
            mixed = run.precision == "bf16-mixed"
            with torch.autocast(first.device.type, torch.bfloat16, enabled=mixed):
                versions = model.sample(given, copies, numbers, REFINE[run.preset])
        return {"images": torch.from_numpy(to_bytes(versions.flatten(0, 1).float()))}

    return over(part, len(images))["images"]
