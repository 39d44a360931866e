"""Weight tying over finite groups: layers whose filters come in whole orbits.

Reference: Cohen and Welling 2016, "Group equivariant convolutional networks"; Moskalev et al. 2023,
"On genuine invariance learning without weight-tying", section 4.1 (its WT model ties the first
layer of a perceptron and pools over the group behind it).
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from symmetries._validation.checks import (
    check_choice,
    check_chw,
    check_counts,
    check_floats,
    check_tensors,
    check_whole,
    invalid,
    wrong_type,
)
from symmetries._validation.placement import check_like
from symmetries.actions.images import ImageAction
from symmetries.groups.finite import Cyclic, Dihedral, FiniteGroup, Flip
from symmetries.groups.names import named_group

Pool = Literal["max", "mean"]
POOLS = ("max", "mean")
LARGEST_KERNEL = 1001
LARGEST_CHANNELS = 100_000


def pixel_permutations(group: str | FiniteGroup, shape: Sequence[int]) -> Tensor:
    """(|G|, C H W): for each element and pixel, the pixel that it comes from; (g x)_i = x_p(g, i).

    Args:
        group: group that permutes the pixels: quarter turns, flips, cyclic shifts.
        shape: (C, H, W) of the images.

    Example:
        >>> from symmetries.groups import CyclicShift
        >>> pixel_permutations(CyclicShift("x", 2), (1, 1, 4)).tolist()
        [[0, 1, 2, 3], [2, 3, 0, 1]]
    """
    check_chw(shape)
    group = _finite(group)
    size = math.prod(shape)
    numbers = torch.arange(size, dtype=torch.float64).reshape(1, *shape)
    moved = ImageAction(group).orbit(group.elements(), numbers).reshape(group.order, size)
    table = moved.round().long()
    if not torch.equal(table.sort(1).values, torch.arange(size).expand_as(table)):
        remedy = "use quarter turns on square images, flips or cyclic shifts"
        raise invalid("group", "a group that permutes the pixels", repr(group), remedy)
    return table


def _finite(group: object) -> FiniteGroup:
    found = named_group(group)
    if not isinstance(found, FiniteGroup):
        raise wrong_type("group", "a finite group", found, "try Cyclic(4)")
    return found


def group_permutations(group: str | FiniteGroup, channels: int) -> Tensor:
    """(|G|, channels |G|): how the group moves functions on itself, (g f)(k) = f(g^-1 k).

    For layers after a tied layer that keeps the group axis.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> group_permutations(Cyclic(3), 1).tolist()
        [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
    """
    group = _finite(group)
    check_whole(channels, "channels", most=LARGEST_CHANNELS)
    elements = group.elements()
    back = group.compose(group.inverse(elements)[:, None], elements[None, :])
    offsets = group.order * torch.arange(channels)
    return (back[:, None, :] + offsets[None, :, None]).flatten(1)


class TiedLinear(nn.Module):
    """Linear layer with every filter in all poses of a finite group: h_c(g) = <g w_c, x> + b_c.

    Moving the input by k moves the output along the group: h(k x)(g) = h(x)(k^-1 g). So whatever
    acts on each entry alike, followed by :class:`TiedPool`, is exactly invariant.

    Args:
        permutations: (|G|, D), how the group permutes inputs of D numbers: the result of
            :func:`pixel_permutations` for images and of :func:`group_permutations` after another
            tied layer.
        features: number of filters w_c.
        bias: whether to add b_c.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> turns = pixel_permutations(Cyclic(4), (1, 6, 6))
        >>> layer = nn.Sequential(TiedLinear(turns, 8), nn.ReLU(), TiedPool("mean"))
        >>> x = torch.rand(2, 1, 6, 6)
        >>> torch.allclose(layer(x), layer(x.rot90(1, (2, 3))), atol=1e-6)
        True
    """

    permutations: Tensor

    def __init__(self, permutations: Tensor, features: int, bias: bool = True) -> None:
        super().__init__()
        check_tensors(permutations=permutations)
        check_whole(features, "features")
        if permutations.ndim != 2 or permutations.dtype != torch.int64:
            got = f"shape {tuple(permutations.shape)}, {permutations.dtype}"
            raise invalid("permutations", "int64 (|G|, D)", got, "use pixel_permutations(...)")
        self.register_buffer("permutations", permutations, persistent=False)
        like = nn.Linear(permutations.shape[1], features, bias)  # torch's own initialisation
        self.weight = like.weight
        self.bias = like.bias

    @property
    def order(self) -> int:
        """Number of elements of the group."""
        return len(self.permutations)

    def filters(self) -> Tensor:
        """Return all filters in all poses, (features, |G|, D)."""
        return self.weight[:, self.permutations]

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs (N, ...) with D numbers each to (N, features, |G|)."""
        check_floats(x, "x", "...")
        n, d = len(x) if x.ndim else 0, self.weight.shape[1]
        if x.ndim < 2 or x.shape[1:].numel() != d:
            raise invalid("x", f"(N, ...) with {d} numbers each", tuple(x.shape), "reshape it")
        check_like(x, self.weight, "x")
        out = x.reshape(n, d) @ self.filters().reshape(-1, d).T
        out = out.reshape(n, len(self.weight), self.order)
        return out if self.bias is None else out + self.bias[:, None]

    def extra_repr(self) -> str:
        """Return the sizes shown by print(layer)."""
        features, inputs = self.weight.shape
        return f"{inputs}, {features}, order={self.order}, bias={self.bias is not None}"


class TiedConv2d(nn.Module):
    """Convolution with every filter in all poses of a finite group of rotations and flips.

    Moving the image by k moves each feature map, and permutes the maps along the group. With a
    stride this is exact if the last window ends at the border.

    Args:
        in_channels: channels of the image; after another tied layer, its number of features.
        features: number of filters.
        kernel_size: side of the square filters.
        group: Cyclic(4), Dihedral(4) or Flip.
        bias: whether to add one number per filter.
        padding: number of pixels around the image.
        padding_mode: "zeros" or "circular".
        stride: stride, as in ``nn.Conv2d``.
        dilation: dilation, as in ``nn.Conv2d``.
        lift: whether it takes images (N, C, H, W); False after a tied layer that keeps the
            group axis, (N, C, |G|, H, W).

    Example:
        >>> from symmetries.groups import Cyclic
        >>> first = TiedConv2d(1, 8, 3, Cyclic(4), padding=1)
        >>> first(torch.rand(2, 1, 6, 6)).shape
        torch.Size([2, 8, 4, 6, 6])
        >>> second = TiedConv2d(8, 5, 3, Cyclic(4), lift=False)
        >>> second(first(torch.rand(2, 1, 6, 6)).relu()).shape
        torch.Size([2, 5, 4, 4, 4])
    """

    permutations: Tensor

    def __init__(
        self,
        in_channels: int,
        features: int,
        kernel_size: int,
        group: str | FiniteGroup,
        *,
        bias: bool = True,
        padding: int = 0,
        padding_mode: Literal["zeros", "circular"] = "zeros",
        stride: int = 1,
        dilation: int = 1,
        lift: bool = True,
    ) -> None:
        super().__init__()
        check_choice(padding_mode, ("zeros", "circular"), "padding_mode")
        check_counts(in_channels=in_channels, features=features, stride=stride, dilation=dilation)
        check_whole(kernel_size, "kernel_size", most=LARGEST_KERNEL)
        check_whole(padding, "padding", least=0)
        group = _finite(group)
        if not isinstance(group, Cyclic | Dihedral | Flip):
            remedy = "shifts need no tying: a convolution has them"
            raise wrong_type("group", "rotations or flips: Cyclic, Dihedral or Flip", group, remedy)
        places = pixel_permutations(group, (1, kernel_size, kernel_size))
        channels = in_channels if lift else in_channels * group.order
        sources = torch.arange(channels).expand(group.order, -1)
        sources = sources if lift else group_permutations(group, in_channels)
        table = (sources[:, :, None] * kernel_size**2 + places[:, None]).flatten(1)
        self.register_buffer("permutations", table, persistent=False)
        like = nn.Conv2d(channels, features, kernel_size, bias=bias)  # torch's own initialisation
        self.weight = like.weight
        self.bias = like.bias
        self.order = group.order
        self.lift = lift
        self.stride, self.dilation = stride, dilation
        self.padding = padding
        self.padding_mode = "constant" if padding_mode == "zeros" else "circular"

    def filters(self) -> Tensor:
        """Return all filters in all poses, (features, |G|, C, k, k)."""
        moved = self.weight.flatten(1)[:, self.permutations]
        return moved.reshape(len(self.weight), -1, *self.weight.shape[1:])

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, C, H, W), or (N, C, |G|, H, W), to (N, features, |G|, H', W')."""
        channels = self.weight.shape[1]
        if self.lift:
            check_floats(x, "x", "N", channels, "H", "W")
        else:
            check_floats(x, "x", "N", channels // self.order, self.order, "H", "W")
            x = x.flatten(1, 2)
        check_like(x, self.weight, "x")
        filters = self.filters().flatten(0, 1)
        x = F.pad(x, (self.padding,) * 4, mode=self.padding_mode)
        out: Tensor = F.conv2d(x, filters, stride=self.stride, dilation=self.dilation)
        out = out.unflatten(1, (len(self.weight), -1))
        return out if self.bias is None else out + self.bias[:, None, None, None]


def tie(
    layer: nn.Linear | nn.Conv2d, group: str | FiniteGroup, shape: Sequence[int] | None = None
) -> TiedLinear | TiedConv2d:
    """Return a layer like this one with its filters in all poses of a group; pool its output.

    Args:
        layer: layer whose weights become the filters in their first pose. It is not changed.
        group: group that permutes the pixels.
        shape: (C, H, W) of the images that a linear layer takes flattened.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> plain = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> first = tie(plain[1], Cyclic(4), (1, 6, 6))
        >>> tied = nn.Sequential(first, plain[2], TiedPool("max"), plain[3])
        >>> x = torch.rand(2, 1, 6, 6)
        >>> torch.allclose(tied(x), tied(x.rot90(1, (2, 3))), atol=1e-6)
        True
    """
    made: TiedLinear | TiedConv2d
    if isinstance(layer, nn.Linear):
        shape = () if shape is None else shape
        check_chw(shape)
        if math.prod(shape) != layer.in_features:
            expected = f"(C, H, W) of {layer.in_features} numbers"
            raise invalid("shape", expected, shape, "give the shape of one image")
        made = TiedLinear(pixel_permutations(group, shape), layer.out_features, _has_bias(layer))
    elif isinstance(layer, nn.Conv2d):
        made = _tied_convolution(layer, group)
    else:
        raise wrong_type("layer", "an nn.Linear or an nn.Conv2d", layer, "tie one of these")
    made.load_state_dict(layer.state_dict())
    return made.to(layer.weight)


def _tied_convolution(layer: nn.Conv2d, group: str | FiniteGroup) -> TiedConv2d:
    if layer.groups != 1 or layer.padding_mode not in ("zeros", "circular"):
        got = f"groups={layer.groups}, padding_mode={layer.padding_mode!r}"
        remedy = "use a plain convolution with padding by zeros or circular"
        raise invalid("layer", "one group of channels, padding by zeros or circular", got, remedy)
    k, stride, dilation = (_square(v) for v in (layer.kernel_size, layer.stride, layer.dilation))
    if layer.padding == "same" and k % 2 == 0:
        raise invalid("layer", "odd filters with padding 'same'", k, "pad by a number of pixels")
    ends = {"valid": 0, "same": dilation * (k - 1) // 2}
    word = layer.padding
    padding = ends[word] if isinstance(word, str) else _square(word)
    mode: Literal["zeros", "circular"] = "zeros" if layer.padding_mode == "zeros" else "circular"
    return TiedConv2d(
        layer.in_channels,
        layer.out_channels,
        k,
        group,
        bias=_has_bias(layer),
        padding=padding,
        padding_mode=mode,
        stride=stride,
        dilation=dilation,
    )


def _square(sizes: tuple[int, ...]) -> int:
    if len(set(sizes)) > 1:
        remedy = "rotations need equal filter sides, strides and padding"
        raise invalid("layer", "the same size in both directions", sizes, remedy)
    return int(sizes[0])


def _has_bias(layer: nn.Linear | nn.Conv2d) -> bool:
    return layer.bias is not None


class TiedPool(nn.Module):
    """The largest or mean value over the group: (N, features, |G|, ...) to (N, features, ...).

    Args:
        how: "max" or "mean".

    Example:
        >>> TiedPool("max")(torch.arange(6.0).reshape(1, 2, 3)).tolist()
        [[2.0, 5.0]]
    """

    def __init__(self, how: Pool = "max") -> None:
        super().__init__()
        check_choice(how, POOLS, "how")
        self.how = how

    def forward(self, h: Tensor) -> Tensor:
        """Pool the third axis."""
        check_floats(h, "h", "...")
        if h.ndim < 3:
            raise invalid("h", "(N, features, |G|, ...)", tuple(h.shape), "pool a tied layer")
        return h.amax(2) if self.how == "max" else h.mean(2)

    def extra_repr(self) -> str:
        """Return the arguments shown by print(pool)."""
        return repr(self.how)
