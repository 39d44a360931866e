"""Which tensors kernels are left alone with."""

import torch

from symmetries.ops._dispatch import usable


def test_kernels_are_left_alone_where_they_cannot_be_used(monkeypatch):
    assert not usable("warp", torch.zeros(3))  # no GPU
    monkeypatch.setattr("symmetries.ops._dispatch._INTERPRETED", True)
    assert not usable("warp", torch.zeros(3, dtype=torch.float64))
    assert not usable("warp", torch.zeros(0))
    seen = []
    torch.func.vmap(lambda x: seen.append(usable("warp", x)) or x)(torch.zeros(2, 3))
    assert seen == [False]
