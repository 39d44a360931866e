r"""Learn how invariant a task is with the user's own network, from the training set alone.

The network is averaged over transformations of its input, f(x) = mean over s of g(T_s x), with T_s
from a box of half-widths w. The widths maximise the Laplace approximation of the log evidence

.. math:: \log p(D | w) \approx \sum_n \log p(y_n | f_n) - \tfrac12 \theta^T \Delta\,\theta
          - \tfrac12 \log\det\left(I + \Delta^{-1/2} \sum_n J_n^T \Lambda_n J_n\,
          \Delta^{-1/2}\right)

(MacKay 1992; Immer et al. 2022 for invariances of deep networks), through a bound that is a sum
over examples: :mod:`symmetries.learners.invariant_network.posterior`. Wider averages make J_n, the
Jacobian of the average, smaller in most directions, which the log-determinant rewards; labels that
change along the orbit are explained less well, which the likelihood punishes.

Labels say how alike f must be along an orbit, not how far images were moved.
"""

from symmetries.learners.invariant_network.comparison import (
    LayerChoice,
    NetworkComparison,
    choose_layers,
    compare_networks,
)
from symmetries.learners.invariant_network.config import EvidenceSteps, InvariantNetworkConfig
from symmetries.learners.invariant_network.evidence import LaplaceEvidence
from symmetries.learners.invariant_network.model import InvariantNetwork
from symmetries.learners.invariant_network.posterior import Posterior, posterior
from symmetries.learners.invariant_network.profile import WidthProfile
from symmetries.learners.invariant_network.summary import NetworkSummary

__all__ = [
    "EvidenceSteps",
    "InvariantNetwork",
    "InvariantNetworkConfig",
    "LaplaceEvidence",
    "LayerChoice",
    "NetworkComparison",
    "NetworkSummary",
    "Posterior",
    "WidthProfile",
    "choose_layers",
    "compare_networks",
    "posterior",
]
