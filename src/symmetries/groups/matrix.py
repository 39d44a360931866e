"""Matrix groups of generators that are given as matrices, such as learned ones."""

import itertools
import json
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from symmetries._validation.checks import check_finite, check_floats, check_number, invalid, short
from symmetries.groups.base import Device, Dtype, Group, Parameter
from symmetries.groups.special import check_eta, distance_of_matrices

CORNERS = 12  # up to this many generators all corners of the box are looked at
ROUNDING = 1e-6
DEPENDENT = 1e-12


class MatrixGroup(Group[Tensor]):
    """The matrices exp(sum_i eta_i G_i) of given generators G_i.

    Generators whose brackets leave their span by more than ``tolerance`` (of the product of their
    norms) make a family that is not ``closed``: its elements still compose as matrices. The bound
    is the same for all parameters, and such that the logarithm of every element in the box is
    known; a single generator whose exponential returns to 1 after a full turn is an angle.

    Args:
        generators: linearly independent matrices (k, n, n).
        names: of the parameters; "g1", "g2", ... by default.
        units: of the parameters; "rad" for rotations and "log-factor" for others by default.
        tolerance: of closure.

    Example:
        >>> turn = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
        >>> group = MatrixGroup(turn, ["angle"])
        >>> group.parameters[0].angle, group.closed
        (True, True)
        >>> group.exp(torch.tensor([torch.pi / 2])).round().tolist()
        [[0.0, -1.0], [1.0, 0.0]]
    """

    def __init__(
        self,
        generators: Tensor,
        names: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
        tolerance: float = 1e-6,
    ) -> None:
        check_floats(generators, "generators", "k", "n", "n")
        check_finite(generators, "generators")
        check_number(tolerance, "tolerance", 0)
        count, side, other = generators.shape
        if side != other or count == 0:
            got = f"shape {tuple(generators.shape)}"
            raise invalid("generators", "square matrices (k, n, n)", got, "give at least one")
        self.generators = generators.detach().double().clone()
        self.tolerance = tolerance
        flat = self.generators.reshape(count, -1)
        size = torch.linalg.svdvals(flat / flat.norm(dim=1, keepdim=True))
        if len(size) < count or not size[-1] > DEPENDENT * size[0]:
            got = f"{count} that depend on each other"
            raise invalid("generators", "independent matrices", got, "leave some out")
        self._inverse = torch.linalg.pinv(flat)  # (n n, k)
        kinds = [_is_rotation(g) for g in self.generators]
        names = tuple(names or (f"g{i + 1}" for i in range(count)))
        units = tuple(units or ("rad" if turn else "log-factor" for turn in kinds))
        if len(names) != count or len(units) != count:
            got = f"{len(names)} names and {len(units)} units"
            raise invalid("names", f"{count} names and units", got, "give one for each generator")
        bound = _bound(self.generators)
        full = count == 1 and _returns(self.generators[0], bound)
        self._parameters = tuple(
            Parameter(name, unit, bound, angle=full)
            for name, unit in zip(names, units, strict=True)
        )
        self._closed = structure_constants(self.generators)[2] <= tolerance

    def __repr__(self) -> str:
        return f"MatrixGroup({', '.join(map(repr, self.names))})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MatrixGroup) or self.parameters != other.parameters:
            return False
        return torch.equal(self.generators, other.generators)

    def __hash__(self) -> int:
        return hash((self.names, tuple(self.generators.flatten().tolist())))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """One parameter for each generator."""
        return self._parameters

    @property
    def closed(self) -> bool:
        """Whether brackets of generators stay in their span."""
        return self._closed

    @property
    def planar(self) -> bool:
        """Whether elements are affine maps of the plane: 3 x 3, and generators end in zeros."""
        side = self.generators.shape[-1]
        return side == 3 and not bool(self.generators[:, 2].any())

    def homogeneous(self) -> "MatrixGroup":
        """Return the same group in homogeneous coordinates, with one more row and column."""
        whole = torch.nn.functional.pad(self.generators, (0, 1, 0, 1))
        units = [parameter.unit for parameter in self.parameters]
        return MatrixGroup(whole, self.names, units, self.tolerance)

    negation_inverts = True  # elements are exponentials of sums of generators

    def exp(self, eta: Tensor) -> Tensor:
        """Return the matrices (..., n, n) of eta (..., k)."""
        check_eta(eta, self.dim)
        check_floats(eta, "eta", "...")
        algebra = torch.einsum("...k,kab->...ab", eta, self.generators.to(eta))
        return torch.linalg.matrix_exp(algebra)

    def log(self, element: Tensor) -> Tensor:
        """Return the parameters (..., k) of the principal logarithm; least squares in the span."""
        self._check(element)
        flat = matrix_log(element).flatten(-2)
        return flat @ self._inverse.to(flat)

    def compose(self, *elements: Tensor) -> Tensor:
        """Return the matrix product; the rightmost element acts first."""
        self._check(*elements)
        product = elements[0]
        for element in elements[1:]:
            product = product @ element
        return product

    def inverse(self, element: Tensor) -> Tensor:
        """Return the inverse matrices."""
        self._check(element)
        return torch.linalg.inv(element)

    def identity(self, *batch: int, dtype: Dtype = None, device: Device = None) -> Tensor:
        """Return unit matrices of shape ``(*batch, n, n)``."""
        side = self.generators.shape[-1]
        return torch.eye(side, dtype=dtype, device=device).expand(*batch, side, side)

    def distance_to_identity(self, element: Tensor) -> Tensor:
        """|T - I|^2 / 8, (...), as for the groups of the plane."""
        return distance_of_matrices(element)

    def _check(self, *elements: Tensor) -> None:
        side = self.generators.shape[-1]
        for element in elements:
            check_floats(element, "element", "...", side, side)


def matrix_log(matrix: Tensor) -> Tensor:
    """Principal logarithm of matrices (..., n, n) without eigenvalues on the negative axis.

    Square roots (Denman-Beavers) until the matrix is close to 1, then the series of the inverse
    hyperbolic tangent; computed in float64.

    Example:
        >>> turn = torch.tensor([[0.0, -2.0], [2.0, 0.0]], dtype=torch.float64)
        >>> torch.allclose(matrix_log(torch.linalg.matrix_exp(turn)), turn)
        True
    """
    root = matrix.double()
    one = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
    halvings = 0
    while halvings < 40 and bool(((root - one).abs().sum(-1).amax(-1) > 0.1).any()):
        root = _square_root(root, one)
        halvings += 1
    ratio = torch.linalg.solve(root + one, root - one)
    square = ratio @ ratio
    total = torch.zeros_like(ratio)
    for n in range(13, -1, -1):
        total = one / (2 * n + 1) + square @ total
    logarithm: Tensor = 2 ** (halvings + 1) * ratio @ total
    return logarithm.to(matrix.dtype)


def _square_root(matrix: Tensor, one: Tensor) -> Tensor:
    left, right = matrix, one.expand_as(matrix)
    for _ in range(30):
        new = (left + torch.linalg.inv(right)) / 2
        right = (right + torch.linalg.inv(left)) / 2
        change = (new - left).abs().amax()
        left = new
        if not change > 1e-15 * left.abs().amax():
            break
    return left


def brackets(matrices: Tensor) -> Tensor:
    """Return commutators [G_i, G_j] = G_i G_j - G_j G_i, (k, k, n, n), of matrices (k, n, n).

    Example:
        >>> turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
        >>> brackets(torch.stack((turn, torch.eye(2)))).abs().max()
        tensor(0.)
    """
    check_floats(matrices, "matrices", "k", "n", matrices.shape[-1])
    products = torch.einsum("iab,jbc->ijac", matrices, matrices)
    return products - products.transpose(0, 1)


def structure_constants(matrices: Tensor) -> tuple[Tensor, Tensor, float]:
    """Orthonormal basis, structure constants and error of closure of a span of matrices.

    Args:
        matrices: linearly independent, (k, n, n).

    Returns:
        An orthonormal basis G (k, n, n); c with [G_i, G_j] = sum_l c_ijl G_l, by least squares; and
        the largest norm of what is left of a bracket, which is 0 for a Lie algebra.
    """
    count, side, _ = matrices.shape
    flat, _ = torch.linalg.qr(matrices.double().reshape(count, -1).T)
    basis = flat.T.reshape(count, side, side)
    pairs = brackets(basis).reshape(count, count, -1)
    constants = pairs @ flat
    return basis, constants, float((pairs - constants @ flat.T).norm(dim=-1).max())


def _is_rotation(generator: Tensor) -> bool:
    values = eigenvalues(generator)
    size = float(values.abs().max())
    return size > ROUNDING and float(values.real.abs().max()) <= 1e-3 * size


def _bound(generators: Tensor) -> float:
    """Bound b such that no element with |eta_i| <= b has an eigenvalue on the negative axis.

    The imaginary part of an eigenvalue is at most the norm of the skew part (Bendixson), a convex
    function, which is largest at a corner of the box.
    """
    side = generators.shape[-1]
    affine = not bool(generators[:, -1].any())
    inner = generators[:, : side - 1, : side - 1] if affine else generators  # a triangular block
    skew = (inner - inner.mT) / 2
    if len(skew) <= CORNERS:
        signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=len(skew) - 1)))
        signs = torch.cat((torch.ones(len(signs), 1), signs), 1).to(skew)
        largest = torch.linalg.matrix_norm(torch.einsum("sk,kab->sab", signs, skew), 2).max()
    else:
        largest = torch.linalg.matrix_norm(skew, 2).sum()
    return min(math.pi / float(largest), 10.0) if largest > 0 else 10.0


def _returns(generator: Tensor, bound: float) -> bool:
    """Whether exp(2 bound G) is the identity, as after a full turn."""
    if not _is_rotation(generator):
        return False
    full = torch.linalg.matrix_exp(2 * bound * generator)
    one = torch.eye(len(generator), dtype=generator.dtype)
    return bool((full - one).abs().max() < ROUNDING)


def eigenvalues(matrix: Tensor) -> Tensor:
    """Return eigenvalues of a small square matrix, also where LAPACK's iteration does not converge.

    They are then those of the matrix with a change of 1e-10 of its size.

    Example:
        >>> found = eigenvalues(torch.tensor([[0.0, -2.0], [2.0, 0.0]]))
        >>> torch.allclose(found.imag.abs(), torch.full((2,), 2.0))
        True
    """
    generator = torch.Generator().manual_seed(0)
    changed = matrix
    for _ in range(3):
        try:
            found: Tensor = torch.linalg.eigvals(changed)
        except RuntimeError:  # torch.linalg.LinAlgError is one
            drawn = torch.randn(matrix.shape, generator=generator, dtype=matrix.dtype)
            changed = matrix + 1e-10 * matrix.abs().max() * drawn
        else:
            return found
    return torch.linalg.eigvals(changed)


PREFIX = "matrix:"
MOST = 10_000  # numbers in the generators, which are small matrices


def matrix_group_text(group: MatrixGroup) -> str:
    """Return the text from which :func:`parse_matrix_group` builds exactly this group.

    Example:
        >>> turn = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
        >>> matrix_group_text(MatrixGroup(turn, ["turn"]))
        'matrix:{"generators":[[[0.0,-1.0],[1.0,0.0]]],"names":["turn"],"tolerance":1e-06,"units":["rad"]}'
    """
    content = {
        "generators": group.generators.tolist(),
        "names": list(group.names),
        "tolerance": group.tolerance,
        "units": [parameter.unit for parameter in group.parameters],
    }
    return PREFIX + json.dumps(content, separators=(",", ":"))


def parse_matrix_group(text: str) -> MatrixGroup:
    """Return the group of a text of :func:`matrix_group_text`.

    Args:
        text: "matrix:" and JSON with generators, names, units and the tolerance of closure.
    """
    remedy = "write it with group_name(group)"
    wrong = invalid("group", "matrix: and JSON of generators", short(text), remedy)
    try:
        content = json.loads(text.removeprefix(PREFIX))
        generators = torch.tensor(content["generators"], dtype=torch.float64)
        names, units = ([str(word) for word in content[key]] for key in ("names", "units"))
        tolerance = float(content["tolerance"])
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise wrong from error
    if generators.numel() > MOST:
        got = f"{generators.numel()} numbers"
        raise invalid("group", f"at most {MOST} numbers in the generators", got, remedy)
    return MatrixGroup(generators, names, units, tolerance)
