r"""Classifiers whose layers learn how equivariant to be.

.. math:: \min_{\theta,\omega'}\ \mathbb E[-\log p_\theta(y \mid x, \omega')] + \lambda\|\omega'\|^2

The cross-entropy alone never asks for a constraint; the second term does. It is the MAP estimate
under the prior N(omega' | 0, I / (2 lambda)). Reference: van der Ouderaa, Romero, van der Wilk
2022, sections 5.2 and 5.3. The networks are in :mod:`symmetries.nn.relaxed_networks`.
"""

from symmetries.learners.relaxed.config import RelaxedConfig
from symmetries.learners.relaxed.model import RelaxedEquivariance, RelaxedSummary
from symmetries.learners.relaxed.training import (
    accuracy,
    fit,
    relaxed_loss,
    train_jobs,
)

__all__ = [
    "RelaxedConfig",
    "RelaxedEquivariance",
    "RelaxedSummary",
    "accuracy",
    "fit",
    "relaxed_loss",
    "train_jobs",
]
