r"""Learn how much invariance a task has, from the training set alone.

A model averages features over transformations from a box with half-widths eta and has a Gaussian
posterior q over its last layer. The widths maximise a lower bound on the log marginal likelihood,
per example

.. math:: \frac1N \log p(D | \eta) \ge E_{q, T}\left[\log p(y | \bar f(x))\right]
          - \frac1N KL(q || p), \qquad \bar f(x) = \frac1S \sum_s W_2\,\phi(W_1 T_s x)

(van der Ouderaa and van der Wilk 2022, equation 9; logits are averaged over transformations, as in
their Appendix A). Several models that differ in numbers only are trained as one: every tensor has
a leading axis of R runs, losses are summed over it, and all runs share their random numbers, so
that a run gives the same numbers alone as among others.
"""

from symmetries.learners.invariant_weights.config import InvariantWeightsConfig, NaturalConfig
from symmetries.learners.invariant_weights.evaluation import Evaluation, evaluate
from symmetries.learners.invariant_weights.model import InvarianceSummary, InvariantWeights
from symmetries.learners.invariant_weights.natural import fit_natural, width_rows
from symmetries.learners.invariant_weights.objectives import (
    augerino_loss,
    elbo_loss,
    images_of,
    log_likelihood,
)
from symmetries.learners.invariant_weights.search import search_widths
from symmetries.learners.invariant_weights.width_profile import refitted_elbo, width_interval

__all__ = [
    "Evaluation",
    "InvarianceSummary",
    "InvariantWeights",
    "InvariantWeightsConfig",
    "NaturalConfig",
    "augerino_loss",
    "elbo_loss",
    "evaluate",
    "fit_natural",
    "images_of",
    "log_likelihood",
    "refitted_elbo",
    "search_widths",
    "width_interval",
    "width_rows",
]
