"""Rules for vmap: the axis of the models is folded into another."""

import torch

from symmetries.ops._vmap_rules import fold, foldable


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
