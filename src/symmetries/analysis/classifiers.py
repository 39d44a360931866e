"""Training of classifiers with learned, fixed, relaxed or no invariance."""

from typing import Any

import torch
from torch import Tensor, nn

from symmetries._utils.config import register_presets
from symmetries._validation.checks import check_choice, invalid
from symmetries.actions.images import ImageAction
from symmetries.analysis.inputs import check_labelled
from symmetries.analysis.progress import progress_bar
from symmetries.analysis.settings import Session
from symmetries.data import ImageSet
from symmetries.distributions.box import UniformBox
from symmetries.estimators import InvariantClassifier, RelaxedClassifier
from symmetries.groups import Cyclic, Dihedral
from symmetries.groups.base import Group
from symmetries.groups.names import as_group, group_name

Classifier = InvariantClassifier | RelaxedClassifier

METHODS = ("invariant", "plain", "augmented", "relaxed")
START = 0.1  # half-width at the start of learning
COPIES = 4  # moved versions of each image for "augmented"
LOGGED = 50  # how often relaxations are logged during training

INVARIANT_PRESETS = register_presets(
    "invariant classifier",
    {
        "quick": {"features": 256, "steps": 150, "batch_size": 500},
        "default": {"features": 1024, "steps": 300, "batch_size": 2000},
        "paper": {"features": 1024, "steps": 1500, "batch_size": 5000},
    },
)
RELAXED_PRESETS = register_presets(
    "relaxed classifier",
    {
        "quick": {"width": 6, "steps": 200, "batch_size": 64},
        "default": {"width": 16, "steps": 4000, "batch_size": 128},
        "paper": {"width": 32, "steps": 20_000, "batch_size": 64},
    },
)


def check_method(method: str, half_width: float | None, network: object = None) -> None:
    """Raise unless the method is known and fits the half-width and the network."""
    check_choice(method, METHODS, "method")
    if network is not None and method == "relaxed":
        remedy = "leave it out, or use --method invariant, plain or augmented"
        raise invalid("network", "none with --method relaxed, which has its own", network, remedy)
    if half_width is not None and (method != "augmented" or not 0 < half_width <= 1):
        remedy = "give a share of each range, such as 0.25"
        got = f"{half_width:g} with --method {method}"
        raise invalid("--half-width", "a number in (0, 1] with --method augmented", got, remedy)


def default_group(method: str) -> str:
    """Return the group of a method where none was named."""
    return "c4" if method == "relaxed" else "rotation"


def check_plane(group: Group[Any]) -> None:
    """Raise unless the classifier can average over the group.

    Example:
        >>> check_plane(as_group("c4"))
        Traceback (most recent call last):
        ValueError: group: expected a group of the plane with continuous parameters, got 'c4'; use \
--group rotation, or --method relaxed for c4
    """
    if group.planar:
        return
    name = group_name(group)
    remedy = "use --group with rotation, translation, scale, shear, zoom, affine or se2"
    if isinstance(group, Cyclic | Dihedral):
        remedy = f"use --group rotation, or --method relaxed for {name}"
    raise invalid("group", "a group of the plane with continuous parameters", repr(name), remedy)


def train_classifier(
    images: ImageSet,
    method: str,
    group: str | Group[Any],
    run: Session,
    fill: float = 0.0,
    half_width: float | None = None,
    network: str | nn.Module | None = None,
) -> Classifier:
    """Return a classifier fitted to labelled images.

    Args:
        images: labelled.
        method: "invariant", "plain", "augmented" or "relaxed".
        group: of the transformations, or its name.
        run: its preset is the size of the network and the length of the training.
        fill: value of the background.
        half_width: for "augmented", how far images are moved, as a share of each range.
        network: that is averaged, or its name; None is a shallow one with random features.
    """
    labels = check_labelled(images)
    shared: dict[str, Any] = {"fill": fill, "device": str(run.place), "random_state": run.seed}
    if method == "relaxed":
        size = RELAXED_PRESETS[run.preset]
        return RelaxedClassifier(group, **shared, **size).fit(
            images.images.numpy(),
            labels.numpy(),
            warmup=0.05,
            log_every=max(1, size["steps"] // LOGGED),
            **run.training,
        )
    precision = run.precision
    if precision.startswith("bf16") and network is None:
        got = f"{precision}, too little for natural-gradient steps"
        remedy = "leave it out, or use --method relaxed"
        raise invalid("precision", "32-true or 64-true", got, remedy)
    parsed = as_group(group)
    if network is None:
        check_plane(parsed)
    pixels = images.images
    if method == "augmented":
        reach = tuple((half_width or 1.0) * bound for bound in parsed.bounds)
        pixels, labels = augmented(pixels, labels, parsed, reach, COPIES, run.seed, fill)
    learn, size = method == "invariant", INVARIANT_PRESETS[run.preset]
    if network is not None:
        held = {"half_width": START if learn else 0.0, "learn": learn}
        own = {"network": network, "network_config": run.preset, **held, **shared}
        return InvariantClassifier(parsed, **own).fit(
            pixels.numpy(), labels.numpy(), **run.training
        )
    options = {k: v for k, v in run.training.items() if k not in ("device", "progress")}
    classifier = InvariantClassifier(
        group_name(parsed), half_width=START if learn else 0.0, learn=learn, **shared, **size
    )
    with progress_bar("training", total=size["steps"], quiet=not run.progress) as advance:
        return classifier.fit(
            pixels.numpy(), labels.numpy(), on_step=lambda *_: advance(""), **options
        )


@torch.no_grad()
def augmented(
    images: Tensor,
    labels: Tensor,
    group: str | Group[Any],
    half_width: tuple[float, ...],
    copies: int,
    seed: int,
    fill: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Images with ``copies`` versions of each, moved at random within a box; labels repeated.

    Args:
        images: (N, C, H, W).
        labels: (N,).
        group: of the transformations, or its name.
        half_width: of the box.
        copies: new versions of each image.
        seed: of the draw.
        fill: value of the background.
    """
    group = as_group(group)
    box = UniformBox(group, half_width, learn=False)
    generator = torch.Generator().manual_seed(seed)
    eta = box.sample(len(images) * copies, generator=generator).to(images.device)
    moved = ImageAction(group, fill=fill)(group.exp(eta), images.repeat(copies, 1, 1, 1))
    return torch.cat((images, moved)), labels.repeat(copies + 1)
