"""Distributions over transformations."""

from symmetries.distributions.box import UniformBox

__all__ = ["UniformBox"]
