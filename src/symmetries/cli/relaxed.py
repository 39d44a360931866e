"""What ``symmetries fit --method relaxed`` trains: layers that learn how equivariant to be."""

from typing import TYPE_CHECKING

from symmetries._utils.config import register_presets
from symmetries.cli.classifiers import unlabelled
from symmetries.cli.resuming import is_helper
from symmetries.data import ImageSet
from symmetries.estimators import RelaxedClassifier

if TYPE_CHECKING:
    from symmetries.cli.runs import Run

PRESETS = register_presets(
    "relaxed",
    {
        "quick": {"width": 6, "steps": 200, "batch_size": 64},
        "default": {"width": 16, "steps": 4000, "batch_size": 128},
        "paper": {"width": 32, "steps": 20_000, "batch_size": 64},
    },
)


LOOKS = 50  # at the relaxations, along the way


def learn_relaxed(train: ImageSet, group: str, fill: float, run: "Run") -> RelaxedClassifier:
    """The trained classifier.

    Args:
        train: labelled images.
        group: name of a finite group of rotations and flips.
        fill: value of the background.
        run: with the preset, the seed and the machine.
    """
    if train.labels is None:
        raise unlabelled(train.name)
    size = PRESETS[run.preset]
    classifier = RelaxedClassifier(
        group,
        fill=fill,
        width=size["width"],
        steps=size["steps"],
        batch_size=size["batch_size"],
        device=str(run.place),
        random_state=run.seed,
    )
    return classifier.fit(
        train.images.numpy(),
        train.labels.numpy(),
        warmup=0.05,
        log_every=max(1, size["steps"] // LOOKS),
        out=run.checkpoints.folder,
        resume=run.checkpoints.resume,
        device=run.machine.device,
        precision=run.machine.precision,
        devices=run.machine.devices,
        nodes=run.machine.nodes,
        progress=not (run.quiet or is_helper(run.processes)),
    )
