"""Lie algebras of functions against planted truths and an independent oracle."""

import math

import pytest
import torch

from symmetries.lie import exact_symmetries, search
from symmetries.lie.triangular import TriangularFactor, right_singular


def points(n, d, seed=0, shift=0.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64) + shift


def minkowski(x):
    return x[:, 0] ** 2 - x[:, 1:].square().sum(-1)


def asymmetric(x):
    return x[:, 0] ** 3 + x[:, 0] * x[:, 1] ** 2 + torch.sin(x[:, 2]) * x[:, 1] + x[:, 2] ** 2


PLANTED = [  # function, coordinates, fields, law, dimension, name
    (lambda x: x.square().sum(-1), 5, "linear", "invariant", 10, "so(5)"),
    (lambda x: x.square().sum(-1).sin(), 4, "linear", "invariant", 6, "so(4)"),
    (minkowski, 4, "linear", "invariant", 6, "so(1,3)"),
    (minkowski, 3, "affine", "invariant", 3, "so(1,2)"),
    (lambda x: x[:, 0] * x[:, 3] - x[:, 1] * x[:, 2], 4, "linear", "invariant", 6, "so(2,2)"),
    (lambda x: x[:, 0] ** 3 + x[:, 0], 2, "affine", "invariant", 1, "translations in x2"),
    (lambda x: x[:, 0] * x[:, 1], 2, "linear", "invariant", 1, "so(1,1)"),
    (
        lambda x: torch.stack((x[:, :2].square().sum(-1), x[:, 2:].square().sum(-1)), -1),
        *(4, "linear", "invariant", 2, "u(1) + u(1)"),
    ),
    (
        lambda x: torch.stack((x[:, :3].square().sum(-1), x[:, 3:].square().sum(-1)), -1),
        *(5, "linear", "invariant", 4, "so(3) + so(2)"),
    ),
    (
        lambda x: x * x.square().sum(-1, keepdim=True),
        3,
        "linear",
        "equivariant",
        4,
        "so(3) + scaling",
    ),
    (lambda x: x @ x.new_tensor([[1.0, 2.0], [0.5, 3.0]]), 2, "linear", "equivariant", 4, "gl(2)"),
    (lambda x: x * (1 - x.square().sum(-1, keepdim=True)), 3, "linear", "dynamics", 3, "so(3)"),
    (asymmetric, 3, "affine", "invariant", 0, "no symmetry"),
    (asymmetric, 3, "linear", "invariant", 0, "no symmetry"),
]


@pytest.mark.parametrize(("function", "d", "fields", "law", "dim", "name"), PLANTED)
def test_planted_algebras_are_found_exactly(function, d, fields, law, dim, name):
    found = exact_symmetries(function, points(600, d, shift=0.3), fields, law, tolerance=1e-10)
    assert found.dim == dim
    assert found.name.text == name
    assert found.name.closure < 1e-10
    assert (found.spectrum.defects[dim : dim + 1] > 1e-3).all()


def test_generators_keep_the_function_along_their_whole_flow():
    x = points(300, 4, shift=0.5)
    found = exact_symmetries(minkowski, x)
    for matrix in found.matrices:
        moved = x @ torch.linalg.matrix_exp(0.7 * matrix[:4, :4]).T
        torch.testing.assert_close(minkowski(moved), minkowski(x), rtol=1e-10, atol=1e-10)


def test_a_hidden_frame_does_not_matter():
    x, mix = points(500, 4), points(4, 4, seed=1)
    hidden = exact_symmetries(lambda y: minkowski(y @ mix.T), x @ torch.linalg.inv(mix).T)
    plain = exact_symmetries(minkowski, x)
    assert hidden.name.text == plain.name.text == "so(1,3)"
    torch.testing.assert_close(  # the defect does not depend on linear coordinates
        hidden.spectrum.defects, plain.spectrum.defects, rtol=1e-8, atol=1e-12
    )


def slow_defect(function, x, matrix, law="invariant", h=1e-5):
    """The definition of the defect, by finite differences along the field and along all axes."""
    _n, d = x.shape
    chol = torch.linalg.cholesky(torch.cov(x.T))
    z = torch.linalg.solve(chol, x.T).T
    field = x @ matrix[:d, :d].T + matrix[:d, d]
    speed = torch.linalg.solve(chol, field.T).T.square().sum(-1)
    size = function(x).std()
    along = (function(x + h * field) - function(x - h * field)) / (2 * h) / size
    slopes = torch.stack(
        [(function(x + h * axis) - function(x - h * axis)) / (2 * h) / size for axis in chol.T]
    )
    assert z.shape == x.shape
    below = (slopes.square().sum(0) * speed / d).mean()
    return math.sqrt(along.square().mean() / below)


@pytest.mark.parametrize("fields", ["linear", "affine"])
def test_defects_are_those_of_the_definition(fields):
    x = points(400, 3, shift=1.0) @ points(3, 3, seed=2)
    set_up = search(asymmetric, x, fields)
    spectrum = set_up.spectrum()
    matrices = set_up.matrices(spectrum.theta)
    for index in (0, 3, len(matrices) - 1):
        slow = slow_defect(asymmetric, x, matrices[index])
        assert slow == pytest.approx(float(spectrum.defects[index]), rel=1e-5)


def test_no_other_field_has_a_smaller_defect():
    x = points(400, 3)
    smallest = float(search(asymmetric, x).spectrum().defects[0])
    tried = torch.zeros(4, 4, dtype=torch.float64)
    for seed in range(200):
        tried[:3, :3] = points(3, 3, seed=seed)
        assert slow_defect(asymmetric, x, tried) >= smallest - 1e-6


def test_violations_by_point_agree_with_the_spectrum():
    x = points(300, 2)
    for law in ("invariant", "equivariant", "dynamics"):
        set_up = search(lambda x: x * (1 + x[:, :1]), x, "linear", law)
        spectrum = set_up.spectrum()
        above, below = set_up.problem.violations(set_up.coordinates, spectrum.theta)
        ratio = (above.mean(0) / below.mean(0)).sqrt()
        torch.testing.assert_close(ratio, spectrum.defects, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(below.mean(0), torch.ones_like(ratio))


def test_data_in_a_subspace_has_generators_of_the_subspace():
    x = points(400, 3) @ points(3, 6, seed=3)
    found = exact_symmetries(lambda x: x @ x.new_ones(6), x)
    assert found.ignored == 2  # of the three dimensions of the data
    flat = points(400, 6)
    flat[:, 3:] = 0
    found = exact_symmetries(lambda x: x.square().sum(-1), flat)
    assert (found.dim, found.name.text) == (3, "so(3)")
    assert found.matrices[:, 3:].abs().max() < 1e-12


def test_fields_of_a_users_basis_are_found():
    def turn(x):
        return torch.stack((-x[:, 1], x[:, 0]), -1)

    def swirl(x):
        return turn(x) * x.square().sum(-1, keepdim=True)

    def stretch(x):
        return x * x[:, :1]

    set_up = search(lambda x: x.square().sum(-1), points(300, 2), [turn, swirl, stretch])
    defects = set_up.spectrum().defects
    assert int((defects < 1e-10).sum()) == 2
    assert defects[2] > 0.1


def test_fields_that_vanish_on_the_data_are_divided_out():
    circle = torch.linspace(0, 6.2, 200, dtype=torch.float64)
    x = torch.stack((circle.cos(), circle.sin()), -1)

    def nothing(x):
        return x * (x.square().sum(-1, keepdim=True) - 1)

    def turn(x):
        return torch.stack((-x[:, 1], x[:, 0]), -1)

    spectrum = search(lambda x: x[:, 0], x, [nothing, turn]).spectrum()
    assert spectrum.vanishing == 1
    assert len(spectrum.defects) == 1


def test_polynomial_fields_of_a_curve():
    # x1 - x0^2 is kept by h (1, 2 x0) for every function h; to degree 2 these are h = 1, x0, x1.
    found = search(lambda x: x[:, 1] - x[:, 0] ** 2, points(500, 2), "quadratic")
    assert int((found.spectrum().defects < 1e-10).sum()) == 3


def test_defects_below_1e_8_survive_that_gram_matrices_lose():
    q = torch.linalg.qr(points(200, 3)).Q
    rows = (
        q @ torch.diag(torch.tensor([1.0, 1e-6, 1e-12]).double()) @ torch.linalg.qr(points(3, 3)).Q
    )
    factor = TriangularFactor(3)
    for part in rows.split(11):
        factor.add(part)
    kept = torch.linalg.svdvals(factor.matrix())
    assert kept[-1] == pytest.approx(1e-12, rel=1e-3)
    gram = torch.linalg.eigvalsh(rows.T @ rows)[0].clamp_min(0).sqrt()
    assert float(gram) != pytest.approx(1e-12, rel=0.5)


@pytest.mark.parametrize(
    ("model", "x", "text"),
    [
        (asymmetric, points(6, 3), "at least 9 rows"),
        (lambda x: 0 * x[:, 0] + 1, points(50, 3), "a function that varies"),
        (lambda x: x - x.mean(0), points(50, 3), "each row on its own"),
        (lambda x: x.sum(), points(50, 3), "model"),
        (lambda x: x[:, 0], torch.full((50, 3), math.nan), "finite"),
        (lambda x: x[:, 0] / 0, points(50, 3), "finite"),
    ],
)
def test_wrong_input_is_refused(model, x, text):
    with pytest.raises((ValueError, IndexError), match=text):
        search(model, x).spectrum()


def test_data_beside_the_origin_needs_affine_fields():
    x = points(100, 3)
    x[:, 2] = 1
    with pytest.raises(ValueError, match="affine"):
        search(lambda x: x[:, 0] ** 2, x, "linear")


def test_a_trained_module_is_taken_in_float64_and_left_as_it_was():
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
    search(net, points(100, 3).float()).spectrum()
    assert net.training
    assert net[0].weight.dtype == torch.float32


def test_singular_vectors_survive_a_failing_algorithm(monkeypatch):
    matrix = points(7, 4)
    right = torch.linalg.svd(matrix, full_matrices=False)
    real, calls = torch.linalg.svd, []

    def failing(*arguments, **options):
        calls.append(arguments)
        if len(calls) < 3:
            raise torch.linalg.LinAlgError("failed to converge")
        return real(*arguments, **options)

    monkeypatch.setattr(torch.linalg, "svd", failing)
    size, axes = right_singular(matrix)
    torch.testing.assert_close(size, right.S)
    torch.testing.assert_close((axes @ right.Vh.T).abs(), torch.eye(4, dtype=torch.float64))
