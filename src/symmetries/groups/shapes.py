"""Shape checks of parameters and elements, and selection of parameters by name."""

from collections.abc import Sequence

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats, check_tensors, invalid
from symmetries.groups.base import Parameter

_MATRIX = torch.Size((3, 3))


def check_eta(eta: Tensor, dim: int) -> None:
    """Raise an error unless ``eta`` is a tensor of shape (..., dim)."""
    check_tensors(eta=eta)
    if eta.ndim == 0 or eta.shape[-1] != dim:
        shape = f"shape {tuple(eta.shape)}"
        raise invalid("eta", f"shape (..., {dim})", shape, "see group.names for the parameters")


def check_matrices(*elements: Tensor) -> None:
    """Raise an error unless all elements are floating-point matrices (..., 3, 3)."""
    for element in elements:
        fits = isinstance(element, Tensor) and element.shape[-2:] == _MATRIX
        if not fits or not element.is_floating_point():
            check_floats(element, "element", "...", 3, 3)


def check_indices(*elements: Tensor, name: str = "element") -> None:
    """Raise an error unless all elements are integer tensors."""
    for element in elements:
        check_tensors(**{name: element})
        if element.is_floating_point() or element.is_complex():
            raise invalid(name, "whole numbers", element.dtype, f"use {name}.long()")


def choose(parameters: Sequence[Parameter], names: Sequence[str]) -> tuple[Parameter, ...]:
    """Return the parameters with these names, in canonical order; all if no name is given."""
    known = [p.name for p in parameters]
    for name in names:
        if name not in known:
            expected = f"names among {', '.join(known)}"
            raise invalid("names", expected, repr(name), "check the spelling")
    return tuple(p for p in parameters if not names or p.name in names)


def spread(eta: Tensor, names: Sequence[str], every: Sequence[str]) -> list[Tensor]:
    """Return a column (...) for each name in ``every``: from eta (..., len(names)), or zeros."""
    check_eta(eta, len(names))
    columns = dict(zip(names, eta.unbind(-1), strict=True))
    zero = torch.zeros_like(eta[..., 0])
    return [columns.get(name, zero) for name in every]


def matrix_from_rows(x_row: Sequence[Tensor], y_row: Sequence[Tensor]) -> Tensor:
    """Return homogeneous matrices (..., 3, 3) from the six entries of their first two rows."""
    zero = torch.zeros_like(x_row[0])
    entries = torch.stack((*x_row, *y_row, zero, zero, torch.ones_like(zero)), -1)
    return entries.reshape(*zero.shape, 3, 3)


def distance_of_matrices(element: Tensor) -> Tensor:
    """|T - I|^2 / 8 (...) of matrices T (..., n, n)."""
    one = torch.eye(element.shape[-1], dtype=element.dtype, device=element.device)
    distance: Tensor = (element - one).square().sum((-2, -1)) / 8
    return distance
