"""How many new images look like digits: those that a classifier of digits is sure of."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.data import ImageSet
from symmetries.training import Step, TrainConfig, train

SURE = 0.9  # probability of a class
STEPS = 700
JUDGES: dict[tuple[int, int], nn.Module] = {}  # of this process, by data set


def classifier(data: ImageSet, device: str) -> nn.Module:
    """Two convolutions and two layers, trained on digits."""
    key = (data.images.data_ptr(), len(data))
    if key in JUDGES:
        return JUDGES[key]
    side = data.images.shape[-1]
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (-(-side // 4)) ** 2, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    config = TrainConfig(
        steps=STEPS, batch_size=min(256, len(data)), lr=3e-3, device=device, progress=False
    )
    train(model, cross_entropy, (data.images, data.labels), config)
    JUDGES[key] = model.eval()
    return model


def cross_entropy(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
    """Of labels."""
    del step
    return {"loss": F.cross_entropy(model(batch[0]), batch[1])}


@torch.no_grad()
def outputs(model: nn.Module, images: Tensor) -> Tensor:
    """Logits (N, 10), on the CPU."""
    device = next(model.parameters()).device
    return torch.cat([model(part.to(device)).cpu() for part in images.split(1000)])


def scores(model: nn.Module, images: Tensor, name: str) -> dict[str, Any]:
    """The share of images with a class of at least so much probability, and shares of classes."""
    p = outputs(model, images).softmax(1)
    shares = torch.bincount(p.argmax(1), minlength=10) / len(p)
    return {
        f"sure_of_{name}": float((p.amax(1) >= SURE).float().mean()),
        f"classes_of_{name}": [round(share, 4) for share in shares.tolist()],
    }


def accuracy(model: nn.Module, data: ImageSet) -> float:
    """Share of images whose class is found."""
    return float((outputs(model, data.images).argmax(1) == data.labels).float().mean())


def nearest(images: Tensor, others: Tensor) -> float:
    """The mean over images of the distance (root mean square of pixels) to the nearest other."""
    rows = images.flatten(1)
    found = [
        torch.cdist(rows, part.flatten(1).to(rows.device)).amin(1) for part in others.split(5000)
    ]
    return float(torch.stack(found).amin(0).mean()) / rows.shape[1] ** 0.5
