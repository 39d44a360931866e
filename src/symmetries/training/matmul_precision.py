"""Precision of matrix products during training."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Products = Literal["auto", "tf32", "bf16"]


@contextmanager
def use_matmul_precision(
    products: Products | None = "tf32", device: str = "auto"
) -> Iterator[None]:
    """Use rounded matrix products inside the block, and restore torch's settings after it.

    cuDNN chooses the fastest convolution algorithms by trial, unless deterministic algorithms are
    requested.

    Args:
        products: "tf32" or "auto": ten bits of mantissa on CUDA. "bf16": seven bits in networks
            that support it (:class:`symmetries.nn.perceptron.MLP`,
            :class:`symmetries.distributions.flow.ConditionalFlow`) on CUDA, with TF32 for other
            products. Processors multiply float32. None changes nothing.
        device: device of the run, as in :class:`symmetries.training.TrainConfig`.

    Example:
        >>> with use_matmul_precision():
        ...     torch.get_float32_matmul_precision()
        'high'
    """
    if products is None:
        yield
        return
    before = torch.get_float32_matmul_precision()
    # "medium" would also apply to torch's CPU products, which some processors do not support.
    cuda = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    medium = products == "bf16" and cuda
    torch.set_float32_matmul_precision("medium" if medium else "high")
    cudnn, tried = torch.backends.cudnn, torch.backends.cudnn.benchmark
    cudnn.benchmark = not (cudnn.deterministic or torch.are_deterministic_algorithms_enabled())
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        cudnn.benchmark = tried
