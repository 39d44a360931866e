"""Under autocast places and matrices keep their digits; images of 16 bits are warped in float32."""

import pytest
import torch

from symmetries.actions.points import PointAction
from symmetries.distributions.mixture import GaussianMixture
from symmetries.groups import SE2, Affine2, Dihedral
from symmetries.nn.gconv_sampling import relative_coordinates
from symmetries.ops.affine_exp import affine_exp
from symmetries.ops.affine_product import affine_product
from symmetries.ops.gaussian_blur import gaussian_blur
from symmetries.ops.warp import warp, warp_shared

AFFINE = Affine2("affine")


@pytest.fixture
def maps():
    torch.manual_seed(0)
    return affine_exp(0.3 * torch.randn(6, 6))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "bspline"])
@pytest.mark.parametrize("padding", ["constant", "border"])
def test_warps(maps, mode, padding):
    images, options = torch.rand(6, 1, 12, 12), {"interpolation": mode, "padding": padding}
    found = []
    for cast in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=cast):
            found.append(warp(images, maps[:, :2], **options))
            found.append(warp_shared(images, maps[:2, :2], **options))
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[1], found[3])


def test_products_and_exponentials(maps):
    eta = 0.3 * torch.randn(5, 6)
    turns = SE2().exp(0.3 * torch.randn(5, 3))
    plain = affine_product(maps, maps), affine_exp(eta)
    plain += (AFFINE.compose(maps, maps), SE2().compose(turns, turns, turns))
    with torch.autocast("cpu", torch.bfloat16):
        cast = affine_product(maps, maps), affine_exp(eta)
        cast += (AFFINE.compose(maps, maps), SE2().compose(turns, turns, turns))
    for a, b in zip(plain, cast, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_images_of_16_bits(maps, dtype):
    images = torch.rand(6, 2, 12, 12).to(dtype).requires_grad_()
    theta = maps[:, :2].clone().requires_grad_()
    out = warp(images, theta)
    exact = warp(images.float(), theta)
    assert out.dtype == dtype
    assert torch.equal(out, exact.to(dtype))
    grads = torch.autograd.grad(out.float().sum(), (images, theta))
    assert [g.dtype for g in grads] == [dtype, torch.float32]


def test_finite_groups_points_coordinates_and_mixtures():
    turns = SE2().exp(torch.randn(5, 3))
    mixture = GaussianMixture(2, 3)
    mixture.factor.copy_(torch.randn(2, 3, 3).tril())

    def found():
        yield Dihedral(3).matrix(torch.arange(6))
        yield PointAction(SE2())(turns, torch.linspace(-1, 1, 40).reshape(5, 4, 2))
        yield relative_coordinates(Dihedral(6), 5)
        yield gaussian_blur(torch.linspace(0, 1, 3000).reshape(1, 1, 2, 1500), 0.001)
        yield mixture.sample(5, torch.Generator().manual_seed(0))

    plain = list(found())
    with torch.autocast("cpu", torch.bfloat16):
        cast = list(found())
    for a, b in zip(plain, cast, strict=True):
        assert torch.equal(a, b)
