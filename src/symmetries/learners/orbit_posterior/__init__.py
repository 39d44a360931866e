"""The orbit posterior: which poses of a picture occur in the data.

Moves r are drawn from a known law pi, a network sees T_r x and learns q(r | T_r x); at the picture
itself, q / pi is the density of its poses along its orbit.
"""

from symmetries.learners.orbit_posterior.config import (
    Network,
    OrbitConfig,
    Reading,
    Training,
    Views,
)
from symmetries.learners.orbit_posterior.findings import OrbitFindings, PictureFinding
from symmetries.learners.orbit_posterior.model import OrbitPosterior
from symmetries.learners.orbit_posterior.summary import OrbitSummary, ParameterSummary

__all__ = [
    "Network",
    "OrbitConfig",
    "OrbitFindings",
    "OrbitPosterior",
    "OrbitSummary",
    "ParameterSummary",
    "PictureFinding",
    "Reading",
    "Training",
    "Views",
]
