"""Inverse elements act, without being computed, as the inverses do."""

import pytest
import torch

from symmetries.actions.images import ImageAction
from symmetries.groups import Affine2, Colour, Cyclic, Product


@pytest.mark.parametrize("several", [False, True])
def test_inverse_elements_act(several):
    images = torch.rand(2, 3, 9, 9)
    for group in (Affine2("rotation", "zoom"), Colour("hue"), Cyclic(4)):
        act = ImageAction(group)
        if isinstance(group, Cyclic):
            element = torch.tensor([1, 3])
        else:
            element = group.exp(0.3 * torch.randn(2, group.dim))
        element = element[None].expand(2, *element.shape) if several else element
        expected = act.orbit(group.inverse(element), images)
        found = act.orbit(element, images, inverse=True)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    both = Product(Affine2("rotation"), Colour("hue"))
    act, element = ImageAction(both), both.exp(0.3 * torch.randn(2, 2, 2))
    expected = act.orbit(both.inverse(element), images)
    torch.testing.assert_close(
        act.orbit(element, images, inverse=True), expected, atol=1e-5, rtol=1e-5
    )
