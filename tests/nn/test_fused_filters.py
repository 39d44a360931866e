"""Kernels for a layer's small network: when they are asked for, and what is kept of the answer."""

from functools import partial

import pytest
import torch

from symmetries.groups import Cyclic
from symmetries.nn import conv_kernel
from symmetries.nn.gconv import GroupConv2d, RelaxedGroupConv2d
from symmetries.ops.cuda.compiler import CudaError, error_of


@pytest.mark.parametrize("relax", [None, {"translation": 0.3}])
def test_a_layer_first_seen_during_a_capture_asks_again(monkeypatch, relax):
    layer = GroupConv2d(2, 2, 3, group=Cyclic(2))
    if relax is not None:
        layer = RelaxedGroupConv2d(2, 2, 3, group=Cyclic(1), relax=relax)
    x = torch.randn(1, 2 * layer.group.order, 5, 5)
    expected = layer(x)
    layer._forget()
    asked = []
    plain = partial(layer._sample, (5, 5))
    monkeypatch.setattr(type(layer), "_prepare", lambda *_: asked.append(1) or plain)
    monkeypatch.setattr(conv_kernel, "may_keep", lambda _: False)
    torch.testing.assert_close(layer(x), expected)
    assert not asked
    monkeypatch.setattr(conv_kernel, "may_keep", lambda _: True)
    torch.testing.assert_close(layer(x), expected)
    layer(x)
    assert len(asked) == 1


def test_kernels_that_cannot_be_compiled_are_left_alone():
    def fail(kind):
        raise kind("no")

    of_triton = type("OutOfResources", (Exception,), {"__module__": "triton.runtime.errors"})
    for kind in (of_triton, CudaError):
        assert error_of(lambda kind=kind: fail(kind)) == float("inf")
    with pytest.raises(ValueError, match="no"):
        error_of(lambda: fail(ValueError))


def test_kernels_of_inference_tensors_are_not_kept():
    with torch.inference_mode():
        layer = GroupConv2d(2, 2, 3, group=Cyclic(2)).eval()
        x = torch.randn(1, 4, 5, 5)
        before = layer(x)
        layer.kernel.output.add_(1)
        assert not torch.allclose(layer(x), before)
