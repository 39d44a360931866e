"""Sample points of a group convolution's kernel function, and filters from its samples.

The plane's group is T(2) times a finite group H of rotations (and flips) about the origin. With
v = (y, j) and u = (x, i), the relative element v^-1 u has the position M_j^-1 (x - y) and the
element j^-1 i of H, whose index is computed in integers: equal relative elements get equal
coordinates, even at half a turn, where the logarithm is discontinuous.

Coordinates are those of the Lie algebra (of T(2), or of SE(2) by its principal logarithm), in
units in which each of them covers [-1, 1]: half a filter or half an image for a shift, half a
turn for a rotation. A flip does not belong to a Lie algebra; its coordinate is 0 or 1.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_choice, check_images, invalid, short, wrong_type
from symmetries._validation.placement import exact_products
from symmetries.groups.finite import Cyclic, Dihedral, principal_steps
from symmetries.groups.names import named_group
from symmetries.groups.special import wrap_angle, x_cot_x
from symmetries.ops.position_conv import Geometry

PointGroup = Cyclic | Dihedral
SHIFTS = ("shift_x", "shift_y")
# Default initial omega'. Below about 0.2 the kernel function is nearly linear in omega' b, so that
# omega' is an amount whose gradient shows whether the task needs more of it; far above, a change of
# omega' only gives other filters of the same amount.
START = 0.1


def as_point_group(group: object) -> PointGroup:
    """Return a group of rotations, with or without flips, as it is given or by its name.

    Example:
        >>> as_point_group("d4")
        Dihedral(n=4)
    """
    found = named_group(group)
    if not isinstance(found, Cyclic | Dihedral):
        raise wrong_type("group", "Cyclic(n) or Dihedral(n)", found, "try Cyclic(4)")
    return found


def coordinate_names(group: str | PointGroup, lifting: bool = False) -> tuple[str, ...]:
    """Names of the coordinates of T(2) times ``group``; an image to be lifted has positions only.

    Example:
        >>> coordinate_names(Cyclic(1)), coordinate_names(Cyclic(4))
        (('shift_x', 'shift_y'), ('shift_x', 'shift_y', 'rotation'))
    """
    group = as_point_group(group)
    names: tuple[str, ...] = SHIFTS
    if lifting:
        return names
    names = (*names, "rotation") if group.n > 1 else names
    return (*names, "flip") if isinstance(group, Dihedral) else names


def relative_coordinates(
    group: PointGroup, kernel_size: int, lifting: bool = False, turn: Tensor | None = None
) -> Tensor:
    """Return log(v^-1 u) at all samples of a kernel function.

    Args:
        group: H.
        kernel_size: k.
        lifting: whether v has only a position; the frame is then that of u.
        turn: () angle by which the rotations of the whole grid are rotated; None for 0.

    Returns:
        (elements out, elements in, k k, coordinates); one element in for a lifting.
    """
    displacement = _displacements(kernel_size, turn)
    if turn is not None:
        displacement = _rotate(displacement, -turn)
    elements = group.elements(displacement.device)
    inverse = group.matrix(group.inverse(elements), displacement.dtype)[:, :2, :2]
    with exact_products(displacement):
        position = displacement @ inverse.mT  # (frame, k k, 2)
    if lifting:
        return position[:, None]
    relative = group.compose(group.inverse(elements)[None, :], elements[:, None])  # (out, in)
    return _coordinates(group, relative[..., None], position[None], None)


def absolute_coordinates(
    group: PointGroup, position: Tensor | None = None, turn: Tensor | None = None
) -> Tensor:
    """Return log(v) for the elements of H at given positions.

    Args:
        group: H.
        position: (..., 2), x right and y up in half-image units; None for the origin.
        turn: () angle by which the grid is rotated.

    Returns:
        (elements, ..., coordinates).
    """
    if position is None:
        position = torch.zeros(2) if turn is None else turn.new_zeros(2)
    elements = group.elements(position.device)
    return _coordinates(group, elements.view(-1, *[1] * (position.ndim - 1)), position, turn)


def _coordinates(
    group: PointGroup, element: Tensor, position: Tensor, turn: Tensor | None
) -> Tensor:
    """Return the logarithm of "element, then a translation to position", with flips separate."""
    angle = principal_steps(element % group.n, group.n).to(position.dtype) * (2 * math.pi / group.n)
    if turn is not None:
        angle = wrap_angle(angle + turn)
    x, y = straighten(angle, *position.unbind(-1))
    parts = [x, y]
    if group.n > 1:
        parts.append((angle / math.pi).expand_as(x))
    if isinstance(group, Dihedral):
        parts.append((element // group.n).to(x.dtype).expand_as(x))
    return torch.stack(parts, -1)


def straighten(angle: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return V^-1 (x, y), the translation part of the logarithm of SE(2), for angles in [-pi, pi).

    V^-1 = h cot(h) I - h J with h = angle / 2, as in ``SE2.log``, but computed from the angle:
    from a matrix, rounding would decide the sign of a half turn.
    """
    half = angle / 2
    cot = x_cot_x(half)
    return cot * x + half * y, cot * y - half * x


def _displacements(kernel_size: int, like: Tensor | None = None) -> Tensor:
    """Return (k k, 2): x - y for each tap of ``conv2d``, x right and y up, in half-filter units."""
    centre = (kernel_size - 1) / 2
    device = None if like is None else like.device
    steps = (torch.arange(kernel_size, device=device) - centre) / (centre or 1)
    steps = steps if like is None else steps.to(like.dtype)
    # conv2d reads the input at x + tap, so the displacement is minus the tap; rows go down.
    row, column = torch.meshgrid(steps, steps, indexing="ij")
    return torch.stack((-column, row), -1).flatten(0, 1)


def _rotate(points: Tensor, angle: Tensor) -> Tensor:
    x, y = points.unbind(-1)
    c, s = torch.cos(angle), torch.sin(angle)
    return torch.stack((c * x - s * y, s * x + c * y), -1)


def support_mask(group: PointGroup, kernel_size: int) -> Tensor | None:
    """Return (k k,) ones inside the support of the filters, or None for the whole square.

    The support is the square if H maps it to itself, and otherwise the disk, because samples in the
    corners would be inside the support only for some rotations.
    """
    if group.n in (1, 2, 4):
        return None
    radius = kernel_size / max(kernel_size - 1, 1)  # to the outer edge of the outer pixels
    x, y = _displacements(kernel_size).unbind(-1)
    return (x * x + y * y <= radius * radius).float()


def pixel_positions(height: int, width: int, margin: int, like: Tensor) -> Tensor:
    """Return pixel centres (H + 2 margin, W + 2 margin, 2), x right and y up, half-image units."""
    unit = max(height, width) / 2
    column = torch.arange(-margin, width + margin, device=like.device, dtype=like.dtype)
    row = torch.arange(-margin, height + margin, device=like.device, dtype=like.dtype)
    x, y = (column - (width - 1) / 2) / unit, ((height - 1) / 2 - row) / unit
    grid = torch.meshgrid(y, x, indexing="ij")
    return torch.stack((grid[1], grid[0]), -1)


def one_number(value: Any) -> Any:  # noqa: ANN401 - whatever else it is, others check
    """Return the single number of a pair of equal numbers, as ``nn.Conv2d`` accepts both.

    Example:
        >>> one_number((3, 3)), one_number(3), one_number((3, 5))
        (3, 3, (3, 5))
    """
    pair = isinstance(value, tuple) and len(value) == 2 and value[0] == value[1]
    return value[0] if pair else value


def check_as_conv2d(dilation: object, groups: object, padding_mode: object) -> None:
    """Raise an error unless a group convolution supports these arguments of ``nn.Conv2d``."""
    if dilation != 1:
        raise invalid("dilation", "1", short(dilation), "use a larger kernel_size")
    if groups != 1:
        raise invalid("groups", "1", short(groups), "rotations and flips are the argument 'group'")
    if padding_mode != "zeros":
        raise invalid("padding_mode", "'zeros'", short(padding_mode), "pad the images before")


def padding_of(padding: int | str, kernel_size: int) -> int:
    """Return the number of zeros that ``padding`` adds on each side."""
    if isinstance(padding, int) and not isinstance(padding, bool) and padding >= 0:
        return padding
    if isinstance(padding, str) and padding == "valid":
        return 0
    if isinstance(padding, str) and padding == "same" and kernel_size % 2 == 1:
        return kernel_size // 2
    expected = "a whole number, 'valid', or 'same' with an odd kernel_size"
    raise invalid("padding", expected, short(padding), "as for nn.Conv2d with equal sides")


def relaxed_coordinates(
    names: tuple[str, ...], mode: str, relax: Mapping[str, float] | None
) -> dict[str, float]:
    """Return the relaxed coordinates and their initial omega', in the order of ``names``."""
    if mode != "soft":
        if relax is not None and relax != {}:
            raise invalid("relax", f"nothing with mode {mode!r}", short(relax), "use mode='soft'")
        return {}
    if relax is None:
        relax = {"rotation" if "rotation" in names else "translation": START}
    if not isinstance(relax, Mapping):
        raise wrong_type("relax", "numbers by coordinate", relax, "try {'rotation': 0.1}")
    given: dict[str, float] = {}
    for name, value in relax.items():
        check_choice(name, {*names, "translation"}, "relax")
        given.update(dict.fromkeys(SHIFTS if name == "translation" else (name,), float(value)))
    if not given:
        raise invalid("relax", "a coordinate with mode 'soft'", "none", "use mode='strict'")
    return {name: given[name] for name in names if name in given}


def check_fields(x: Tensor, geometry: Geometry, group: PointGroup, lifting: bool) -> None:
    """Raise an error unless ``x`` has the channels and the size that a layer expects."""
    check_images(x, "features")
    _, channels, height, width = x.shape
    expected = geometry.fields_in * geometry.elements_in
    if channels != expected:
        what = (
            f"{expected} channels ({geometry.fields_in} fields of {geometry.elements_in} elements)"
        )
        remedy = "check them" if lifting else "lift images with LiftingConv2d first"
        raise invalid("features", what, f"{channels} channels", remedy)
    if group.n % 4 == 0 and height != width:
        remedy = "pad to a square, or use a group without quarter turns"
        raise invalid("features", "square images for quarter turns", f"{height} x {width}", remedy)
    largest = min(height, width) + 2 * geometry.padding
    if geometry.kernel_size > largest:
        remedy = "use a smaller kernel, more padding, or less pooling"
        expected_size = f"at most the image, {largest}"
        raise invalid("kernel_size", expected_size, geometry.kernel_size, remedy)


def check_signature(saved: Tensor | None, own: Tensor, prefix: str) -> None:
    """Raise an error if a layer's state belongs to a layer with another group.

    Args:
        saved: (n, whether there are flips) of the state; None where it does not say.
        own: of the layer.
        prefix: of the layer's names in the state.
    """
    if saved is None or saved.tolist() == own.tolist():
        return
    mine, theirs = (_group_text(t) for t in (own, saved))
    where = f"state_dict of {prefix.rstrip('.') or 'the layer'}"
    raise invalid(where, f"weights for {mine}", theirs, "build the model with that group")


def _group_text(signature: Tensor) -> str:
    n, flips = signature.tolist()
    return f"{n} rotations {'with' if flips else 'without'} flips"


def plain(x: Tensor) -> bool:
    """Return whether a tensor holds values, unlike those in a traced call."""
    return type(x) in (Tensor, nn.Parameter)


def may_keep(like: Tensor) -> bool:
    """Return whether later calls may use a tensor made here: no mode of this call affects it."""
    hidden = torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(like)
    if hidden or not plain(like) or torch.is_inference_mode_enabled() or like.is_inference():
        return False
    return not (like.is_cuda and torch.cuda.is_current_stream_capturing())
