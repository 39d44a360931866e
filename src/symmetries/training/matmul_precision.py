"""How exact matrix products are while a model trains."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from symmetries.ops.amx import rounded_products

Products = Literal["auto", "tf32", "bf16"]


@contextmanager
def fast_products(products: Products | None = "tf32", device: str = "auto") -> Iterator[None]:
    """Rounded matrix products inside the block; torch's settings are put back after it.

    Convolutions are those that cuDNN finds fastest, by trial, unless deterministic ones are asked
    for.

    Args:
        products: "tf32", ten bits on CUDA; "bf16", seven bits, for the networks that honour it
            (:class:`symmetries.nn.perceptron.MLP`,
            :class:`symmetries.distributions.flow.ConditionalFlow`), on CUDA, where others have
            TF32, and on processors with AMX (:mod:`symmetries.ops.amx`); "auto", TF32 on CUDA
            and bfloat16 on such processors. Other processors multiply float32. None changes
            nothing.
        device: that of the run, as :class:`symmetries.training.TrainConfig` names it.

    Example:
        >>> with fast_products():
        ...     torch.get_float32_matmul_precision()
        'high'
    """
    if products is None:
        yield
        return
    before = torch.get_float32_matmul_precision()
    # "medium" would reach torch's products on the CPU too, where some processors cannot do them.
    cuda = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    medium = products == "bf16" and cuda
    torch.set_float32_matmul_precision("medium" if medium else "high")
    cudnn, tried = torch.backends.cudnn, torch.backends.cudnn.benchmark
    cudnn.benchmark = not (cudnn.deterministic or torch.are_deterministic_algorithms_enabled())
    try:
        with rounded_products(products != "tf32"):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
        cudnn.benchmark = tried
