"""The network that methods without one of their own share: a small convolutional classifier."""

import torch
from torch import Tensor, nn


class SmallClassifier(nn.Module):
    """Four convolutions, three of them with stride 2 where the picture is large enough.

    Args:
        channels: of the pictures.
        size: pixels per side.
        outputs: number of classes.
        width: channels of the first convolution.
    """

    def __init__(self, channels: int, size: int, outputs: int, width: int = 32) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inside, out = channels, width
        while size > 4:
            layers += [nn.Conv2d(inside, out, 3, stride=2, padding=1), nn.BatchNorm2d(out)]
            layers += [nn.ReLU()]
            inside, out, size = out, min(2 * out, 128), (size + 1) // 2
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Sequential(nn.Linear(inside * size * size, 128), nn.ReLU())
        self.last = nn.Linear(128, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, outputs)."""
        return self.last(self.head(self.features(2 * x - 1)))


def cosine(step: int, steps: int) -> float:
    """A learning rate that falls from 1 to 0 as half a cosine."""
    return 0.5 * (1 + float(torch.cos(torch.tensor(torch.pi * step / steps))))
