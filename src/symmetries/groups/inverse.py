"""Inverses of affine matrices, with implementations for each device."""

from typing import Any

import torch
from torch import Tensor

from symmetries._validation.placement import exact_products
from symmetries.groups.exponential import last_row, with_last_row
from symmetries.ops.available import undisturbed, usable
from symmetries.ops.vmap_rules import fold, foldable

# On a CPU: the number of matrices from which entrywise arithmetic is faster, forward and
# backward, and the number of matrices per chunk that fits in the cache.
_MANY, _MANY_BACKWARD, _CHUNK = 9 * 1500, 9 * 1800, 8192
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
    if matrix.is_cpu and matrix.dtype in _FULL and undisturbed():
        if matrix.requires_grad and torch.is_grad_enabled():
            inverse = _apply(matrix)  # type: ignore[no-untyped-call]
            return inverse
        return _inverse_value(matrix)
    if usable(matrix):
        from symmetries.ops.matrices import KernelInverse

        inverse = KernelInverse.apply(matrix, _inverse_plain)  # type: ignore[no-untyped-call]
        return inverse
    if foldable(matrix):
        inverse = fold(affine_inverse, matrix)
        return inverse
    return _inverse_plain(matrix)


class _Inverse(torch.autograd.Function):
    """Autograd function of Y = T^-1; the gradient -Y' G Y' goes to the first two rows of T."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:  # noqa: ANN401
        inverse = _inverse_value(matrix)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ANN401
        (inverse,) = ctx.saved_tensors
        if grad.numel() >= _MANY_BACKWARD and not torch.is_grad_enabled():
            return _gradient_of_many(inverse, grad)
        turned = inverse.mT
        multiply = torch.bmm if grad.ndim == 3 else torch.matmul
        with exact_products(grad):
            to_matrix: Tensor = multiply(turned, multiply(grad, turned)).mul_(_MINUS[grad.dtype])
        return to_matrix


# Calls the operator directly: its Python wrapper costs as much as two matrix products.
_apply = super(torch.autograd.Function, _Inverse).apply


def _inverse_value(matrix: Tensor) -> Tensor:
    """Return the inverse; for few matrices the cofactors are cross products of rows."""
    if matrix.numel() < _MANY:
        rows = matrix.index_select(-2, _NEXT), matrix.index_select(-2, _LAST)
        cofactors: Tensor = torch.linalg.cross(*rows)
        return (cofactors / cofactors.narrow(-1, 2, 1).narrow(-2, 2, 1)).mT
    inverse = torch.empty(matrix.shape, dtype=matrix.dtype, device=matrix.device)
    parts = (whole.reshape(-1, 9).split(_CHUNK) for whole in (matrix, inverse))
    for before, after in zip(*parts, strict=True):
        a, b, x, c, d, y, *_ = before.unbind(1)
        m00, m01, tx, m10, m11, ty, *_ = after.unbind(1)
        inv = torch.addcmul(a * d, b, c, value=-1).reciprocal_()
        torch.mul(d, inv, out=m00)
        torch.mul(a, inv, out=m11)
        minus = inv.neg_()
        torch.mul(b, minus, out=m01)
        torch.mul(c, minus, out=m10)
        torch.addcmul(m01 * y, m00, x, out=tx).neg_()
        torch.addcmul(m11 * y, m10, x, out=ty).neg_()
        after[:, 6:] = last_row(matrix.dtype, matrix.device)
    return inverse


def _gradient_of_many(inverse: Tensor, grad: Tensor) -> Tensor:
    """Return -Y' G Y' entry by entry, with the batch in the last, contiguous dimension."""
    to_matrix = torch.zeros(grad.shape, dtype=grad.dtype, device=grad.device)
    parts = (whole.reshape(-1, 3, 3).split(_CHUNK) for whole in (inverse, grad, to_matrix))
    for *given, out in zip(*parts, strict=True):
        y, g = (part[:, :2].permute(1, 2, 0).contiguous() for part in given)  # (2, 3, N)
        left = (y[0, :2, None] * g[0]).addcmul_(y[1, :2, None], g[1]).neg_()
        block = (left[:, :1] * y[:, 0]).addcmul_(left[:, 1:2], y[:, 1])
        out[:, :2, :2] = block.addcmul_(left[:, 2:], y[:, 2]).permute(2, 0, 1)
        out[:, :2, 2] = left[:, 2].T
    return to_matrix


def _inverse_plain(matrix: Tensor) -> Tensor:
    """Return the closed form in torch operations, for any device, compiler and transform."""
    a, b, x = matrix[..., 0, :].unbind(-1)
    c, d, y = matrix[..., 1, :].unbind(-1)
    inv = 1 / (a * d - b * c)
    a, b, c, d = d * inv, -b * inv, -c * inv, a * inv
    return with_last_row((a, b, -(a * x + b * y), c, d, -(c * x + d * y)))
