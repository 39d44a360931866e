"""The symmetry-aware generative model (Allingham et al. 2024).

Every observation is a prototype moved by a random transformation, x = T_eta(x_hat). Two networks
are learned from images alone: f(x), which finds eta, and p(eta | x_hat), which says how likely each
transformation of a prototype is.
"""

from symmetries.learners.symmetry_model.config import SymmetryConfig
from symmetries.learners.symmetry_model.model import SymmetryModel

__all__ = ["SymmetryConfig", "SymmetryModel"]
