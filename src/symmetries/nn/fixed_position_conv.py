"""A position-dependent convolution with fixed filters, as a layer."""

from torch import Tensor, nn

from symmetries.ops.position_conv import Geometry, position_conv2d


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
