"""Which tensors kernels are left alone with."""

import torch

from symmetries.ops._dispatch import usable
from symmetries.ops.triton.linear_head import suits


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
