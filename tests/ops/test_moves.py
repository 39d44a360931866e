"""Random transformations and masks by kernel, and on a CPU, agree with what they stand for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from symmetries.actions.images import ImageAction
from symmetries.groups import Affine2, Colour, Cyclic, Product
from symmetries.ops.side_streams import left_by_dropout, rounded_copies

SCRIPT = Path(__file__).with_name("moves_interpreted.py")


def test_kernels_agree_with_torch():
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 13


def test_masks_without_a_kernel():
    torch.manual_seed(0)
    one, two = left_by_dropout([(200, 50, 0.25), (3, 4, 0.5)], torch.device("cpu"))
    assert one.shape == (200, 50)
    assert two.shape == (3, 4)
    assert one.dtype == torch.uint8
    assert abs(one.float().mean().item() - 0.75) < 0.03


def test_weights_are_rounded_without_a_kernel():
    weights = [torch.randn(4, 3), torch.randn(2)]
    for copy, weight in zip(rounded_copies(weights), weights, strict=True):
        assert torch.equal(copy, weight.to(torch.bfloat16))


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
