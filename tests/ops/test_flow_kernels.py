"""The flow's kernels, executed by Triton's interpreter, agree with torch's operations."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from symmetries.distributions.flow import ConditionalFlow
from symmetries.distributions.flow_kernels import shape_of
from symmetries.ops import flow_cuda

SCRIPT = Path(__file__).with_name("flow_interpreted.py")


def test_log_density_agrees_with_torch_in_value_gradient_and_second_gradient():
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 3


def test_flow_in_cuda_c_is_left_to_what_it_is_made_for(monkeypatch):
    monkeypatch.setattr(flow_cuda, "has_compiler", lambda: True)
    cuda = torch.device("cuda")
    shape = shape_of(ConditionalFlow((1.0,) * 5, 8), 1)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    assert flow_cuda.suits(shape, cuda)
    assert not flow_cuda.suits(shape, torch.device("cpu"))
    assert not flow_cuda.suits(shape._replace(hidden=200), cuda)  # no whole number of warps
    assert not flow_cuda.suits(shape._replace(hidden=512), cuda)
    assert not flow_cuda.suits(shape._replace(dim=9), cuda)  # too many parameters
    assert flow_cuda.suits(shape._replace(hidden=64), cuda)
    assert not flow_cuda.suits(shape._replace(hidden=64, dim=8, bins=4), cuda)  # threads are few
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "highest")
    assert not flow_cuda.suits(shape, cuda)
