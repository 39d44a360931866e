r"""Classifiers whose layers learn how equivariant to be.

.. math:: \min_{\theta,\omega'}\ \mathbb E[-\log p_\theta(y \mid x, \omega')] + \lambda\|\omega'\|^2

The cross-entropy alone never asks for a constraint; the second term does. It is the MAP estimate
under the prior N(omega' | 0, I / (2 lambda)). Reference: van der Ouderaa, Romero, van der Wilk
2022, sections 5.2 and 5.3. The networks are in :mod:`symmetries.nn.relaxed_networks`.
"""

from typing import TYPE_CHECKING

from symmetries._utils.lazy import lazy_names

if TYPE_CHECKING:
    from symmetries.learners.relaxed.config import RelaxedConfig as RelaxedConfig
    from symmetries.learners.relaxed.model import RelaxedEquivariance as RelaxedEquivariance
    from symmetries.learners.relaxed.model import RelaxedSummary as RelaxedSummary
    from symmetries.learners.relaxed.training import accuracy as accuracy
    from symmetries.learners.relaxed.training import fit_relaxed as fit_relaxed
    from symmetries.learners.relaxed.training import relaxed_loss as relaxed_loss
    from symmetries.learners.relaxed.training import train_jobs as train_jobs

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
