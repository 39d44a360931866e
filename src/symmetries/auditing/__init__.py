"""Measures of invariance and equivariance for any callable; imports no learner."""

from symmetries.auditing.contributions import layer_contributions
from symmetries.auditing.drift import drift_curve
from symmetries.auditing.energies import audit_energies
from symmetries.auditing.estimate import estimate
from symmetries.auditing.gradients import integrated_gradients
from symmetries.auditing.layers import layer_equivariance
from symmetries.auditing.lie import lie_derivative
from symmetries.auditing.metrics import (
    distribution_error,
    distribution_invariance,
    logit_error,
    logit_invariance,
    normalised_logit_error,
)
from symmetries.auditing.run import audit_model
from symmetries.auditing.saliency import map_similarity, saliency_map, saliency_similarity
from symmetries.auditing.spectrum import largest_singular_value

# The types that the measures return; their home is symmetries.results.
from symmetries.results import AuditResult as AuditResult
from symmetries.results import DriftPoint as DriftPoint
from symmetries.results import Estimate as Estimate
from symmetries.results import LayerError as LayerError
from symmetries.results import LieDerivative as LieDerivative

__all__ = [
    "audit_energies",
    "audit_model",
    "distribution_error",
    "distribution_invariance",
    "drift_curve",
    "estimate",
    "integrated_gradients",
    "largest_singular_value",
    "layer_contributions",
    "layer_equivariance",
    "lie_derivative",
    "logit_error",
    "logit_invariance",
    "map_similarity",
    "normalised_logit_error",
    "saliency_map",
    "saliency_similarity",
]
