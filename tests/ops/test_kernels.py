"""The Triton kernels, executed by Triton's interpreter, agree with torch's operations."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from symmetries.ops._dispatch import usable
from symmetries.ops.triton.heads import suits

SCRIPT = Path(__file__).with_name("interpreted.py")


def test_kernels_agree_with_torch_in_value_gradient_and_second_gradient():
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 31


def test_kernels_are_left_alone_where_they_cannot_be_used(monkeypatch):
    assert not usable("warp", torch.zeros(3))  # no GPU
    monkeypatch.setattr("symmetries.ops._dispatch._INTERPRETED", True)
    assert not usable("warp", torch.zeros(3, dtype=torch.float64))
    assert not usable("warp", torch.zeros(0))
    seen = []
    torch.func.vmap(lambda x: seen.append(usable("warp", x)) or x)(torch.zeros(2, 3))
    assert seen == [False]


def test_small_outputs_by_kernel_only_where_places_are_numbers_of_32_bits():
    weight, wide = torch.empty(10, 256, device="meta"), torch.empty(10, 1024, device="meta")
    assert suits(torch.empty(2**22, 256, device="meta"), weight)
    assert not suits(torch.empty(2**23, 256, device="meta"), weight)
    assert not suits(torch.empty(2**28, 2, device="meta"), torch.empty(16, 2, device="meta"))
    assert not suits(torch.empty(4, 1024, device="meta"), wide)
