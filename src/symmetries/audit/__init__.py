"""How invariant is any f(x)? Measures for any callable; knows no learner."""

from symmetries.audit.accumulate import (
    DistributionInvariance,
    InvarianceMetric,
    LogitInvariance,
    SaliencySimilarity,
)
from symmetries.audit.drift import DriftPoint, drift_curve
from symmetries.audit.estimate import Estimate, estimate
from symmetries.audit.gradients import integrated_gradients
from symmetries.audit.layers import LayerError, layer_equivariance
from symmetries.audit.metrics import (
    distribution_error,
    distribution_invariance,
    logit_error,
    logit_invariance,
    normalised_logit_error,
)
from symmetries.audit.result import AuditResult, DriftRow, LayerRow, Measure
from symmetries.audit.run import audit
from symmetries.audit.saliency import map_similarity, saliency_map, saliency_similarity
from symmetries.audit.spectrum import largest_singular_value

__all__ = [
    "AuditResult",
    "DistributionInvariance",
    "DriftPoint",
    "DriftRow",
    "Estimate",
    "InvarianceMetric",
    "LayerError",
    "LayerRow",
    "LogitInvariance",
    "Measure",
    "SaliencySimilarity",
    "audit",
    "distribution_error",
    "distribution_invariance",
    "drift_curve",
    "estimate",
    "integrated_gradients",
    "largest_singular_value",
    "layer_equivariance",
    "logit_error",
    "logit_invariance",
    "map_similarity",
    "normalised_logit_error",
    "saliency_map",
    "saliency_similarity",
]
