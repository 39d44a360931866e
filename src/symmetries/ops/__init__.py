"""Triton kernels behind the library's functions, for CUDA; each has its torch form as oracle.

Nothing here is called by users: ``affine_exp`` and ``warp`` choose a kernel where the device
has one and torch's operations elsewhere, with the same results up to rounding.
"""
