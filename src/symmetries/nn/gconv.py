r"""Group convolutions over the plane whose equivariance is relaxed by a learned amount.

.. math:: h(u) = \sum_v k\big(\gamma_\omega(\log v^{-1}u),\ \gamma_{\omega'}(\log v)\big)\,f(v)

on T(2) times a finite group H of rotations and flips. omega' = 0 is the strictly equivariant
convolution; omega = omega' = 0 sums over the support; a large omega' gives every position or
orientation its own filters. Functions on the group are tensors (N, C |H|, H, W): field c at element
h is channel c |H| + h, so operations that act on each channel and pixel alike (relu, pooling over
pixels, dropout) need no change. H = Cyclic(1) is T(2), with the layout of an ordinary convolution.
kernel_size = 1 is a convolution over H alone, such as SO(2), at every pixel.

Reference: van der Ouderaa, Romero, van der Wilk 2022, Relaxing Equivariance Constraints with
Non-stationary Continuous Filters.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._utils.exporting import exporting
from symmetries._validation.checks import check_choice, check_counts, invalid
from symmetries._validation.placement import check_like, check_together
from symmetries.nn.conv_kernel import ConvKernel
from symmetries.nn.gconv_sampling import (
    PointGroup,
    as_point_group,
    check_as_conv2d,
    check_fields,
    coordinate_names,
    one_number,
    padding_of,
    plain,
    relaxed_coordinates,
)
from symmetries.ops.position_conv import ORDERS, Geometry, cheaper_order, position_conv2d

MODES = ("strict", "soft", "partial")
NOTHING = (None, None, None)


class PositionConv2d(nn.Module):
    """A position-dependent convolution with its kernel fixed, for images of one size.

    Args:
        phi: see :func:`position_conv2d`.
        output: V.
        bias: (O I,) or None.
        geometry: the sizes.
        size: height and width of the images.
        order: as for :func:`position_conv2d`.
    """

    def __init__(
        self,
        phi: Tensor,
        output: Tensor,
        bias: Tensor | None,
        geometry: Geometry,
        size: tuple[int, int],
        order: str,
    ) -> None:
        super().__init__()
        self.phi: Tensor
        self.output: Tensor
        self.bias: Tensor | None
        self.register_buffer("phi", phi)
        self.register_buffer("output", output)
        self.register_buffer("bias", bias)
        self.geometry = geometry
        self.size = size
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        """Apply the kernel to images (N, C J, H, W) of the size it was made for."""
        return position_conv2d(x, self.phi, self.output, self.bias, self.geometry, self.order)


class PlaneConv2d(ConvKernel):
    """Convolution over T(2) times H, the common base of the layers in :mod:`symmetries.nn.gconv`.

    Args:
        in_channels: number of input fields (of channels, for a lifting).
        out_channels: number of output fields; the tensor has |H| times as many channels.
        kernel_size: side k of the k x k filters. As in ``nn.Conv2d`` a pair of equal numbers is
            accepted too, here and for the next three.
        stride: stride in pixels. Rotations of the grid stay exact if (size + 2 padding - k) is a
            multiple of it.
        padding: number of zeros on each side, "same" or "valid".
        dilation: 1; use a larger kernel_size, because the filters are samples of a function.
        groups: 1 group of channels.
        bias: whether to add one number per field.
        padding_mode: "zeros".
        device: device of the weights.
        dtype: dtype of the weights.
        group: H, ``Cyclic(n)`` or ``Dihedral(n)``.
        mode: "strict": equivariant. "soft": the kernel function also depends on the coordinates in
            ``relax``. "partial" (Romero and Lohit 2022): the output has only a learned part of the
            rotations, around the identity; the others are zero.
        relax: for "soft", the initial frequency omega' of each relaxed coordinate: any of
            "rotation", "flip", "shift_x", "shift_y", or "translation" for both shifts. The default
            is rotation, or translation if there is none, at 0.1. Start small if it is learned (a
            large omega' is not more relaxed, its filters only vary faster). The shifts are those
            of log v: in the frame of a rotated v both depend on both directions.
        learn: whether omega' (or the partial fraction) is a parameter; otherwise a buffer.
        frequency: omega, one number for all coordinates.
        gain: initial root mean square of the output for inputs of mean square 1.
        features: number D of Fourier features of the kernel network.
        hidden: number of units of the kernel network.
        order: for relaxed translation, see :func:`~symmetries.ops.position_conv.position_conv2d`.
        generator: random generator of the weights.
    """

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
        group: str | PointGroup,
        mode: str | None = None,
        relax: Mapping[str, float] | None = None,
        learn: bool = True,
        frequency: float = 1.0,
        gain: float = 1.0,
        features: int = 32,
        hidden: int = 32,
        order: str = "auto",
        generator: torch.Generator | None = None,
    ) -> None:
        k: int = one_number(kernel_size)
        step: int = one_number(stride)
        check_as_conv2d(one_number(dilation), groups, padding_mode)
        mode = self.default_mode if mode is None else mode
        check_choice(mode, MODES, "mode")
        check_choice(order, ORDERS, "order")
        counts = {"in_channels": in_channels, "out_channels": out_channels}
        check_counts(**counts, stride=step, kernel_size=k)
        group = as_point_group(group)
        elements = group.order
        fields = (in_channels, out_channels, 1 if self.lifting else elements, elements)
        super().__init__(
            Geometry(*fields, k, step, padding_of(one_number(padding), k)),
            group,
            mode,
            relaxed_coordinates(coordinate_names(group), mode, relax),
            learn=learn,
            frequency=frequency,
            gain=gain,
            bias=bias,
            network={"features": features, "hidden": hidden},
            generator=generator,
        )
        self.order = order
        self._last_input: tuple[object, ...] = NOTHING  # shape, dtype, device of the last input
        # Filters in channels-last layout make conv2d use it, except for filters of one tap, whose
        # layout is ambiguous.
        self._direct = k > 1 and not self._positional
        if device is not None or dtype is not None:
            self.to(device=device, dtype=dtype)

    @property
    def positional(self) -> bool:
        """Whether the kernel function, and so the filters, depend on the position."""
        return self._positional

    def forward(self, x: Tensor) -> Tensor:
        """Apply the convolution.

        Args:
            x: (N, in_channels |H|, H, W), or (N, in_channels, H, W) for a lifting.

        Returns:
            (N, out_channels |H|, height, width), channels last in memory.
        """
        g = self.geometry
        if not (self.training or torch.is_grad_enabled() or torch.compiler.is_compiling()):
            kept = self._cache.get(self) if self._direct else None
            if kept is not None:
                try:
                    if x.shape == self._last_input[0]:
                        return F.conv2d(x, kept.weight, kept.bias, g.stride, g.padding)
                except (AttributeError, RuntimeError, TypeError):
                    self._check(x)  # raises an error if the input is the cause
                    raise
        if not isinstance(x, Tensor) or (x.shape, x.dtype, x.device) != self._last_input:
            self._check(x)
        _, _, height, width = x.shape
        if self.training and torch.compiler.is_compiling() and exporting():
            raise invalid("model", "eval mode for an export", "training", "call model.eval()")
        weight, bias = self.sampled((height, width))
        if self._positional:
            return position_conv2d(x, weight, self.kernel.output, bias, g, self.order)
        # Channels-last is faster on CPUs and GPUs; later operations keep the layout.
        x = x.contiguous(memory_format=torch.channels_last)
        return F.conv2d(x, weight, bias, g.stride, g.padding)

    def baked(self, size: tuple[int, int], images: int) -> nn.Module:
        """Return the same map as a plain layer with fixed weights, for images of a size."""
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

    def relaxation(self) -> dict[str, float]:
        """Return, by coordinate, |omega'| (0 is strict) or the fraction kept (1 is strict)."""
        if self.mode == "partial":
            return {"rotation": min(1.0, self.fraction.abs().item())}
        values = self.relaxed_frequency.abs().tolist() if self.relaxed else []
        return dict(zip(self.relaxed, values, strict=True))

    def train(self, mode: bool = True) -> "PlaneConv2d":
        """Switch the mode and clear the cached filters."""
        self._cache.clear()
        return super().train(mode)

    def extra_repr(self) -> str:
        """Return sizes, group and relaxation, for ``print(model)``."""
        g = self.geometry
        sizes = f"{g.fields_in}, {g.fields_out}, kernel_size={g.kernel_size}, stride={g.stride}"
        relax = f", relax={self.relaxed}" if self.relaxed else ""
        return f"{sizes}, padding={g.padding}, group={self.group}, mode={self.mode!r}{relax}"

    def _check(self, x: Tensor) -> None:
        check_fields(x, self.geometry, self.group, self.lifting)
        if self.positional:  # this path casts by itself
            check_together(weights=self.kernel.output, features=x)
        else:
            check_like(x, self.kernel.output, "features")
        if torch.compiler.is_compiling() or any(type(length) is not int for length in x.shape):
            return  # the call is traced
        if x.dtype == self.kernel.output.dtype and plain(x):
            self._last_input = (x.shape, x.dtype, x.device)

    def _forget(self) -> None:
        super()._forget()
        self._last_input = NOTHING


class LiftingConv2d(PlaneConv2d):
    """Lifting convolution from an image to the group: h(x, i) = sum_y k(M_i^-1 (x - y)) f(y).

    It takes (N, in_channels, H, W). The filter of orientation i is the filter rotated by i; in mode
    "soft" it also depends on i itself or on the position. For arguments see :class:`PlaneConv2d`;
    the default mode is "strict".

    Example:
        >>> import torch
        >>> from symmetries.groups import Cyclic
        >>> layer = LiftingConv2d(3, 8, 5, padding="same", group=Cyclic(4))
        >>> layer(torch.rand(2, 3, 16, 16)).shape
        torch.Size([2, 32, 16, 16])
    """

    lifting = True
    default_mode = "strict"


class GroupConv2d(PlaneConv2d):
    """Group convolution h(u) = sum_v k(v^-1 u) f(v); for arguments see :class:`PlaneConv2d`.

    Example:
        >>> import torch
        >>> from symmetries.groups import Cyclic
        >>> layer = GroupConv2d(8, 4, 3, padding=1, group=Cyclic(4))
        >>> layer(torch.rand(2, 32, 16, 16)).shape
        torch.Size([2, 16, 16, 16])
    """

    lifting = False
    default_mode = "strict"


class RelaxedGroupConv2d(PlaneConv2d):
    """Group convolution whose kernel function k(v^-1 u, v) also depends on v itself.

    It is :class:`GroupConv2d` with the default mode "soft". For arguments see :class:`PlaneConv2d`.

    Example:
        >>> import torch
        >>> from symmetries.groups import Cyclic
        >>> layer = RelaxedGroupConv2d(8, 4, 3, group=Cyclic(4), relax={"rotation": 0.5})
        >>> layer.relaxed, layer.relaxed_frequency.tolist()
        (('rotation',), [0.5])
        >>> layer = RelaxedGroupConv2d(2, 4, 3, group=Cyclic(1), relax={"translation": 0.5})
        >>> layer(torch.rand(1, 2, 5, 9)).shape
        torch.Size([1, 4, 3, 7])
    """

    lifting = False
    default_mode = "soft"


def turn_grid(model: nn.Module, angle: Tensor | None) -> None:
    """Make all layers of a model sample their rotations from ``angle`` on, in training.

    In eval mode they are always at 0, 2 pi / n, ... A network is equivariant at any angle, but its
    layers must agree on it: draw one angle (a scalar tensor) for each training step. None means no
    rotation. The tensor itself is kept, so filling it in place changes the angle.
    """
    for module in model.modules():
        if isinstance(module, PlaneConv2d):
            module.turn = angle
