r"""The function phi_1 of 2 x 2 matrices, in closed form.

.. math:: \varphi_1(A) = \sum_j \frac{A^j}{(j+1)!} = \int_0^1 e^{sA} ds = u I + w A,

where, by the Cayley-Hamilton theorem, u and w depend only on the trace and determinant of A.
"""

import math

import torch
from torch import Tensor

# (number of doublings, degree of the series): errors below rounding for entries up to 4.
_DOUBLE, _SINGLE = (6, 10), (3, 9)


def phi1_coefficients(trace: Tensor, det: Tensor, more: int = 0) -> tuple[Tensor, Tensor]:
    """Return (u, w) with phi_1(A) = u I + w A, from the trace and the determinant of A.

    Evaluates the Taylor series of A / 2^k by Horner's rule, then doubles k times with
    phi_1(2B) = phi_1(B)(e^B + I) / 2, all in the basis (I, A). There is no root and no branch, so
    the result is smooth through zero and coincident eigenvalues. The number k is fixed, so that no
    norm has to be read from the device; ``more`` is added to it.

    Example:
        >>> u, w = phi1_coefficients(torch.zeros(()), torch.zeros(()))
        >>> u.item(), w.item()  # phi_1(A) = I + A / 2 where A^2 = 0
        (1.0, 0.5)
    """
    doublings, degree = _DOUBLE if trace.dtype == torch.float64 else _SINGLE
    doublings += more
    t, d = trace * 0.5**doublings, det * 0.25**doublings
    u = torch.full_like(t, 1 / math.factorial(degree))
    w = torch.full_like(t, 1 / math.factorial(degree + 1))
    for j in range(degree - 2, -1, -1):
        u, w = torch.rsub(d * w, 1 / math.factorial(j + 1)), torch.addcmul(u, t, w)
    w = w * 0.5**doublings  # from the basis (I, A / 2^k) to (I, A)
    for k in range(doublings, 0, -1):
        c = 0.5 ** (k + 1)
        p = w * det
        y = torch.addcmul(u, w, trace)  # e^B = (1 - 2 c p) I + 2 c y A
        x = torch.rsub(p, 1.0, alpha=c)
        u, w = torch.addcmul(x * u, y, p, value=-c), torch.addcmul(x * w, y, y, value=c)
    return u, w
