"""Classification networks of group convolutions: a residual and a plain one.

The residual network is that of Romero and Lohit 2022, Learning Partial Equivariances from Data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import (
    check_counts,
    check_flag,
    check_images,
    check_number,
    wrong_type,
)
from symmetries._validation.placement import check_like
from symmetries.nn.gconv import GroupConv2d, LiftingConv2d
from symmetries.nn.gconv_sampling import PointGroup, as_point_group
from symmetries.nn.gpool import FieldBatchNorm2d, FieldNorm2d, GroupPool


@dataclass(frozen=True)
class Symmetry:
    """Common settings of the layers of a network.

    Args:
        group: rotations and flips, beside the translations; or the name of the group.
        mode: "strict", "soft" or "partial".
        relax: for "soft", the initial omega' of each relaxed coordinate.
        learn: whether omega' (or the partial fraction) is learned.
        options: further arguments of the layers, such as ``hidden``.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> Symmetry("c4", "soft", {"rotation": 0.5}).lifting()["mode"]
        'soft'
        >>> Symmetry(Cyclic(4), "partial").lifting()["mode"]  # always the whole group
        'strict'
    """

    group: PointGroup
    mode: str = "soft"
    relax: Mapping[str, float] | None = None
    learn: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", as_point_group(self.group))

    def layer(self) -> dict[str, Any]:
        """Return the arguments of a group convolution that is followed by a norm and a relu.

        The norm removes a bias again, unless only a part of the elements has it.
        """
        common = {"group": self.group, "mode": self.mode, "relax": self.relax, "learn": self.learn}
        return {"gain": 2**0.5, "bias": self.mode == "partial", **common, **self.options}

    def lifting(self) -> dict[str, Any]:
        """Return the arguments of a lifting convolution."""
        strict = {"mode": "strict", "relax": None} if self.mode == "partial" else {}
        return {**self.layer(), "bias": False, **strict}


def _check_network(symmetry: object, **counts: int) -> None:
    if not isinstance(symmetry, Symmetry):
        raise wrong_type("symmetry", "a Symmetry", symmetry, "try Symmetry(Cyclic(4))")
    check_counts(**counts)


class FieldDropout2d(nn.Module):
    """Dropout of whole fields: all elements, rows and columns of a field of a sample together.

    So it commutes with the group, as norms of fields do.

    Args:
        probability: of a field to be zero, in training.
        group: H.

    Example:
        >>> import torch
        >>> from symmetries.groups import Cyclic
        >>> y = FieldDropout2d(0.5, Cyclic(4))(torch.ones(2, 12, 5, 5))
        >>> sorted(set(y.unflatten(1, (3, 4)).sum((2, 3, 4)).flatten().tolist()) | {0.0, 200.0})
        [0.0, 200.0]
    """

    def __init__(self, probability: float, group: PointGroup) -> None:
        super().__init__()
        check_number(probability, "probability", 0, 0.95)
        self.probability = probability
        self.group = as_point_group(group)

    def forward(self, x: Tensor) -> Tensor:
        """Return fields of the shape of ``x``, the remaining ones scaled up."""
        if not self.training or not self.probability:
            return x
        n, channels = x.shape[:2]
        kept = x.new_ones(n, channels // self.group.order, 1, 1, 1)
        kept = F.dropout(kept, self.probability).expand(-1, -1, self.group.order, 1, 1)
        return x * kept.reshape(n, channels, 1, 1)


class ResidualBlock(nn.Module):
    """Block pool(norm(f(x) + shortcut(x))) with a relu; f is twice convolution, norm, relu.

    Args:
        fields_in: number of input fields.
        fields_out: number of output fields.
        kernel_size: side of the filters of the two convolutions; the shortcut is pointwise.
        symmetry: common settings of the layers.
    """

    def __init__(
        self, fields_in: int, fields_out: int, kernel_size: int, symmetry: Symmetry
    ) -> None:
        super().__init__()
        group, layer = symmetry.group, symmetry.layer()
        self.body = nn.Sequential(
            GroupConv2d(fields_in, fields_out, kernel_size, padding="same", **layer),
            FieldNorm2d(fields_out, group),
            nn.ReLU(),
            GroupConv2d(fields_out, fields_out, kernel_size, padding="same", **layer),
            FieldNorm2d(fields_out, group),
            nn.ReLU(),
        )
        self.shortcut = GroupConv2d(fields_in, fields_out, 1, **layer)
        self.norm = FieldBatchNorm2d(fields_out, group)

    def forward(self, x: Tensor) -> Tensor:
        """Return fields of half the size."""
        x = self.norm(self.body(x) + self.shortcut(x))
        return F.max_pool2d(x, 2).relu()


class RelaxedResNet(nn.Module):
    """Lifting, two residual blocks, a last convolution, the maximum over the group, a linear head.

    Args:
        channels: number of channels of the images.
        classes: number of classes.
        symmetry: common settings of the layers.
        width: number of fields of the lifting and the first block; the others have twice as many.
        kernel_size: side of the filters of all but the pointwise layers.
        last_kernel: side of the filters of the last convolution, which does not pad; at most a
            quarter of the image.
        pool_first: whether fields are pooled to half the size after the lifting, too. It takes a
            quarter of the operations; ``last_kernel`` is then at most an eighth of the image.
        dropout: probability of :class:`FieldDropout2d` after each block and before the head.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> model = RelaxedResNet(1, 10, Symmetry(Cyclic(4)), width=4, kernel_size=3, last_kernel=2)
        >>> import torch
        >>> model(torch.rand(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        symmetry: Symmetry,
        *,
        width: int = 32,
        kernel_size: int = 7,
        last_kernel: int | None = None,
        pool_first: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        counts = {"channels": channels, "classes": classes, "width": width}
        _check_network(symmetry, **counts, kernel_size=kernel_size)
        group, last = symmetry.group, kernel_size if last_kernel is None else last_kernel
        self.lift = LiftingConv2d(
            channels, width, kernel_size, padding="same", **symmetry.lifting()
        )
        self.norm = FieldNorm2d(width, group)
        check_flag(pool_first, "pool_first")
        self.pool_first = pool_first
        drop = [FieldDropout2d(dropout, group)] if dropout else []
        self.blocks = nn.Sequential(
            ResidualBlock(width, width, kernel_size, symmetry),
            *drop,
            ResidualBlock(width, 2 * width, kernel_size, symmetry),
            *drop,
        )
        self.last = nn.Sequential(
            GroupConv2d(2 * width, 2 * width, last, **symmetry.layer()),
            FieldBatchNorm2d(2 * width, group),
            nn.ReLU(),
            *drop,
        )
        self.pool = GroupPool(group, "max", space=True)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (N, classes) of images (N, C, H, W)."""
        check_images(images)
        check_like(images, self.head.weight, "images")
        x = self.norm(self.lift(images))
        x = self.blocks((F.max_pool2d(x, 2) if self.pool_first else x).relu())
        return self.head(self.pool(self.last(x)))


class RelaxedCNN(nn.Module):
    """Lifting, pooling, two group convolutions, the maximum over the group, a linear head.

    Args:
        channels: number of channels of the images.
        classes: number of classes.
        symmetry: common settings of the layers.
        width: number of fields of the lifting; the others have twice as many.
        kernel_size: side of the filters of the three layers; the last does not pad.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> model = RelaxedCNN(1, 10, Symmetry(Cyclic(4)), width=4, kernel_size=3)
        >>> import torch
        >>> model(torch.rand(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        symmetry: Symmetry,
        *,
        width: int = 16,
        kernel_size: int = 5,
    ) -> None:
        super().__init__()
        counts = {"channels": channels, "classes": classes, "width": width}
        _check_network(symmetry, **counts, kernel_size=kernel_size)
        group, layer, k = symmetry.group, symmetry.layer(), kernel_size
        self.features = nn.Sequential(
            LiftingConv2d(channels, width, k, padding="same", **symmetry.lifting()),
            FieldBatchNorm2d(width, group),
            nn.MaxPool2d(2),
            nn.ReLU(),  # after the maximum, with which it commutes
            GroupConv2d(width, 2 * width, k, padding="same", **layer),
            FieldBatchNorm2d(2 * width, group),
            nn.ReLU(),
            GroupConv2d(2 * width, 2 * width, k, **layer),
            FieldBatchNorm2d(2 * width, group),
            nn.ReLU(),
            GroupPool(group, "max", space=True),
        )
        self.head = nn.Linear(2 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (N, classes) of images (N, C, H, W)."""
        check_images(images)
        check_like(images, self.head.weight, "images")
        return self.head(self.features(images))
