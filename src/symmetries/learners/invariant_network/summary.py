"""Summary of a fitted invariant network."""

from dataclasses import dataclass

from symmetries.learners.base import Summary


@dataclass(frozen=True)
class NetworkSummary(Summary):
    """Learned invariance of a network, with its evidence and its score.

    Args:
        images: number of images that were looked at.
        half_widths: by parameter, in the units a person reads.
        units: of the half-widths: "degrees", "pixels", "factor".
        log_evidence: lower bound on the Laplace log evidence per example, if these are the
            training images.
        log_likelihood: per example, at the weights.
        score: accuracy; for values the mean square error.
        precisions: of the prior, by layer.
        effective_parameters: how many of the weights the images determine, by layer.
    """

    images: int
    half_widths: dict[str, float]
    units: dict[str, str]
    log_evidence: float
    log_likelihood: float
    score: float
    precisions: dict[str, float]
    effective_parameters: dict[str, float]
