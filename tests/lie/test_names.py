"""Names of algebras, simple bases, and the groups that they generate."""

import itertools

import pytest
import torch

from symmetries.actions import PointAction
from symmetries.groups import MatrixGroup
from symmetries.groups.matrix import matrix_log
from symmetries.lie import algebra, field_text, latex_matrix, name_algebra, simple_basis
from symmetries.lie.bases import rounded
from symmetries.testing import assert_group


def orthogonal(*signs):
    """Generators of so(p, q), for a diagonal form."""
    n = len(signs)
    found = []
    for i, j in itertools.combinations(range(n), 2):
        matrix = torch.zeros(n, n, dtype=torch.float64)
        matrix[i, j], matrix[j, i] = 1, -signs[i] * signs[j]
        found.append(matrix)
    return torch.stack(found)


def blocks(*parts):
    """The direct sum of algebras, acting on blocks of their own."""
    size = sum(part.shape[-1] for part in parts)
    found, start = [], 0
    for part in parts:
        for matrix in part:
            whole = torch.zeros(size, size, dtype=torch.float64)
            whole[start : start + len(matrix), start : start + len(matrix)] = matrix
            found.append(whole)
        start += part.shape[-1]
    return torch.stack(found)


def affine(linear, *shifts, dim=None):
    """Homogeneous matrices of linear fields, and of translations along axes."""
    dim = linear.shape[-1] if dim is None else dim
    whole = torch.zeros(len(linear) + len(shifts), dim + 1, dim + 1, dtype=torch.float64)
    if len(linear):
        whole[: len(linear), :dim, :dim] = linear
    for row, axis in enumerate(shifts):
        whole[len(linear) + row, axis, dim] = 1
    return whole


def everything(n):
    return torch.eye(n * n, dtype=torch.float64).reshape(-1, n, n)


def traceless(n):
    flat = torch.eye(n, dtype=torch.float64).flatten()[None]
    rest = torch.linalg.svd(flat, full_matrices=True)[2][1:]
    return rest.reshape(-1, n, n)


def unitary(n):
    """su(n) as real matrices of twice the size."""
    found = []
    for i, j in itertools.combinations(range(n), 2):
        real, imaginary = (torch.zeros(n, n, dtype=torch.complex128) for _ in range(2))
        real[i, j], real[j, i] = 1, -1
        imaginary[i, j] = imaginary[j, i] = 1j
        found += [real, imaginary]
    for i in range(n - 1):
        diagonal = torch.zeros(n, n, dtype=torch.complex128)
        diagonal[i, i], diagonal[i + 1, i + 1] = 1j, -1j
        found.append(diagonal)
    return torch.stack(
        [
            torch.cat((torch.cat((m.real, -m.imag), 1), torch.cat((m.imag, m.real), 1)))
            for m in found
        ]
    )


def units(n, *entries):
    """Matrices with a single 1 each."""
    found = torch.zeros(len(entries), n, n, dtype=torch.float64)
    for row, (i, j) in enumerate(entries):
        found[row, i, j] = 1
    return found


def complex_matrices(n):
    """gl(n, C) as real matrices of twice the size."""
    turn = torch.kron(orthogonal(1, 1)[0], torch.eye(n, dtype=torch.float64))
    real = torch.stack([torch.block_diag(one, one) for one in everything(n)])
    return torch.cat((real, turn @ real))


def symmetric_squares():
    """so(3) on the five traceless symmetric matrices of three coordinates."""
    forms = torch.stack([(part + part.T) / 2 for part in traceless(3)])
    basis = torch.linalg.svd(forms.flatten(1))[2][:5].reshape(5, 3, 3)
    moved = [turn @ basis - basis @ turn for turn in orthogonal(1, 1, 1)]
    return torch.stack([torch.einsum("iab,jab->ij", basis, part) for part in moved])


NONE = torch.zeros(0, 2, 2, dtype=torch.float64)
IDENTITY = torch.eye(2, dtype=torch.float64)[None]
SHEAR = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]], dtype=torch.float64)
NAMED = [
    (affine(orthogonal(1, 1)), "so(2)"),
    (affine(orthogonal(1, 1, 1)), "so(3)"),
    (affine(orthogonal(1, 1, 1, 1)), "so(4)"),
    (affine(orthogonal(1, -1, -1, -1)), "so(1,3)"),
    (affine(orthogonal(1, 1, -1, -1)), "so(2,2)"),
    (affine(orthogonal(1, -1, -1, -1, -1)), "so(1,4)"),
    (affine(orthogonal(1, -1)), "so(1,1)"),
    (affine(orthogonal(1, 1), 0, 1), "se(2)"),
    (affine(orthogonal(1, 1, 1), 0, 1, 2), "se(3)"),
    (affine(orthogonal(1, -1, -1, -1), 0, 1, 2, 3), "iso(1,3)"),
    (affine(torch.cat((orthogonal(1, 1), IDENTITY)), 0, 1), "sim(2)"),
    (affine(torch.cat((orthogonal(1, 1, 1), torch.eye(3)[None])), 0, 1, 2), "sim(3)"),
    (affine(everything(2), 0, 1), "aff(2)"),
    (affine(everything(3)), "gl(3)"),
    (affine(traceless(3)), "sl(3)"),
    (affine(traceless(2)), "sl(2)"),
    (affine(NONE, 0, dim=2), "translations in x1"),
    (affine(NONE, 0, 1, dim=2), "translations in x1, x2"),
    (affine(IDENTITY), "scaling"),
    (affine(SHEAR), "shear"),
    (affine(blocks(orthogonal(1, 1), orthogonal(1, 1))), "u(1) + u(1)"),
    (affine(blocks(orthogonal(1, 1, 1), orthogonal(1, 1, 1))), "so(3) + so(3)"),
    (affine(blocks(orthogonal(1, 1, 1), orthogonal(1, -1, -1, -1))), "so(1,3) + so(3)"),
    (affine(blocks(orthogonal(1, 1, 1), orthogonal(1, 1))), "so(3) + so(2)"),
    (affine(unitary(3)), "su(3)"),
    (affine(unitary(2)), "so(3)"),
    (affine(complex_matrices(2)), "so(1,3) + scaling + so(2)"),
    (affine(blocks(*[orthogonal(1, 1, 1)] * 4)), "so(3) + so(3) + so(3) + so(3)"),
    (affine(units(3, (0, 1), (1, 2), (0, 2))), "heisenberg(3)"),
    # as many as gl(2) has, with images of two dimensions
    (affine(units(3, (0, 0), (0, 1), (0, 2), (1, 2))), "a solvable algebra of dimension 4"),
    (affine(symmetric_squares(), *range(5)), "so(3) x translations"),
    (
        affine(torch.cat((SHEAR, torch.diag(torch.tensor([1.0, -1.0]))[None].double()))),
        "a solvable algebra of dimension 2",
    ),
]


@pytest.mark.parametrize(("matrices", "name"), NAMED, ids=[name for _, name in NAMED])
@pytest.mark.parametrize("frame", ["plain", "hidden"])
def test_known_algebras_have_their_names_in_any_basis(matrices, name, frame):
    generator = torch.Generator().manual_seed(len(matrices))
    mix = torch.randn(len(matrices), len(matrices), generator=generator, dtype=torch.float64)
    mixed = torch.einsum("ij,jab->iab", mix, matrices)
    if frame == "hidden":
        side = matrices.shape[-1]
        change = torch.eye(side, dtype=torch.float64)
        drawn = torch.randn(side - 1, side - 1, generator=generator, dtype=torch.float64)
        change[:-1, :-1] = torch.linalg.matrix_exp(0.3 * drawn)
        mixed = change @ mixed @ torch.linalg.inv(change)
        if name.startswith("translations in x1") and len(matrices) == 1:
            name = "translations in direction"
    assert name_algebra(mixed).text.startswith(name)
    assert name_algebra(mixed).closure < 1e-10


def test_commuting_turns_and_scalings_are_told_apart_in_any_basis():
    turn, still = orthogonal(1, 1)[0], torch.zeros(2, 2).double()
    fields = torch.stack(
        [
            torch.block_diag(turn, turn),
            torch.block_diag(IDENTITY[0], still),
            torch.block_diag(still, IDENTITY[0]),
        ]
    )
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        mix, change = (torch.randn(n, n, generator=generator).double() for n in (3, 4))
        change = torch.matrix_exp(0.6 * change)
        mixed = change @ torch.einsum("ij,jab->iab", mix, fields) @ torch.linalg.inv(change)
        mixed += 0.002 * torch.randn(mixed.shape, generator=generator)
        assert name_algebra(affine(mixed)).text == "scaling + scaling + so(2)"


def test_fields_that_leave_no_point_alone_are_not_named_by_their_linear_parts():
    screw = affine(blocks(orthogonal(1, 1), torch.zeros(1, 1, 1).double())[:1])
    screw[0, 2, 3] = 0.5
    assert name_algebra(screw).text == "screw along x3"
    parabola = torch.zeros(1, 3, 3, dtype=torch.float64)
    parabola[0, 1, 0], parabola[0, 0, 2] = 1, 0.5
    assert name_algebra(parabola).text == "shear with a shift in x1"
    elsewhere = affine(orthogonal(1, 1, 1))
    elsewhere[:, :3, 3] = -elsewhere[:, :3, :3] @ torch.tensor([5.0, -3.0, 20.0]).double()
    assert name_algebra(elsewhere).text == "so(3)"


def test_noise_changes_no_name():
    generator = torch.Generator().manual_seed(0)
    for matrices, name in NAMED[1:4]:
        noisy = matrices.clone()
        noisy[:, :-1, :-1] += 0.003 * torch.randn(
            noisy[:, :-1, :-1].shape, generator=generator, dtype=torch.float64
        )
        assert name_algebra(noisy).text == name


def test_what_is_not_closed_has_no_name():
    found = name_algebra(affine(orthogonal(1, 1, 1))[:2])
    assert "not closed" in found.text
    assert found.closure > 0.1


def test_levi_parts_and_the_killing_form():
    found = name_algebra(affine(orthogonal(1, 1, 1), 0, 1, 2))
    assert (found.levi, found.radical, found.translations) == (("so(3)",), 3, 3)
    rotations = algebra(orthogonal(1, 1, 1))
    torch.testing.assert_close(rotations.killing, -torch.eye(3, dtype=torch.float64))
    assert algebra(blocks(orthogonal(1, 1), orthogonal(1, 1))).killing.abs().max() < 1e-12


def test_simple_bases_find_the_planes_of_rotation():
    rotations = orthogonal(1, 1, 1, 1, 1)
    generator = torch.Generator().manual_seed(1)
    mix = torch.randn(10, 10, generator=generator, dtype=torch.float64)
    simple = simple_basis(torch.einsum("ij,jab->iab", mix, rotations))
    gram = torch.einsum("iab,jab->ij", simple, simple)
    torch.testing.assert_close(gram, torch.eye(10, dtype=torch.float64))
    assert ((simple.abs() > 1e-6).sum((1, 2)) == 2).all()


def test_fields_and_matrices_as_text():
    assert field_text(affine(orthogonal(1, 1))[0], ("x", "y")) == "y d/dx - x d/dy"
    assert field_text(affine(NONE, 1, dim=2)[0], ("x", "y")) == "d/dy"
    assert latex_matrix(torch.eye(1)) == r"\begin{pmatrix} 1 \end{pmatrix}"
    assert name_algebra(affine(orthogonal(1, 1, 1))).latex == r"\mathfrak{so}(3)"


GROUPS = [orthogonal(1, 1), orthogonal(1, 1, 1), orthogonal(1, -1, -1, -1), SHEAR, IDENTITY]
GROUPS += [affine(orthogonal(1, 1), 0, 1), orthogonal(1, 1, 1, 1, 1), traceless(3)]


@pytest.mark.parametrize("generators", GROUPS, ids=lambda g: str(tuple(g.shape)))
def test_matrix_groups_keep_every_law(generators):
    group = MatrixGroup(generators)
    assert group.closed
    generator = torch.Generator().manual_seed(0)
    reach = min(0.9 * group.bounds[0], 3.0)
    etas = reach * (2 * torch.rand(20, group.dim, generator=generator, dtype=torch.float64) - 1)
    assert_group(group, etas, tolerance=1e-9)


def test_matrix_groups_that_are_not_closed_say_so():
    family = MatrixGroup(orthogonal(1, 1, 1)[:2])
    assert not family.closed
    with pytest.raises(ValueError, match="depend"):
        MatrixGroup(torch.cat((SHEAR, SHEAR)))
    with pytest.raises(ValueError, match="square"):
        MatrixGroup(torch.zeros(1, 2, 3))


def test_matrix_groups_move_points():
    group = MatrixGroup(affine(orthogonal(1, 1), 0, 1))
    moved = PointAction(group)(
        group.exp(torch.tensor([torch.pi / 2, 0, 0])), torch.tensor([[1.0, 0]])
    )
    torch.testing.assert_close(moved, torch.tensor([[0.0, -1.0]]))
    assert group.planar


def test_logarithms_are_those_of_the_exponential():
    generator = torch.Generator().manual_seed(0)
    matrices = 0.8 * torch.randn(50, 4, 4, generator=generator, dtype=torch.float64)
    values = torch.linalg.eigvals(matrices).imag.abs().amax(-1)
    matrices = matrices[values < 3]
    back = matrix_log(torch.linalg.matrix_exp(matrices))
    torch.testing.assert_close(back, matrices, rtol=1e-8, atol=1e-8)


def test_rounding_keeps_matrices_independent():
    near = torch.tensor([[[1.0, 0.1], [0.0, 0.0]], [[1.0, -0.1], [0.0, 0.0]]])
    assert rounded(near) is None
    assert rounded(torch.tensor([[[1.0, 0.25], [0.0, 0.0]]])) is None  # too far from the grid
    assert rounded(torch.tensor([[[1.0, 0.05], [0.0, 0.0]]]))[0, 0, 1] == 0


def test_large_algebras_fit_into_memory():
    assert name_algebra(affine(orthogonal(*[1] * 9))).text == "so(9)"  # of dimension 36
    two = blocks(orthogonal(*[1] * 6), orthogonal(*[1] * 7))
    assert name_algebra(affine(two)).text == "a semisimple algebra of dimension 36"
