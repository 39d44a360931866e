"""The precision of products while a run trains, and torch's setting after it."""

import pytest
import torch

from symmetries.training.matmul_precision import use_matmul_precision


@pytest.mark.parametrize(
    ("device", "precision"), [("cpu", "high"), ("cuda", "medium"), ("auto", "medium")]
)
def test_a_run_on_the_cpu_of_a_machine_with_cuda_leaves_its_products(
    monkeypatch, device, precision
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with use_matmul_precision("bf16", device):
        assert torch.get_float32_matmul_precision() == precision


@pytest.mark.parametrize("products", ["auto", "bf16", "tf32", None])
def test_the_setting_is_put_back(products):
    before = torch.get_float32_matmul_precision()
    with pytest.raises(KeyError), use_matmul_precision(products):
        raise KeyError
    assert torch.get_float32_matmul_precision() == before
