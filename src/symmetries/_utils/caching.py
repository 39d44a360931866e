"""Cache of constant tensors, for each size, dtype and device."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec

import torch
from torch import Tensor

P = ParamSpec("P")


def constant(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Cache the tensors returned by a function of hashable arguments.

    They are created outside inference mode, so that they can be used with autograd later. Under
    ``torch.compile`` the function itself is traced, and the compiler folds the constant.

    Example:
        >>> ones = constant(lambda n: torch.ones(n))
        >>> ones(3) is ones(3)
        True
    """

    @lru_cache(maxsize=64)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        return remembered(*args, **kwargs)  # type: ignore[arg-type]

    return call
