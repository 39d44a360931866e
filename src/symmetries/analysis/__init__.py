"""From data, a learner or an audit to a result: what the commands and Python share."""

from symmetries.analysis.audits import audit
from symmetries.analysis.augmentation import augment
from symmetries.analysis.discovery import discover
from symmetries.analysis.fits import describe_classifier, fit
from symmetries.analysis.lie_generators import generators
from symmetries.analysis.orbits import OrbitStudy, neighbour_distance, orbit, study_orbits

__all__ = [
    "OrbitStudy",
    "audit",
    "augment",
    "describe_classifier",
    "discover",
    "fit",
    "generators",
    "neighbour_distance",
    "orbit",
    "study_orbits",
]
