"""Filters of group convolutions by kernel, executed by Triton's interpreter, agree with torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from symmetries.ops._networks import Network
from symmetries.ops.triton.launching import Watched

SCRIPT = Path(__file__).with_name("filters_interpreted.py")


def test_filters_agree_with_torch_in_value_and_gradient():
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 8


def test_weights_that_changed_before_the_backward_pass_are_named_with_the_remedy():
    parts = [torch.zeros(2, 3) for _ in Network._fields]
    watched = Watched(Network(*parts))
    watched.check_fit()
    watched.parts[0] = watched.parts[0].double()
    with pytest.raises(
        RuntimeError, match=r"weights: expected .*float32 on cpu.*got .*float64.*; "
    ):
        watched.check_fit()
