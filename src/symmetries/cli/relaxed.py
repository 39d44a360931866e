"""What ``symmetries fit --method relaxed`` trains: layers that learn how equivariant to be."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.checks import invalid
from symmetries.cli.runs import Run
from symmetries.data import ImageSet
from symmetries.groups import Cyclic, Dihedral, parse_group
from symmetries.learners.relaxed import fit
from symmetries.nn.relaxation import relaxation
from symmetries.nn.relaxed_networks import RelaxedCNN, Symmetry
from symmetries.results import LayerRelaxation
from symmetries.training import TrainConfig, load_state, save_model

LEARNER = "relaxed"
START = 0.1  # omega' at the start
PENALTY = 0.1

PRESETS = {
    "quick": {"width": 6, "steps": 200, "batch_size": 64},
    "default": {"width": 16, "steps": 4000, "batch_size": 128},
    "paper": {"width": 32, "steps": 20_000, "batch_size": 64},
}


@dataclass(frozen=True)
class RelaxedDesign:
    """What is needed to build the network again.

    Args:
        group: name of a finite group of rotations and flips.
        shape: (C, H, W) of the images.
        classes: names of the classes.
        width: fields of the first layer.
        kernel_size: of the layers.
        seed: of the weights.
    """

    group: str
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    width: int
    kernel_size: int
    seed: int

    def build(self) -> nn.Module:
        """The network, untrained."""
        group = parse_group(self.group)
        if not isinstance(group, Cyclic | Dihedral):
            remedy = "try c4 or d4"
            raise invalid("group", "rotations and flips for relaxed layers", self.group, remedy)
        symmetry = Symmetry(group, "soft", {"rotation": START})
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return RelaxedCNN(
                self.shape[0],
                len(self.classes),
                symmetry,
                width=self.width,
                kernel_size=self.kernel_size,
            )


class RelaxedClassifier(nn.Module):
    """Logits (N, K) of images (N, C, H, W).

    Args:
        design: of the network.
    """

    def __init__(self, design: RelaxedDesign) -> None:
        super().__init__()
        self.design = design
        self.model = design.build()

    def forward(self, images: Tensor) -> Tensor:
        """Logits (N, K)."""
        logits: Tensor = self.model(images)
        return logits

    def save(self, folder: Path) -> Path:
        """Write weights and design."""
        return save_model(folder, self.model, {"learner": LEARNER, "design": asdict(self.design)})

    @classmethod
    def load(cls, folder: Path) -> "RelaxedClassifier":
        """Read what :meth:`save` wrote."""
        state, meta = load_state(folder)
        fields: dict[str, Any] = dict(meta["design"])
        for name in ("shape", "classes"):
            fields[name] = tuple(fields[name])
        classifier = cls(RelaxedDesign(**fields))
        classifier.model.load_state_dict(state)
        return classifier.eval()

    def relaxations(self) -> tuple[LayerRelaxation, ...]:
        """How far each layer gave up its equivariance."""
        return tuple(
            LayerRelaxation(layer=row["layer"], coordinate=row["coordinate"], value=row["value"])
            for row in relaxation(self.model)
        )


def learn_relaxed(
    train: ImageSet,
    group: str,
    classes: tuple[str, ...],
    run: Run,
) -> RelaxedClassifier:
    """The trained classifier."""
    if train.labels is None:
        raise invalid("data", "labelled images", "no labels", "add labels")
    size = PRESETS[run.preset]
    _, channels, height, width = train.images.shape
    shape = (channels, height, width)
    kernel_size = 5 if min(height, width) >= 16 else 3
    design = RelaxedDesign(group, shape, classes, size["width"], kernel_size, run.seed)
    classifier = RelaxedClassifier(design)
    config = TrainConfig(
        steps=size["steps"],
        batch_size=min(size["batch_size"], len(train)),
        lr=3e-3,
        warmup=size["steps"] // 20,
        seed=run.seed,
        out=run.checkpoints.folder,
        resume=run.checkpoints.resume,
        device=run.machine.device,
        precision=run.machine.precision,
        devices=run.machine.devices,
        nodes=run.machine.nodes,
        progress=not run.quiet,
    )
    fit(classifier.model, train.images, train.labels, config, penalty=PENALTY)
    return classifier.eval()
