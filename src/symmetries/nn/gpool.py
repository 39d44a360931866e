"""Fields on a group: their transformation, their norms, and pooling to images.

Fields are laid out as in :mod:`symmetries.nn.gconv`: (N, C |H|, H, W), channel c |H| + h. Norms
average over all elements of a field together, and so commute with the group.
"""

import torch
from torch import Tensor, nn

from symmetries._validation.checks import (
    check_choice,
    check_images,
    check_number,
    check_whole,
    invalid,
)
from symmetries._validation.placement import check_together
from symmetries.actions.permute import permute, permutes_pixels
from symmetries.nn.gconv_sampling import PointGroup, as_point_group
from symmetries.ops.field_norm import field_norm, scale_fields


def split_fields(x: Tensor, elements: int) -> Tensor:
    """Return the view (N, C, |H|, H, W) of fields (N, C |H|, H, W).

    Example:
        >>> split_fields(torch.rand(2, 12, 5, 5), 4).shape
        torch.Size([2, 3, 4, 5, 5])
    """
    check_images(x, "features")
    if x.shape[1] % elements:
        got = f"{x.shape[1]} channels"
        raise invalid("features", f"channels in fields of {elements}", got, "check the group")
    n, channels, height, width = x.shape
    return x.view(n, channels // elements, elements, height, width)


def act_on_fields(group: str | PointGroup, element: Tensor, x: Tensor) -> Tensor:
    """(g f)(y, h) = f(g^-1 y, g^-1 h): how a rotation or flip of the grid moves fields.

    Args:
        group: H.
        element: () index of an element that permutes the pixels.
        x: (N, C |H|, H, W).

    Example:
        >>> from symmetries.groups import Cyclic
        >>> x = torch.rand(1, 8, 5, 5)
        >>> four = act_on_fields(Cyclic(8), torch.tensor(2), x)
        >>> for _ in range(3): four = act_on_fields(Cyclic(8), torch.tensor(2), four)
        >>> torch.equal(four, x)
        True
    """
    group = as_point_group(group)
    fields = split_fields(x, group.order)
    pixels, index = _pixel_group(group, int(element))
    if not permutes_pixels(pixels, *x.shape[2:]):
        got = f"element {int(element)} of {group} on {x.shape[2]} x {x.shape[3]}"
        raise invalid("element", "a map of the pixels onto each other", got, "use quarter turns")
    source = group.compose(group.inverse(torch.as_tensor(int(element))), group.elements())
    return permute(pixels, torch.tensor(index, device=x.device), fields[:, :, source].flatten(1, 2))


def _pixel_group(group: PointGroup, element: int) -> tuple[PointGroup, int]:
    """Return the group of pixel permutations that contains an element of H, and its index there."""
    rotation, flip = element % group.n, element // group.n
    for n in (1, 2, 4):
        if rotation * n % group.n == 0:
            return type(group)(n), rotation * n // group.n + n * flip
    return group, element


class GroupPool(nn.Module):
    """Pooling of fields on the group to images, or to one number per field.

    The maximum or mean over the elements is invariant to H acting on each point. With
    ``space=True`` it is also taken over all positions, and so invariant to the whole group.

    Args:
        group: H.
        reduction: "max", "mean", or "sum".
        space: whether to pool over the positions too.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> x = torch.rand(2, 12, 5, 5)
        >>> GroupPool(Cyclic(4))(x).shape, GroupPool(Cyclic(4), space=True)(x).shape
        (torch.Size([2, 3, 5, 5]), torch.Size([2, 3]))
    """

    def __init__(
        self, group: str | PointGroup, reduction: str = "max", space: bool = False
    ) -> None:
        super().__init__()
        check_choice(reduction, ("max", "mean", "sum"), "reduction")
        group = as_point_group(group)
        self.group = group
        self.reduction = reduction
        self.space = space

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, C, H, W), or (N, C) with ``space``, from (N, C |H|, H, W)."""
        fields = split_fields(x, self.group.order)
        axes = (2, 3, 4) if self.space else (2,)
        if self.reduction == "max":
            return fields.amax(axes)
        return fields.mean(axes) if self.reduction == "mean" else fields.sum(axes)

    def extra_repr(self) -> str:
        """Return the arguments shown by ``print(model)``."""
        return f"{self.group}, {self.reduction}, space={self.space}"


class FieldNorm2d(nn.Module):
    """Layer norm over (element, row, column): normalises each field of each sample.

    Args:
        fields: number of fields C.
        group: H.
        eps: added to the variance.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> y = FieldNorm2d(3, Cyclic(4))(3 + torch.randn(2, 12, 5, 5))
        >>> bool(split_fields(y, 4).mean((2, 3, 4)).abs().max() < 1e-5)
        True
    """

    def __init__(self, fields: int, group: str | PointGroup, eps: float = 1e-5) -> None:
        super().__init__()
        check_whole(fields, "fields")
        group = as_point_group(group)
        check_number(eps, "eps", least=0)
        self.weight = nn.Parameter(torch.ones(fields))
        self.bias = nn.Parameter(torch.zeros(fields))
        self.group = group
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Return normalised fields, of the shape of ``x``."""
        split_fields(x, self.group.order)  # checks
        check_together(weights=self.weight, features=x)
        options = {"batch": False, "training": self.training}
        return field_norm(x, self.weight, self.bias, self.group.order, self.eps, **options)[0]


class FieldBatchNorm2d(nn.Module):
    """Batch norm of fields: mean and variance over samples, elements, rows and columns.

    Args:
        fields: number of fields C.
        group: H.
        eps: added to the variance.
        momentum: weight of the latest batch in the running averages.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> y = FieldBatchNorm2d(3, Cyclic(4))(3 + torch.randn(2, 12, 5, 5))
        >>> bool(split_fields(y, 4).mean((0, 2, 3, 4)).abs().max() < 1e-5)
        True
    """

    def __init__(
        self, fields: int, group: str | PointGroup, eps: float = 1e-5, momentum: float = 0.1
    ) -> None:
        super().__init__()
        check_whole(fields, "fields")
        group = as_point_group(group)
        check_number(eps, "eps", least=0)
        check_number(momentum, "momentum", 0, 1)
        self.weight = nn.Parameter(torch.ones(fields))
        self.bias = nn.Parameter(torch.zeros(fields))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("running_mean", torch.zeros(fields))
        self.register_buffer("running_var", torch.ones(fields))
        self.group = group
        self.eps = eps
        self.momentum = momentum

    def forward(self, x: Tensor) -> Tensor:
        """Return normalised fields, of the shape of ``x``."""
        fields = split_fields(x, self.group.order)
        check_together(weights=self.weight, features=x)
        if self.training:
            order, eps = self.group.order, self.eps
            y, mean, variance = field_norm(
                x, self.weight, self.bias, order, eps, batch=True, training=True
            )
            self._follow(mean[0], variance[0], fields)
            return y
        shape = (1, -1, 1, 1, 1)
        mean, variance = self.running_mean.view(shape), self.running_var.view(shape)
        return scale_fields(fields, mean, variance, self.weight, self.bias, self.eps)

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor, fields: Tensor) -> None:
        """Update the running averages with a batch."""
        count = fields.numel() // fields.shape[1]
        unbiased = variance * (count / max(count - 1, 1))
        mean = mean.to(self.running_mean.dtype)
        self.running_mean.copy_(torch.lerp(self.running_mean, mean, self.momentum))
        unbiased = unbiased.to(self.running_var.dtype)
        self.running_var.copy_(torch.lerp(self.running_var, unbiased, self.momentum))
