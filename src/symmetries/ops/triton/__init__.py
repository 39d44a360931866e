"""Fused forms in Triton. Only the modules of :mod:`symmetries.ops` import them."""
