"""What ``symmetries fit`` trains: a classifier with learned, fixed or no invariance."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symmetries._utils.config import register_presets
from symmetries._validation.checks import invalid
from symmetries.actions.images import ImageAction
from symmetries.cli.progress import progress_bar
from symmetries.cli.resuming import is_helper
from symmetries.data import ImageSet
from symmetries.distributions.box import UniformBox
from symmetries.estimators import InvariantClassifier
from symmetries.groups import SE2, Affine2, Cyclic, Dihedral
from symmetries.groups.base import Group
from symmetries.groups.names import group_name, parse_group

if TYPE_CHECKING:
    from symmetries.cli.runs import Run

START = 0.1  # half-width at the start of learning
COPIES = 4  # moved versions of each image for "augmented"

PRESETS = register_presets(
    "invariant classifier",
    {
        "quick": {"features": 256, "steps": 150, "batch_size": 500},
        "default": {"features": 1024, "steps": 300, "batch_size": 2000},
        "paper": {"features": 1024, "steps": 1500, "batch_size": 5000},
    },
)


def unlabelled(name: str) -> ValueError:
    """The error for data without labels."""
    remedy = "add labels (an array, or a folder per class), or use symmetries discover"
    return invalid(name, "labelled images", "no labels", remedy)


def check_plane(group: Group[Any]) -> None:
    """Raise unless the classifier can average over the group.

    Example:
        >>> check_plane(parse_group("c4"))
        Traceback (most recent call last):
        ValueError: group: expected a group of the plane with continuous parameters, got 'c4'; use \
--group rotation, or --method relaxed for c4
    """
    if isinstance(group, Affine2 | SE2):
        return
    name = group_name(group)
    remedy = "use --group with rotation, translation, scale, shear, zoom, affine or se2"
    if isinstance(group, Cyclic | Dihedral):
        remedy = f"use --group rotation, or --method relaxed for {name}"
    expected = "a group of the plane with continuous parameters"
    raise invalid("group", expected, repr(name), remedy)


def learn(
    train: ImageSet, method: str, group: str, share: float, fill: float, run: "Run"
) -> InvariantClassifier:
    """The trained classifier.

    Args:
        train: labelled images.
        method: "invariant", "plain" or "augmented".
        group: name of the transformations.
        share: for "augmented", how far images are moved, as a share of each range.
        fill: value of the background.
        run: with the preset, the seed and the machine.
    """
    if train.labels is None:
        raise unlabelled(train.name)
    if run.machine.precision.startswith("bf16"):
        got = f"{run.machine.precision}, too little for natural-gradient steps"
        remedy = "leave it out, or use --method relaxed"
        raise invalid("precision", "32-true or 64-true", got, remedy)
    parsed = parse_group(group)
    check_plane(parsed)
    images, labels = train.images, train.labels
    invariant = method == "invariant"
    if method == "augmented":
        reach = tuple(share * bound for bound in parsed.bounds)
        images, labels = augmented(images, labels, group, reach, COPIES, run.seed, fill)
    size = PRESETS[run.preset]
    classifier = InvariantClassifier(
        group_name(parsed),
        half_width=START if invariant else 0.0,
        learn=invariant,
        fill=fill,
        device=str(run.place),
        random_state=run.seed,
        features=size["features"],
        steps=size["steps"],
        batch_size=size["batch_size"],
    )
    quiet = run.quiet or is_helper(run.processes)
    with progress_bar("training", total=size["steps"], quiet=quiet) as advance:
        classifier.fit(
            images.numpy(),
            labels.numpy(),
            on_step=lambda *_: advance(""),
            out=run.checkpoints.folder,
            resume=run.checkpoints.resume,
            precision=run.machine.precision,
            devices=run.machine.devices,
            nodes=run.machine.nodes,
        )
    return classifier


@torch.no_grad()
def augmented(
    images: Tensor,
    labels: Tensor,
    group: str,
    half_width: tuple[float, ...],
    copies: int,
    seed: int,
    fill: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Images with ``copies`` versions of each, moved at random within a box; labels repeated.

    Args:
        images: (N, C, H, W).
        labels: (N,).
        group: name of the transformations.
        half_width: of the box.
        copies: new versions of each image.
        seed: of the draw.
        fill: value of the background.
    """
    parsed = parse_group(group)
    box = UniformBox(parsed, half_width, learn=False)
    generator = torch.Generator().manual_seed(seed)
    eta = box.sample(len(images) * copies, generator=generator).to(images.device)
    moved = ImageAction(parsed, fill=fill)(parsed.exp(eta), images.repeat(copies, 1, 1, 1))
    return torch.cat((images, moved)), labels.repeat(copies + 1)
