"""Convolutions of few channels as products: the same numbers and gradients."""

import pytest
import torch
import torch.nn.functional as F

from symmetries.nn import autoencoder, thin_conv
from symmetries.nn.autoencoder import ConvDecoder, ConvEncoder


def gradients(out, *inputs):
    """The output and what one loss of it asks of the inputs."""
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    return out, *torch.autograd.grad((out * weights.to(out.dtype)).sum(), inputs)


@pytest.mark.parametrize("size", [(8, 8), (9, 6), (7, 7)])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_convolution_is_a_product_of_patches(size, stride, channels):
    x = torch.randn(2, channels, *size, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, channels, 3, 3, dtype=torch.float64, requires_grad=True)
    pairs = ((stride, stride), (1, 1))
    ours = gradients(thin_conv.thin_conv2d(x, weight, *pairs), x, weight)
    theirs = gradients(F.conv2d(x, weight, None, *pairs), x, weight)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("size", "extra"), [((4, 4), (1, 1)), ((5, 3), (0, 1)), ((4, 4), (0, 0))])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_transposed_convolution_is_a_sum_of_patches(size, extra, channels):
    x = torch.randn(2, 5, *size, requires_grad=True)
    weight = torch.randn(5, channels, 3, 3, requires_grad=True)
    pairs = ((2, 2), (1, 1), extra)
    ours = gradients(thin_conv.thin_conv_transpose2d(x, weight, *pairs), x, weight)
    theirs = gradients(F.conv_transpose2d(x, weight, None, *pairs), x, weight)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_the_gradient():
    x = torch.randn(1, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 1, 3, 3, dtype=torch.float64, requires_grad=True)
    loss = thin_conv.thin_conv_transpose2d(x, weight, (2, 2), (1, 1), (1, 1)).pow(3).sum()
    theirs = F.conv_transpose2d(x, weight, None, 2, 1, 1).pow(3).sum()
    found = []
    for value in (loss, theirs):
        (first,) = torch.autograd.grad(value, x, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), weight)[0])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 8)])
def test_networks_give_the_same_either_way(shape, monkeypatch):
    encoder, decoder = ConvEncoder(shape, 4, channels=(8, 16)), ConvDecoder(shape, 3)
    x, z = torch.rand(2, *shape), torch.randn(2, 3)
    usual = encoder.convolutions(x).detach(), decoder(z).detach()
    taken = []

    def thin(x, weight, channels):
        taken.append(channels)
        return channels <= 3

    monkeypatch.setattr(autoencoder, "is_thin", thin)
    ours = autoencoder.convolve(encoder.convolutions, x).detach(), decoder(z).detach()
    torch.testing.assert_close(ours, usual, rtol=1e-4, atol=1e-5)
    assert taken.count(shape[0]) == 2  # the first layer and the last one


def test_products_are_for_few_channels_on_a_gpu():
    assert not thin_conv.is_thin(torch.rand(1, 1, 8, 8), torch.rand(5, 1, 3, 3), 1)  # no GPU
    assert not thin_conv.is_thin(torch.rand(1, 64, 8, 8), torch.rand(5, 64, 3, 3), 64)
