"""Names of Lie algebras of affine fields: "so(3)", "so(1,3)", "sim(2)", "translations in x"."""

import math
import re
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.groups.matrix import eigenvalues
from symmetries.lie.algebra import (
    Algebra,
    algebra,
    null_space,
    row_space,
    shifts_that_stay,
    signature,
    simple_ideals,
)
from symmetries.lie.bases import axes_text, simple_basis

NOT_SIMPLE = (1, 2, 4, 5, 7)  # dimensions that no simple algebra has
ALIKE = 0.05  # parts of eigenvalues that count as zero
DEFECTIVE = 1e4  # condition of eigenvectors, above which fields are sheared
OPEN = 0.1  # brackets that leave a span by more than this have no name


@dataclass(frozen=True)
class AlgebraName:
    """What an algebra of affine fields is.

    Args:
        text: "so(3)", "sim(2)", "u(1) + u(1)", ...
        latex: the same in LaTeX.
        levi: names of its simple parts.
        radical: dimension of its solvable radical.
        translations: dimension of its pure translations.
        closure: error of closure under brackets.
    """

    text: str
    latex: str
    levi: tuple[str, ...]
    radical: int
    translations: int
    closure: float


@dataclass(frozen=True)
class Shown:
    """Linear coordinates u = frame z (d, r), with names."""

    frame: Tensor
    names: tuple[str, ...]

    def outward(self, matrices: Tensor) -> Tensor:
        """Return matrices (k, r, r) of linear fields of z as those of u."""
        outer: Tensor = self.frame @ matrices @ torch.linalg.pinv(self.frame)
        return outer

    def inward(self, matrices: Tensor) -> Tensor:
        """Return matrices (k, d, d) of linear fields of u as those of z."""
        inner: Tensor = torch.linalg.pinv(self.frame) @ matrices @ self.frame
        return inner


def name_algebra(
    matrices: Tensor, coordinates: tuple[str, ...] = (), frame: Tensor | None = None
) -> AlgebraName:
    """Name the algebra of homogeneous matrices (k, d + 1, d + 1), of fields A x + b.

    Semisimple parts are named by the bilinear forms that they preserve, others by the signature of
    their Killing form; the rest by what its members do: rotate, scale, shear or translate.

    Args:
        matrices: linearly independent; the last row is zero.
        coordinates: names of the d coordinates.
        frame: homogeneous matrix (d + 1, r + 1) from coordinates in which data has unit covariance
            to these. What is small is told there: rotations of data that is 100 times longer than
            wide look like shears in its own coordinates.

    Example:
        >>> shift = torch.zeros(1, 3, 3)
        >>> shift[0, 0, 2] = 1
        >>> name_algebra(shift, ("x", "y")).text
        'translations in x'
    """
    frame = torch.eye(matrices.shape[-1]).double() if frame is None else frame
    coordinates = coordinates or tuple(f"x{i + 1}" for i in range(len(frame) - 1))
    whole = algebra(torch.linalg.pinv(frame) @ matrices.double() @ frame)
    if whole.dim == 0:
        return AlgebraName("no symmetry", "0", (), 0, 0, 0.0)
    dim = frame.shape[1] - 1
    shown = Shown(frame[:-1, :dim], coordinates)
    if whole.closure > OPEN:
        text = f"{whole.dim} fields that are not closed under brackets"
        return AlgebraName(text, rf"\text{{{text}}}", (), 0, 0, whole.closure)
    flat = whole.matrices[:, :dim, :dim].reshape(whole.dim, -1)
    shifts = null_space(flat.T, whole.tolerance)
    linear = row_space(flat, whole.tolerance).reshape(-1, dim, dim)
    below = algebra(linear, whole.tolerance)
    parts, levi = _linear_parts(below, shown)
    moved = whole.part(shifts).matrices[:, :dim, dim] if len(shifts) else flat.new_zeros(0, dim)
    radical = len(whole.radical())
    text = _with_translations(parts, levi, below, moved, shown)
    drift = shifts_that_stay(whole.matrices, moved)
    if len(drift):
        axes = axes_text(drift @ shown.frame.T, coordinates)
        text = f"screw along {axes}" if text == "so(2)" else f"{text} with a shift in {axes}"
    return AlgebraName(text, _latex(text), levi, radical, len(shifts), whole.closure)


def _linear_parts(linear: Algebra, shown: Shown) -> tuple[list[str], tuple[str, ...]]:
    """Names of the parts of an algebra of linear fields, and of the simple ones among them."""
    if linear.dim == 0:
        return [], ()
    if linear.abelian:
        return _commuting(linear.matrices, shown), ()
    radical = linear.radical()
    centre = linear.centre()
    if len(radical) > len(centre):  # not reductive: the Levi part has no place of its own
        constants, _ = linear.semisimple_quotient()
        ideals = simple_ideals(constants, linear.tolerance)
        if any(len(ideal) in NOT_SIMPLE for ideal in ideals):
            return [f"an algebra of dimension {linear.dim} that errors blur"], ()
        levi = tuple(_by_killing(_restricted(constants, ideal)) for ideal in ideals)
        return [*levi, _solvable(linear.part(radical))], levi
    levi_part = linear.part(linear.derived())
    whole = _by_form(levi_part.matrices, linear.tolerance)
    if whole is None:
        inner = simple_ideals(levi_part.constants, linear.tolerance)
        if any(len(ideal) in NOT_SIMPLE for ideal in inner):
            return [f"an algebra of dimension {linear.dim} that errors blur"], ()
        names = [_simple(levi_part, ideal) for ideal in inner]
    else:
        names = [whole]
    rest = linear.part(centre).matrices
    return [*sorted(names), *_commuting(rest, shown)], tuple(sorted(names))


def _solvable(radical: Algebra) -> str:
    """Heisenberg's algebra if all brackets are multiples of one central member."""
    derived, centre = radical.derived(), radical.centre()
    single = len(derived) == len(centre) == 1
    if single and float((derived @ centre.T).abs()) > 1 - OPEN:
        return f"heisenberg({radical.dim})"
    return f"a solvable algebra of dimension {radical.dim}"


def _simple(part: Algebra, ideal: Tensor) -> str:
    matrices = torch.einsum("rk,kab->rab", ideal, part.matrices)
    found = _by_form(matrices, part.tolerance)
    return found or _by_killing(_restricted(part.constants, ideal))


def _restricted(constants: Tensor, ideal: Tensor) -> Tensor:
    return torch.einsum("ia,jb,abl,cl->ijc", ideal, ideal, constants, ideal)


def _by_form(matrices: Tensor, tolerance: float) -> str | None:
    """so(p,q), sp(n) or sl(n), if the matrices are all those that preserve a form, or volumes."""
    count = len(matrices)
    moved = matrices.transpose(1, 2).reshape(-1, matrices.shape[-1])
    inside = row_space(moved, tolerance)  # the space that the images span
    n = len(inside)
    small = inside @ matrices @ inside.T
    if count == n * n - 1 and n > 2:
        return f"sl({n})"
    forms = _invariant_forms(small, tolerance)
    if len(forms) != 1:
        return None
    form = forms[0]
    if count == n * (n - 1) // 2 and (form - form.T).norm() < 0.5 * form.norm():
        plus, minus = sorted(signature(form, 10 * tolerance))
        if plus + minus < n:
            return None
        return f"so({n})" if plus == 0 else f"so({plus},{minus})"
    if count == n * (n + 1) // 2 and (form + form.T).norm() < 0.5 * form.norm():
        return f"sp({n},R)" if n > 2 else "sl(2)"
    return None


def _invariant_forms(matrices: Tensor, tolerance: float) -> Tensor:
    """Bilinear forms S (r, n, n) with A'S + S A = 0 for all A."""
    n = matrices.shape[-1]
    unit = torch.eye(n, dtype=matrices.dtype)
    system = torch.einsum("kca,bd->kabcd", matrices, unit) + torch.einsum(
        "ac,kdb->kabcd", unit, matrices
    )
    return null_space(system.reshape(-1, n * n), tolerance).reshape(-1, n, n)


def _table() -> dict[tuple[int, int], str]:
    """Return simple algebras by the signature of their Killing form; the first name stays."""
    known: dict[tuple[int, int], str] = {(0, 3): "so(3)", (2, 1): "sl(2)"}
    for n in range(5, 9):
        for p in range(n // 2 + 1):
            q = n - p
            minus = (p * (p - 1) + q * (q - 1)) // 2
            known.setdefault((p * q, minus), f"so({n})" if p == 0 else f"so({p},{q})")
    known[(3, 3)] = "so(1,3)"
    for n in range(3, 7):
        known.setdefault((n * (n + 1) // 2 - 1, n * (n - 1) // 2), f"sl({n})")
        for p in range(n // 2 + 1):
            plus = 2 * p * (n - p)
            name = f"su({n})" if p == 0 else f"su({p},{n - p})"
            known.setdefault((plus, n * n - 1 - plus), name)
    known.setdefault((0, 14), "g2")
    return known


KNOWN = _table()


def _by_killing(constants: Tensor) -> str:
    form = torch.einsum("ial,jla->ij", constants, constants)
    found = KNOWN.get(signature(form, 1e-3))
    return found or f"a semisimple algebra of dimension {len(constants)}"


def _commuting(matrices: Tensor, shown: Shown) -> list[str]:
    """Return names of commuting linear fields, each by what it does."""
    parts = [simple_basis(shown.outward(part)) for part in _turns_and_scalings(matrices)]
    simple = torch.cat(parts)
    inner = shown.inward(simple)
    names = [_single(m, s, shown.names) for m, s in zip(inner, simple, strict=True)]
    rotations = [name for name in names if name in ("so(2)", "u(1)")]
    if len(rotations) > 1:
        names = ["u(1)" if name == "so(2)" else name for name in names]
    return sorted(names)


def _turns_and_scalings(matrices: Tensor) -> list[Tensor]:
    """Commuting fields (k, n, n) as those that only turn and those that only stretch, if they are.

    A spiral and a scaling span the same fields as a rotation and a scaling. Eigenvalues that they
    have in common are linear functions of the fields: their real parts vanish for rotations, their
    imaginary parts for scalings. If fields have no common eigenvectors, or other members, they are
    left as they are.
    """
    count = len(matrices)
    unit = matrices / torch.linalg.matrix_norm(matrices, 2, keepdim=True)
    mixing = torch.randn(count, generator=torch.Generator().manual_seed(0), dtype=unit.dtype)
    vectors = torch.linalg.eig(torch.einsum("k,kab->ab", mixing, unit)).eigenvectors
    if count < 2 or float(torch.linalg.cond(vectors)) > DEFECTIVE:
        return [matrices]
    inner = torch.linalg.solve(vectors, unit.to(vectors) @ vectors)
    values = inner.diagonal(dim1=1, dim2=2)
    if float((inner - torch.diag_embed(values)).abs().max()) > OPEN:
        return [matrices]
    turns, scalings = null_space(values.real.T, ALIKE), null_space(values.imag.T, ALIKE)
    if len(turns) + len(scalings) != count or not len(turns) or not len(scalings):
        return [matrices]
    return [torch.einsum("rk,kab->rab", part, unit) for part in (turns, scalings)]


def _single(matrix: Tensor, outer: Tensor, coordinates: tuple[str, ...]) -> str:
    """What one linear field does, by its matrix and by the one in the coordinates of the names."""
    size = float(torch.linalg.matrix_norm(matrix, 2))
    values = eigenvalues(matrix)
    real, imaginary = values.real.abs().max() / size, values.imag.abs().max() / size
    moved = int((torch.linalg.svdvals(matrix) > 0.05 * size).sum())
    if real < 0.05 and imaginary < 0.05:
        return "shear"
    if real < 0.05:
        turning = values.imag.abs()[values.imag.abs() > 0.05 * size]
        same = float(turning.max() - turning.min()) < 0.05 * size
        return "so(2)" if moved == 2 or same else "u(1)"
    if imaginary >= 0.05:
        return "spiral"
    large = values.real[values.real.abs() > 0.05 * size]
    if len(large) == 2 and float((large.sum() / size).abs()) < 0.05:
        return "so(1,1)"
    diagonal = outer.diagonal()
    if moved == len(matrix) or (outer - diagonal.diag()).norm() > 0.1 * outer.norm():
        return "scaling"
    least = 0.05 * float(diagonal.abs().max())
    axes = [name for name, v in zip(coordinates, diagonal.tolist(), strict=True) if abs(v) > least]
    return f"scaling of {', '.join(axes)}"


def _with_translations(
    parts: list[str], levi: tuple[str, ...], linear: Algebra, moved: Tensor, shown: Shown
) -> str:
    """Return the name of linear parts together with pure translations (t, d)."""
    joined = " + ".join(parts)
    if len(moved) == 0:
        return _general_linear(levi, linear) or joined
    axes = axes_text(moved @ shown.frame.T, shown.names)
    if not parts:
        return f"translations in {axes}"
    images = row_space(linear.matrices.transpose(1, 2).reshape(-1, linear.matrices.shape[-1]), 0.05)
    acts = float((linear.matrices @ moved.T).norm()) > 0.05
    n = len(moved)
    rotations = ("so(2)",) if n == 2 else (f"so({n})",)
    if acts and len(images) == n:
        if _general_linear(levi, linear) == f"gl({n})":
            return f"aff({n})"
        if tuple(parts) == rotations:
            return f"se({n})"
        if tuple(sorted(parts)) == tuple(sorted((*rotations, "scaling"))):
            return f"sim({n})"
        if len(parts) == 1 and parts[0] in [f"so({p},{n - p})" for p in range(n)]:
            return f"i{parts[0]}"
    return f"{joined} {'x' if acts else '+'} translations in {axes}"


def _general_linear(levi: tuple[str, ...], linear: Algebra) -> str | None:
    """gl(n): the dimension of sl(n) and one more, which commutes with it."""
    n = math.isqrt(linear.dim)
    return f"gl({n})" if n * n == linear.dim and levi == (f"sl({n})",) else None


def _latex(text: str) -> str:
    parts = []
    for word in text.split(" + "):
        found = re.fullmatch(r"([a-z]+)\(([^)]*)\)", word)
        if found:
            inner = found[2].replace("R", r"\mathbb{R}")
            parts.append(rf"\mathfrak{{{found[1]}}}({inner})")
        else:
            parts.append(rf"\text{{{word}}}")
    return r" \oplus ".join(parts)
