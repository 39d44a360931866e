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

from typing import TYPE_CHECKING

from symmetries._utils.lazy import lazy_names

if TYPE_CHECKING:
    from symmetries.learners.invariant_weights.config import (
        InvariantWeightsConfig as InvariantWeightsConfig,
    )
    from symmetries.learners.invariant_weights.config import NaturalConfig as NaturalConfig
    from symmetries.learners.invariant_weights.evaluation import Evaluation as Evaluation
    from symmetries.learners.invariant_weights.evaluation import evaluate as evaluate
    from symmetries.learners.invariant_weights.model import InvarianceSummary as InvarianceSummary
    from symmetries.learners.invariant_weights.model import InvariantWeights as InvariantWeights
    from symmetries.learners.invariant_weights.natural import fit_natural as fit_natural
    from symmetries.learners.invariant_weights.natural import width_rows as width_rows
    from symmetries.learners.invariant_weights.objectives import augerino_loss as augerino_loss
    from symmetries.learners.invariant_weights.objectives import elbo_loss as elbo_loss
    from symmetries.learners.invariant_weights.objectives import images_of as images_of
    from symmetries.learners.invariant_weights.objectives import log_likelihood as log_likelihood
    from symmetries.learners.invariant_weights.search import search_widths as search_widths
    from symmetries.learners.invariant_weights.width_profile import refitted_elbo as refitted_elbo
    from symmetries.learners.invariant_weights.width_profile import width_interval as width_interval

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
