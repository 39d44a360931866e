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

from torch import Tensor, nn

from symmetries.nn.plane_conv import PlaneConv2d


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
