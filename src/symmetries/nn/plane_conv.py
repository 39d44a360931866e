"""The layer behind all group convolutions over the plane; :mod:`symmetries.nn.gconv` names them."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.checks import check_choice, check_pair, check_whole, invalid
from symmetries.groups.finite import Dihedral, principal_steps
from symmetries.kernels.networks import Network
from symmetries.nn.fourier import KernelNetwork, fourier_features
from symmetries.nn.fused_bank import can_fuse, fused_bank, fused_finish
from symmetries.nn.gconv_kernels import (
    SHIFTS,
    PointGroup,
    absolute_coordinates,
    check_as_conv2d,
    check_point_group,
    coordinate_names,
    filter_bank,
    frequencies,
    one_number,
    padding_of,
    pixel_positions,
    relative_coordinates,
    relaxed_coordinates,
    support_mask,
)
from symmetries.nn.kernel_cache import KernelCache, Sampled
from symmetries.nn.launched_bank import Launched, launch, launched_bank, ready
from symmetries.nn.plane_checks import check_fields, check_signature, exporting, may_keep
from symmetries.nn.position_conv import (
    ORDERS,
    Geometry,
    PositionConv2d,
    cheaper_order,
    neighbourhoods,
    position_conv2d,
)
from symmetries.nn.tile_conv import pays, tile_conv2d
from symmetries.placement import check_like, check_together

MODES = ("strict", "soft", "partial")


class _Features(NamedTuple):
    """What training does not change: features of the relative elements, the absolute ones."""

    gamma: Tensor
    absolute: Tensor | None


class PlaneConv2d(nn.Module):
    """What the three layers below share: all but whether the input is an image.

    Args:
        in_channels: fields that come in (channels, for a lifting).
        out_channels: fields that go out; the tensor has |H| times as many channels.
        kernel_size: k, of a k x k kernel. As for ``nn.Conv2d`` a pair of equal numbers does too,
            here and for the next three.
        stride: in pixels. Rotations of the grid stay exact where (size + 2 padding - k) is a
            multiple of it.
        padding: zeros on each side, "same" or "valid".
        dilation: 1; a kernel is a function, take a larger one.
        groups: 1, of channels.
        bias: whether to add one number per field.
        padding_mode: "zeros".
        device: of the weights.
        dtype: of the weights.
        group: H, ``Cyclic(n)`` or ``Dihedral(n)``.
        mode: "strict": equivariant. "soft": the kernel also depends on the coordinates in
            ``relax``. "partial" (Romero and Lohit 2022): only a learned part of the rotations,
            around the identity, goes out; the others are zero.
        relax: for "soft", the frequency omega' of each relaxed coordinate at the start: any of
            "rotation", "flip", "shift_x", "shift_y", or "translation" for both shifts. By default
            rotation, or translation where there is none, at 0.1: start small where it is learned
            (a large omega' is not more relaxed, its kernels only vary faster). The shifts are those
            of log v: in the frame of a rotated v both depend on both directions.
        learn: whether omega' (or the partial fraction) is a parameter; a buffer if not.
        frequency: omega, one number or one for each coordinate by name.
        support: "square", "disk", or "auto": the disk unless H maps the square to itself.
        gain: root mean square of the output for inputs of mean square 1, at the start.
        features: Fourier features D of the kernel network.
        hidden: its units.
        depth: its hidden layers.
        order: for relaxed translation, see :func:`~symmetries.nn.position_conv.position_conv2d`.
        generator: fixes the weights.
    """

    lifting: ClassVar[bool]
    default_mode: ClassVar[str]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | str | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        group: PointGroup,
        mode: str | None = None,
        relax: Mapping[str, float] | None = None,
        learn: bool = True,
        frequency: float | Mapping[str, float] = 1.0,
        support: str = "auto",
        gain: float = 1.0,
        features: int = 32,
        hidden: int = 32,
        depth: int = 2,
        order: str = "auto",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        k: int = one_number(kernel_size)
        step: int = one_number(stride)
        check_as_conv2d(one_number(dilation), groups, padding_mode)
        self.mode = self.default_mode if mode is None else mode
        check_choice(self.mode, MODES, "mode")
        check_choice(support, ("auto", "square", "disk"), "support")
        check_choice(order, ORDERS, "order")
        counts = {"in_channels": in_channels, "out_channels": out_channels, "stride": step}
        for name, value in {**counts, "kernel_size": k}.items():
            check_whole(value, name)
        check_point_group(group)
        self.group = group
        elements = group.order
        self.geometry = Geometry(
            in_channels,
            out_channels,
            1 if self.lifting else elements,
            elements,
            k,
            step,
            padding_of(one_number(padding), k),
        )
        self.order = order
        names = coordinate_names(group)
        relaxed = relaxed_coordinates(names, self.mode, relax)
        self.relaxed = tuple(relaxed)
        self.learn = learn
        self._absolute_index = [names.index(name) for name in relaxed]
        self._positional = bool(set(self.relaxed) & set(SHIFTS))
        self._cache: KernelCache[Sampled] = KernelCache()
        self._features: KernelCache[_Features] = KernelCache()
        self._places: KernelCache[Tensor] = KernelCache()  # of the absolute elements
        self._launches: KernelCache[Launched | str] = KernelCache()
        self._taken: tuple[object, ...] | None = None  # shape, dtype, device of the last input

        self.signature: Tensor
        self.frequency: Tensor
        self.relative: Tensor
        self.absolute: Tensor
        self.mask: Tensor | None
        self.turn: Tensor | None
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
        fan_in = in_channels * self.geometry.elements_in * taps
        self.kernel = KernelNetwork(
            relative.shape[-1],
            len(relaxed),
            (out_channels, in_channels),
            gain**2 / fan_in,
            features=features,
            hidden=hidden,
            depth=depth,
            generator=generator,
        )
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        self.relaxed_frequency: Tensor
        self.fraction: Tensor
        if relaxed:
            self._learned("relaxed_frequency", torch.tensor(list(relaxed.values())))
        if self.mode == "partial":
            self._learned("fraction", torch.ones(()))
        if device is not None or dtype is not None:
            self.to(device=device, dtype=dtype)

    def _learned(self, name: str, value: Tensor) -> None:
        if self.learn:
            self.register_parameter(name, nn.Parameter(value))
        else:
            self.register_buffer(name, value)

    @property
    def positional(self) -> bool:
        """Whether the kernel depends on the position, so that one filter bank does not do."""
        return self._positional

    def forward(self, x: Tensor) -> Tensor:
        """Convolve.

        Args:
            x: (N, in_channels |H|, H, W), or (N, in_channels, H, W) for a lifting.

        Returns:
            (N, out_channels |H|, height, width), channels last in memory.
        """
        if not isinstance(x, Tensor) or (x.shape, x.dtype, x.device) != self._taken:
            self._check(x)
        if self.training and exporting():
            raise invalid("model", "evaluation mode for an export", "training", "call model.eval()")
        g = self.geometry
        weight, bias = self.sampled((x.shape[2], x.shape[3]))
        if self._positional:
            return position_conv2d(x, weight, self.kernel.output, bias, g, self.order)
        # Channels-last is faster on CPUs and GPUs; what follows keeps the layout.
        x = x.contiguous(memory_format=torch.channels_last)
        if self.training and g.stride == 1 and pays(x, weight, g.padding):
            return tile_conv2d(x, weight, bias, g.padding)
        return F.conv2d(x, weight, bias, g.stride, g.padding)

    def sampled(self, size: tuple[int, int]) -> Sampled:
        """The kernel at its samples for images of a size, kept where nothing can change it."""
        if self.training or torch.compiler.is_compiling():
            return self.generate(size)
        if torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters()):
            return self.generate(size)
        made_for = size if self._positional else None
        kernel = self._cache.get(self, made_for)
        if kernel is None:
            with torch.inference_mode(False), torch.no_grad():
                kernel = self.generate(size)
            self._cache.put(self, kernel, made_for)
        return kernel

    def generate(self, size: tuple[int, int]) -> Sampled:
        """Sample the kernel, in full precision whatever autocast says."""
        check_pair(size, "size")
        launched = self._launched()
        if launched is not None and ready(launched):
            return launched_bank(launched)
        with torch.autocast(self.frequency.device.type, enabled=False):
            scale = self.membership() if self.mode == "partial" else None
            bias: Tensor | None = None
            if self.bias is not None:
                bias = self.bias[:, None].expand(-1, self.group.order)
                bias = (bias if scale is None else bias * scale).reshape(-1)
            if self.positional:
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
        """(|H|,) for "partial": 1 for the rotations within the learned fraction, 0 for the others.

        Rotation by s steps belongs to it if |s| <= n fraction / 2; the first outside fades, so
        that the fraction has a gradient.
        """
        n = self.group.n
        steps = principal_steps(self.group.elements(self.fraction.device) % n, n).abs()
        return (1 + self.fraction.abs() * n / 2 - steps).clamp(0, 1)

    def relaxation(self) -> dict[str, float]:
        """By coordinate, the size of omega' (0 is strict) or the fraction kept (1 is strict)."""
        if self.mode == "partial":
            return {"rotation": min(1.0, self.fraction.abs().item())}
        values = self.relaxed_frequency.abs().tolist() if self.relaxed else []
        return dict(zip(self.relaxed, values, strict=True))

    def baked(self, size: tuple[int, int], images: int) -> nn.Module:
        """The same map as a plain layer with fixed weights, for so many images of a size."""
        g = self.geometry
        with torch.no_grad():
            weight, bias = self.sampled(size)
        if self.positional:
            output = self.kernel.output.detach()
            order = self.order
            if order == "auto":
                order = cheaper_order(g, images, output.shape[-1])
            return PositionConv2d(weight, output, bias, g, size, order)
        out_channels, in_channels, k, _ = weight.shape
        layer = nn.Conv2d(in_channels, out_channels, k, g.stride, g.padding, bias=bias is not None)
        layer.weight = nn.Parameter(weight.clone(), requires_grad=False)
        if bias is not None:
            layer.bias = nn.Parameter(bias.clone(), requires_grad=False)
        return layer.eval()

    def train(self, mode: bool = True) -> "PlaneConv2d":
        """Switch the mode and drop the kept kernel."""
        self._cache.clear()
        return super().train(mode)

    def extra_repr(self) -> str:
        """Sizes, group and relaxation, for ``print(model)``."""
        g = self.geometry
        sizes = f"{g.fields_in}, {g.fields_out}, kernel_size={g.kernel_size}, stride={g.stride}"
        relax = f", relax={self.relaxed}" if self.relaxed else ""
        return f"{sizes}, padding={g.padding}, group={self.group}, mode={self.mode!r}{relax}"

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
        """What training does not change, kept; None where nothing may be kept."""
        if torch.compiler.is_compiling():
            return None
        kept = self._features.get(self)
        if kept is not None or not may_keep(self.relative):
            return kept
        with torch.autocast(self.relative.device.type, enabled=False):
            absolute = self._absolute(None) if self.relaxed else None
            kept = _Features(self._gamma(), absolute)
        if kept.gamma.requires_grad:
            return None
        self._features.put(self, kept, parameters="free")
        return kept

    def _launched(self) -> Launched | None:
        """The kernels that make the filters, kept with the tensors they read; None without them."""
        if torch.compiler.is_compiling() or self._turn() is not None:
            return None
        kept = self._launches.get(self)
        if kept is None:
            features = self._kept_features()
            if features is None:
                return None
            filters = not self._positional and self.mode != "partial"
            network = self._network(features) if filters else None
            kept = "no" if network is None else launch(network, self.lifting) or "no"
            self._launches.put(self, kept, parameters="written")
        return None if isinstance(kept, str) else kept

    def _network(self, features: _Features) -> Network | None:
        """What a kernel makes filters of; None where there are not two hidden layers."""
        k = self.kernel
        if len(k.weights) != 1:
            return None
        layers = (k.relative_weight, k.biases[0], k.weights[0], k.biases[1], k.output)
        parts: tuple[Tensor | None, ...] = (self.mask, self.bias)
        if features.absolute is not None:
            relaxed = (k.absolute_directions, self.relaxed_frequency, k.absolute_weight)
            parts = (*parts, features.absolute, *relaxed)
        return Network(features.gamma, *layers, *parts)

    def _absolute(self, size: tuple[int, int] | None) -> Tensor:
        """The relaxed coordinates of the absolute elements, at each pixel for a size."""
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
        """Of shape (I, J, 1, hidden), or (I, J, positions, k k, hidden) for a size."""
        keep = self._turn() is None and not torch.compiler.is_compiling()
        absolute = self._places.get(self, size) if keep else None
        if absolute is None:
            absolute = self._absolute(size)
            if keep and may_keep(absolute):
                self._places.put(self, absolute, size, "free")
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

    def _check(self, x: Tensor) -> None:
        check_fields(x, self.geometry, self.group, self.lifting)
        if self.positional:  # it casts
            check_together(weights=self.kernel.output, features=x)
            return
        check_like(x, self.kernel.output, "features")
        if x.dtype == self.kernel.output.dtype and not torch.compiler.is_compiling():
            self._taken = (x.shape, x.dtype, x.device)

    def _forget(self) -> None:
        self._cache.clear()
        self._features.clear()
        self._launches.clear()
        self._places.clear()
        self._taken = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "PlaneConv2d":
        self._forget()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *rest: Any) -> None:  # noqa: ANN401
        self._forget()
        check_signature(state.get(f"{prefix}signature"), self.signature, prefix)
        super()._load_from_state_dict(state, prefix, *rest)
