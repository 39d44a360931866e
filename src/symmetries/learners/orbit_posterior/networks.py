"""Networks that read the pose of a picture: convolutional, fully connected, or over the angle."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import invalid, wrong_type
from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.config import Network
from symmetries.learners.orbit_posterior.heads import Histograms
from symmetries.nn.perceptron import MLP

SMALL = 16  # sides below it are read by a fully connected network


class PoseNetwork(nn.Module):
    """q(r | y): a backbone from views to features, and histograms over the coordinates of r.

    Args:
        chart: coordinates of the moves.
        shape: (C, H, W) of the views.
        config: sizes.
        backbone: any module from views (N, C, H, W) to features (N, F); by default one is made.
    """

    def __init__(
        self,
        chart: Chart,
        shape: tuple[int, int, int],
        config: Network,
        backbone: nn.Module | None = None,
    ) -> None:
        super().__init__()
        kind = network_kind(config.kind, shape, chart)
        self.polar = kind == "polar" and backbone is None
        self.backbone = backbone or _built(kind, chart, shape, config)
        features = config.features if backbone is None else _features(backbone, shape)
        self.head = Histograms(chart.coordinates, features, config.features, config.dropout)

    def read(self, views: Tensor) -> tuple[Tensor, Tensor | None]:
        """Features (N, F), and the first coordinate's logits where the network gives them."""
        if self.polar:
            features, logits = self.backbone(views)
            return features, logits
        return self.backbone(views).flatten(1).float(), None

    def forward(self, views: Tensor, u: Tensor) -> Tensor:
        """Log q(u | views) / pi(u), (N,)."""
        return self.head.log_ratio(u, *self.read(views))


def network_kind(kind: str, shape: tuple[int, int, int], chart: Chart) -> str:
    """The kind of network for views of a shape."""
    if kind == "polar" and chart.names != ("rotation",):
        remedy = "use 'cnn'"
        raise invalid("kind", "another network for this group", repr(kind), remedy)
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
        hidden = self.first(F.gelu(self.norm(x)))
        out: Tensor = x + self.second(F.gelu(hidden))
        return out


class ConvNet(nn.Module):
    """A small residual network from views to features: halved until about 4 x 4 are left.

    Args:
        shape: (C, H, W).
        channels: of the first stage; doubled twice at most.
        features: of the result.
    """

    def __init__(self, shape: tuple[int, int, int], channels: int, features: int) -> None:
        super().__init__()
        inputs, height, width = shape
        layers: list[nn.Module] = [nn.Conv2d(inputs, channels, 5, stride=2, padding=2)]
        height, width = (height + 1) // 2, (width + 1) // 2
        layers.append(Residual(channels))
        stage = 0
        while min(height, width) > 5:
            stage += 1
            outputs = channels * 2 ** min(stage, 2)
            layers += [nn.GELU(), nn.Conv2d(channels * 2 ** min(stage - 1, 2), outputs, 3, 2, 1)]
            layers.append(Residual(outputs))
            height, width = (height + 1) // 2, (width + 1) // 2
        last = channels * 2 ** min(stage, 2)
        layers += [nn.GroupNorm(1, last), nn.GELU(), nn.Flatten()]
        layers += [nn.Linear(last * height * width, features), nn.LayerNorm(features)]
        self.layers = nn.Sequential(*layers)

    def forward(self, views: Tensor) -> Tensor:
        """Features (N, F)."""
        found: Tensor = self.layers(views)
        return found


class PolarNet(nn.Module):
    """Circular convolutions over the angle: turning the picture turns the density of its turns.

    Under the uniform law on the circle q(r | T_a y) = q(a^-1 r | y). The picture is read on rings,
    whose values at an angle are channels; logits (N, bins) come out at every angle.

    Args:
        shape: (C, H, W).
        bins: of the density, and angles of the grid.
        channels: of the convolutions.
        features: of the result, averaged over the angles.
    """

    def __init__(
        self, shape: tuple[int, int, int], bins: int, channels: int, features: int
    ) -> None:
        super().__init__()
        inputs, height, width = shape
        rings = max(4, round(min(height, width) / 2))
        self.register_buffer("grid", _polar_grid(height, width, rings, bins))
        self.grid: Tensor
        self.first = nn.Conv1d(inputs * rings, channels, 5, padding=2, padding_mode="circular")
        spread = [max(1, round(bins / 72 * d)) for d in (1, 2, 4, 8, 12, 2)]
        self.blocks = nn.ModuleList(_circular_block(channels, d) for d in spread)
        self.whole = nn.ModuleList(nn.Linear(channels, channels) for _ in spread)
        self.features = nn.Linear(channels, features)
        self.last = nn.Sequential(nn.GroupNorm(1, channels), nn.GELU(), nn.Conv1d(channels, 1, 1))

    def forward(self, views: Tensor) -> tuple[Tensor, Tensor]:
        """Features (N, F) and logits (N, bins)."""
        grid = self.grid.expand(len(views), *self.grid.shape).to(views.dtype)
        rings = F.grid_sample(views, grid, padding_mode="border", align_corners=False)
        x = self.first(rings.flatten(1, 2))
        for block, whole in zip(self.blocks, self.whole, strict=True):
            x = x + block(x)
            x = x + whole(x.mean(-1))[..., None]
        return self.features(x.mean(-1)), self.last(x)[:, 0].float()


def _circular_block(channels: int, spread: int) -> nn.Sequential:
    return nn.Sequential(
        nn.GroupNorm(1, channels),
        nn.Conv1d(
            channels, channels, 5, padding=2 * spread, dilation=spread, padding_mode="circular"
        ),
        nn.GELU(),
        nn.Conv1d(channels, channels, 1),
    )


def _polar_grid(height: int, width: int, rings: int, bins: int) -> Tensor:
    """Sampling grid (rings, bins, 2); a turn by one bin moves values to the next bin."""
    short = min(height, width)
    radius = (torch.arange(rings) + 0.5) / rings * (1 - 1 / short) * short
    angle = ((torch.arange(bins) + 0.5) / bins * 2 - 1) * math.pi
    x = radius[:, None] * torch.cos(angle) / width
    y = -radius[:, None] * torch.sin(angle) / height
    return torch.stack((x, y), -1)


def _built(kind: str, chart: Chart, shape: tuple[int, int, int], config: Network) -> nn.Module:
    if kind == "polar":
        size = chart.coordinates[0].size
        return PolarNet(shape, size, 2 * config.channels, config.features)
    if kind == "mlp":
        pixels = math.prod(shape)
        return nn.Sequential(nn.Flatten(), MLP(pixels, (2 * config.features, config.features)))
    return ConvNet(shape, config.channels, config.features)


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
