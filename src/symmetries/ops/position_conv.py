"""Convolutions whose filters also depend on where they are applied.

    h[o, i](p) = sum over c, j, d of  f[c, j](p + d)  sum over m of  V[o, c, m] phi[p, j d, i m]

phi has few numbers per position (hidden units, not channels times channels), so V can be applied
after the sum over the neighbourhood, as one product over all positions: then the filters at every
position are never written down. Where channels are few and images many, writing them is cheaper.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.ops._dispatch import usable

ORDERS = ("auto", "factored", "table")
TYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Geometry:
    """Sizes of a convolution over the plane.

    Args:
        fields_in: C.
        fields_out: O.
        elements_in: group elements of each field that comes in, J.
        elements_out: group elements of each field that goes out, I.
        kernel_size: k.
        stride: in pixels.
        padding: zeros on each side.
    """

    fields_in: int
    fields_out: int
    elements_in: int
    elements_out: int
    kernel_size: int
    stride: int
    padding: int

    def out_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the result."""
        reach = 2 * self.padding - self.kernel_size
        return (height + reach) // self.stride + 1, (width + reach) // self.stride + 1


def cheaper_order(geometry: Geometry, images: int, hidden: int) -> str:
    """Return the order with fewer multiplications for a number of images."""
    cost = costs(geometry, images, hidden)
    return min(cost, key=lambda name: cost[name])


def costs(geometry: Geometry, images: int, hidden: int) -> dict[str, int]:
    """Return the multiplications per output position of the two orders.

    Example:
        >>> wide, narrow = Geometry(64, 64, 1, 1, 7, 1, 3), Geometry(2, 2, 1, 1, 7, 1, 3)
        >>> [min(c, key=c.get) for c in (costs(wide, 32, 32), costs(narrow, 32, 32))]
        ['factored', 'table']
    """
    g = geometry
    taps = g.elements_in * g.kernel_size**2
    pairs = g.fields_in * g.fields_out * g.elements_out
    return {
        "factored": images * hidden * (taps * g.fields_in * g.elements_out + pairs),
        "table": taps * pairs * (images + hidden),
    }


def position_conv2d(
    x: Tensor, phi: Tensor, output: Tensor, bias: Tensor | None, geometry: Geometry, order: str
) -> Tensor:
    """Convolve with filters that depend on the position; see the formula above.

    Args:
        x: (N, C J, H, W).
        phi: (positions out, J k k, I, hidden).
        output: V, (O, C, hidden).
        bias: (O I,), or None.
        geometry: the sizes.
        order: "factored", "table", or "auto" for the one with fewer multiplications.

    Returns:
        (N, O I, height out, width out), channels last in memory.

    Example:
        >>> x, output = torch.ones(1, 1, 2, 2), torch.ones(1, 1, 1)
        >>> g = Geometry(1, 1, 1, 1, kernel_size=1, stride=1, padding=0)
        >>> phi = torch.arange(4.0).view(4, 1, 1, 1)  # another factor at each position
        >>> position_conv2d(x, phi, output, None, g, "auto").flatten().tolist()
        [0.0, 1.0, 2.0, 3.0]
    """
    g, images, hidden = geometry, x.shape[0], phi.shape[-1]
    if order == "auto":
        order = cheaper_order(g, images, hidden)
    height, width = g.out_size(*x.shape[2:])
    dtype = torch.promote_types(x.dtype, phi.dtype)
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
    x = x.to(dtype, memory_format=torch.channels_last)
    phi, output = phi.to(dtype), output.to(dtype)
    plain = g.elements_in == g.elements_out == g.stride == 1
    # Exact products in float32 have no tensor cores, and torch's are faster there.
    plain = plain and not (dtype == torch.float32 and exact_wanted())
    if order == "factored" and plain and usable("position_conv", x, phi, dtypes=TYPES):
        from symmetries.ops.triton import gathered_conv

        if gathered_conv.is_right(x, phi):
            return gathered_conv.gathered_conv2d(x, phi.flatten(1, 2), output, bias, g.padding)
    patches = _patches(x, g)  # (height, width, J, k, k, N, C)
    positions, taps = phi.shape[:2]
    if order == "factored":
        columns = patches.reshape(positions, taps, images * g.fields_in)
        gathered = columns.mT @ phi.reshape(positions, taps, -1)
        if g.elements_out > 1:
            gathered = gathered.view(positions, images, g.fields_in, g.elements_out, hidden)
            gathered = gathered.transpose(2, 3)
        gathered = gathered.reshape(-1, g.fields_in * hidden)
        out = gathered @ output.reshape(g.fields_out, -1).T
        out = out.view(height, width, images, g.elements_out, g.fields_out).transpose(3, 4)
    else:
        table = phi.reshape(-1, hidden) @ output.reshape(-1, hidden).T
        table = table.view(positions, taps, g.elements_out, g.fields_out, g.fields_in)
        table = table.permute(0, 1, 4, 3, 2).reshape(positions, taps * g.fields_in, -1)
        # Channels stay last, as in memory: the copy reads and writes them together.
        rows = patches.permute(0, 1, 5, 2, 3, 4, 6).reshape(positions, images, -1)
        out = (rows @ table).view(height, width, images, g.fields_out, g.elements_out)
    return _laid_out(out.flatten(3), bias)


def exact_wanted() -> bool:
    """Return whether torch multiplies numbers in float32 without rounding them."""
    return torch.get_float32_matmul_precision() == "highest"


def _laid_out(out: Tensor, bias: Tensor | None) -> Tensor:
    """Return (height, width, N, channels) plus a bias as images, channels last in memory."""
    out = out if bias is None else out + bias.to(out.dtype)
    return out.permute(2, 0, 1, 3).contiguous().permute(0, 3, 1, 2)


def _patches(x: Tensor, g: Geometry) -> Tensor:
    """Return a view of the input patches of all positions, (height, width, J, k, k, N, C)."""
    x = F.pad(x, (g.padding,) * 4).permute(2, 3, 0, 1)  # (rows, columns, N, C J)
    taken = x.unfold(0, g.kernel_size, g.stride).unfold(1, g.kernel_size, g.stride)
    channels = (g.fields_in, g.elements_in)
    taken = taken.reshape(*taken.shape[:3], *channels, *taken.shape[4:])
    return taken.permute(0, 1, 4, 5, 6, 2, 3)


def neighbourhoods(values: Tensor, geometry: Geometry) -> Tensor:
    """Return the values on the padded grid at the taps of each output position.

    Args:
        values: (..., H + 2 padding, W + 2 padding, E).
        geometry: the sizes.

    Returns:
        (..., positions out, k k, E).
    """
    k, step = geometry.kernel_size, geometry.stride
    values = values.unfold(-3, k, step).unfold(-3, k, step)  # (..., rows, columns, E, k, k)
    return values.movedim(-3, -1).flatten(-3, -2).flatten(-4, -3)
