"""Which subgroup of the rotations moves sets of points? Elements, modes and names.

Two copies of one object whose points correspond differ by one rotation, which is known in closed
form (Kabsch, 1976). If copies are moved by random elements of a subgroup H, these rotations are
random elements of H: their modes are the elements of a finite H, and these are named by how many
there are and by their orders, which differ for all finite subgroups of SO(3) and O(2).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries._validation.checks import check_choice, check_finite, check_floats, invalid

GROUPS = {"so2": 2, "o2": 2, "so3": 3}
DIRECTIONS = {"so2": 1, "o2": 2, "so3": 2}  # from the origin, that tell an element
MOST_ELEMENTS = 120
EACH = 5  # elements of a finite group that have to be seen, on average
NEAR = 4.0  # standard errors of a rotation, within which two are the same
TINY = 1e-6


@dataclass(frozen=True)
class RelativeRotations:
    """Rotations between copies of the same object.

    Args:
        elements: orthogonal matrices (m, d, d).
        error: standard error of their angles, from what is left after the rotation.
        matched: share of the sets that have a copy.
    """

    elements: Tensor
    error: float
    matched: float


def relative_rotations(
    points: Tensor, group: str = "so3", same: float = 0.1, seed: int = 0
) -> RelativeRotations:
    """Pair sets of points that are copies of one object, and return the rotation of each pair.

    Pairs are disjoint, so that elements are independent. Candidates are those whose inner products,
    which no rotation changes, are nearest.

    Args:
        points: sets (n, p, d) of corresponding points; rotations are about the origin.
        group: "so2", "o2" or "so3".
        same: largest distance of two copies after the rotation, relative to their size.
        seed: of the order of pairing.

    Example:
        >>> turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
        >>> one = torch.tensor([[1.0, 0.0], [0.5, 2.0]])
        >>> found = relative_rotations(torch.stack((one, one @ turn.T)), "so2")
        >>> found.elements.abs().round().tolist()  # a quarter turn, to the left or to the right
        [[[0.0, 1.0], [1.0, 0.0]]]
    """
    check_choice(group, tuple(GROUPS), "group")
    check_floats(points, "points", "n", "p", GROUPS[group])
    check_finite(points, "points")
    if len(points) < 2:
        raise invalid("points", "at least two sets", len(points), "give more copies")
    needed = DIRECTIONS[group]
    sizes = torch.linalg.svdvals(points.double())[:, needed - 1 :]
    least = TINY * float(points.norm(dim=-1).max())
    if sizes.shape[1] == 0 or float(sizes[:, 0].median()) <= least:
        got = f"sets of {points.shape[1]} points that tell fewer"
        remedy = "rotations are about the origin: give points around it"
        raise invalid("points", f"{needed} directions from the origin or more", got, remedy)
    generator = torch.Generator().manual_seed(seed)
    x = points.double()[torch.randperm(len(points), generator=generator)]
    pairs = _pairs(x, same, generator)
    first, second = x[pairs[:, 0]], x[pairs[:, 1]]
    elements = kabsch(first, second, reflections=group == "o2")
    rest = (second - first @ elements.mT).square().sum((1, 2)).sqrt()
    kept = rest <= same * second.square().sum((1, 2)).sqrt()
    if not bool(kept.any()):
        return RelativeRotations(elements[:0], 0.0, 0.0)
    count, dim = x.shape[1:]
    free = max(1, count * dim - dim * (dim - 1) // 2)
    noise = float((rest[kept].square().mean() / free).sqrt())
    errors = noise * _turning_error(second[kept])
    sharp = errors <= 2 * errors.median()  # objects that are nearly a line cannot be told turned
    error = float(errors[sharp].square().mean().sqrt())
    return RelativeRotations(elements[kept][sharp], error, 2 * int(kept.sum()) / len(x))


def _pairs(points: Tensor, same: float, generator: torch.Generator) -> Tensor:
    """Return disjoint pairs (m, 2) of sets whose inner products agree, drawn at random among these.

    How far they differ by rounding is learned from copies that are not equal: sets that the same
    element of a finite group moved are equal, and pairs of these alone all say "not moved".
    """
    size = points.square().sum((1, 2)).mean()
    products = (points @ points.mT).flatten(1) / size
    distances = torch.cdist(products, products, compute_mode="donot_use_mm_for_euclid_dist")
    distances.fill_diagonal_(torch.inf)
    flat = points.flatten(1)
    equal = torch.cdist(flat, flat, compute_mode="donot_use_mm_for_euclid_dist") == 0
    nearest = distances.amin(1).median()
    others = distances.masked_fill(equal, torch.inf).amin(1).median()
    usual = 2 * float(others if others <= same else nearest) + TINY
    pairs = []
    for i in range(len(points)):
        closest = float(distances[i].min())
        if closest == torch.inf:  # it has a partner, or nobody is left
            continue
        alike = (distances[i] <= max(usual, closest)).nonzero()[:, 0]
        j = int(alike[torch.randint(len(alike), (1,), generator=generator)])
        pairs.append((i, j))
        distances[[i, j]] = torch.inf
        distances[:, [i, j]] = torch.inf
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2)


def _turning_error(points: Tensor) -> Tensor:
    """Standard error (n,) of the angle of a rotation of points with errors of size one."""
    dim = points.shape[-1]
    scatter = points.mT @ points
    trace = scatter.diagonal(dim1=-2, dim2=-1).sum(-1)
    if dim == 2:
        return trace.clamp_min(TINY).rsqrt()
    inertia = trace[:, None, None] * torch.eye(dim, dtype=points.dtype) - scatter
    moments = torch.linalg.eigvalsh(inertia)
    error: Tensor = (1 / moments.clamp_min(TINY**2)).sum(-1).sqrt()
    return error


def kabsch(first: Tensor, second: Tensor, reflections: bool = False) -> Tensor:
    """Return rotations (n, d, d) that bring points (n, p, d) nearest to others, by least squares.

    Args:
        first: points to move.
        second: where they should go.
        reflections: whether determinants may be -1.
    """
    left, _, right = torch.linalg.svd(second.mT @ first)
    if not reflections:
        sign = torch.linalg.det(left @ right).sign()
        left = torch.cat((left[..., :-1], left[..., -1:] * sign[:, None, None]), -1)
    rotations: Tensor = left @ right
    return rotations


def angles(first: Tensor, second: Tensor) -> Tensor:
    """Return angles (n, m) between rotations (n, d, d) and (m, d, d); pi if one is a reflection."""
    dim = first.shape[-1]
    trace = torch.einsum("nab,mab->nm", first, second)
    near = (trace - (dim - 2)) / 2
    angle = near.clamp(-1, 1).acos()
    turned = torch.linalg.det(first)[:, None] * torch.linalg.det(second) < 0
    return angle.masked_fill(turned, math.pi)


def modes(elements: Tensor, error: float) -> Tensor:
    """Return distinct elements (k, d, d), the mean of each, or none where they are not separate.

    Args:
        elements: (m, d, d).
        error: standard error of their angles.
    """
    reach = NEAR * max(error, TINY)
    free = torch.ones(len(elements), dtype=torch.bool)
    found: list[Tensor] = []
    while bool(free.any()):
        if len(found) > MOST_ELEMENTS:
            return elements[:0]
        seed = elements[free][:1]
        near = (angles(elements, seed)[:, 0] <= 2 * reach) & free
        centre = nearest_orthogonal(elements[near].mean(0))[None]
        distance = angles(elements, centre)[:, 0]
        inside = distance <= reach
        if bool(((distance > reach) & (distance <= 2 * reach)).sum() > 0.02 * inside.sum() + 1):
            return elements[:0]  # no gap around it
        found.append(nearest_orthogonal(elements[inside].mean(0)))
        free &= ~near & ~inside
    stacked = torch.stack(found)
    if len(elements) < EACH * len(stacked):
        return elements[:0]
    return stacked


def nearest_orthogonal(matrix: Tensor) -> Tensor:
    """Return the orthogonal matrix that is nearest to a matrix (d, d)."""
    left, _, right = torch.linalg.svd(matrix)
    nearest: Tensor = left @ right
    return nearest


def closed(elements: Tensor, error: float) -> bool:
    """Whether products of all pairs of elements are among them."""
    products = torch.einsum("iab,jbc->ijac", elements, elements).flatten(0, 1)
    return bool((angles(products, elements).amin(1) <= 2 * NEAR * max(error, TINY)).all())


def consistent(elements: Tensor) -> Tensor:
    """Elements of a finite group, each replaced by the mean of all products that should equal it.

    Errors of k elements shrink by about the root of k.

    Args:
        elements: (k, d, d), closed up to their errors.
    """
    products = torch.einsum("iab,jbc->ijac", elements, elements).flatten(0, 1)
    place = angles(products, elements).argmin(1)
    total = torch.zeros_like(elements).index_add(0, place, products)
    return torch.stack([nearest_orthogonal(part) for part in total])


def name_finite(elements: Tensor) -> str:
    """Name a finite group of rotations by its order and the orders of its elements.

    Args:
        elements: all of them, (k, d, d).

    Example:
        >>> quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
        >>> name_finite(torch.stack([torch.linalg.matrix_power(quarter, n) for n in range(4)]))
        'C4'
    """
    count, dim = len(elements), elements.shape[-1]
    if bool((torch.linalg.det(elements) < 0).any()):
        return f"D{count // 2}"
    unit = torch.eye(dim, dtype=elements.dtype)[None]
    turns = angles(elements, unit)[:, 0]
    smallest = float(turns[turns > math.pi / (count + 1)].min()) if count > 1 else 2 * math.pi
    largest_order = round(2 * math.pi / smallest)
    if largest_order == count:
        return f"C{count}"
    named = {(12, 3): "T", (24, 4): "O", (60, 5): "I"}.get((count, largest_order))
    return named or (f"D{count // 2}" if largest_order in (count // 2, 2) else f"order {count}")
