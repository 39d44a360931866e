"""Networks from images to logits by name: small ones, and those of torchvision and timm."""

import importlib
import math
import re
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import check_whole, invalid
from symmetries.nn.tied import TiedConv2d, TiedPool

NAMES = ("cnn", "resnet")
MODELS = {"torchvision": "torchvision.models", "timm": "timm"}  # modules that build them


class Residual(nn.Module):
    """Two convolutions with batch norm, added to their input.

    Args:
        inputs: channels.
        outputs: channels.
        stride: of the first convolution.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = inputs == outputs and stride == 1
        self.skip = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return features (N, outputs, H / stride, W / stride)."""
        return F.relu(self.body(x) + self.skip(x))


class ThreeColours(nn.Module):
    """Adapter that repeats grey images in three channels for a network of colour images."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for images (N, 1, H, W)."""
        return self.module(x.expand(-1, 3, -1, -1))


def named_network(name: str, shape: tuple[int, int, int], outputs: int, seed: int = 0) -> nn.Module:
    """Return a network from images (N, C, H, W) to (N, outputs), with random weights.

    Args:
        name: "cnn", two or three convolutions of stride 2 and a linear layer; "resnet", three
            residual blocks of 16, 32 and 64 channels with batch norm; or a model of torchvision or
            timm, such as "resnet18" or "timm:resnet18", if they are installed.
        shape: (C, H, W).
        outputs: number of classes or of values.
        seed: of the weights.

    Example:
        >>> named_network("cnn", (1, 8, 8), 10)(torch.rand(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """
    check_whole(outputs, "outputs")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name == "cnn":
            return _cnn(shape, outputs)
        if name == "resnet":
            return _resnet(shape[0], outputs)
        return _foreign(name, shape[0], outputs)


def layered_network(
    kinds: Sequence[str],
    shape: tuple[int, int, int],
    channels: Sequence[int],
    outputs: int,
    seed: int = 0,
) -> nn.Module:
    """Return a network whose layers have given kinds but the same inputs and outputs.

    Args:
        kinds: of each layer: "dense", "convolution" or "group convolution".
        shape: (C, H, W), with sides that can be halved by each layer.
        channels: of the output of each layer, whose sides are half of those of its input.
        outputs: number of classes.
        seed: of the weights.

    Example:
        >>> network = layered_network(("convolution", "dense"), (1, 8, 8), (4, 6), 10)
        >>> network(torch.rand(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """
    inputs, height, width = shape
    if min(height, width) < 2 ** len(kinds):
        remedy = "take larger images or fewer layers"
        raise invalid("shape", f"sides of at least {2 ** len(kinds)}", shape, remedy)
    layers: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for kind, features in zip(kinds, channels, strict=True):
            layers.append(LAYER_KINDS[kind](inputs, features, height, width))
            inputs, height, width = features, height // 2, width // 2
        layers += [nn.Flatten(), nn.Linear(inputs * height * width, outputs)]
    return nn.Sequential(*layers)


def _dense(inputs: int, features: int, height: int, width: int) -> nn.Module:
    half = (features, height // 2, width // 2)
    linear = nn.Linear(inputs * height * width, math.prod(half))
    return nn.Sequential(nn.Flatten(), linear, nn.ReLU(), nn.Unflatten(1, half))


def _convolution(inputs: int, features: int, height: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, features, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))


def _group_convolution(inputs: int, features: int, height: int, width: int) -> nn.Module:
    turned = TiedConv2d(inputs, features, 3, "c4", padding=1)
    return nn.Sequential(turned, nn.ReLU(), TiedPool("max"), nn.AvgPool2d(2))


LAYER_KINDS = {
    "dense": _dense,
    "convolution": _convolution,
    "group convolution": _group_convolution,
}


def _cnn(shape: tuple[int, int, int], outputs: int) -> nn.Module:
    channels, height, width = shape
    layers: list[nn.Module] = []
    for number in range(max(1, min(3, min(height, width).bit_length() - 3))):
        layers += [nn.Conv2d(channels, 16 * 2**number, 3, 2, 1), nn.ReLU()]
        channels, height, width = 16 * 2**number, -(-height // 2), -(-width // 2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, outputs))


def _resnet(channels: int, outputs: int) -> nn.Module:
    first = nn.Sequential(nn.Conv2d(channels, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16))
    blocks = [Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)]
    last = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, outputs))
    return nn.Sequential(first, nn.ReLU(), *blocks, last)


def _foreign(name: str, channels: int, outputs: int) -> nn.Module:
    """Return a model of torchvision or timm; "timm:NAME" and "torchvision:NAME" choose the library.

    A name may be that of a stored model, which may fetch and read nothing: "hf-hub:..." and
    "local-dir:..." of timm are no names.
    """
    package, _, model = name.rpartition(":")
    asked = (package,) if package in MODELS else tuple(MODELS)
    problems = []
    if package not in ("", *MODELS) or not re.fullmatch(r"[\w.-]{1,200}", model):
        asked, problems = (), ["no name of a model"]
    tried: Exception | None = None
    for part in asked:
        try:
            library = importlib.import_module(MODELS[part])
        except (ImportError, RuntimeError) as error:  # torch's, for a wheel of another version
            problems.append(f"{part} cannot be imported ({error})")
            tried = error
            continue
        try:
            if part == "torchvision":
                found: nn.Module = library.get_model(model, weights=None, num_classes=outputs)
                return found if channels == 3 else ThreeColours(found)
            found = library.create_model(model, num_classes=outputs, in_chans=channels)
            return found
        except (ValueError, RuntimeError) as error:  # it has no model of that name
            problems.append(f"{part} does not know it")
            tried = error
    expected = f"{' or '.join(map(repr, NAMES))}, or a model of torchvision or timm"
    remedy = "take one of these, or pip install 'symmetries[networks]'"
    raise invalid("network", expected, f"{name!r}: {', '.join(problems)}", remedy) from tried
