"""The two networks: f(x), which finds the transformation, and p(eta | x_hat)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.distributions.categorical import ConditionalCategorical
from symmetries.distributions.flow import ConditionalFlow
from symmetries.groups.base import Group
from symmetries.groups.circles import circular_parameters
from symmetries.learners.symmetry_model.config import SymmetryConfig
from symmetries.learners.symmetry_model.moments import seen_at_one_size, standard_view
from symmetries.nn.features import ImageFeatures

INITIAL_SCALE = 0.01
INITIAL_RADIUS = 0.05  # of the vectors whose directions are angles: small ones turn easily


class LieInference(nn.Module):
    r"""q(eta | x): eta = b (m(x) + sigma epsilon), or b tanh of it, with one sigma for all images.

    The head of m starts at zero: every image is its own prototype. With "circle" angles the network
    predicts a vector for each angle, whose direction is the angle: f can then follow a full turn
    without a jump, which no continuous function to the line can. (Shifts beside such an angle are
    predicted as positions, see :func:`generator_shifts`; :meth:`positions` and :meth:`pair` do
    without the detour over the generators' shifts.)

    With ``moments`` the network sees the picture moved to its centre of mass c (and scaled to one
    size), and c (and the logarithm of the size) is added to what it predicts: f(T_s x) = T_s f(x)
    then holds for every shift (and zoom) s that keeps the content in the frame, and only the rest
    is to be learned. With ``pinned`` nothing is added to c: prototypes lie in the middle.

    Args:
        shape: (C, H, W) of the images.
        group: the transformations.
        bounds: b.
        config: see :class:`SymmetryConfig`.
        fill: background value, which has no mass.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        group: Group[Any],
        bounds: Sequence[float],
        config: SymmetryConfig,
        fill: float = 0.0,
    ) -> None:
        super().__init__()
        self.group = group
        self.dim = len(bounds)
        self.fill = fill
        self.centred = config.network.moments != "none" and group.positional
        self.pinned = config.network.pinned
        self.sized = config.network.moments == "size" and seen_at_one_size(group)
        self.sizes = group.zoom_columns if self.sized else ()
        self.tanh = config.network.squash == "tanh"
        # A direction covers the whole circle, so it suits only angles that may use all of it.
        whole = [a and b > math.pi - 1e-6 for a, b in zip(group.angles, bounds, strict=True)]
        on_circle = config.network.angles == "circle"
        self.around = [i for i in range(self.dim) if whole[i] and on_circle]
        self.positional = group.positional and (self.centred or bool(self.around))
        self.register_buffer("bounds", torch.tensor([float(b) for b in bounds]))
        self.bounds: Tensor
        self.features = ImageFeatures(shape, config.network.widths, network=config.network.kind)
        self.head = nn.Linear(self.features.features, self.dim + len(self.around))
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        with torch.no_grad():
            self.head.bias[self.dim :] = INITIAL_RADIUS
        self.free_scale = nn.Parameter(
            torch.full((self.dim,), math.log(math.expm1(INITIAL_SCALE))), config.network.sampled
        )

    def forward(self, images: Tensor, noise: Tensor | None = None) -> Tensor:
        """Parameters eta (N, dim) of images (N, C, H, W); noise (N, dim) makes it a sample."""
        return self.parameters_at(self.positions(images, noise))

    def parameters_at(self, positions: Tensor) -> Tensor:
        """Return parameters eta (..., dim) from :meth:`positions`."""
        return self.group.generator_shifts(positions) if self.positional else positions

    def pair(self, positions: Tensor) -> list[Any]:
        """Return elements T with these :meth:`positions` (..., dim), and T^-1."""
        if not self.positional:
            return list(self.group.exp_pair(positions))
        still = F.pad(positions[..., 2:], (2, 0))  # nothing but the linear part
        forth, back = self.group.exp_pair(still)
        end = positions[..., :2, None]
        return [forth + _last_column(end), back - _last_column(back[..., :2, :2] @ end)]

    def element_at(self, positions: Tensor) -> Any:  # noqa: ANN401 - elements differ by group
        """Return the elements T of :meth:`pair`, without their inverses."""
        return self.pair(positions)[0] if self.positional else self.group.exp(positions)

    def positions_of(self, eta: Tensor, element: Any) -> Tensor:  # noqa: ANN401
        """Return the :meth:`positions` of elements with parameters eta (..., dim)."""
        if not self.positional:
            return eta
        return torch.cat((element[..., :2, 2], eta[..., 2:]), -1)

    def positions(self, images: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return parameters (N, dim) with the end of the picture's centre instead of the shifts."""
        if not self.centred:
            return self.positions_by(self.features.units(images), noise)
        images, centre, zoom = standard_view(images, self.fill, sized=self.sized)
        eta = self.positions_by(self.features.units(images), noise)
        columns = list(eta.unbind(-1))
        for i, known in ((0, centre[:, 0]), (1, centre[:, 1]), *((j, zoom) for j in self.sizes)):
            columns[i] = known if self.pinned and i < 2 else columns[i] + known
        return torch.stack(columns, -1)

    def positions_by(self, units: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the network's prediction (N, dim) from the features (N, ...) of its input."""
        out: Tensor = self.head(units.to(self.head.weight.dtype))  # units may be rounded
        unit = out[:, : self.dim]
        if self.around:
            columns = list(unit.unbind(-1))
            for i, cosine in zip(self.around, out[:, self.dim :].unbind(-1), strict=True):
                columns[i] = torch.atan2(columns[i], cosine) / math.pi
            unit = torch.stack(columns, -1)
        if noise is not None:
            unit = unit + noise * F.softplus(self.free_scale)
        if self.tanh:
            squashed = torch.tanh(unit)
            columns = list(squashed.unbind(-1))
            for i in self.around:
                columns[i] = unit[:, i]
            unit = torch.stack(columns, -1)
        return unit * self.bounds


def _last_column(column: Tensor) -> Tensor:
    """Return columns (..., 2, 1) in the place of the shifts of matrices (..., 3, 3)."""
    return F.pad(column, (2, 0, 0, 1))


class FiniteInference(nn.Module):
    """q(g | x) over the elements of a finite group, almost uniform at the start.

    Args:
        shape: (C, H, W) of the images.
        order: number of elements.
        config: see :class:`SymmetryConfig`.
    """

    def __init__(self, shape: tuple[int, int, int], order: int, config: SymmetryConfig) -> None:
        super().__init__()
        self.features = ImageFeatures(shape, config.network.widths, network=config.network.kind)
        self.head = nn.Linear(self.features.features, order)
        # Exactly zero would be a stationary point: all elements alike for all images.
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Return log-probabilities (N, order) of images (N, C, H, W)."""
        return F.log_softmax(self.head(self.features(images)), -1)


class Generative(nn.Module):
    """p(eta | x_hat): a flow, or a categorical distribution, on features of the prototype.

    Args:
        shape: (C, H, W) of the images.
        group: the transformations.
        bounds: of their parameters.
        config: see :class:`SymmetryConfig`.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        group: Group[Any],
        bounds: Sequence[float],
        config: SymmetryConfig,
    ) -> None:
        super().__init__()
        dropout, network = config.flow.feature_dropout, config.network.kind
        self.features = ImageFeatures(shape, config.flow.features, network=network, dropout=dropout)
        context = self.features.features
        self.distribution: ConditionalFlow | ConditionalCategorical
        if group.finite:
            self.distribution = ConditionalCategorical(
                group.order,
                context,
                hidden=config.flow.conditioner,
                dropout=config.flow.conditioner_dropout,
            )
        else:
            self.distribution = ConditionalFlow(
                bounds,
                context,
                circular=circular_parameters(group, bounds, config.flow.circular),
                layers=config.flow.layers,
                bins=config.flow.bins,
                hidden=config.flow.conditioner,
                base=config.flow.base,
                dropout=config.flow.conditioner_dropout,
            )

    def forward(self, prototypes: Tensor) -> Tensor:
        """Return the context (N, features) of prototypes (N, C, H, W)."""
        return self.features(prototypes)
