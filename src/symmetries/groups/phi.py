r"""The function phi_1 of 2 x 2 matrices, in closed form.

.. math:: \varphi_1(A) = \sum_j \frac{A^j}{(j+1)!} = \int_0^1 e^{sA} ds = u I + w A,

where, by the Cayley-Hamilton theorem, u and w depend only on the trace and determinant of A.
"""

import math
from typing import Any

import torch
from torch import Tensor

# (number of doublings, degree of the series): errors below rounding for entries up to 4.
_DOUBLE, _SINGLE = (6, 10), (3, 9)


def phi1_coefficients(trace: Tensor, det: Tensor) -> tuple[Tensor, Tensor]:
    """Return (u, w) with phi_1(A) = u I + w A, from the trace and the determinant of A.

    Evaluates the Taylor series of A / 2^k by Horner's rule, then doubles k times with
    phi_1(2B) = phi_1(B)(e^B + I) / 2, all in the basis (I, A). There is no root and no branch, so
    the result is smooth through zero and coincident eigenvalues. The number k is fixed, so that no
    norm has to be read from the device.

    Example:
        >>> u, w = phi1_coefficients(torch.zeros(()), torch.zeros(()))
        >>> u.item(), w.item()  # phi_1(A) = I + A / 2 where A^2 = 0
        (1.0, 0.5)
    """
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    eager = not (torch.compiler.is_compiling() or wrapped(trace) or wrapped(det))
    if eager and torch.is_grad_enabled() and (trace.requires_grad or det.requires_grad):
        u, w = _Phi1.apply(trace, det)  # type: ignore[no-untyped-call]
        return u, w
    return phi1_forward(trace, det)


def phi1_forward(
    trace: Tensor, det: Tensor, kept: list[Tensor] | None = None, more: int = 0
) -> tuple[Tensor, Tensor]:
    """Return the value, with ``more`` doublings added and intermediates appended to ``kept``."""
    doublings, degree = _orders(trace)
    doublings += more
    t, d = trace * 0.5**doublings, det * 0.25**doublings
    u = torch.full_like(t, 1 / math.factorial(degree))
    w = torch.full_like(t, 1 / math.factorial(degree + 1))
    for j in range(degree - 2, -1, -1):
        if kept is not None:
            kept.append(w)
        u, w = torch.rsub(d * w, 1 / math.factorial(j + 1)), torch.addcmul(u, t, w)
    w = w * 0.5**doublings  # from the basis (I, A / 2^k) to (I, A)
    for k in range(doublings, 0, -1):
        c = 0.5 ** (k + 1)
        p = w * det
        y = torch.addcmul(u, w, trace)  # e^B = (1 - 2 c p) I + 2 c y A
        x = torch.rsub(p, 1.0, alpha=c)
        if kept is not None:
            kept.extend((u, w, p, y, x))
        u, w = torch.addcmul(x * u, y, p, value=-c), torch.addcmul(x * w, y, y, value=c)
    return u, w


def phi1_backward(
    trace: Tensor, det: Tensor, kept: tuple[Tensor, ...], grad_u: Tensor, grad_w: Tensor
) -> tuple[Tensor, Tensor]:
    """Return gradients with respect to trace and determinant by reversing the forward steps."""
    degree = _orders(trace)[1]
    doublings = (len(kept) - degree + 1) // 5
    to_trace, to_det = torch.zeros_like(trace), torch.zeros_like(det)
    gu, gw = grad_u, grad_w
    for k in range(1, doublings + 1):
        c = 0.5 ** (k + 1)
        start = degree - 1 + 5 * (doublings - k)
        u, w, p, y, x = kept[start : start + 5]
        gx = torch.addcmul(gu * u, gw, w)
        gy = torch.addcmul(gw * y, gu, p, value=-0.5).mul_(2 * c)
        gp = torch.addcmul(gx, gu, y).mul_(-c)
        to_trace.addcmul_(gy, w)
        to_det.addcmul_(gp, w)
        gw = torch.addcmul(gw * x, gy, trace).addcmul_(gp, det)
        gu = gy.addcmul_(gu, x)
    scale = 0.5**doublings
    gw = gw * scale
    t, d = trace * scale, det * scale**2
    series_t, series_d = torch.zeros_like(t), torch.zeros_like(d)
    for w in reversed(kept[: degree - 1]):
        series_t.addcmul_(gw, w)
        series_d.addcmul_(gu, w, value=-1)
        gu, gw = gw, torch.addcmul(gw * t, gu, d, value=-1)
    return to_trace.add_(series_t, alpha=scale), to_det.add_(series_d, alpha=scale**2)


def _orders(like: Tensor) -> tuple[int, int]:
    return _DOUBLE if like.dtype == torch.float64 else _SINGLE


def _differentiable(part: Tensor) -> Tensor:
    return part if part.requires_grad else part.detach().requires_grad_()


class _Phi1(torch.autograd.Function):
    """Autograd function of :func:`phi1_coefficients` with an explicit gradient."""

    @staticmethod
    def forward(ctx: Any, trace: Tensor, det: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        kept: list[Tensor] = []
        u, w = phi1_forward(trace, det, kept)
        ctx.save_for_backward(trace, det, *kept)
        return u, w

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        trace, det, *kept = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return phi1_backward(trace, det, tuple(kept), *grads)
        # A second derivative is needed: let autograd differentiate the operations one by one.
        with torch.enable_grad():
            trace, det = _differentiable(trace), _differentiable(det)
            values = phi1_forward(trace, det)
            to_trace, to_det = torch.autograd.grad(values, (trace, det), grads, create_graph=True)
        return to_trace, to_det
