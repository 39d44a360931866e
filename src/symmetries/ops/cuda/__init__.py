"""Fused forms in CUDA C, compiled at first use. Only :mod:`symmetries.ops` imports them."""
