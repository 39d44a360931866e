"""Residual networks of the usual sizes with random weights, for timings that need no download."""

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Convolutions with batch norms, and a shortcut around them.

    Args:
        inputs: number of channels.
        outputs: number of channels behind it.
        stride: of its 3 x 3 convolution (the first one, if there are two).
        narrow: 1 x 1, 3 x 3, 1 x 1 with a quarter of the channels between, as in a ResNet-50;
            else two 3 x 3 convolutions.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, narrow: bool) -> None:
        super().__init__()
        inner = outputs // 4 if narrow else outputs
        sides = [1, 3, 1] if narrow else [3, 3]
        strides = [1, stride, 1] if narrow else [stride, 1]
        widths = [inputs, *[inner] * (len(sides) - 1), outputs]
        layers: list[nn.Module] = []
        for i, (side, step) in enumerate(zip(sides, strides, strict=True)):
            layers += [convolution(widths[i], widths[i + 1], side, step)]
            layers += [nn.BatchNorm2d(widths[i + 1])]
            layers += [nn.ReLU()] if i < len(sides) - 1 else []
        self.body = nn.Sequential(*layers)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            one = convolution(inputs, outputs, 1, stride)
            self.shortcut = nn.Sequential(one, nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) to (N, outputs, H / stride, W / stride)."""
        result: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return result


def convolution(inputs: int, outputs: int, side: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size of the picture, but for its stride."""
    return nn.Conv2d(inputs, outputs, side, stride, padding=side // 2, bias=False)


def resnet(depth: int = 50, classes: int = 1000, seed: int = 0) -> nn.Module:
    """A ResNet-18 or ResNet-50 (He et al. 2016) in evaluation mode, with weights of a seed."""
    counts, narrow = {18: ((2, 2, 2, 2), False), 50: ((3, 4, 6, 3), True)}[depth]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        stem = [convolution(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        blocks: list[nn.Module] = []
        width = 64
        for stage, count in enumerate(counts):
            outputs = 64 * 2**stage * (4 if narrow else 1)
            for i in range(count):
                blocks.append(Block(width, outputs, 2 if stage and not i else 1, narrow))
                width = outputs
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]
        return nn.Sequential(*stem, *blocks, *head).eval()
