"""A uniform distribution over a box of transformations whose half-widths are learned."""

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
MOST = 10**9  # samples at once
CONSTRAINTS = ("none", "softplus", "tanh", "reflect")


class UniformBox(nn.Module):
    r"""eta_i = eps_i w_i with eps uniform in [-1, 1]^k: a symmetric box with half-widths w.

    As eta is a smooth function of the half-widths, gradients reach them through every sample
    (van der Ouderaa and van der Wilk 2022, equation 3). Half-width 0 is no transformation at
    all; pi is every rotation.

    Args:
        group: gives the number of parameters, their names and bounds.
        half_width: one number for all, or one for each parameter, in the group's own units.
        constraint: how free numbers become half-widths: "none"; "softplus", positive; "tanh",
            w = b tanh(free / b), which stays within the natural bound b (rotation within pi) and
            is the identity near zero; or "reflect", w = free mirrored at 0 and at b, which stays
            within them too and has the same slope everywhere, so that no start gets stuck.
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
            raise wrong_type("half_width", "a number, or one each", half_width, "see group.names")
        widths = [half_width] * group.dim if isinstance(half_width, int | float) else half_width
        if len(widths) != group.dim:
            expected = f"one number, or {group.dim} for {', '.join(group.names)}"
            raise invalid("half_width", expected, f"{len(widths)} numbers", "give one each")
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
        """The half-widths (dim,), in the group's own units."""
        return self.constrained(self.free)

    def constrained(self, free: Tensor) -> Tensor:
        """Half-widths (..., dim) from free numbers, which may be those of several boxes."""
        if self.constraint == "softplus":
            return F.softplus(free)
        if self.constraint == "tanh":
            return self.bounds * torch.tanh(free / self.bounds)
        if self.constraint == "reflect":
            return self.bounds - (torch.remainder(free, 2 * self.bounds) - self.bounds).abs()
        return free

    @torch.no_grad()
    def set_half_width(self, value: Tensor) -> None:
        """Put half-widths (dim,) in the place of what was learned."""
        self.free.copy_(self._to_free(value.to(self.free)))

    def sample(
        self,
        n: int,
        method: Sampling = "random",
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Parameters eta (n, dim).

        Args:
            n: number of samples; for "grid" it must be a whole number to the power dim.
            method: "random"; "sobol", scrambled; or "grid", linearly spaced and deterministic.
            generator: source of randomness of "random" and "sobol".
        """
        return self.noise(n, method, generator) * self.half_width

    def noise(
        self,
        n: int,
        method: Sampling = "random",
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The samples eps (n, dim) in [-1, 1]^dim, before they are scaled by the half-widths."""
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
            # tanh reaches its bound only at infinity: start just inside.
            share = (width / self.bounds).clamp_max(1 - 1e-3)
            return self.bounds * torch.atanh(share)
        return width

    def extra_repr(self) -> str:
        """What print(box) says."""
        return f"{self.group!r}, constraint={self.constraint!r}"


def grid_points(n: int, k: int) -> Tensor:
    """N = m^k points of [-1, 1]^k, m equally spaced along each axis, ends included; (n, k).

    A single point is the middle.

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
    """N scrambled Sobol points of [-1, 1]^k; (n, k), where the generator lives.

    A random shift modulo 1 keeps every point uniform, so averages over the box are unbiased.
    """
    device = generator.device if generator is not None else torch.device("cpu")
    shift = torch.rand(k, generator=generator, device=device, dtype=torch.float64)
    return 2 * ((_plain_sobol(n, k, device) + shift) % 1) - 1


@lru_cache(maxsize=32)
def _plain_sobol(n: int, k: int, device: torch.device) -> Tensor:
    # Kept on the device: drawing them makes it wait.
    with torch.inference_mode(False):
        return torch.quasirandom.SobolEngine(k).draw(n, dtype=torch.float64).to(device)
