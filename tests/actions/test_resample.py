"""Resampling against scipy's map_coordinates, and the layouts against each other."""

import math

import numpy as np
import pytest
import torch
from scipy import ndimage

from symmetries.ops.affine_exp import affine_exp
from symmetries.ops.gaussian_blur import gaussian_blur
from symmetries.ops.warp import _grid_matrix, warp, warp_shared

SCIPY_MODES = {"constant": "grid-constant", "border": "nearest", "reflect": "reflect"}


def random_theta(*lead, seed=0, size=0.4):
    generator = torch.Generator().manual_seed(seed)
    eta = torch.randn(*lead, 6, dtype=torch.float64, generator=generator) * size
    return affine_exp(eta)[..., :2, :]


def source_pixels(theta, height, width):
    """Rows and columns that the convention asks for: y up, half of the longer side is 1."""
    unit = max(height, width) / 2
    rows, columns = np.mgrid[0:height, 0:width]
    x = (columns + 0.5 - width / 2) / unit
    y = -(rows + 0.5 - height / 2) / unit
    sx, sy = np.einsum("ij,jhw->ihw", theta.numpy(), np.stack([x, y, np.ones_like(x)]))
    return np.stack([-sy * unit + height / 2 - 0.5, sx * unit + width / 2 - 0.5])


@pytest.mark.parametrize("size", [(12, 12), (9, 14)])
@pytest.mark.parametrize("padding", SCIPY_MODES)
@pytest.mark.parametrize(("interpolation", "order"), [("bilinear", 1), ("bspline", 3)])
def test_against_scipy(size, padding, interpolation, order):
    image = torch.rand(*size, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for seed in range(3):
        theta = random_theta(seed=seed)
        ours = warp(image[None, None], theta, interpolation=interpolation, padding=padding)[0, 0]
        theirs = ndimage.map_coordinates(
            image.numpy(), source_pixels(theta, *size), order=order, mode=SCIPY_MODES[padding]
        )
        # scipy extends by 12 pixels only before its prefilter: 0.268^12 of the edge is left.
        tolerance = 1e-12 if order == 1 or padding == "reflect" else 2e-6
        np.testing.assert_allclose(ours.numpy(), theirs, atol=tolerance)


def test_bspline_with_constant_border_matches_an_exact_spline():
    """Inside an image with a wide margin, where the boundary cannot matter, to rounding."""
    image = torch.zeros(40, 40, dtype=torch.float64)
    image[15:25, 14:27] = torch.rand(10, 13, dtype=torch.float64)
    theta = random_theta(seed=5, size=0.1)
    ours = warp(image[None, None], theta, interpolation="bspline")[0, 0]
    theirs = ndimage.map_coordinates(image.numpy(), source_pixels(theta, 40, 40), order=3)
    inside = slice(12, 28)
    np.testing.assert_allclose(ours[inside, inside], theirs[inside, inside], atol=1e-7)


def test_bicubic_is_the_keys_kernel():
    a = -0.75

    def keys(t):
        t = np.abs(t)
        near = (a + 2) * t**3 - (a + 3) * t**2 + 1
        far = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
        return np.where(t <= 1, near, np.where(t < 2, far, 0))

    image = np.random.default_rng(0).random((8, 8))
    theta = random_theta(seed=2, size=0.15)
    rows, columns = source_pixels(theta, 8, 8)
    weights = (
        keys(rows[..., None] - np.arange(8))[..., :, None]
        * (keys(columns[..., None] - np.arange(8))[..., None, :])
    )
    expected = (weights * image).sum((-1, -2))
    ours = warp(torch.as_tensor(image)[None, None], theta, interpolation="bicubic")[0, 0]
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-12)


def test_grid_equals_affine_grid_up_to_convention():
    theta = random_theta(4)
    flip = torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64))
    flip3 = torch.diag(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))
    expected = torch.nn.functional.affine_grid(flip @ theta @ flip3, (4, 1, 7, 7), False)
    matrix = _grid_matrix(7, 7, theta.dtype, theta.device)
    torch.testing.assert_close((theta.flatten(1) @ matrix).view_as(expected), expected)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "bspline"])
@pytest.mark.parametrize("padding", ["constant", "border", "reflect"])
def test_layouts_agree(interpolation, padding):
    images = torch.rand(3, 2, 6, 7, dtype=torch.float64)
    options = {"interpolation": interpolation, "padding": padding, "fill": 0.3}
    theta = random_theta(3, 4)
    several = warp(images, theta, **options)
    assert several.shape == (3, 4, 2, 6, 7)
    for i in range(4):
        torch.testing.assert_close(several[:, i], warp(images, theta[:, i], **options))
    shared = warp_shared(images, theta[0], **options)
    for i in range(4):
        torch.testing.assert_close(shared[:, i], warp(images, theta[0, i], **options))
        one = warp(images, theta[0, i].expand(3, 2, 3), **options)
        torch.testing.assert_close(shared[:, i], one)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "bspline"])
def test_fill_is_what_lies_outside(interpolation):
    far = torch.tensor([[1.0, 0.0, 5.0], [0.0, 1.0, 0.0]])
    out = warp(torch.rand(2, 1, 8, 8), far, interpolation=interpolation, fill=0.7)
    torch.testing.assert_close(out, torch.full_like(out, 0.7))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "bspline"])
@pytest.mark.parametrize("padding", ["constant", "border", "reflect"])
def test_gradients_to_image_and_map(interpolation, padding):
    images = torch.rand(2, 1, 5, 4, dtype=torch.float64, requires_grad=True)
    theta = random_theta(2, seed=7).requires_grad_()
    function = lambda x, t: warp(x, t, interpolation=interpolation, padding=padding)  # noqa: E731
    assert torch.autograd.gradcheck(function, (images, theta))


def test_vmap_over_maps():
    images, theta = torch.rand(3, 1, 6, 6), random_theta(5).float()
    mapped = torch.func.vmap(lambda t: warp(images, t))(theta)
    torch.testing.assert_close(mapped, warp_shared(images, theta).transpose(0, 1))


def test_identity_leaves_images_alone():
    images = torch.rand(2, 3, 9, 12, dtype=torch.float64)
    eye = torch.eye(2, 3, dtype=torch.float64)
    for interpolation in ("bilinear", "bicubic", "bspline"):
        out = warp(images, eye, interpolation=interpolation)
        torch.testing.assert_close(out, images, rtol=0, atol=1e-12)


def test_blur_against_scipy():
    image = torch.rand(20, 16, dtype=torch.float64)
    ours = gaussian_blur(image[None, None], 0.15)[0, 0]
    theirs = ndimage.gaussian_filter(image.numpy(), 1.5, mode="mirror", radius=5)
    np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-12)
    assert gaussian_blur(image[None, None], 0.0)[0, 0] is not None
    torch.testing.assert_close(gaussian_blur(image[None, None], 0.0)[0, 0], image)


@pytest.mark.parametrize("size", [(8, 64), (4, 64), (1, 64), (28, 28)])
@pytest.mark.parametrize("sigma", [0.1, 1.0])
def test_blur_reaches_three_sigma_whatever_the_shape(size, sigma):
    image = torch.rand(size, dtype=torch.float64)
    pixels = sigma * max(size) / 2
    radius = round(3 * pixels + 0.5)
    theirs = ndimage.gaussian_filter(image.numpy(), pixels, mode="mirror", radius=radius)
    np.testing.assert_allclose(gaussian_blur(image[None, None], sigma)[0, 0], theirs, atol=1e-12)


@pytest.mark.parametrize("sigma", [0.02, 0.3, 2.0])
@pytest.mark.parametrize("shape", [(2, 3, 17, 40), (1, 1, 5, 5), (1, 2, 1, 9)])
def test_blur_by_matrices_is_that_by_convolution(monkeypatch, shape, sigma):
    images = torch.rand(shape, dtype=torch.float64)
    by_matrices = gaussian_blur(images, sigma)
    monkeypatch.setattr("symmetries.ops.gaussian_blur._LARGE", 0)
    torch.testing.assert_close(gaussian_blur(images, sigma), by_matrices)


@pytest.mark.parametrize("padding", SCIPY_MODES)
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "bspline"])
def test_maps_that_are_nan_give_nan(interpolation, padding):
    theta = torch.eye(2, 3).repeat(3, 2, 1, 1)
    theta[1, 0, 0, 2] = math.nan
    images = torch.rand(3, 2, 5, 7)
    options = {"interpolation": interpolation, "padding": padding}
    broken = warp(images, theta, **options).isnan()
    assert broken[1, 0].all()
    assert broken.sum() == broken[1, 0].numel()
    assert warp_shared(images, theta[:, 0], **options).isnan()[:, 1].all()


def test_gradients_of_no_images_are_zeros():
    theta, images = torch.eye(2, 3).requires_grad_(), torch.zeros(0, 1, 4, 4, requires_grad=True)
    warp(images, theta).sum().backward()
    assert theta.grad.equal(torch.zeros(2, 3))
    assert images.grad.shape == images.shape


def test_cached_constants_survive_inference_mode():
    with torch.inference_mode():
        warp(torch.rand(1, 1, 11, 13), torch.eye(2, 3), interpolation="bspline")
    images = torch.rand(1, 1, 11, 13, requires_grad=True)
    warp(images, torch.eye(2, 3), interpolation="bspline").sum().backward()
    assert math.isclose(float(images.grad.sum()), 143, rel_tol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: warp(x[0], torch.eye(2, 3)), r"images: expected shape \(N, C, H, W\)"),
        (lambda x: warp(x.long(), torch.eye(2, 3)), "floating-point"),
        (lambda x: warp(x, torch.eye(3)), r"theta: expected shape \(2, 3\)"),
        (lambda x: warp(x, torch.eye(2, 3).expand(5, 2, 3)), "theta: expected shape"),
        (lambda x: warp(x, torch.eye(2, 3), interpolation="cubic"), "interpolation: expected one"),
        (lambda x: warp(x, torch.eye(2, 3), padding="zeros"), "padding: expected one of"),
        (lambda x: gaussian_blur(x, -1.0), "sigma: expected a number >= 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.rand(2, 1, 4, 4))
