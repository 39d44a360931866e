"""What layers keep of their kernel networks, and the precision that these have."""

import copy

import pytest
import torch

from symmetries.groups import Cyclic
from symmetries.nn.gconv import GroupConv2d, LiftingConv2d, RelaxedGroupConv2d

LAYERS = {
    "strict": lambda **o: GroupConv2d(2, 3, 3, group=Cyclic(4), **o),
    "disk": lambda **o: GroupConv2d(2, 3, 5, group=Cyclic(8), **o),
    "soft": lambda **o: RelaxedGroupConv2d(2, 3, 3, group=Cyclic(4), **o),
    "position": lambda **o: RelaxedGroupConv2d(
        2, 3, 3, group=Cyclic(1), relax={"translation": 0.4}, **o
    ),
    "position in a disk": lambda **o: RelaxedGroupConv2d(
        1, 1, 5, group=Cyclic(3), relax={"translation": 0.4}, **o
    ),
    "lifting": lambda **o: LiftingConv2d(2, 3, 3, group=Cyclic(4), **o),
}


def made(name):
    generator = torch.Generator().manual_seed(0)
    return LAYERS[name](hidden=8, features=5, generator=generator).double()


def test_kept_features_follow_the_frequency_the_type_and_the_state():
    layer = made("strict")
    before = layer.generate((9, 9)).weight
    assert torch.equal(layer.generate((9, 9)).weight, before)
    other = copy.deepcopy(layer)
    layer.frequency.mul_(2)
    assert not torch.equal(layer.generate((9, 9)).weight, before)
    layer.load_state_dict(other.state_dict())
    assert torch.equal(layer.generate((9, 9)).weight, before)
    assert layer.float().generate((9, 9)).weight.dtype == torch.float32


def test_features_of_inference_are_not_kept_for_training():
    layer = made("strict")
    with torch.inference_mode():
        layer.generate((9, 9))
    layer.generate((9, 9)).weight.sum().backward()
    assert layer.kernel.relative_weight.grad is not None


@pytest.mark.parametrize("name", LAYERS)
def test_kernels_are_exact_under_autocast(name):
    layer = made(name).float()
    exact = copy.deepcopy(layer).generate((9, 9)).weight
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer.generate((9, 9)).weight, exact)  # what is kept from here on, too
