"""Inverses of affine matrices, with implementations for each device."""

from typing import Any

import torch
from torch import Tensor

from symmetries._validation.placement import exact_products
from symmetries.ops._dispatch import undisturbed, usable
from symmetries.ops._vmap_rules import fold, foldable
from symmetries.ops.affine_exp import with_last_row

_FEW = 9 * 1500  # on a CPU, the number of entries below which matrix products are faster
_FULL = (torch.float32, torch.float64)
with torch.inference_mode(False):
    _NEXT, _LAST = torch.tensor([[1, 2, 0], [2, 0, 1]], device="cpu")
    # -1 for the entries of an affine matrix that are variable.
    _MINUS = {
        dtype: torch.tensor([[-1.0] * 3, [-1.0] * 3, [0.0] * 3], dtype=dtype, device="cpu")
        for dtype in _FULL
    }


def affine_inverse(matrix: Tensor) -> Tensor:
    """Return the inverse of affine matrices (..., 3, 3), by the adjugate of the 2 x 2 block.

    The last row is the constant (0, 0, 1) and receives no gradient.

    Example:
        >>> affine_inverse(torch.tensor([[2.0, 0, 1], [0, 1, 0], [0, 0, 1]]))[0].tolist()
        [0.5, 0.0, -0.5]
    """
    inverse: Tensor
    # An exported program, which serves any number of matrices, never asks for their number.
    if matrix.is_cpu and undisturbed() and matrix.numel() < _FEW and matrix.dtype in _FULL:
        if matrix.requires_grad and torch.is_grad_enabled():
            inverse = _apply(matrix)  # type: ignore[no-untyped-call]
            return inverse
        return _inverse_value(matrix)
    if usable("affine_inverse", matrix):
        from symmetries.ops.triton.matrices import KernelInverse

        inverse = KernelInverse.apply(matrix, _inverse_plain)  # type: ignore[no-untyped-call]
        return inverse
    if foldable("affine_inverse", matrix):
        inverse = fold(affine_inverse, matrix)
        return inverse
    return _inverse_plain(matrix)


class _Inverse(torch.autograd.Function):
    """Autograd function of Y = T^-1; the gradient -Y' G Y' goes to the first two rows of T."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        inverse = _inverse_value(matrix)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        turned = inverse.mT
        multiply = torch.bmm if grad.ndim == 3 else torch.matmul
        with exact_products(grad):
            to_matrix: Tensor = multiply(turned, multiply(grad, turned)).mul_(_MINUS[grad.dtype])
        return to_matrix


# Calls the operator directly: its Python wrapper costs as much as two matrix products.
_apply = super(torch.autograd.Function, _Inverse).apply


def _inverse_value(matrix: Tensor) -> Tensor:
    """Return the inverse of few matrices: the cofactors are cross products of rows."""
    rows = matrix.index_select(-2, _NEXT), matrix.index_select(-2, _LAST)
    cofactors: Tensor = torch.linalg.cross(*rows)
    return (cofactors / cofactors.narrow(-1, 2, 1).narrow(-2, 2, 1)).mT


def _inverse_plain(matrix: Tensor) -> Tensor:
    """Return the closed form in torch operations, for any device, compiler and transform."""
    a, b, x = matrix[..., 0, :].unbind(-1)
    c, d, y = matrix[..., 1, :].unbind(-1)
    inv = 1 / (a * d - b * c)
    a, b, c, d = d * inv, -b * inv, -c * inv, a * inv
    return with_last_row((a, b, -(a * x + b * y), c, d, -(c * x + d * y)))
