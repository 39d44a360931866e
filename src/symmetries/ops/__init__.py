"""Operations that have a fused form for GPUs beside their torch form, which defines them.

Each module is named for its mathematics and holds one public function. The torch form stands there
in full and runs by default; on a GPU the function chooses a Triton or CUDA kernel (``ops.triton``,
``ops.cuda``) that gives the same result up to rounding. Callers call the function, and never ask
which form runs.

Every fused form has a name in :data:`OPERATIONS`. To run the torch form instead::

    with symmetries.ops.disabled("warp", "adam"):
        ...

or set ``SYMMETRIES_KERNELS=-warp,-adam`` (``SYMMETRIES_KERNELS=0`` for all). ``recorded()`` tells
which operations a block of code uses. Inside ops, a module asks ``usable("warp", *tensors)``
(``ops._dispatch``) before it calls a kernel, and ``foldable("warp", *tensors)``
(``ops._vmap_rules``) before it serves several models at once under ``torch.vmap``.
"""

from symmetries.ops._dispatch import OPERATIONS, disabled, is_followed, recorded

__all__ = ["OPERATIONS", "disabled", "is_followed", "recorded"]
