"""The joint model as the space of transformations grows: what is left in its codes?

Allingham et al. 2024, Appendix A, say that it breaks down, and suppose that averages over many
transformations throw away all of an image. Small networks on digits of 14 x 14 pixels, long enough
to see: minutes on a CPU.
"""

from collections.abc import Callable, Iterator
from typing import Any

import joint
import measures
import sets
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from symmetries.data import ImageSet
from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig

PLANTED = 45.0  # degrees
TEST, CODED = 3000, 5000  # images; those that a classifier of codes learns from
SPACES: dict[str, tuple[str, float]] = {  # the group, and how far shifts and scales go
    "rotation": ("rotation", 0.0),
    "shifts, rotation": ("shift_x,shift_y,rotation", 0.25),
    "shifts, rotation, scales": (joint.AFFINE, 0.25),
    "the same, twice as far": (joint.AFFINE, 0.5),
    "the same, three times as far": (joint.AFFINE, 0.75),
}
OURS = InvariantVAEConfig.preset("default").replace(
    channels=(16, 32),
    strides=(2, 2),
    hidden=64,
    features=(256, 128),
    batch_size=128,
    lr=2e-3,
    warmup=0.02,
)
NETWORKS = {"ours": OURS, "paper": OURS.replace(angles="line", views=1, features=(64, 32))}


def runs(
    steps: int,
    images: int,
    where: tuple[str, str | None],
    device: str,
    seed: int,
    done: Callable[[dict[str, Any]], bool],
) -> Iterator[dict[str, Any]]:
    """A row for each q(eta | x) and each space, of sets from (source, folder)."""
    source, folder = where
    data = sets.load("train", PLANTED, folder, source, images)
    for name, config in NETWORKS.items():
        for space, (group, far) in SPACES.items():
            key = {"space": space, "q": name, "steps": steps, "added": PLANTED, "source": source}
            key["seed"] = seed
            if done(key):
                continue
            reach = {part: far for part in group.split(",") if part != "rotation"} or None
            longer = config.replace(steps=steps)
            model, row = joint.fit(group, data, longer, device, reach, seed)
            test = measures.on(sets.load("test", PLANTED, folder, source, TEST), model.device)
            scored = 100 if source == "digits" else 500
            row["agreement"] = measures.agreement(model, test.images[: scored // 2], PLANTED)
            row["accuracy"] = accuracy_of_codes(model, data, test)
            yield key | row | joint.score(model, data, test, scored) | {"images": images}


def accuracy_of_codes(model: InvariantVAE, data: ImageSet, test: ImageSet) -> float:
    """How often a linear classifier tells the digit from a code of q(z | x), on test images."""
    learned = data.subset(torch.arange(min(CODED, len(data))))
    judge = LogisticRegression(max_iter=1000).fit(codes(model, learned.images), learned.labels)
    return float(judge.score(codes(model, test.images), test.labels.cpu()))


@torch.no_grad()
def codes(model: InvariantVAE, images: Tensor) -> Tensor:
    """A code of each image, (N, latent), with its noise, so that empty numbers say nothing."""
    parts = [model.encode(x.to(model.device)) for x in images.split(1000)]
    mean, scale = (torch.cat(part).cpu() for part in zip(*parts, strict=True))
    return mean + scale * torch.randn(mean.shape, generator=torch.Generator().manual_seed(0))
