"""Products of affine matrices, for compositions of many elements at once."""

import torch
from torch import Tensor

from symmetries._validation.placement import exact_products
from symmetries.ops._dispatch import products_as_written, usable
from symmetries.ops._vmap_rules import fold, foldable


def affine_product(left: Tensor, right: Tensor) -> Tensor:
    """Return the products of affine matrices (..., 3, 3)."""
    if left.is_cpu and products_as_written() and left.ndim == 3 and left.shape == right.shape:
        return torch.bmm(left, right)  # the case that @ would dispatch to, without its checks
    if usable("affine_product", left, right):
        from symmetries.ops.triton.matrices import KernelProduct

        return KernelProduct.apply(*torch.broadcast_tensors(left, right))  # type: ignore[no-untyped-call]
    if foldable("affine_product", left, right):
        product = fold(affine_product, *torch.broadcast_tensors(left, right))
        return product
    with exact_products(left):
        return left @ right
