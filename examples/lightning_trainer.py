"""Layers of the library under Lightning's Trainer: relaxed convolutions on handwritten digits.

Needs the extra: pip install 'symmetries[trainer]'
Run with: python examples/lightning_trainer.py
"""

import logging
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from symmetries.data import ImageSet, load
from symmetries.groups import Cyclic
from symmetries.nn.conversion import relax_convolutions
from symmetries.nn.relaxation import relaxation, relaxation_penalty

try:
    import pytorch_lightning as lightning
except ImportError:  # the same under its other name
    from lightning import pytorch as lightning


class Classifier(lightning.LightningModule):
    """An ordinary network whose convolutions learn how equivariant to be."""

    def __init__(self, penalty: float = 0.1) -> None:
        super().__init__()
        cnn = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 10),
        )
        self.net = relax_convolutions(cnn, Cyclic(4), mode="soft", relax={"rotation": 0.1})
        self.penalty = penalty

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        """Cross-entropy, and a price for giving up equivariance."""
        images, labels = batch
        return F.cross_entropy(self.net(images), labels) + self.penalty * relaxation_penalty(
            self.net
        )

    def test_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        """Accuracy."""
        images, labels = batch
        self.log("accuracy", (self.net(images).argmax(1) == labels).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam, for weights and relaxations alike."""
        return torch.optim.Adam(self.parameters(), lr=0.01)


def batches(images: ImageSet, shuffle: bool = False) -> DataLoader:
    """Images and labels as Lightning wants them."""
    return DataLoader(TensorDataset(images.images, images.labels), 128, shuffle=shuffle)


def main(epochs: int = 10) -> float:
    """Train, and return the accuracy on test images."""
    logging.getLogger(lightning.__name__).setLevel(logging.ERROR)
    lightning.seed_everything(0, verbose=False)
    model = Classifier()
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="auto",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, batches(load("digits"), shuffle=True))
    found = trainer.test(model, batches(load("digits", "test")), verbose=False)
    for row in relaxation(model.net):
        print(f"{row['layer']}: {row['coordinate']} relaxed by {row['value']:.3f}")
    return float(found[0]["accuracy"])


if __name__ == "__main__":
    print(f"accuracy {main(int(sys.argv[1]) if len(sys.argv) > 1 else 10):.2f}")
