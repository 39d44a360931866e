"""Kernel function of a group convolution over the plane: its weights, its samples, its cache.

:class:`symmetries.nn.plane_conv.PlaneConv2d` convolves with it.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_pair
from symmetries.groups.finite import Dihedral, principal_steps
from symmetries.nn.fourier import KernelFunction, fourier_features
from symmetries.nn.fused_bank import can_fuse, fused_bank, fused_finish
from symmetries.nn.fused_filters import FusedFilters, ready, run_fused
from symmetries.nn.fused_filters_bank import fuse_filters, network_of
from symmetries.nn.fused_positions import fuse_positions, place_network_of
from symmetries.nn.gconv_sampling import (
    SHIFTS,
    PointGroup,
    absolute_coordinates,
    coordinate_names,
    filter_bank,
    frequencies,
    pixel_positions,
    relative_coordinates,
    support_mask,
)
from symmetries.nn.plane_checks import check_signature, may_keep, plain
from symmetries.nn.position_conv import Geometry, neighbourhoods
from symmetries.nn.version_cache import Sampled, VersionCache

# Constructor arguments; and the rotation of the grid, during which nothing is cached.
CONSTANTS = ("signature", "relative", "absolute", "mask", "turn")


class _Features(NamedTuple):
    """Features that training does not change: of the relative and of the absolute elements."""

    gamma: Tensor
    absolute: Tensor | None


class ConvKernel(nn.Module):
    """Kernel function k(gamma(log v^-1 u), gamma'(log v)), sampled at pixels and group elements.

    Args:
        geometry: sizes of the convolution.
        group: H.
        mode: "strict", "soft" or "partial".
        relaxed: for "soft", the initial omega' of each relaxed coordinate, in order.
        learn: whether omega' (or the partial fraction) is a parameter; otherwise a buffer.
        frequency: omega, one number or one for each coordinate by name.
        support: "square", "disk" or "auto".
        gain: initial root mean square of the output for inputs of mean square 1.
        bias: whether to add one number per field.
        network: number of features, units and layers of the kernel network.
        generator: random generator of the weights.
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
        frequency: float | Mapping[str, float],
        support: str,
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
        # Features of the absolute elements, for kernel functions that depend on the position.
        self._positional_cache: VersionCache[Tensor] = VersionCache(CONSTANTS)
        self._fused_cache: VersionCache[FusedFilters | str] = VersionCache(CONSTANTS)

        self.signature: Tensor
        self.frequency: Tensor
        self.relative: Tensor
        self.absolute: Tensor
        self.mask: Tensor | None
        self.turn: Tensor | None
        k = geometry.kernel_size
        flips = int(isinstance(group, Dihedral))
        self.register_buffer("signature", torch.tensor([group.n, flips]))
        filter_names = coordinate_names(group, self.lifting)
        self.register_buffer("frequency", frequencies(filter_names, frequency))
        relative = relative_coordinates(group, k, self.lifting)
        self.register_buffer("relative", relative, persistent=False)
        self.register_buffer("absolute", absolute_coordinates(group), persistent=False)
        self.register_buffer("mask", support_mask(group, k, support), persistent=False)
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
        """Return the sampled kernel function for images of a size, cached while unchanged."""
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

    def fused(self, size: tuple[int, int]) -> Sampled | None:
        """Sample with fused GPU kernels; None if they cannot be used."""
        fused = self._fused(size)
        if fused is None or not ready(fused):
            return None
        return Sampled(run_fused(fused).weight, self.bias) if self._positional else run_fused(fused)

    def generate(self, size: tuple[int, int]) -> Sampled:
        """Sample the kernel function, in full precision even under autocast."""
        check_pair(size, "size")
        fused = self.fused(size)
        if fused is not None:
            return fused
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
            k = self.geometry.kernel_size
            if scale is None and can_fuse(z):
                return Sampled(fused_bank(z, self.mask, self.kernel, k), bias)
            phi = self._masked(self.kernel.finish(z))
            if scale is not None:
                phi = phi * scale[:, None, None, None]
            return Sampled(filter_bank(phi, self.kernel.output, k), bias)

    def membership(self) -> Tensor:
        """Return (|H|,) for "partial": 1 for rotations within the learned fraction, 0 for others.

        A rotation by s steps belongs to it if |s| <= n fraction / 2; the first rotation outside
        fades out, so that the fraction has a gradient.
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
        """Return the cached features that training does not change; None without a cache."""
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

    def _fused(self, size: tuple[int, int]) -> FusedFilters | None:
        """Return the cached fused GPU kernels and their tensors; None if they cannot be used."""
        if torch.compiler.is_compiling() or (self.training and self._buffers["turn"] is not None):
            return None
        made_for = size if self._positional else None
        kept = self._fused_cache.get(self, made_for)
        if kept is None:
            features = self._kept_features()
            if features is None or not may_keep(self.relative):  # cannot read values during capture
                return None
            kept = self._fuse(features, size) or "no"
            self._fused_cache.put(self, kept, made_for, "written")
        return None if isinstance(kept, str) else kept

    def _fuse(self, features: _Features, size: tuple[int, int]) -> FusedFilters | None:
        g, k = self.geometry, self.kernel
        if self.mode == "partial" or len(k.weights) != 1:
            return None
        omega = self.relaxed_frequency if self.relaxed else None
        if not self._positional:
            parts = (self.mask, self.bias, features.absolute, omega)
            return fuse_filters(network_of(k, features.gamma, *parts), self.lifting)
        if omega is None or g.stride != 1 or self.group.order != 1:
            return None
        places = self._absolute(size)[0].flatten(0, 1)
        network = place_network_of(k, features.gamma[0, 0], self.mask, places, omega)
        return fuse_positions(network, g.out_size(*size))

    def _absolute(self, size: tuple[int, int] | None) -> Tensor:
        """Return the relaxed coordinates of the absolute elements, at each pixel for a size."""
        turn = self._turn()
        absolute = self.absolute
        if size is not None:
            grid = pixel_positions(*size, self.geometry.padding, self.frequency)
            absolute = absolute_coordinates(self.group, grid, turn)
        elif turn is not None:
            absolute = absolute_coordinates(self.group, turn=turn)
        # Columns one by one: indexing with a list would copy it to the device and synchronise.
        return torch.stack([absolute[..., i] for i in self._absolute_index], -1)

    def _projected_absolute(self, size: tuple[int, int] | None) -> Tensor:
        """Return shape (I, J, 1, hidden), or (I, J, positions, k k, hidden) for a size."""
        keep = self._turn() is None and not torch.compiler.is_compiling()
        absolute = self._positional_cache.get(self, size) if keep else None
        if absolute is None:
            absolute = self._absolute(size)
            if keep and may_keep(absolute):
                self._positional_cache.put(self, absolute, size, "free")
        z = self.kernel.project_absolute(absolute, self.relaxed_frequency)
        z = z[:, None] if size is None else neighbourhoods(z, self.geometry)
        return z[:, None] if self.lifting else z[None]

    def _positional_phi(self, size: tuple[int, int]) -> Tensor:
        z = self._projected_relative()[:, :, None] + self._projected_absolute(size)
        if can_fuse(z):
            phi = fused_finish(z, self.mask, self.kernel)
        else:
            phi = self._masked(self.kernel.finish(z))
        return phi.permute(2, 1, 3, 0, 4).flatten(1, 2)  # (positions, J k k, I, hidden)

    def _masked(self, phi: Tensor) -> Tensor:
        return phi if self.mask is None else phi * self.mask[:, None]

    def _forget(self) -> None:
        self._cache.clear()
        self._features.clear()
        self._fused_cache.clear()
        self._positional_cache.clear()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "ConvKernel":
        self._forget()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *rest: Any) -> None:  # noqa: ANN401
        self._forget()
        check_signature(state.get(f"{prefix}signature"), self.signature, prefix)
        super()._load_from_state_dict(state, prefix, *rest)
