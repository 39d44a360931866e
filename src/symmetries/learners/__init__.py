"""Learners of symmetries: one idea each, and no learner imports another."""

from typing import TYPE_CHECKING

from symmetries._utils.lazy import lazy_names

if TYPE_CHECKING:
    from symmetries.learners.invariant_network import InvariantNetwork as InvariantNetwork
    from symmetries.learners.invariant_network import (
        InvariantNetworkConfig as InvariantNetworkConfig,
    )
    from symmetries.learners.invariant_vae import InvariantVAE as InvariantVAE
    from symmetries.learners.invariant_vae import InvariantVAEConfig as InvariantVAEConfig
    from symmetries.learners.invariant_weights import Evaluation as Evaluation
    from symmetries.learners.invariant_weights import NaturalConfig as NaturalConfig
    from symmetries.learners.invariant_weights import augerino_loss as augerino_loss
    from symmetries.learners.invariant_weights import elbo_loss as elbo_loss
    from symmetries.learners.invariant_weights import evaluate as evaluate
    from symmetries.learners.invariant_weights import fit_natural as fit_natural
    from symmetries.learners.invariant_weights import refitted_elbo as refitted_elbo
    from symmetries.learners.invariant_weights import search_widths as search_widths
    from symmetries.learners.invariant_weights import width_interval as width_interval
    from symmetries.learners.orbit_posterior import OrbitConfig as OrbitConfig
    from symmetries.learners.orbit_posterior import OrbitPosterior as OrbitPosterior
    from symmetries.learners.penalties import ConstrainedWeight as ConstrainedWeight
    from symmetries.learners.penalties import orbit_penalty as orbit_penalty
    from symmetries.learners.penalties import pair_penalty as pair_penalty
    from symmetries.learners.penalties import regularised_loss as regularised_loss
    from symmetries.learners.relaxed import relaxed_loss as relaxed_loss
    from symmetries.learners.symmetry_model import SymmetryConfig as SymmetryConfig
    from symmetries.learners.symmetry_model import SymmetryModel as SymmetryModel
    from symmetries.learners.vae import VAE as VAE
    from symmetries.learners.vae import InvVAE as InvVAE
    from symmetries.learners.vae import VAEConfig as VAEConfig

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
