"""Simple bases of spaces of matrices: orthonormal, with as few entries as can be found; LaTeX."""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

STARTS = 24
STEPS = 200
MANY = 30  # generators, above which fewer starts are tried


def simple_basis(matrices: Tensor, seed: int = 0) -> Tensor:
    """Return a Frobenius-orthonormal basis with few entries of the span of matrices (k, n, m).

    It maximises the sum of fourth powers of the entries over all rotations of the basis, by
    projected ascent from several starts. The largest entry of each is positive, and those that move
    the first coordinates come first.

    Args:
        matrices: linearly independent.
        seed: of the starts.

    Example:
        >>> turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]]).double()
        >>> mixed = torch.stack((turn + torch.eye(2), turn - 2 * torch.eye(2)))
        >>> simple_basis(mixed).abs().amax((1, 2))
        tensor([0.7071, 0.7071], dtype=torch.float64)
    """
    count = len(matrices)
    if count == 0:
        return matrices.double()
    flat, _ = torch.linalg.qr(matrices.double().reshape(count, -1).T)  # (nm, k)
    generator = torch.Generator().manual_seed(seed)
    tries = STARTS if count <= MANY else 2
    starts = torch.randn(tries, count, count, generator=generator, dtype=flat.dtype)
    rotation = torch.linalg.qr(starts).Q
    rotation[0] = torch.eye(count, dtype=flat.dtype)
    for _ in range(STEPS if count > 1 else 0):
        cubes = (flat @ rotation) ** 3
        left, _, right = torch.linalg.svd(flat.T @ cubes, full_matrices=False)
        rotation = left @ right
    mixed = flat @ rotation  # (starts, nm, k)
    best = mixed[int((mixed**4).sum((1, 2)).argmax())].T
    signs = best.gather(1, best.abs().argmax(1, keepdim=True)).sign()
    best = (best * signs).reshape(matrices.shape)
    order = sorted(range(count), key=lambda i: _first_entries(best[i]))
    ordered: Tensor = best[order]
    return ordered


def _first_entries(matrix: Tensor) -> list[tuple[int, int]]:
    large = matrix.abs() > 0.3 * matrix.abs().max()
    return sorted((min(i, j), max(i, j)) for i, j in large.nonzero().tolist())


def rounded(matrices: Tensor, grid: int = 2, most: float = 0.2) -> Tensor | None:
    """Return matrices whose entries, divided by the largest, are rounded to multiples of 1 / grid.

    Args:
        matrices: a simple basis, (k, n, m).
        grid: steps between 0 and 1.
        most: largest change of an entry; beyond it there is no rounded basis, nor if rounded
            matrices depend on each other.

    Example:
        >>> rounded(torch.tensor([[[0.01, -0.69], [0.71, 0.0]]]))
        tensor([[[ 0.0000, -0.7071],
                 [ 0.7071,  0.0000]]])
    """
    unit = matrices / matrices.abs().amax((1, 2), keepdim=True)
    simple = (unit * grid).round() / grid + 0.0
    if len(matrices) == 0 or float((simple - unit).abs().max()) > most:
        return None
    unit_length: Tensor = simple / simple.norm(dim=(1, 2), keepdim=True)
    independent = torch.linalg.svdvals(unit_length.reshape(len(simple), -1))[-1] > 0.1
    return unit_length if bool(independent) else None


def thresholded(matrices: Tensor, least: float = 0.05) -> Tensor:
    """Return matrices of unit length without the entries that :func:`field_text` leaves out."""
    large = matrices.abs() >= least * matrices.abs().amax((1, 2), keepdim=True)
    kept = torch.where(large, matrices, 0.0)
    unit: Tensor = kept / kept.norm(dim=(1, 2), keepdim=True)
    return unit


def scaled(matrix: Tensor) -> Tensor:
    """Return the matrix divided so that its largest entry is 1."""
    return matrix / matrix.abs().max()


def latex_matrix(matrix: Tensor, digits: int = 2) -> str:
    r"""Return a matrix in LaTeX, rounded.

    Example:
        >>> latex_matrix(torch.tensor([[0.0, -1.0], [1.0, 0.0]]))
        '\\begin{pmatrix} 0 & -1 \\\\ 1 & 0 \\end{pmatrix}'
    """
    rows = [" & ".join(_number(value, digits) for value in row) for row in matrix.tolist()]
    inner = " \\\\ ".join(rows)
    return f"\\begin{{pmatrix}} {inner} \\end{{pmatrix}}"


def field_text(matrix: Tensor, names: tuple[str, ...] = (), least: float = 0.05) -> str:
    """The field A x + b of a homogeneous matrix (d + 1, d + 1) as text; small entries are left out.

    A small entry opposite to a large one is the difference between a rotation of stretched
    coordinates and a shear, so that the geometric mean of both counts, which no units change.

    Args:
        matrix: scaled to its largest entry first.
        names: of the coordinates.
        least: entries below this share of the largest are left out.

    Example:
        >>> turn = torch.zeros(3, 3)
        >>> turn[0, 1], turn[1, 0] = -1, 1
        >>> field_text(turn, ("x", "y"))
        '-y d/dx + x d/dy'
        >>> turn[1, 0] = 0.01
        >>> field_text(turn, ("x", "y"))
        '-y d/dx + 0.01 x d/dy'
    """
    shown = scaled(matrix)
    dim = len(shown) - 1
    names = names or tuple(f"x{i + 1}" for i in range(dim))
    terms = []
    for i in range(dim):
        for j in range(dim + 1):
            value = float(shown[i, j])
            both = math.sqrt(abs(value * float(shown[j, i]))) if j < dim else 0.0
            if max(abs(value), both) >= least:
                number = _number(abs(value), 2 if abs(value) >= least else 4)
                factor = "" if number == "1" and j < dim else number
                parts = [factor, names[j] if j < dim else "", f"d/d{names[i]}"]
                if parts[0] == "1":
                    parts[0] = ""
                sign = "-" if value < 0 else "+"
                terms.append((sign, " ".join(part for part in parts if part)))
    text = " ".join(f"{sign} {term}" for sign, term in terms)
    return text.removeprefix("+ ") if text.startswith("+ ") else text.replace("- ", "-", 1)


def large_terms(theta: Tensor, names: Sequence[str]) -> list[str]:
    """The terms of a combination (p,) of named fields, relative to the largest; not small ones.

    Example:
        >>> large_terms(torch.tensor([2.0, -1.0, 0.01]), ("d1", "d2", "d3"))
        ['+1 d1', '-0.5 d2']
    """
    shares = (theta / theta[theta.abs().argmax()]).tolist()
    pairs = zip(shares, names, strict=True)
    return [f"{share:+.2g} {name}" for share, name in pairs if abs(share) >= 0.05]


def _number(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def axes_text(moved: Tensor, coordinates: tuple[str, ...]) -> str:
    """Return the coordinates that translations go along, or their directions.

    Args:
        moved: spanning vectors (t, d).
        coordinates: names of the d coordinates.

    Example:
        >>> axes_text(torch.tensor([[0.0, 2.0, 0.0]]), ("x", "y", "z"))
        'y'
    """
    projection = torch.linalg.pinv(moved) @ moved
    on = [i for i in range(len(projection)) if float(projection[i, i]) > 0.98]
    if len(on) == len(moved):
        return ", ".join(coordinates[i] for i in on)
    simple = simple_basis(moved[:, None])[:, 0]
    return ", ".join(_direction(row, coordinates) for row in simple)


def _direction(row: Tensor, coordinates: tuple[str, ...]) -> str:
    row = row / row.abs().max()
    if int((row.abs() > 0.05).sum()) == 1:
        return coordinates[int(row.abs().argmax())]
    terms = [
        f"{value:+.2g} {name}"
        for value, name in zip(row.tolist(), coordinates, strict=True)
        if abs(value) > 0.05
    ]
    return "direction (" + " ".join(itertools.islice(terms, 6)).removeprefix("+") + ")"
