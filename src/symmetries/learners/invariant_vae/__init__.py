"""An invariant generative model learned in one piece (Allingham et al. 2022)."""

from symmetries.learners.invariant_vae.config import InvariantVAEConfig
from symmetries.learners.invariant_vae.model import InvariantVAE

__all__ = ["InvariantVAE", "InvariantVAEConfig"]
