"""Distributions over transformations."""

from typing import TYPE_CHECKING

from symmetries._utils.lazy import lazy_names

if TYPE_CHECKING:
    from symmetries.distributions.box import UniformBox as UniformBox
    from symmetries.distributions.categorical import (
        ConditionalCategorical as ConditionalCategorical,
    )
    from symmetries.distributions.flow import ConditionalFlow as ConditionalFlow
    from symmetries.distributions.mixture import GaussianMixture as GaussianMixture
    from symmetries.distributions.mixture import fit_mixture as fit_mixture

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
