"""Networks that read the pose of a picture: convolutional, or fully connected."""

import math
from collections.abc import Sequence
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import invalid, wrong_type
from symmetries.learners.orbit_posterior.chart import Coordinate
from symmetries.learners.orbit_posterior.config import Network
from symmetries.learners.orbit_posterior.heads import Histograms
from symmetries.learners.orbit_posterior.numbers import Numbers
from symmetries.nn.perceptron import MLP
from symmetries.ops.group_gelu import group_gelu
from symmetries.ops.rounded import call_rounded

PATTERNS = 16  # principal components that are whitened
FLOOR = 0.03  # of the variance of all pixels: components that are weaker stay as they are
SMALL = 16  # sides below it are read by a fully connected network


class Whitening(nn.Module):
    """Whitens the strongest principal components of pictures (N, C, H, W).

    Contents of a few pixels differ by strength, size and blur far more than by how they are turned,
    and a network that sees them so stays at the uniform density for thousands of steps. So
    pictures become (y - mean) (C + floor)^-1/2, with C the covariance of views in the space of
    its strongest components. Until ``learn`` was called pictures stay as they are.

    Args:
        shape: (C, H, W).
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        pixels = math.prod(shape)
        self.register_buffer("mean", torch.zeros(pixels))
        self.register_buffer("patterns", torch.zeros(pixels, min(PATTERNS, pixels)))
        self.register_buffer("less", torch.zeros(min(PATTERNS, pixels)))
        self.register_buffer("scale", torch.ones(()))
        self.mean: Tensor
        self.patterns: Tensor
        self.less: Tensor
        self.scale: Tensor

    @torch.no_grad()
    def learn(self, pictures: Tensor) -> None:
        """Find the principal components of pictures (N, C, H, W)."""
        flat = pictures.flatten(1).double()
        self.mean.copy_(flat.mean(0))
        away = flat - flat.mean(0)
        variance, patterns = torch.linalg.eigh(away @ away.T / len(away))
        count = self.less.numel()
        strongest = away.T @ patterns[:, -count:]
        variance = variance[-count:].clamp_min(0)
        floor = (FLOOR * away.square().sum(1).mean()).clamp_min(1e-12)  # also of constant views
        self.patterns.copy_(strongest / strongest.norm(dim=0).clamp_min(1e-12))
        self.less.copy_(1 - (floor / (variance + floor)).sqrt())
        self.scale.copy_(floor.rsqrt())

    def forward(self, pictures: Tensor) -> Tensor:
        """The same shape."""
        away = pictures.flatten(1) - self.mean.to(pictures.dtype)
        patterns = self.patterns.to(away.dtype)
        strong = (away @ patterns) * self.less.to(away.dtype)
        found = (away - strong @ patterns.T) * self.scale.to(away.dtype)
        return found.view_as(pictures)


class PoseNetwork(nn.Module):
    """q(r | y): a backbone from views to features, and histograms over coordinates.

    Args:
        coordinates: of what is asked for.
        shape: (C, H, W) of the views.
        config: sizes.
        backbone: any module from views (N, C, H, W) to features (N, F); by default one is made.
        numbers: how many features views have beside their pictures.
        two: whether there are two pictures of each view: lines are read from the second one.

    Where hues are asked for beside turns, the latter are read from the strongest channel of each
    pixel, which is the same in every hue, and hues from the colours.
    """

    def __init__(
        self,
        coordinates: Sequence[Coordinate],
        shape: tuple[int, int, int],
        config: Network,
        backbone: nn.Module | None = None,
        numbers: int = 0,
        two: bool = False,
    ) -> None:
        super().__init__()
        kind = network_kind(config.kind, shape)
        hues = "hue" in {c.name for c in coordinates}
        turns = [c.kind == "finite" or c.name == "rotation" for c in coordinates]
        self.strongest = backbone is None and hues and any(turns)
        first = (1, *shape[1:]) if self.strongest else shape
        self.whitening = Whitening(first) if backbone is None else None
        self.backbone = backbone or _built(kind, first, config)
        features = config.features if backbone is None else _features(backbone, shape)
        self.coarse: nn.Sequential | None = None
        seen, last = [features + numbers] * len(coordinates), [False] * len(coordinates)
        if two or self.strongest:
            self.coarse_whitening = Whitening(shape)
            self.coarse = nn.Sequential(self.coarse_whitening, _built(kind, shape, config))
            last = [c.kind == "line" or (self.strongest and c.name == "hue") for c in coordinates]
            seen = [config.features + numbers if own else features for own in last]
            features += config.features
        how = (config.features, config.dropout, seen, last)
        self.head = Histograms(coordinates, features + numbers, *how)

    def train(self, mode: bool = True) -> Self:
        """Switch modes; a frozen backbone is never trained, nor are its running statistics."""
        super().train(mode)
        weights = list(self.backbone.parameters())
        if weights and not any(weight.requires_grad for weight in weights):
            self.backbone.eval()
        return self

    def read(self, shown: Sequence[Tensor]) -> Tensor:
        """Features (N, F) of pictures, and of numbers where there are any."""
        first, *second = self._pictures(shown)
        pictures = first.to(self.head.dtype)
        if self.whitening is not None:
            pictures = self.whitening(pictures)
        parts = [self.backbone(pictures).flatten(1)]
        if self.coarse is not None:
            parts.append(self.coarse(second[0].to(self.head.dtype)).flatten(1))
        parts += [part for part in shown if part.ndim == 2]
        every = torch.cat(parts, -1) if len(parts) > 1 else parts[0]
        return every.to(self.head.dtype)

    def learn_whitening(self, shown: Sequence[Tensor]) -> None:
        """Show the layers that whiten what pictures look like; other backbones have none."""
        first, *second = self._pictures(shown)
        if self.whitening is not None:
            self.whitening.learn(first)
        if self.coarse is not None:
            self.coarse_whitening.learn(second[0])

    def _pictures(self, shown: Sequence[Tensor]) -> list[Tensor]:
        """What the backbone reads (N, C, H, W) and what a second network reads, if there is one."""
        pictures = [part for part in shown if part.ndim == 4]
        return [pictures[0].amax(1, keepdim=True), pictures[-1]] if self.strongest else pictures

    @property
    def parts(self) -> dict[str, tuple[tuple[str, ...], list[int]]]:
        """Parts that share no weights: beginnings of their weights' names, and their coordinates.

        One part, unless lines, or hues, are read from a picture of their own.
        """
        every = range(len(self.head.coordinates))
        if self.coarse is None:
            return {"all": (("",), list(every))}
        lines = [j for j in every if self.head.last[j]]
        found = {}
        for name, modules, own in (
            ("turns", ("whitening.", "backbone."), [j for j in every if j not in lines]),
            ("lines", ("coarse.", "coarse_whitening."), lines),
        ):
            found[name] = ((*modules, *(f"head.parts.{j}." for j in own)), own)
        return found

    def log_ratio(
        self,
        asked: Tensor,
        shown: Sequence[Tensor],
        numbers: Numbers | None = None,
        wanted: Sequence[int] | None = None,
    ) -> Tensor:
        """Log q(asked | shown) less that of the uniform law, (N,); see :class:`Histograms`."""
        return self.head.log_ratio(asked, self.read(shown), numbers, wanted)

    def forward(
        self, asked: Tensor, shown: Sequence[Tensor], numbers: Numbers | None = None
    ) -> Tensor:
        """The log-ratio (N,); dropout draws from ``numbers`` while training."""
        return self.log_ratio(asked, shown, numbers)


def network_kind(kind: str, shape: tuple[int, int, int]) -> str:
    """The kind of network for views of a shape."""
    if kind != "auto":
        return kind
    return "mlp" if min(shape[1:]) < SMALL else "cnn"


class Residual(nn.Module):
    """X + conv(gelu(conv(gelu(norm(x))))), with 3 x 3 filters."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(min(8, channels // 4), channels)
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        nn.init.zeros_(self.second.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        hidden = self.first(group_gelu(x, self.norm))
        out: Tensor = x + self.second(F.gelu(hidden))
        return out


class GroupGelu(nn.GroupNorm):
    """Gelu(norm(x))."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return group_gelu(x, self)


class WholeLayerNorm(nn.LayerNorm):
    """A layer norm that computes in float32 at least."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return super().forward(x.to(self.weight.dtype))


class ConvNet(nn.Module):
    """A small residual network from views to features: halved until about 4 x 4 are left.

    Args:
        shape: (C, H, W).
        channels: of the first stage; doubled twice at most.
        features: of the result.
        blocks: residual blocks at each resolution.
    """

    def __init__(
        self, shape: tuple[int, int, int], channels: int, features: int, blocks: int = 1
    ) -> None:
        super().__init__()
        inputs, height, width = shape
        layers: list[nn.Module] = [nn.Conv2d(inputs, channels, 5, stride=2, padding=2)]
        height, width = (height + 1) // 2, (width + 1) // 2
        layers += [Residual(channels) for _ in range(blocks)]
        stage = 0
        while min(height, width) > 5:
            stage += 1
            outputs = channels * 2 ** min(stage, 2)
            layers += [nn.GELU(), nn.Conv2d(channels * 2 ** min(stage - 1, 2), outputs, 3, 2, 1)]
            layers += [Residual(outputs) for _ in range(blocks)]
            height, width = (height + 1) // 2, (width + 1) // 2
        last = channels * 2 ** min(stage, 2)
        # Nothing stands where stored weights have counted a gelu.
        layers += [GroupGelu(1, last), nn.Identity(), nn.Flatten()]
        layers += [nn.Linear(last * height * width, features), WholeLayerNorm(features)]
        self.layers = nn.Sequential(*layers)
        self.layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, views: Tensor) -> Tensor:
        """Features (N, F); products are rounded to bfloat16 on a GPU."""
        pictures = views.contiguous(memory_format=torch.channels_last)
        return call_rounded(self.layers, pictures).float()


def _built(kind: str, shape: tuple[int, int, int], config: Network) -> nn.Module:
    if kind == "mlp":
        pixels = math.prod(shape)
        return nn.Sequential(nn.Flatten(), MLP(pixels, (2 * config.features, config.features)))
    return ConvNet(shape, config.channels, config.features, config.blocks)


@torch.no_grad()
def _features(backbone: nn.Module, shape: tuple[int, int, int]) -> int:
    if not isinstance(backbone, nn.Module):
        raise wrong_type("backbone", "an nn.Module", backbone, "from pictures to features")
    training = backbone.training
    parameter = next(backbone.parameters(), torch.zeros(()))
    out = backbone.eval()(torch.zeros(2, *shape, device=parameter.device))
    backbone.train(training)
    if not isinstance(out, Tensor) or len(out) != 2:
        remedy = "leave out the last layer, or wrap it"
        raise invalid("backbone", "features (N, F) of pictures", type(out).__name__, remedy)
    return out[0].numel()
