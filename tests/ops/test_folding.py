"""Kernels that serve several models at once, executed by Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from symmetries.ops._vmap_rules import fold, foldable

SCRIPT = Path(__file__).with_name("folded_interpreted.py")


def test_several_models_get_what_each_gets_alone():
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 10


def test_rows_of_all_models_come_in_one_call_and_gradients_flow():
    shapes = []

    def scaled(x, factor):
        shapes.append(tuple(x.shape))
        return x * factor[:, None], x.sum(1)

    x = torch.randn(3, 4, 2, requires_grad=True)
    factor = torch.randn(4)  # the same for all models
    out, total = torch.vmap(lambda x: fold(scaled, x, factor, axes=(0, 0)))(x)
    assert shapes == [(12, 2)]
    assert torch.equal(out, x * factor[:, None])
    (out.sum() + total.sum()).backward()
    assert torch.allclose(x.grad, (factor[:, None] + 1).expand(3, 4, 2))


def test_nothing_is_folded_outside_of_vmap():
    assert not foldable(torch.ones(2))
