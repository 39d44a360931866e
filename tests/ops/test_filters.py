"""Weights of fused filters that changed before the backward pass."""

import pytest
import torch

from symmetries.ops.kernel_network import Network
from symmetries.ops.triton.launching import Watched


def test_weights_that_changed_before_the_backward_pass_are_named_with_the_remedy():
    parts = [torch.zeros(2, 3) for _ in Network._fields]
    watched = Watched(Network(*parts))
    watched.check_fit()
    watched.parts[0] = watched.parts[0].double()
    with pytest.raises(
        RuntimeError, match=r"weights: expected .*float32 on cpu.*got .*float64.*; "
    ):
        watched.check_fit()
