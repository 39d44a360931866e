"""Layers of the library in a loop of one's own: an equivariant network on handwritten digits.

Run with: python examples/bare_loop.py
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

from symmetries.data import load
from symmetries.groups import Cyclic
from symmetries.nn.gconv import GroupConv2d, LiftingConv2d
from symmetries.nn.gpool import GroupPool


def network() -> nn.Module:
    """Invariant to quarter turns, exactly."""
    group = Cyclic(4)
    return nn.Sequential(
        LiftingConv2d(1, 6, 3, padding=1, group=group),
        nn.ReLU(),
        GroupConv2d(6, 6, 3, padding=1, group=group),
        nn.ReLU(),
        GroupPool(group),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 10),
    )


def main(epochs: int = 5) -> float:
    """Train, and return the accuracy on test images turned by 90 degrees."""
    torch.manual_seed(0)
    train, test = load("digits"), load("digits", "test")
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        for part in torch.randperm(len(train)).split(64):
            loss = F.cross_entropy(model(train.images[part]), train.labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        turned = torch.rot90(test.images, 1, (2, 3))
        upright, on_its_side = model(test.images), model(turned)
    print(f"largest change of a logit when turned: {(upright - on_its_side).abs().max():.1e}")
    return float((on_its_side.argmax(1) == test.labels).float().mean())


if __name__ == "__main__":
    print(f"accuracy {main(int(sys.argv[1]) if len(sys.argv) > 1 else 5):.2f}")
