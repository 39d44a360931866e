"""Uniform distribution over a box of transformations with learned half-widths."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import check_choice, check_whole, invalid, wrong_type
from symmetries.groups.base import Group
from symmetries.groups.names import as_group

Sampling = Literal["random", "sobol", "grid"]
SAMPLINGS = ("random", "sobol", "grid")
MOST = 10**9  # largest number of samples at once
CONSTRAINTS = ("none", "softplus", "tanh", "reflect")


class UniformBox(nn.Module):
    r"""Uniform distribution eta_i = eps_i w_i, eps in [-1, 1]^k: a symmetric box of half-widths w.

    Because eta is a smooth function of the half-widths, gradients reach them through every sample
    (van der Ouderaa and van der Wilk 2022, equation 3). Half-width 0 is the identity alone; pi
    covers every rotation.

    Args:
        group: gives the number of parameters, their names and bounds.
        half_width: one number for all, or one for each parameter, in the group's own units.
        constraint: map from free numbers to half-widths: "none"; "softplus", positive; "tanh",
            w = b tanh(free / b), which stays within the natural bound b (rotation within pi) and
            is the identity near zero; or "reflect", w = free reflected at 0 and at b, which
            also stays within them and has slope 1 or -1 everywhere, so that no start is stuck.
        learn: whether the half-widths are trained.

    Example:
        >>> import math
        >>> from symmetries.groups.affine import Affine2
        >>> box = UniformBox(Affine2("rotation"), half_width=math.pi / 2)
        >>> box.sample(5, method="grid").detach().rad2deg().flatten().round().int().tolist()
        [-90, -45, 0, 45, 90]
    """

    def __init__(
        self,
        group: str | Group[Any],
        half_width: float | Sequence[float] = 0.0,
        *,
        constraint: Literal["none", "softplus", "tanh", "reflect"] = "none",
        learn: bool = True,
    ) -> None:
        super().__init__()
        check_choice(constraint, CONSTRAINTS, "constraint")
        group = as_group(group)
        half_width = half_width.tolist() if isinstance(half_width, Tensor) else half_width
        if not isinstance(half_width, int | float | Sequence):
            expected = "a number, or one for each parameter"
            raise wrong_type("half_width", expected, half_width, "see group.names")
        widths = [half_width] * group.dim if isinstance(half_width, int | float) else half_width
        if len(widths) != group.dim:
            expected = f"one number, or {group.dim} for {', '.join(group.names)}"
            remedy = "give one for each parameter"
            raise invalid("half_width", expected, f"{len(widths)} numbers", remedy)
        for name, width, bound in zip(group.names, widths, group.bounds, strict=True):
            if not isinstance(width, int | float) or not 0 <= width <= bound:
                expected = f"a number in [0, {bound:.4g}] for {name}"
                raise invalid("half_width", expected, width, "see group.bounds and group.units")
        self.group = group
        self.constraint = constraint
        self.register_buffer("bounds", torch.tensor(group.bounds))
        self.bounds: Tensor
        self.free = nn.Parameter(self._to_free(torch.tensor([float(w) for w in widths])), learn)

    @property
    def half_width(self) -> Tensor:
        """Half-widths (dim,), in the group's own units."""
        return self.constrained(self.free)

    def constrained(self, free: Tensor) -> Tensor:
        """Return half-widths (..., dim) for free numbers (..., dim), possibly of several boxes."""
        if self.constraint == "softplus":
            return F.softplus(free)
        if self.constraint == "tanh":
            return self.bounds * torch.tanh(free / self.bounds)
        if self.constraint == "reflect":
            return self.bounds - (torch.remainder(free, 2 * self.bounds) - self.bounds).abs()
        return free

    @torch.no_grad()
    def set_half_width(self, value: Tensor) -> None:
        """Set the half-widths to (dim,) values."""
        self.free.copy_(self._to_free(value.to(self.free)))

    def sample(
        self, n: int, method: Sampling = "random", generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw parameters eta (n, dim).

        Args:
            n: number of samples; for "grid" it must be an integer to the power dim.
            method: "random"; "sobol", scrambled; or "grid", linearly spaced and deterministic.
            generator: random generator of "random" and "sobol".
        """
        return self.noise(n, method, generator) * self.half_width

    def noise(
        self, n: int, method: Sampling = "random", generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw eps (n, dim) in [-1, 1]^dim, before scaling by the half-widths."""
        check_whole(n, "n", most=MOST)
        check_choice(method, SAMPLINGS, "method")
        k = self.group.dim
        if method == "random":
            like = self.free
            return (
                2 * torch.rand(n, k, generator=generator, dtype=like.dtype, device=like.device) - 1
            )
        points = grid_points(n, k) if method == "grid" else sobol_points(n, k, generator)
        return points.to(self.free)

    def _to_free(self, width: Tensor) -> Tensor:
        if self.constraint == "softplus":
            width = width.clamp_min(1e-4)
            return width + torch.log(-torch.expm1(-width))
        if self.constraint == "tanh":
            # tanh reaches its bound only at infinity, so start just inside.
            share = (width / self.bounds).clamp_max(1 - 1e-3)
            return self.bounds * torch.atanh(share)
        return width

    def extra_repr(self) -> str:
        """Return the arguments shown by print(box)."""
        return f"{self.group!r}, constraint={self.constraint!r}"


def grid_points(n: int, k: int) -> Tensor:
    """Return n = m^k grid points (n, k) of [-1, 1]^k: m equally spaced per axis, ends included.

    A single point is the centre.

    Example:
        >>> grid_points(4, 2).int().tolist()
        [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    """
    m = round(n ** (1 / k))
    if m**k != n:
        options = f"{m**k} or {(m + 1) ** k}"
        raise invalid("n", f"a whole number to the power {k}", n, f"take {options}")
    axis = torch.linspace(-1, 1, m, dtype=torch.float64) if m > 1 else torch.zeros(1).double()
    return torch.cartesian_prod(*[axis] * k).reshape(n, k)


def sobol_points(n: int, k: int, generator: torch.Generator | None = None) -> Tensor:
    """Return n scrambled Sobol points (n, k) of [-1, 1]^k, on the generator's device.

    A random shift modulo 1 keeps every point uniform, so averages over the box are unbiased.
    """
    device = generator.device if generator is not None else torch.device("cpu")
    shift = torch.rand(k, generator=generator, device=device, dtype=torch.float64)
    return 2 * ((_plain_sobol(n, k, device) + shift) % 1) - 1


@lru_cache(maxsize=32)
def _plain_sobol(n: int, k: int, device: torch.device) -> Tensor:
    # Cached on the device, because creating them synchronises.
    with torch.inference_mode(False):
        return torch.quasirandom.SobolEngine(k).draw(n, dtype=torch.float64).to(device)
