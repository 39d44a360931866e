import pytest
import torch
from torch import nn

from symmetries.auditing import largest_singular_value


def oracle(model, x):
    jacobian = torch.func.vmap(torch.func.jacrev(lambda one: model(one[None])[0]))(x)
    return torch.linalg.svdvals(jacobian.flatten(2))[:, 0].detach()


def mlp(outputs):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 20),
        nn.ReLU(),
        nn.Linear(20, 20),
        nn.ReLU(),
        nn.Linear(20, outputs),
    ).double()


def cnn():
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 3, 3), nn.Softplus(), nn.Flatten(), nn.Linear(108, 5))
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize("model", [mlp(9), cnn(), lambda x: x.flatten(1)[:, :4].square()])
@pytest.mark.parametrize("method", ["exact", "power", "auto"])
def test_both_methods_are_the_svd(model, method):
    x = torch.randn(12, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = largest_singular_value(model, x, method=method, tolerance=1e-9, batch_size=5)
    tolerance = 1e-9 if method != "power" else 1e-3  # power comes from below, slowly
    torch.testing.assert_close(found, oracle(model, x), rtol=tolerance, atol=1e-12)


@pytest.mark.parametrize("padding_mode", ["zeros", "circular"])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutional_networks_of_all_kinds_are_the_svd(padding_mode, stride):
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 6, 3, stride, 1, padding_mode=padding_mode), nn.ReLU())
    model = nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(5)).double()
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    model(x)
    found = largest_singular_value(model, x)
    torch.testing.assert_close(found, oracle(model, x), rtol=1e-9, atol=0)


def test_many_outputs_go_by_power_iteration():
    model = mlp(200)
    x = torch.randn(6, 1, 8, 8, dtype=torch.float64)
    found = largest_singular_value(model, x, tolerance=1e-8, iterations=1000)
    torch.testing.assert_close(found, oracle(model, x), rtol=1e-3, atol=0)


def test_fused_attention_has_its_sensitivity():
    """Vision transformers call an operator without a second derivative."""
    torch.manual_seed(0)
    project = nn.Linear(4, 70)

    def attend(x):
        heads = x.reshape(len(x), 1, 6, 4)
        out = nn.functional.scaled_dot_product_attention(heads, heads, heads)
        return project(out.mean((1, 2)))

    x = torch.randn(3, 24)
    jacobian = torch.stack(
        [torch.autograd.functional.jacobian(lambda v: attend(v[None])[0], one) for one in x]
    )
    expected = torch.linalg.matrix_norm(jacobian, 2)
    torch.testing.assert_close(largest_singular_value(attend, x), expected, rtol=1e-3, atol=0)


def test_a_constant_model_has_no_sensitivity():
    assert float(largest_singular_value(lambda x: x[:, :2] * 0, torch.rand(3, 5)).max()) == 0


def test_bad_input():
    with pytest.raises(ValueError, match="method"):
        largest_singular_value(mlp(3), torch.rand(2, 1, 8, 8).double(), method="svd")
    with pytest.raises(ValueError, match="Jacobian"):
        largest_singular_value(lambda x: (x - x).sqrt(), torch.rand(2, 3))
