"""Permutations of items, such as the nodes of a graph or the points of a cloud."""

from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries._validation.checks import check_whole, invalid
from symmetries.groups.base import Device, Dtype, Generator, Group, Parameter
from symmetries.groups.special import check_eta, check_indices


@dataclass(frozen=True)
class Permutation(Group[Tensor]):
    """Permutations of n items, as places (..., n): item i goes to place p[i].

    compose(a, b)[i] = a[b[i]], "b first, then a". The parameters eta are how many places each item
    moves; ``exp`` sorts the items by i + eta_i, so that every eta gives a permutation, and the eta
    of ``log`` gives the same one again.

    Args:
        n: number of items.

    Example:
        >>> group = Permutation(3)
        >>> group.exp(torch.tensor([2, -1, -1])).tolist()  # the first item goes to the end
        [2, 0, 1]
    """

    n: int

    def __post_init__(self) -> None:
        check_whole(self.n, "n", most=10**6)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """One parameter for each item: the number of places that it moves."""
        bound = float(max(self.n - 1, 1))
        return tuple(Parameter(f"place_{i}", "step", bound) for i in range(self.n))

    closed = True

    def exp(self, eta: Tensor) -> Tensor:
        """Return places (..., n) of eta (..., n): ranks of i + eta_i, equal ones by i."""
        check_eta(eta, self.n)
        goals = torch.arange(self.n, device=eta.device) + eta.detach()
        order = goals.argsort(stable=True, dim=-1)
        return order.argsort(-1)

    def log(self, element: Tensor) -> Tensor:
        """Return how many places each item moves, (..., n) whole numbers."""
        self.check(element)
        return element - torch.arange(self.n, device=element.device)

    def compose(self, *elements: Tensor) -> Tensor:
        """Return the product of the permutations; the rightmost acts first."""
        self.check(*elements)
        product = elements[-1]
        for element in elements[-2::-1]:
            both = torch.broadcast_tensors(element, product)
            product = both[0].gather(-1, both[1])
        return product

    def inverse(self, element: Tensor) -> Tensor:
        """Return the inverse permutation."""
        self.check(element)
        return element.argsort(-1)

    def identity(self, *batch: int, dtype: Dtype = None, device: Device = None) -> Tensor:
        """Return 0, ..., n - 1, always int64 whatever ``dtype`` is."""
        return torch.arange(self.n, device=device).expand(*batch, self.n)

    def haar(self, *batch: int, generator: Generator = None, dtype: Dtype = None) -> Tensor:
        """Return permutations (*batch, n) drawn uniformly."""
        return torch.rand(*batch, self.n, generator=generator, dtype=torch.float64).argsort(-1)

    def distance_to_identity(self, element: Tensor) -> Tensor:
        """Return the share of the items that move, (...)."""
        return (self.log(element) != 0).double().mean(-1)

    def check(self, *elements: Tensor) -> None:
        """Raise an error unless all elements are places (..., n), as whole numbers."""
        check_indices(*elements)
        for element in elements:
            if element.ndim == 0 or element.shape[-1] != self.n:
                got = f"shape {tuple(element.shape)}"
                raise invalid("element", f"places (..., {self.n})", got, "give all n places")
