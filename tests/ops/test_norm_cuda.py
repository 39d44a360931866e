"""Host side of the norm in CUDA C: what it is for, how rows are shared out, and its trial."""

import pytest
import torch
import torch.nn.functional as F

from symmetries.ops import norm_cuda
from symmetries.ops.compiler import CudaError

CPU = torch.device("cpu")


def test_it_stays_away_from_the_cpu_and_from_other_widths(monkeypatch):
    z, vector = torch.randn(4, 256).to(torch.bfloat16), torch.ones(256)
    assert not norm_cuda.suits(z, vector, None, vector, vector)
    monkeypatch.setattr(norm_cuda, "has_compiler", lambda: True)
    monkeypatch.setattr(norm_cuda, "_agreed", {(256, True, False, CPU): True})

    class OnGpu(torch.Tensor):
        is_cuda = True

    def suits(rows, bias=vector, mask=None):
        return norm_cuda.suits(rows.as_subclass(OnGpu), bias, mask, vector, vector)

    assert suits(z)
    assert not suits(z.float())
    assert not suits(z[:, :128].contiguous())
    assert not suits(z.T.contiguous().T)
    assert not suits(z, torch.ones(512)[::2])
    assert not suits(z, vector.to(torch.bfloat16))
    assert not suits(z, mask=torch.ones(4, 256))


@pytest.mark.parametrize("rows", [1, 37, 2560, 3072, 100_000])
@pytest.mark.parametrize("width", norm_cuda._WIDTHS)
def test_blocks_share_all_rows_evenly(monkeypatch, rows, width):
    monkeypatch.setattr(norm_cuda, "_processors", lambda device: 132)
    blocks = norm_cuda._blocks(torch.empty(rows, width), 4)
    assert 1 <= blocks <= 4 * 132
    turns = -(-rows // (2048 // width))
    each = -(-turns // blocks)
    assert each == -(-turns // (4 * 132))  # no more than if all blocks that fit were there
    assert (blocks - 1) * each < turns


class InTorch:
    """What the kernels do, by torch's operations; ``wrong`` changes what they add to units."""

    def __init__(self, name, wrong):
        self.name = name
        self.wrong = wrong

    def __call__(self, grid, threads, *arguments):
        """Write where the kernels do."""
        run = self.forward if self.name == "norm_forward" else self.backward
        run(*arguments)

    def forward(self, z, bias, gamma, beta, mask, out, mean, scale, rows, epsilon, per):
        """Units, means and scales; without a bias or mask, others are in their places."""
        units = F.gelu(z.float() + (0 if bias is gamma else bias))
        mean.copy_(units.mean(1))
        scale.copy_((units.var(1, correction=0) + epsilon).rsqrt())
        y = F.layer_norm(units, gamma.shape, gamma, beta + self.wrong, epsilon)
        out.copy_(y if mask is z else y * mask * per)

    def backward(self, z, bias, gamma, mask, grad, mean, scale, to_z, partial, rows, per):
        """Gradients, all of those to vectors in the first part."""
        with torch.enable_grad():
            free = [z.float().requires_grad_(), gamma.clone().requires_grad_()]
            free += [torch.zeros_like(gamma).requires_grad_() for _ in "bs"]
            units = F.gelu(free[0] + (free[3] if bias is gamma else bias + free[3]))
            y = F.layer_norm(units, gamma.shape, free[1], free[2], 1e-5)
            y = y if mask is z else y * mask * per
            found = torch.autograd.grad(y, free, grad.float())
        to_z.copy_(found[0])
        partial.zero_()
        partial[0].copy_(torch.stack(found[1:]))


@pytest.mark.parametrize("given", [(True, True), (True, False), (False, False)])
def test_the_trial_tells_right_kernels_from_wrong_ones(monkeypatch, given):
    monkeypatch.setattr(norm_cuda, "_processors", lambda device: 2)
    for wrong in (0.0, 0.2):
        monkeypatch.setattr(
            norm_cuda, "_kernel", lambda name, *rest, wrong=wrong: InTorch(name, wrong)
        )
        error = norm_cuda._error(256, *given, CPU)
        assert (error < norm_cuda._LARGEST_ERROR) == (not wrong)


def test_kernels_that_do_not_compile_are_left_alone(monkeypatch):
    def fail(*rest):
        raise CudaError("no")

    monkeypatch.setattr(norm_cuda, "cuda_kernel", fail)
    monkeypatch.setattr(norm_cuda, "_processors", lambda device: 2)
    assert norm_cuda.error_of(lambda: norm_cuda._error(256, True, True, CPU)) > 1
