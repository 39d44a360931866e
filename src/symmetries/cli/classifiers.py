"""The classifier of ``symmetries fit``: logits averaged over a learned box of transformations."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.distributions.box import UniformBox
from symmetries.groups.names import parse_group
from symmetries.learners.invariant_weights import NaturalConfig
from symmetries.nn.invariant_model import InvariantModel, shallow_model
from symmetries.training import load_state, save_model

LEARNER = "invariant_weights"
SAMPLES = 32

PRESETS = {
    "quick": {"features": 256, "steps": 150, "batch_size": 500},
    "default": {"features": 1024, "steps": 300, "batch_size": 2000},
    "paper": {"features": 1024, "steps": 1500, "batch_size": 5000},
}


@dataclass(frozen=True)
class Design:
    """What is needed to build the classifier again.

    Args:
        group: name of the transformations.
        shape: (C, H, W) of the images.
        classes: names of the classes.
        features: number of random features.
        sigma: standard deviation of their frequencies.
        half_width: at the start, for each parameter, in the group's own units.
        learn: whether half-widths are learned.
        seed: of the features.
    """

    group: str
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    features: int
    sigma: float
    half_width: tuple[float, ...]
    learn: bool
    seed: int

    def build(self) -> InvariantModel:
        """The model, untrained."""
        return shallow_model(
            self.shape,
            len(self.classes),
            parse_group(self.group),
            half_widths=(self.half_width,),
            learn=self.learn,
            features=self.features,
            sigma=self.sigma,
            prior_variance=30.0,
            seed=self.seed,
        )


class Classifier(nn.Module):
    """Mean logits (N, K) of images (N, C, H, W), with the same transformations at every call.

    Args:
        design: of the model.
        model: the model itself; a fresh one if None.
    """

    def __init__(self, design: Design, model: InvariantModel | None = None) -> None:
        super().__init__()
        self.design = design
        self.model = model or design.build()

    def forward(self, images: Tensor) -> Tensor:
        """Logits (N, K)."""
        generator = torch.Generator(images.device).manual_seed(0)
        features = self.model.features(images, SAMPLES, "sobol", generator)
        mean: Tensor = self.model.head(features)[0]
        return mean[0]

    def save(self, folder: Path) -> Path:
        """Write weights and design."""
        meta = {"learner": LEARNER, "design": asdict(self.design)}
        return save_model(folder, self.model, meta)

    @classmethod
    def load(cls, folder: Path) -> "Classifier":
        """Read what :meth:`save` wrote."""
        state, meta = load_state(folder)
        fields: dict[str, Any] = dict(meta["design"])
        for name in ("shape", "classes", "half_width"):
            fields[name] = tuple(fields[name])
        classifier = cls(Design(**fields))
        classifier.model.load_state_dict(state)
        return classifier.eval()


def frequency_scale(images: Tensor) -> float:
    """Standard deviation of random frequencies, on the scale of the distances between images."""
    distance = float((2 * images.flatten(1).var(0, unbiased=False).sum()).sqrt())
    return 2.0 / max(distance, 1e-6)


def natural_config(preset: str, seed: int) -> NaturalConfig:
    """How the classifier is trained."""
    size = PRESETS[preset]
    return NaturalConfig(
        steps=size["steps"],
        batch_size=size["batch_size"],
        samples=SAMPLES,
        lr=0.1,
        seed=seed,
    )


@torch.no_grad()
def augmented(
    images: Tensor,
    labels: Tensor,
    group: str,
    half_width: tuple[float, ...],
    copies: int,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Images with ``copies`` versions of each, moved at random within a box; labels repeated.

    Args:
        images: (N, C, H, W).
        labels: (N,).
        group: name of the transformations.
        half_width: of the box.
        copies: new versions of each image.
        seed: of the draw.
    """
    from symmetries.actions.images import ImageAction

    parsed = parse_group(group)
    box = UniformBox(parsed, half_width, learn=False)
    generator = torch.Generator().manual_seed(seed)
    eta = box.sample(len(images) * copies, generator=generator).to(images.device)
    moved = ImageAction(parsed)(parsed.exp(eta), images.repeat(copies, 1, 1, 1))
    return torch.cat((images, moved)), labels.repeat(copies + 1)
