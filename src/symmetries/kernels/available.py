"""Where kernels may be used."""

import importlib.util
import os

import torch
from torch import Tensor

#: Kernels that were not shown right at every size on a GPU run only if this is "1".
TRIAL_VARIABLE = "SYMMETRIES_TRIAL_KERNELS"

_HAS_TRITON = importlib.util.find_spec("triton") is not None


def on_trial() -> bool:
    """Whether kernels on trial may run: $SYMMETRIES_TRIAL_KERNELS is "1".

    These are all kernels in CUDA C, and those of the flow. They are right in the cases that were
    compared on a GPU, but one run with images of 64 x 64 ended in an illegal access whose cause is
    not known, and the flow was compared at small sizes only.
    """
    return os.environ.get(TRIAL_VARIABLE) == "1"


def usable(*tensors: Tensor, dtypes: tuple[torch.dtype, ...] = (torch.float32,)) -> bool:
    """Whether Triton kernels can take these tensors: float32, on CUDA, seen eagerly.

    The compiler fuses torch's operations by itself, and torch.func's wrappers hide the memory.
    ``TRITON_INTERPRET=1`` runs the kernels on the CPU, for tests.
    """
    if not _HAS_TRITON or torch.compiler.is_compiling():
        return False
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    for tensor in tensors:
        if not (tensor.is_cuda or interpreted) or tensor.dtype not in dtypes:
            return False
        if tensor.numel() == 0:
            return False
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return False
    return True
