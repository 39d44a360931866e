"""Checks of the inputs, the state and the calling context of a group convolution."""

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_images, invalid
from symmetries.nn.gconv_sampling import PointGroup
from symmetries.ops.position_conv import Geometry


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
