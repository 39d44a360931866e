"""Networks of group convolutions for classification: a residual one and a plain one.

The residual network is that of Romero and Lohit 2022, Learning Partial Equivariances from Data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import check_images, check_whole, wrong_type
from symmetries._validation.placement import check_like
from symmetries.nn.gconv import GroupConv2d, LiftingConv2d
from symmetries.nn.gconv_kernels import PointGroup, as_point_group
from symmetries.nn.gpool import FieldBatchNorm2d, FieldNorm2d, GroupPool


@dataclass(frozen=True)
class Symmetry:
    """What the layers of a network have in common.

    Args:
        group: rotations and flips, beside the translations; or the name of the group.
        mode: "strict", "soft" or "partial".
        relax: for "soft", omega' of each relaxed coordinate at the start.
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
        """Arguments of a group convolution; its output goes through a norm and a relu.

        The norm takes a bias out again, unless only a part of the elements has it.
        """
        common = {"group": self.group, "mode": self.mode, "relax": self.relax, "learn": self.learn}
        return {"gain": 2**0.5, "bias": self.mode == "partial", **common, **self.options}

    def lifting(self) -> dict[str, Any]:
        """Arguments of a lifting."""
        strict = {"mode": "strict", "relax": None} if self.mode == "partial" else {}
        return {**self.layer(), "bias": False, **strict}


def _check_network(symmetry: object, **counts: int) -> None:
    if not isinstance(symmetry, Symmetry):
        raise wrong_type("symmetry", "a Symmetry", symmetry, "try Symmetry(Cyclic(4))")
    for name, count in counts.items():
        check_whole(count, name)


class ResidualBlock(nn.Module):
    """Pool(norm(f(x) + shortcut(x))) and a relu; f is twice convolution, norm, relu.

    Args:
        fields_in: fields that come in.
        fields_out: fields that go out.
        kernel_size: of the two convolutions; the shortcut is pointwise.
        symmetry: of the layers.
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
        """Fields of half the size."""
        x = self.norm(self.body(x) + self.shortcut(x))
        return F.max_pool2d(x, 2).relu()


class RelaxedResNet(nn.Module):
    """Lifting, two residual blocks, a last convolution, the maximum over the group, a linear head.

    Args:
        channels: of the images.
        classes: number of classes.
        symmetry: of the layers.
        width: fields of the lifting and the first block; the second and the last have twice that.
        kernel_size: of all but the pointwise layers.
        last_kernel: of the last convolution, which does not pad; at most a quarter of the image.

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
    ) -> None:
        super().__init__()
        counts = {"channels": channels, "classes": classes, "width": width}
        _check_network(symmetry, **counts, kernel_size=kernel_size)
        group, last = symmetry.group, kernel_size if last_kernel is None else last_kernel
        self.lift = LiftingConv2d(
            channels, width, kernel_size, padding="same", **symmetry.lifting()
        )
        self.norm = FieldNorm2d(width, group)
        self.blocks = nn.Sequential(
            ResidualBlock(width, width, kernel_size, symmetry),
            ResidualBlock(width, 2 * width, kernel_size, symmetry),
        )
        self.last = nn.Sequential(
            GroupConv2d(2 * width, 2 * width, last, **symmetry.layer()),
            FieldBatchNorm2d(2 * width, group),
            nn.ReLU(),
        )
        self.pool = GroupPool(group, "max", space=True)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (N, classes) of images (N, C, H, W)."""
        check_images(images)
        check_like(images, self.head.weight, "images")
        x = self.blocks(self.norm(self.lift(images)).relu())
        logits: Tensor = self.head(self.pool(self.last(x)))
        return logits


class RelaxedCNN(nn.Module):
    """Lifting, pooling, two group convolutions, the maximum over the group, a linear head.

    Args:
        channels: of the images.
        classes: number of classes.
        symmetry: of the layers.
        width: fields of the lifting; the others have twice that.
        kernel_size: of the three layers; the last does not pad.

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
        """Logits (N, classes) of images (N, C, H, W)."""
        check_images(images)
        check_like(images, self.head.weight, "images")
        logits: Tensor = self.head(self.features(images))
        return logits
