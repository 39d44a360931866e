"""How likely each transformation is."""

from symmetries.distributions.box import UniformBox

__all__ = ["UniformBox"]
