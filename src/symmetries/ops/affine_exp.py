"""Exponential map of the affine group, with implementations for each device."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from symmetries._utils.caching import constant
from symmetries._validation.placement import exact_products
from symmetries.ops._dispatch import is_transformed, usable
from symmetries.ops._vmap_rules import fold, foldable

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


_FEW = 160  # on a CPU, matrix products are faster than entrywise arithmetic below this many
_FAR = 8.0  # angles, in radians, from which the closed form needs additional doublings
_SIX = tuple(range(6))


def generators(dtype: torch.dtype = torch.float64) -> Tensor:
    """Return the six generators (6, 3, 3), in the order of ``SIX``; x points right and y up.

    Example:
        >>> generators()[2].int().tolist()
        [[0, -1, 0], [1, 0, 0], [0, 0, 0]]
    """
    g = torch.zeros(6, 3, 3, dtype=dtype)
    g[0, 0, 2] = g[1, 1, 2] = 1
    g[2, 0, 1], g[2, 1, 0] = -1, 1
    g[3, 0, 0] = g[4, 1, 1] = 1
    g[5, 0, 1] = g[5, 1, 0] = 1
    return g


def affine_exp(eta: Tensor) -> Tensor:
    """Return exp(sum_i eta_i G_i) for the six generators of the affine group.

    On a CPU angles of any size are accurate to rounding. GPU kernels, ``torch.compile`` and
    ``torch.func`` cannot read values, so the number of doublings is fixed there: float32 angles
    are accurate to 4e-6 up to 30 radians in GPU kernels and to 2e-6 up to 10 radians in the others,
    and less above (1e-4 at 15). Scales and shears up to 4 are accurate to rounding, relative to
    the largest entry.

    Args:
        eta: (..., 6), in the order of ``SIX``.

    Returns:
        Matrices (..., 3, 3).

    Example:
        >>> affine_exp(torch.zeros(6)).equal(torch.eye(3))
        True
    """
    if usable("affine_exp", eta):
        return family_exp(eta, _SIX)
    if foldable("affine_exp", eta):
        return fold(affine_exp, eta)
    if few(eta):
        return exp_by_squaring(eta, _SIX)
    return _exp_plain(eta)


def family_exp(eta: Tensor, columns: Sequence[int]) -> Tensor:
    """Return the exponential for a family in the affine group, which has fewer parameters.

    Args:
        eta: (..., dim).
        columns: for each of the six generators, its column in eta, or -1 if it is absent.

    Returns:
        Matrices (..., 3, 3).

    Example:
        >>> family_exp(torch.tensor([0.5]), (0, -1, -1, -1, -1, -1))[0, 2].item()
        0.5
    """
    if not usable("affine_exp", eta):
        if few(eta) and not foldable("affine_exp", eta):
            return exp_by_squaring(eta, columns)
        return affine_exp(six_columns(eta, columns))
    from symmetries.ops.triton.exponential import KernelExp

    def plain(eta: Tensor) -> Tensor:
        return _exp_plain(six_columns(eta, columns))

    return KernelExp.apply(eta, plain, tuple(columns))  # type: ignore[no-untyped-call]


def few(eta: Tensor) -> bool:
    """Return whether :func:`exp_by_squaring` is fastest for this number of elements and device."""
    return eta.is_cpu and not is_transformed() and eta.numel() < _FEW * eta.shape[-1]


def exp_by_squaring(eta: Tensor, columns: Sequence[int]) -> Tensor:
    """Return the exponential by scaling and squaring: the series of exp(M / 2^k), squared k times.

    See :func:`family_exp` for the arguments. The number k follows the norm of M, so that the
    result is accurate for any M; reading a value does not synchronise on a CPU.
    """
    _, _, turn, *stretches, shear = columns
    terms = (turn >= 0) + (max(stretches) >= 0) + (shear >= 0)  # in a row of the 2 x 2 block
    shifts = max(columns[:2]) + 1  # shifts usually come first, and do not affect the squarings
    others = [column for column in columns[2:] if column >= 0]
    linear = eta.detach()[..., shifts if min(others, default=shifts) >= shifts else 0 :]
    largest = float(torch.linalg.vector_norm(linear, math.inf)) if linear.numel() else 0.0
    if not math.isfinite(largest):  # a non-finite element must not affect the others
        whole = torch.nan_to_num(linear, 0.0, 0.0, 0.0)
        largest = float(torch.linalg.vector_norm(whole, math.inf))
    known = terms * largest
    degree, below = (14, 1) if eta.dtype == torch.float64 else (10, 0)  # norms below 2^-below
    squarings = max(0, math.frexp(known)[1] + below)
    with exact_products(eta):
        flat = eta.reshape(-1, eta.shape[-1]) @ _basis(tuple(columns), eta.dtype, eta.device)
        scaled = (flat * 0.5**squarings if squarings else flat).view(-1, 3, 3)
        matrix = _powers(scaled, degree, squarings)
    return matrix.view(*eta.shape[:-1], 3, 3)


def _powers(scaled: Tensor, degree: int, squarings: int) -> Tensor:
    """Return the series (N, 3, 3) up to a degree, squared.

    The squared quantity is E = e^B - I, because (I + E)^2 = I + (2 E + E^2) loses no digits of
    small maps batched with a large one, whatever the number of squarings.
    """
    unit = _unit(scaled.dtype, scaled.device)
    matrix = torch.add(unit, scaled, alpha=1 / degree)
    for j in range(degree - 1, 0, -1):
        if j > 1 or not squarings:
            matrix = torch.baddbmm(unit, scaled, matrix, alpha=1 / j)
        else:
            matrix = torch.bmm(scaled, matrix)
    for _ in range(squarings):
        matrix = torch.baddbmm(matrix, matrix, matrix, beta=2)
    return matrix + unit if squarings else matrix


def six_columns(eta: Tensor, columns: Sequence[int]) -> Tensor:
    """Return coefficients (..., 6) of all generators; arguments as in :func:`family_exp`."""
    if [*columns] == [*range(6)]:
        return eta
    parts, zero = eta.unbind(-1), torch.zeros_like(eta[..., 0])
    return torch.stack([zero if column < 0 else parts[column] for column in columns], -1)


def _exp_plain(eta: Tensor) -> Tensor:
    """Return the closed form in torch operations, for any device and dtype."""
    bx, by, r, a, d, h = eta.unbind(-1)
    b, c = h - r, h + r
    trace, det = a + d, torch.addcmul(a * d, b, c, value=-1)
    u, w = phi1_coefficients(trace, det, _more_doublings(det))
    f, g = 1 - w * det, torch.addcmul(u, w, trace)  # e^A = f I + g A
    mx, my = torch.addcmul(a * bx, b, by), torch.addcmul(c * bx, d, by)
    x, y = torch.addcmul(u * bx, w, mx), torch.addcmul(u * by, w, my)
    return with_last_row((torch.addcmul(f, g, a), g * b, x, g * c, torch.addcmul(f, g, d), y))


def _more_doublings(det: Tensor) -> int:
    """Return the additional doublings for the largest angle; 0 if values cannot be read."""
    if not det.is_cpu or is_transformed() or not det.numel():
        return 0
    largest = float(det.detach().amax())
    if not math.isfinite(largest):  # a non-finite element must not affect the others
        largest = float(torch.nan_to_num(det.detach(), 0.0, 0.0, 0.0).amax())
    return min((math.frexp(largest)[1] + 1) // 2 - 3, 20) if largest > _FAR**2 else 0


def with_last_row(top: tuple[Tensor, ...]) -> Tensor:
    """Return the matrix with these six entries in its first two rows, and last row (0, 0, 1)."""
    batch = top[0].shape
    last = last_row(top[0].dtype, top[0].device).expand(*batch, 3)
    return torch.cat((torch.stack(top, -1), last), -1).reshape(*batch, 3, 3)


@constant
def _basis(columns: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the generators of a family as rows (dim, 9)."""
    rows = torch.zeros(max(columns) + 1, 9, dtype=dtype)
    for column, generator in zip(columns, generators(dtype).flatten(1), strict=True):
        if column >= 0:
            rows[column] += generator
    return rows.to(device)


@constant
def _unit(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.eye(3, dtype=dtype, device=device)


@constant
def last_row(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return (0, 0, 1), the last row of every affine matrix."""
    return torch.tensor([0.0, 0.0, 1.0], dtype=dtype, device=device)
