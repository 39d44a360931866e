"""Checks of a group convolution's inputs and state, and of the context of its call."""

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_images, invalid
from symmetries.nn.fused_bank import can_fuse
from symmetries.nn.gconv_sampling import PointGroup
from symmetries.nn.position_conv import Geometry


def check_fields(x: Tensor, geometry: Geometry, group: PointGroup, lifting: bool) -> None:
    """Raise an error unless ``x`` has the channels and the size that a layer takes."""
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
        remedy = "use a smaller kernel_size, more padding, or less pooling"
        expected_size = f"at most the image, {largest}"
        raise invalid("kernel_size", expected_size, geometry.kernel_size, remedy)


def check_signature(saved: Tensor | None, own: Tensor, prefix: str) -> None:
    """Raise an error if the state of a layer belongs to another group.

    Args:
        saved: (n, whether there are flips) in the state; None if it is missing.
        own: (n, whether there are flips) of the layer.
        prefix: prefix of the layer's names in the state.
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
    """Return whether a tensor has values of its own, unlike tensors of a traced call."""
    return type(x) in (Tensor, nn.Parameter)


def may_keep(like: Tensor) -> bool:
    """Return whether later calls can use a tensor made here, independent of modes of this call."""
    if (
        not (plain(like) and can_fuse(like))
        or torch.is_inference_mode_enabled()
        or like.is_inference()
    ):
        return False
    return not (like.is_cuda and torch.cuda.is_current_stream_capturing())


def exporting() -> bool:
    """Return whether this call is part of ``torch.export``."""
    # The flag itself (from torch 2.7 on), because some versions of is_exporting() also return
    # True under torch.compile.
    return bool(getattr(torch.compiler, "_is_exporting_flag", False))
