"""The kernel function of a group convolution over the plane: weights, samples and caches.

:class:`symmetries.nn.gconv.PlaneConv2d` convolves with it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_pair
from symmetries.groups.finite import Dihedral, principal_steps
from symmetries.nn.fourier import KernelFunction
from symmetries.nn.gconv_sampling import (
    SHIFTS,
    PointGroup,
    absolute_coordinates,
    check_signature,
    coordinate_names,
    may_keep,
    pixel_positions,
    plain,
    relative_coordinates,
    support_mask,
)
from symmetries.nn.version_cache import VersionCache
from symmetries.ops.group_filters import Network, Sampler, prepare_filters
from symmetries.ops.kernel_network import Sampled, filter_bank, fourier_features
from symmetries.ops.position_conv import Geometry, neighbourhoods
from symmetries.ops.positional_features import PositionNetwork, prepare_features

# What a layer is made with, and the turn of its grid, in which nothing is kept.
CONSTANTS = ("signature", "relative", "absolute", "mask", "turn")


class _Features(NamedTuple):
    """Constants of a kernel: features of the relative elements, and the absolute elements."""

    gamma: Tensor
    absolute: Tensor | None


class ConvKernel(nn.Module):
    """k(gamma(log v^-1 u), gamma'(log v)), sampled at the pixels and elements of a convolution.

    Args:
        geometry: sizes of the convolution.
        group: H.
        mode: "strict", "soft" or "partial".
        relaxed: for "soft", omega' of each relaxed coordinate at the start, in their order.
        learn: whether omega' (or the partial fraction) is a parameter; a buffer if not.
        frequency: omega, one number for all coordinates.
        gain: root mean square of the output for inputs of mean square 1, at the start.
        bias: whether there is one number per field to be added.
        network: features and units of the kernel network.
        generator: fixes the weights.
    """

    lifting: ClassVar[bool]

    def __init__(
        self,
        geometry: Geometry,
        group: PointGroup,
        mode: str,
        relaxed: Mapping[str, float],
        *,
        learn: bool,
        frequency: float,
        gain: float,
        bias: bool,
        network: Mapping[str, int],
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self.geometry = geometry
        self.group = group
        self.mode = mode
        self.relaxed = tuple(relaxed)
        self.learn = learn
        names = coordinate_names(group)
        self._absolute_index = [names.index(name) for name in relaxed]
        self._positional = bool(set(self.relaxed) & set(SHIFTS))
        self._cache: VersionCache[Sampled] = VersionCache(CONSTANTS)
        self._features: VersionCache[_Features] = VersionCache(CONSTANTS)
        self._positions: VersionCache[Tensor] = VersionCache(CONSTANTS)  # of the absolute elements
        self._prepared: VersionCache[Sampler] = VersionCache(CONSTANTS)

        self.signature: Tensor
        self.frequency: Tensor
        self.relative: Tensor
        self.absolute: Tensor
        self.mask: Tensor | None
        self.turn: Tensor | None
        k = geometry.kernel_size
        flips = int(isinstance(group, Dihedral))
        self.register_buffer("signature", torch.tensor([group.n, flips]))
        relative = relative_coordinates(group, k, self.lifting)
        self.register_buffer("frequency", torch.full((relative.shape[-1],), float(frequency)))
        self.register_buffer("relative", relative, persistent=False)
        self.register_buffer("absolute", absolute_coordinates(group), persistent=False)
        self.register_buffer("mask", support_mask(group, k), persistent=False)
        self.register_buffer("turn", None, persistent=False)
        taps = k**2 if self.mask is None else int(self.mask.sum())
        fan_in = geometry.fields_in * geometry.elements_in * taps
        self.kernel = KernelFunction(
            relative.shape[-1],
            len(relaxed),
            (geometry.fields_out, geometry.fields_in),
            gain**2 / fan_in,
            **network,
            generator=generator,
        )
        self.bias = nn.Parameter(torch.zeros(geometry.fields_out)) if bias else None
        self.relaxed_frequency: Tensor
        self.fraction: Tensor
        if relaxed:
            self._learned("relaxed_frequency", torch.tensor(list(relaxed.values())))
        if mode == "partial":
            self._learned("fraction", torch.ones(()))

    def _learned(self, name: str, value: Tensor) -> None:
        if self.learn:
            self.register_parameter(name, nn.Parameter(value))
        else:
            self.register_buffer(name, value)

    def sampled(self, size: tuple[int, int]) -> Sampled:
        """Return the sampled kernel for images of a size, cached if nothing can change it."""
        if self.training or torch.compiler.is_compiling():
            return self.generate(size)
        if torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters()):
            return self.generate(size)
        made_for = size if self._positional else None
        kernel = self._cache.get(self, made_for)
        if kernel is None:
            with torch.inference_mode(False), torch.no_grad():
                kernel = self.generate(size)
            if plain(kernel.weight):
                self._cache.put(self, kernel, made_for)
        return kernel

    def generate(self, size: tuple[int, int]) -> Sampled:
        """Sample the kernel in full precision, regardless of autocast."""
        check_pair(size, "size")
        turned = self.training and self._buffers["turn"] is not None
        if turned or torch.compiler.is_compiling():
            return self._sample(size)
        return self._sampler(size)()

    def _sample(self, size: tuple[int, int]) -> Sampled:
        with torch.autocast(self.frequency.device.type, enabled=False):
            scale = self.membership() if self.mode == "partial" else None
            bias: Tensor | None = None
            if self.bias is not None:
                bias = self.bias[:, None].expand(-1, self.group.order)
                bias = (bias if scale is None else bias * scale).reshape(-1)
            if self._positional:
                return Sampled(self._positional_phi(size), bias)
            z = self._projected_relative()
            if self.relaxed:
                z = z + self._projected_absolute(None)
            phi = self._phi(z)
            phi = phi if scale is None else phi * scale[:, None, None, None]
            return Sampled(filter_bank(phi, self.kernel.output, self.geometry.kernel_size), bias)

    def membership(self) -> Tensor:
        """(|H|,) for "partial": 1 for the rotations within the learned fraction, 0 for the others.

        Rotation by s steps belongs to it if |s| <= n fraction / 2; the first outside fades, so
        that the fraction has a gradient.
        """
        n = self.group.n
        steps = principal_steps(self.group.elements(self.fraction.device) % n, n).abs()
        return (1 + self.fraction.abs() * n / 2 - steps).clamp(0, 1)

    def _turn(self) -> Tensor | None:
        return self.turn if self.training else None

    def _projected_relative(self) -> Tensor:
        turn = self._turn()
        if turn is not None:
            k = self.geometry.kernel_size
            relative = relative_coordinates(self.group, k, self.lifting, turn)
            return self.kernel.project_relative(relative, self.frequency)
        kept = self._kept_features()
        gamma = self._gamma() if kept is None else kept.gamma
        return self.kernel.project_features(gamma)

    def _gamma(self) -> Tensor:
        return fourier_features(self.relative, self.kernel.relative_directions, self.frequency)

    def _kept_features(self) -> _Features | None:
        """Return the cached constants, or None if nothing may be cached."""
        if torch.compiler.is_compiling():
            return None
        kept = self._features.get(self)
        if kept is not None or not may_keep(self.relative):
            return kept
        with torch.autocast(self.relative.device.type, enabled=False):
            absolute = self._absolute(None) if self.relaxed else None
            kept = _Features(self._gamma(), absolute)
        if kept.gamma.requires_grad or not plain(kept.gamma):
            return None
        self._features.put(self, kept, parameters="free")
        return kept

    def _sampler(self, size: tuple[int, int]) -> Sampler:
        """Return the cached sampler of this kernel."""
        made_for = size if self._positional else None
        kept = self._prepared.get(self, made_for)
        if kept is None:
            features = self._kept_features()
            if features is None or not may_keep(self.relative):  # or a graph is captured
                return partial(self._sample, size)
            kept = self._prepare(features, size)
            self._prepared.put(self, kept, made_for, "written")
        return kept

    def _prepare(self, features: _Features, size: tuple[int, int]) -> Sampler:
        g, k, plain = self.geometry, self.kernel, partial(self._sample, size)
        if self.mode == "partial":
            return plain
        omega = self.relaxed_frequency if self.relaxed else None
        layers = (k.relative_weight, k.biases[0], k.weights[0], k.biases[1])
        relaxed = () if omega is None else (k.absolute_directions, omega, k.absolute_weight)
        if not self._positional:
            parts = (features.gamma, *layers, k.output, self.mask, self.bias)
            absolute = () if omega is None else (features.absolute, *relaxed)
            return prepare_filters(Network(*parts, *absolute), self.lifting, plain)
        if omega is None or g.stride != 1 or self.group.order != 1:
            return plain
        positions = self._absolute(size)[0].flatten(0, 1)
        network = PositionNetwork(features.gamma[0, 0], *layers, positions, *relaxed)
        return prepare_features(network, g.out_size(*size), self.bias, plain)

    def _absolute(self, size: tuple[int, int] | None) -> Tensor:
        """Return the relaxed coordinates of the absolute elements, at each pixel for a size."""
        turn = self._turn()
        absolute = self.absolute
        if size is not None:
            grid = pixel_positions(*size, self.geometry.padding, self.frequency)
            absolute = absolute_coordinates(self.group, grid, turn)
        elif turn is not None:
            absolute = absolute_coordinates(self.group, turn=turn)
        # One by one: a list as an index would be copied to the device, which waits.
        return torch.stack([absolute[..., i] for i in self._absolute_index], -1)

    def _projected_absolute(self, size: tuple[int, int] | None) -> Tensor:
        """Return the projection (I, J, 1, hidden), or (I, J, positions, k k, hidden) for a size."""
        keep = self._turn() is None and not torch.compiler.is_compiling()
        absolute = self._positions.get(self, size) if keep else None
        if absolute is None:
            absolute = self._absolute(size)
            if keep and may_keep(absolute):
                self._positions.put(self, absolute, size, "free")
        z = self.kernel.project_absolute(absolute, self.relaxed_frequency)
        z = z[:, None] if size is None else neighbourhoods(z, self.geometry)
        return z[:, None] if self.lifting else z[None]

    def _positional_phi(self, size: tuple[int, int]) -> Tensor:
        z = self._projected_relative()[:, :, None] + self._projected_absolute(size)
        return self._phi(z).permute(2, 1, 3, 0, 4).flatten(1, 2)  # (positions, J k k, I, hidden)

    def _phi(self, z: Tensor) -> Tensor:
        """Return the network's features (..., k k, hidden), zero at taps outside the support."""
        phi = self.kernel.finish(z)
        return phi if self.mask is None else phi * self.mask[:, None]

    def _forget(self) -> None:
        self._cache.clear()
        self._features.clear()
        self._prepared.clear()
        self._positions.clear()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "ConvKernel":
        self._forget()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *rest: Any) -> None:  # noqa: ANN401
        self._forget()
        check_signature(state.get(f"{prefix}signature"), self.signature, prefix)
        super()._load_from_state_dict(state, prefix, *rest)
