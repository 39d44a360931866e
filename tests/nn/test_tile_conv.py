"""Convolutions by Fourier transforms of tiles, against torch's own convolution."""

import pytest
import torch
import torch.nn.functional as F

from symmetries.groups import Cyclic
from symmetries.nn.gconv import GroupConv2d
from symmetries.nn.gpool import act_on_fields
from symmetries.nn.tile_conv import pays, tile_conv2d

# (height, width, kernel, padding): one tile, several, tiles that reach past the end, odd periods
CASES = [
    (9, 7, 5, 2),
    (32, 32, 5, 2),
    (37, 20, 5, 2),
    (16, 16, 5, 0),
    (33, 50, 3, 1),
    (8, 8, 8, 0),
    (6, 5, 1, 0),
    (12, 11, 4, 3),
]


def draws(height: int, width: int, k: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(height)
    shapes = ((2, 3, height, width), (4, 3, k, k), (4,))
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


@pytest.mark.parametrize(("height", "width", "k", "padding"), CASES)
def test_value_and_gradients_are_those_of_a_convolution(height, width, k, padding):
    found = []
    for conv in (lambda *a: tile_conv2d(*a, padding), lambda *a: F.conv2d(*a, padding=padding)):
        inputs = [part.requires_grad_() for part in draws(height, width, k)]
        y = conv(*inputs)
        given = torch.linspace(-1, 2, y.numel(), dtype=torch.float64).view(y.shape)
        found.append([y, *torch.autograd.grad(y, inputs, given)])
    for mine, theirs in zip(*found, strict=True):
        assert mine.shape == theirs.shape
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-11)


def test_rounding_is_that_of_a_convolution():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 64, 32, 32, generator=generator)
    weight = torch.randn(64, 64, 5, 5, generator=generator) / 40
    exact = F.conv2d(x.double(), weight.double(), padding=2)
    error = (tile_conv2d(x, weight, None, 2) - exact).norm() / exact.norm()
    assert error < 1e-6


def test_only_wanted_gradients_and_no_bias():
    x, weight, _ = draws(9, 9, 3)
    y = tile_conv2d(x, weight.requires_grad_(), None, 1)
    (by_weight,) = torch.autograd.grad(y.square().sum(), weight)
    expected = F.conv2d(x, weight, padding=1)
    torch.testing.assert_close(
        by_weight, torch.autograd.grad(expected.square().sum(), weight)[0], rtol=1e-10, atol=1e-10
    )
    assert tile_conv2d(x.requires_grad_(), weight.detach(), None, 1).requires_grad


def test_second_gradient():
    x, weight, bias = (part.requires_grad_() for part in draws(4, 5, 3))
    call = lambda *parts: tile_conv2d(*parts, 1).square()  # noqa: E731
    assert torch.autograd.gradgradcheck(call, (x[:1, :1], weight[:1, :1], bias[:1]))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"x": torch.rand(3, 9, 7)}, "x"),
        ({"x": torch.rand(2, 3, 9, 7, dtype=torch.float64)}, "x"),
        ({"weight": torch.rand(4, 2, 5, 5)}, "weight"),
        ({"weight": torch.rand(4, 3, 5, 3)}, "weight"),
        ({"weight": torch.rand(4, 3, 12, 12)}, "weight"),
        ({"bias": torch.rand(3)}, "bias"),
        ({"padding": -1}, "padding"),
    ],
)
def test_bad_arguments_are_named(change, name):
    good = {"x": torch.rand(2, 3, 9, 7), "weight": torch.rand(4, 3, 5, 5), "bias": None}
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        tile_conv2d(**{**good, "padding": 2, **change})


def test_where_it_is_used():
    x, weight = torch.rand(8, 128, 32, 32), torch.rand(128, 128, 5, 5)
    assert pays(x, weight, 2)
    assert not pays(x[:1], weight, 2)  # too few images for what the kernel's transform costs
    assert not pays(x[:, :3], weight[:, :3], 2)  # too few channels for the images' transforms
    assert not pays(x, weight[..., 1:4, 1:4], 1)  # a small kernel
    assert not pays(x.to("meta"), weight.to("meta"), 2)
    assert not pays(x.bfloat16(), weight.bfloat16(), 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert not pays(x, weight, 2)
    seen = []
    torch.vmap(lambda x: seen.append(pays(x, weight, 2)) or x)(x[None])
    assert seen == [False]


def test_layer_in_training_is_the_layer_in_evaluation_and_equivariant():
    generator = torch.Generator().manual_seed(0)
    group = Cyclic(8)
    layer = GroupConv2d(16, 16, 5, padding=2, group=group, generator=generator)
    x = torch.randn(8, 128, 32, 32, generator=generator)
    weight, _ = layer.sampled((32, 32))
    assert pays(x, weight, 2)
    with torch.no_grad():
        y, turn = layer(x), torch.tensor(2)
        turned = layer(act_on_fields(group, turn, x))
        kept = layer.eval()(x)
    assert not torch.equal(y, kept)  # another way to the same numbers
    assert (y - kept).norm() < 1e-5 * y.norm()
    assert (turned - act_on_fields(group, turn, y)).norm() < 1e-5 * y.norm()
