"""The affine group against mpmath, and under torch's transforms."""

import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from symmetries.groups.affine import SIX, Affine2, affine_log
from symmetries.ops import affine_exp as exponential
from symmetries.ops.affine_exp import affine_exp, generators
from symmetries.ops.affine_inverse import affine_inverse

DEGENERATE = {
    "zero": [0, 0, 0, 0, 0, 0],
    "equal eigenvalues, diagonal": [0.1, 0.2, 0, 0.3, 0.3, 0],
    "equal eigenvalues, a Jordan block": [0.1, 0.2, 0.5, 0.3, 0.3, 0.5],
    "pure shift": [0.7, -0.4, 0, 0, 0, 0],
    "singular algebra element": [0.3, 0.1, 0, 1.0, 0, 0],
    "quarter turn": [0.3, -0.1, math.pi / 2, 0, 0, 0],
}


@pytest.fixture(params=["closed form", "products"])
def path(request, monkeypatch):
    """Both evaluations that stand behind affine_exp, whatever the batch size."""
    monkeypatch.setattr(exponential, "_FEW", 0 if request.param == "closed form" else 10**9)


def exact(eta):
    bx, by, r, a, d, h = (mpmath.mpf(float(v)) for v in eta)
    with mpmath.workdps(40):
        return mpmath.expm(mpmath.matrix([[a, h - r, bx], [h + r, d, by], [0, 0, 0]]))


def normwise(matrix, reference):
    difference = mpmath.matrix(3, 3)
    for i in range(3):
        for j in range(3):
            difference[i, j] = mpmath.mpf(float(matrix[i, j])) - reference[i, j]
    return float(mpmath.mnorm(difference, "f") / mpmath.mnorm(reference, "f"))


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-14), (torch.float32, 2e-6)])
def test_exp_is_accurate_to_four(path, dtype, limit):
    eta = (torch.rand(150, 6, dtype=dtype, generator=torch.Generator().manual_seed(0)) * 2 - 1) * 4
    eta[:64] = 4 * torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 6).to(dtype)
    errors = [normwise(T, exact(e)) for e, T in zip(eta, affine_exp(eta), strict=True)]
    assert max(errors) < limit


@pytest.mark.parametrize("eta", DEGENERATE.values(), ids=DEGENERATE)
def test_first_and_second_derivatives_where_formulas_usually_break(path, eta):
    eta = torch.tensor(eta, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(affine_exp, (eta,))
    assert torch.autograd.gradgradcheck(affine_exp, (eta,))
    round_trip = lambda e: affine_log(affine_exp(e))  # noqa: E731
    assert torch.autograd.gradcheck(round_trip, (eta,))
    assert torch.autograd.gradgradcheck(round_trip, (eta,))


def test_both_paths_agree_in_value_and_gradient(monkeypatch):
    eta = torch.randn(700, 6, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(700, 3, 3, dtype=torch.float64)
    results = []
    for limit in (0, 10**9):
        monkeypatch.setattr(exponential, "_FEW", limit)
        T = affine_exp(eta)
        results.append((T, *torch.autograd.grad((T * weights).sum(), eta)))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@given(
    st.lists(st.floats(-1, 1), min_size=6, max_size=6),
    st.floats(-math.pi * 0.999, math.pi * 0.999),
)
@settings(deadline=None, max_examples=150)
def test_log_undoes_exp_on_the_principal_branch(rest, angle):
    eta = torch.tensor(rest, dtype=torch.float64)
    eta[3:] *= 0.4
    eta[2] = angle
    torch.testing.assert_close(affine_log(affine_exp(eta)), eta, rtol=1e-9, atol=1e-9)


def test_log_against_mpmath():
    generator = torch.Generator().manual_seed(1)
    eta = torch.randn(40, 6, dtype=torch.float64, generator=generator) * 0.7
    for T, log in zip(affine_exp(eta), affine_log(affine_exp(eta)), strict=True):
        with mpmath.workdps(30):
            L = mpmath.logm(mpmath.matrix(T.tolist()))
        entries = [L[0, 2], L[1, 2], (L[1, 0] - L[0, 1]) / 2, L[0, 0], L[1, 1]]
        entries.append((L[1, 0] + L[0, 1]) / 2)
        expected = torch.tensor([float(mpmath.re(v)) for v in entries], dtype=torch.float64)
        torch.testing.assert_close(log, expected, rtol=1e-10, atol=1e-10)


def test_log_says_when_there_is_none():
    group = Affine2()
    none = torch.stack([torch.diag(torch.tensor(d)) for d in ([-1.0, -2.0, 1.0], [-1.0, 2.0, 1.0])])
    jordan = torch.tensor([[-1.0, 1.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
    none = torch.cat((none, jordan[None]))
    assert group.log(none)[..., 2].isnan().all()
    half_turn = torch.diag(torch.tensor([-1.0, -1.0, 1.0]))
    torch.testing.assert_close(group.log(half_turn)[2], torch.tensor(math.pi))


def test_inverse_and_compose_are_exact_and_ordered():
    group = Affine2()
    a, b, c = group.exp(torch.randn(3, 50, 6, dtype=torch.float64) * 0.5)
    identity = group.identity(50, dtype=torch.float64)
    torch.testing.assert_close(group.compose(a, affine_inverse(a)), identity)
    torch.testing.assert_close(group.compose(a, b, c), a @ b @ c)
    torch.testing.assert_close(affine_inverse(a), torch.linalg.inv(a))


@pytest.mark.parametrize(
    ("names", "parameters", "closed"),
    [
        (("rotation",), ("rotation",), True),
        (("translation", "rotation"), ("shift_x", "shift_y", "rotation"), True),
        (("rotation", "shift_x"), ("shift_x", "rotation"), False),
        (("scale",), ("scale_x", "scale_y"), True),
        (("rotation", "scale"), ("rotation", "scale_x", "scale_y"), False),
        (("shear", "rotation", "scale"), ("rotation", "scale_x", "scale_y", "shear"), True),
        (("similarity",), ("shift_x", "shift_y", "rotation", "zoom"), True),
        (("rotation", "zoom"), ("rotation", "zoom"), True),
        (("shift_x", "shift_y", "rotation", "scale_x", "scale_y"), SIX[:5], False),
        (("affine",), SIX, True),
        ((), SIX, True),
    ],
)
def test_families_by_name(names, parameters, closed):
    group = Affine2(*names)
    assert group.names == parameters
    assert group.closed is closed
    eta = torch.randn(20, group.dim, dtype=torch.float64) * 0.3
    log = group.log(group.exp(eta))
    torch.testing.assert_close(log, eta if closed else group.six(eta))


def test_closed_means_closed():
    """For closed families the logarithm of a product has no component outside the family."""
    for names in (("similarity",), ("rotation", "translation"), ("shift_x", "scale_x")):
        group = Affine2(*names)
        a, b = group.exp(torch.randn(2, 100, group.dim, dtype=torch.float64) * 0.4)
        product = group.compose(a, b)
        torch.testing.assert_close(group.exp(group.log(product)), product)
    open_family = Affine2("rotation", "scale")
    a, b = open_family.exp(torch.randn(2, 100, 3, dtype=torch.float64) * 0.4)
    assert open_family.log(open_family.compose(a, b))[:, 5].abs().max() > 1e-3  # shear appears


def test_generators_are_the_derivatives_of_exp():
    jacobian = torch.func.jacrev(affine_exp)(torch.zeros(6, dtype=torch.float64))
    torch.testing.assert_close(jacobian.permute(2, 0, 1), generators())


def test_transforms_of_torch(path):
    eta = torch.randn(5, 4, 6)
    T = affine_exp(eta)
    assert T.shape == (5, 4, 3, 3)
    torch.testing.assert_close(torch.func.vmap(torch.func.vmap(affine_exp))(eta), T)
    jacobian = torch.func.vmap(torch.func.jacrev(affine_exp))(eta[0])
    assert jacobian.shape == (4, 3, 3, 6)
    assert jacobian.isfinite().all()


def test_compiled_without_graph_break():
    function = torch.compile(
        lambda e: affine_log(affine_inverse(affine_exp(e))), fullgraph=True, backend="aot_eager"
    )
    eta = torch.randn(16, 6) * 0.3
    torch.testing.assert_close(function(eta), -eta, rtol=1e-4, atol=1e-5)


def test_after_inference_mode_gradients_still_flow():
    with torch.inference_mode():
        affine_exp(torch.zeros(1000, 6, dtype=torch.float16).float())
    eta = torch.zeros(1000, 6, requires_grad=True)
    affine_inverse(affine_exp(eta)).sum().backward()
    assert eta.grad is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Affine2("rotate"), "names: expected names among .* got 'rotate'"),
        (lambda: Affine2("zoom", "scale"), "independent generators"),
        (lambda: Affine2("rotation").exp(torch.zeros(3, 2)), r"eta: expected shape \(\.\.\., 1\)"),
        (lambda: Affine2("rotation").exp(torch.tensor(0.1)), "eta: expected shape"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("count", [100, 200, 5000])
@pytest.mark.parametrize("angle", [8.0, 12.0, 30.0, 100.0])
def test_turns_of_any_size(count, angle):
    eta = 0.2 * torch.randn(count, 6, generator=torch.Generator().manual_seed(0))
    eta[:, 2] = angle
    algebra = (eta.double() @ generators().flatten(1)).reshape(-1, 3, 3)
    expected = torch.linalg.matrix_exp(algebra)
    torch.testing.assert_close(affine_exp(eta).double(), expected, rtol=0, atol=3e-7 * angle)
    found = torch.autograd.functional.vjp(affine_exp, eta, torch.ones(count, 3, 3))[1]
    double = torch.autograd.functional.vjp(affine_exp, eta.double(), torch.ones_like(expected))[1]
    torch.testing.assert_close(found.double(), double, rtol=0, atol=2e-6 * angle)


@pytest.mark.parametrize("count", [10, 200])
@pytest.mark.parametrize("large", [1e2, 1e4, 1e6, math.inf, math.nan])
def test_a_large_map_does_not_spoil_the_others(count, large):
    eta = 0.3 * torch.randn(count, 6, generator=torch.Generator().manual_seed(0))
    eta[0, 2] = large
    exact = affine_exp(eta[1:].double())
    torch.testing.assert_close(affine_exp(eta)[1:].double(), exact, rtol=0, atol=2e-6)


@pytest.mark.parametrize("distance", [1.0, 1e-2, 1e-4, 1e-6])
def test_gradients_of_the_logarithm_near_a_half_turn(distance):
    eta = 0.3 * torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    eta[:, 5], eta[:, 4], eta[:, 2] = 0, eta[:, 3], math.pi - distance
    eta.requires_grad_()
    (gradient,) = torch.autograd.grad(affine_log(affine_exp(eta))[:, 2].sum(), eta)
    torch.testing.assert_close(gradient[:, 2], torch.ones(50), rtol=0, atol=2e-6)
    torch.testing.assert_close(gradient[:, :2], torch.zeros(50, 2), rtol=0, atol=2e-6)


def test_gradients_of_the_logarithm_at_a_half_turn_are_finite():
    matrix = torch.diag(torch.tensor([-2.0, -2.0, 1.0])).requires_grad_()
    log = affine_log(matrix)
    assert log[2].item() == pytest.approx(math.pi)
    assert torch.autograd.grad(log.sum(), matrix)[0].isfinite().all()
