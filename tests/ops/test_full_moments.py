"""Moments of a full covariance, and its gradient as a product, against torch's autograd."""

import torch

from symmetries.ops.full_moments import FactorGradient, full_moments


def test_moments_and_gradients_are_those_of_the_formula():
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 4, 3), (2, 5, 3), (2, 5, 3), (2, 5, 3, 3)
    ours = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    ours[3] = ours[3].tril(-1)
    theirs = [part.clone().requires_grad_() for part in ours]
    ours = [part.requires_grad_() for part in ours]
    phi, mean, log_diagonal, lower = theirs
    factor = lower.tril(-1) + torch.diag_embed(log_diagonal.exp())
    means = torch.einsum("rbd,rcd->rbc", phi, mean)
    covariance = factor @ factor.mT
    variances = torch.einsum("rbi,rcij,rbj->rbc", phi, covariance, phi)
    expected = (means, variances, lower.tril(-1).square().sum((1, 2, 3)))
    found = full_moments(*ours)
    for mine, exact in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, exact)
    given = [torch.randn(part.shape, generator=generator, dtype=part.dtype) for part in found]
    pairs = zip(
        torch.autograd.grad(found, ours, given),
        torch.autograd.grad(expected, theirs, given),
        strict=True,
    )
    for mine, exact in pairs:
        torch.testing.assert_close(mine, exact)


def test_a_gradient_left_as_a_product_is_that_of_autograd():
    generator = torch.Generator().manual_seed(1)
    phi = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)  # (R, B, D)
    lower = torch.randn(2, 5, 4, 4, generator=generator, dtype=torch.float64).tril(-1)
    lower.requires_grad_()
    slope = torch.randn(2, 5, 3, 4, generator=generator, dtype=torch.float64)
    factor = torch.randn(2, generator=generator, dtype=torch.float64)
    below = lower.tril(-1)
    total = (slope * (phi[:, None] @ below)).sum()
    total = total + (factor * below.square().sum((1, 2, 3))).sum()
    (exact,) = torch.autograd.grad(total, lower)
    product = FactorGradient(phi.mT, slope.mT, factor)
    torch.testing.assert_close(product.written(lower.detach()), exact)
