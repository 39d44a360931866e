"""Inverses, products and exponentials of few and of many elements are the same function."""

import math

import pytest
import torch

from symmetries.groups import se2
from symmetries.groups.affine import Affine2
from symmetries.ops import affine_inverse as inverse
from symmetries.ops.affine_exp import affine_exp, exp_by_squaring, family_exp, generators
from symmetries.ops.affine_inverse import affine_inverse
from symmetries.ops.affine_product import affine_product

SHAPES = [(), (1,), (5,), (2, 3), (1700,), (20_000,), (0,)]


def maps(*shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(len(shape))
    eta = torch.randn(*shape, 6, dtype=torch.float64, generator=generator)
    return affine_exp(0.5 * eta).to(dtype)


@pytest.mark.parametrize("shape", SHAPES)
def test_inverses_and_their_gradients_are_those_of_torch(shape):
    matrices = maps(*shape).requires_grad_()
    found = affine_inverse(matrices)
    torch.testing.assert_close(found, torch.linalg.inv(matrices))
    torch.testing.assert_close(affine_inverse(matrices.detach()), found.detach(), rtol=0, atol=0)
    weights = torch.randn_like(found)
    (gradient,) = torch.autograd.grad(found, matrices, weights)
    (expected,) = torch.autograd.grad(torch.linalg.inv(matrices), matrices, weights)
    torch.testing.assert_close(gradient[..., :2, :], expected[..., :2, :])
    assert gradient[..., 2, :].eq(0).all()  # the last row is no variable


@pytest.mark.parametrize("shape", [(), (4,), (2, 2), (1900,)])
def test_second_gradients_of_inverses_are_those_of_the_closed_form(shape):
    matrices = maps(*shape).requires_grad_()

    def second(function):
        (first,) = torch.autograd.grad(function(matrices).pow(3).sum(), matrices, create_graph=True)
        return torch.autograd.grad(first.sin().sum(), matrices)[0]

    expected = second(inverse._inverse_plain)
    torch.testing.assert_close(second(affine_inverse), expected)


@pytest.mark.parametrize("layout", ["turned", "shared", "every second"])
def test_inverses_of_any_layout(layout):
    for n in (6, 2000):
        matrices = maps(n)
        matrices = {
            "turned": matrices.mT.contiguous().mT,
            "shared": matrices[:1].expand(n, 3, 3),
            "every second": maps(2 * n)[::2],
        }[layout].requires_grad_()
        found = affine_inverse(matrices)
        torch.testing.assert_close(found, torch.linalg.inv(matrices))
        (gradient,) = torch.autograd.grad(found[..., 0].sum(), matrices)
        plain = inverse._inverse_plain(matrices)[..., 0].sum()
        torch.testing.assert_close(gradient, torch.autograd.grad(plain, matrices)[0])


def test_inverses_under_transforms_and_in_few_digits():
    matrices = maps(7)
    torch.testing.assert_close(torch.vmap(affine_inverse)(matrices), torch.linalg.inv(matrices))
    jacobian = torch.func.vmap(torch.func.jacrev(affine_inverse))(matrices)
    expected = torch.func.vmap(torch.func.jacrev(inverse._inverse_plain))(matrices)
    torch.testing.assert_close(jacobian, expected)
    rounded = affine_inverse(matrices.bfloat16())
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.double(), torch.linalg.inv(matrices), rtol=0.1, atol=0.1)


def test_products_broadcast():
    left, right = maps(5), maps(1)
    torch.testing.assert_close(affine_product(left, right), left @ right)
    torch.testing.assert_close(affine_product(left, left), left @ left)
    with torch.autocast("cpu", torch.bfloat16):
        assert affine_product(left.float(), left.float()).dtype == torch.float32


@pytest.mark.parametrize(
    ("group", "columns"),
    [
        (Affine2(), range(6)),
        (Affine2("rotation", "zoom"), (-1, -1, 0, 1, 1, -1)),
        (se2.SE2(), (0, 1, 2, -1, -1, -1)),
    ],
)
def test_few_exponentials_are_those_of_many_and_of_torch(group, columns):
    eta = torch.randn(
        300, group.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    eta[0] = 0
    many = group.exp(eta.requires_grad_())
    columns = list(columns)
    six = torch.stack([eta[:, c] if c >= 0 else torch.zeros(300) for c in columns], -1)
    algebra = (six @ generators().flatten(1)).reshape(-1, 3, 3)
    expected = torch.linalg.matrix_exp(algebra)
    torch.testing.assert_close(many, expected)
    few = torch.cat([group.exp(part) for part in eta.split(100)])
    torch.testing.assert_close(few, expected)
    torch.testing.assert_close(exp_by_squaring(eta, columns), expected)
    weights = torch.randn_like(few)
    gradients = [torch.autograd.grad(each, eta, weights)[0] for each in (few, many)]
    torch.testing.assert_close(*gradients)


def test_few_exponentials_have_second_gradients():
    eta = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    eta.requires_grad_()
    assert torch.autograd.gradcheck(affine_exp, eta)
    assert torch.autograd.gradgradcheck(affine_exp, eta)
    assert torch.autograd.gradgradcheck(se2.SE2().exp, eta[:, :3].detach().requires_grad_())


def test_few_exponentials_of_large_and_broken_parameters():
    eta = torch.tensor([[3.0, -2.0, 40.0], [0.0, 0.0, 0.1]], dtype=torch.float64)
    algebra = torch.zeros(2, 3, 3, dtype=torch.float64)
    algebra[:, :2, 2], algebra[:, 1, 0], algebra[:, 0, 1] = eta[:, :2], eta[:, 2], -eta[:, 2]
    expected = torch.linalg.matrix_exp(algebra)
    torch.testing.assert_close(se2.SE2().exp(eta), expected, rtol=1e-11, atol=1e-11)
    eta[0, 2] = torch.nan
    found = se2.SE2().exp(eta)
    assert found[0].isnan().any()
    torch.testing.assert_close(found[1], expected[1])
    turned = Affine2("rotation").exp(torch.tensor([[math.nan], [math.inf], [40.0]]))[2]
    torch.testing.assert_close(turned[0, 0], torch.tensor(40.0).cos(), rtol=0, atol=1e-5)


def test_far_shifts_and_any_order_of_parameters():
    eta = torch.tensor([[1000.0, 0.0, 0.5, 0.1, 0.2, 0.1]])
    expected = affine_exp(eta.double())
    torch.testing.assert_close(
        affine_exp(eta)[0, :2, :2], expected[0, :2, :2].float(), rtol=1e-6, atol=1e-6
    )
    # the turn comes first
    turned = family_exp(torch.tensor([[3.0, 0.5]]), (1, -1, 0, -1, -1, -1))
    torch.testing.assert_close(turned[0, 0, 0], torch.tensor(3.0).cos())


@pytest.mark.parametrize("rows", [3, 2000])
def test_backward_under_autocast_and_gradients_that_go_forward(rows):
    eta = (0.3 * torch.randn(rows, 6)).requires_grad_()

    def there_and_back(eta):
        return affine_inverse(affine_exp(eta))

    (expected,) = torch.autograd.grad(there_and_back(eta).square().sum(), eta)
    with torch.autocast("cpu", torch.bfloat16):
        (found,) = torch.autograd.grad(there_and_back(eta).square().sum(), eta)
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)  # torch's products round
    v = torch.randn_like(eta)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(eta.detach(), v)
        tangent = torch.autograd.forward_ad.unpack_dual(there_and_back(dual)).tangent
    other = torch.func.jvp(there_and_back, (eta.detach(),), (v,))[1]
    torch.testing.assert_close(tangent, other, rtol=1e-4, atol=1e-4)


def test_a_traced_inverse_takes_other_numbers_of_maps():
    traced = torch.jit.trace(affine_inverse, affine_exp(torch.zeros(2000, 6)), check_trace=False)
    few = affine_exp(torch.full((5, 6), 0.2))
    torch.testing.assert_close(traced(few), torch.linalg.inv(few))


def test_many_maps_on_a_cpu_under_another_default_device():
    matrix = affine_exp(torch.full((2000, 6), 0.2)).requires_grad_()
    with torch.device("meta"):
        inverse = affine_inverse(matrix)
        inverse.square().sum().backward()
    assert inverse.is_cpu
    assert matrix.grad is not None
    assert matrix.grad.is_cpu
