"""Moved filters: both sides agree, the convention, and convolution as a special case."""

import math

import pytest
import torch
import torch.nn.functional as F

from symmetries.distributions.box import grid_points
from symmetries.groups.affine import Affine2
from symmetries.nn.invariant_linear import InvariantLinear
from symmetries.ops.gaussian_blur import gaussian_blur
from symmetries.ops.resample_rows import bilinear_taps, gather, scatter
from symmetries.ops.warp import warp

GROUP = Affine2("affine")


def transformations(*lead, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return GROUP.exp((torch.rand(*lead, 6, generator=generator, dtype=dtype) - 0.5) * 0.8)


def layers(shape, units, **options):
    """The same layer, computing on either side."""
    made = []
    for side in ("weights", "inputs"):
        generator = torch.Generator().manual_seed(1)
        layer = InvariantLinear(shape, units, side=side, generator=generator, **options)
        made.append(layer.double())
    return made


def test_taps_are_the_library_s_resampling():
    theta = transformations(5)[:, :2]
    image = torch.rand(5, 1, 7, 9, dtype=torch.float64)
    rows = gather(image.reshape(5, 63, 1), bilinear_taps(theta[:, None], 7, 9))
    torch.testing.assert_close(rows.reshape(5, 1, 7, 9), warp(image, theta))


@pytest.mark.parametrize("samples", [4, 500])  # keys of 16 and of 32 bits
def test_scatter_is_the_exact_transpose_of_gather(samples):
    taps = bilinear_taps(transformations(2, samples)[:, :, :2], 6, 6)
    dense = taps.dense()
    for tables in torch.rand(2, 36, 3, dtype=torch.float64), torch.rand(1, 36, 3).double():
        rows = tables[:, None].expand(2, samples, 36, 3)
        torch.testing.assert_close(gather(tables, taps), (dense @ rows).transpose(1, 2))
        transposed = (dense.transpose(2, 3) @ rows).transpose(1, 2)
        torch.testing.assert_close(scatter(tables, taps), transposed)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 6, 9)])
@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("own_images", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_both_sides_give_the_same_numbers_and_gradients(shape, runs, own_images, shared):
    """(W T) x = W (T x), to rounding, in values and in gradients of weights and T."""
    lead = (runs,) if own_images else ()
    images = torch.rand(*lead, 4, *shape, dtype=torch.float64)
    eta = ((torch.rand(runs, 5, 6, dtype=torch.float64) - 0.5) * 0.8).requires_grad_()
    found = []
    for layer in layers(shape, 7, runs=runs, shared=shared):
        with torch.no_grad():  # runs with different filters
            layer.weight += torch.linspace(0, 0.1, layer.weight.numel()).view_as(layer.weight)
        out = layer(images, GROUP.exp(eta))
        assert out.shape == (runs, 5, 4, 7)
        gradients = torch.autograd.grad(out.square().sum(), (layer.weight, layer.bias, eta))
        found.append((out, *gradients))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_agreement_is_to_rounding_in_float32():
    weights, inputs = (layer.float() for layer in layers((1, 28, 28), 16))
    images, T = torch.rand(4, 1, 28, 28), transformations(8, dtype=torch.float32)
    torch.testing.assert_close(weights(images, T), inputs(images, T), rtol=1e-5, atol=1e-5)


def test_a_run_alone_gives_what_it_gives_among_others():
    both = InvariantLinear((1, 8, 8), 5, runs=2, generator=torch.Generator().manual_seed(0))
    alone = InvariantLinear((1, 8, 8), 5, generator=torch.Generator().manual_seed(0))
    images, T = torch.rand(3, 1, 8, 8), transformations(2, 4, dtype=torch.float32)
    for run in range(2):
        torch.testing.assert_close(both(images, T)[run], alone(images, T[run]))


def test_filters_are_read_at_the_moved_point():
    """Quarter turn: (W T) x is W applied to the picture turned counter-clockwise."""
    layer = InvariantLinear((1, 6, 6), 3, bias=False)
    quarter = Affine2("rotation").exp(torch.tensor([[math.pi / 2]]))
    images = torch.rand(4, 1, 6, 6)
    turned = torch.rot90(images, 1, (2, 3))
    expected = turned.flatten(1) @ layer.weight[0].flatten(1).T
    torch.testing.assert_close(layer(images, quarter)[0], expected, rtol=1e-4, atol=1e-5)


def test_translations_of_zoomed_in_filters_are_a_convolution():
    """Section 3.4: a 3 x 3 kernel in the middle of the filter, moved over a grid of pixels."""
    side, k = 9, 3
    kernel = torch.randn(4, 1, k, k, dtype=torch.float64)
    layer = InvariantLinear((1, side, side), 4, bias=False).double()
    edge = (side - k) // 2
    with torch.no_grad():
        layer.weight.copy_(F.pad(kernel, (edge,) * 4)[None])
    # Half-width: from the middle to where the kernel touches the edge, in half-image units.
    width = edge * 2 / side
    eta = grid_points((2 * edge + 1) ** 2, 2) * width
    images = torch.rand(5, 1, side, side, dtype=torch.float64)
    responses = layer(images, Affine2("translation").exp(eta))
    expected = F.conv2d(images, kernel).relu().mean((2, 3))
    torch.testing.assert_close(responses.relu().mean(0), expected)


def test_the_cheaper_side_is_chosen():
    layer = InvariantLinear((1, 4, 4), 64)
    assert layer.chosen_side(8) == "inputs"
    assert layer.chosen_side(32) == "weights"  # one product less where filters are learned
    with torch.no_grad():
        assert layer.chosen_side(32) == "inputs"
    assert layer.chosen_side(512) == "weights"


@pytest.mark.parametrize("batch", [4, 256])
def test_nothing_of_size_samples_times_units_times_pixels_on_the_input_side(batch):
    """Memory: the largest tensor saved for the gradient grows with the smaller side only."""
    units, samples, pixels = 32, 16, 144
    layer = InvariantLinear((1, 12, 12), units)
    saved = []

    def pack(tensor):
        saved.append(tensor.untyped_storage().nbytes() // tensor.element_size())
        return tensor

    T = transformations(samples, dtype=torch.float32).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(torch.rand(batch, 1, 12, 12), T)
    smaller = min(batch, units)
    assert max(saved) <= samples * pixels * max(smaller, 4)


def test_blur_smooths_the_filters():
    plain = InvariantLinear((1, 16, 16), 4, generator=torch.Generator().manual_seed(0))
    blurred = InvariantLinear((1, 16, 16), 4, blur=0.1, generator=torch.Generator().manual_seed(0))
    rough = plain.filters().diff(dim=-1).square().mean()
    assert blurred.filters().diff(dim=-1).square().mean() < 0.3 * rough
    assert torch.equal(plain.filters(), plain.weight)
    wide = InvariantLinear((3, 8, 12), 2, runs=2, blur=0.3)
    expected = gaussian_blur(wide.weight.flatten(0, 1), 0.3).reshape(wide.weight.shape)
    torch.testing.assert_close(wide.filters(), expected)


def test_bank_holds_the_moved_filters():
    layer = InvariantLinear((1, 6, 6), 3)
    T = Affine2("rotation").exp(torch.tensor([[0.0], [math.pi]]))
    bank = layer.bank(T)
    assert bank.shape == (2, 3, 1, 6, 6)
    torch.testing.assert_close(bank[0], layer.weight[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(bank[1], layer.weight[0].flip(-1, -2), rtol=1e-4, atol=1e-5)


def test_wrong_shapes_are_named():
    layer = InvariantLinear((1, 6, 6), 3)
    T = torch.eye(3)[None]
    with pytest.raises(ValueError, match=r"images: expected shape \(B, 1, 6, 6\)"):
        layer(torch.rand(2, 1, 5, 6), T)
    with pytest.raises(ValueError, match="transformation: expected"):
        layer(torch.rand(2, 1, 6, 6), T[:, :2])
    with pytest.raises(ValueError, match="side: expected one of"):
        InvariantLinear((1, 6, 6), 3, side="left")
