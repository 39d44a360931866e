"""Measures of invariance and equivariance for any callable; imports no learner."""

from symmetries.auditing.accumulate import (
    DistributionInvariance,
    InvarianceMetric,
    LogitInvariance,
    SaliencySimilarity,
)
from symmetries.auditing.drift import DriftPoint, drift_curve
from symmetries.auditing.estimate import Estimate, estimate
from symmetries.auditing.gradients import integrated_gradients
from symmetries.auditing.layers import LayerError, layer_equivariance
from symmetries.auditing.metrics import (
    distribution_error,
    distribution_invariance,
    logit_error,
    logit_invariance,
    normalised_logit_error,
)
from symmetries.auditing.result import AuditResult, DriftRow, LayerRow, Measure
from symmetries.auditing.run import audit
from symmetries.auditing.saliency import map_similarity, saliency_map, saliency_similarity
from symmetries.auditing.spectrum import largest_singular_value

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
