"""Choice of the size of prototypes, which the objective leaves open."""

import torch
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.learners.symmetry_model.model import SymmetryModel
from symmetries.learners.symmetry_model.networks import LieInference

CHUNK = 2048


@torch.no_grad()
def at_mean_size(model: SymmetryModel, images: Tensor) -> float:
    """Zoom all prototypes alike, so that on average they are as large as images.

    If f(x) explains images by prototypes x_hat, then f(x) c^-1 explains them by T_c x_hat, just as
    well, for any c: which prototypes there are is a matter of the run. A zoom e^m adds m to the
    scales, exp(m I + A) = e^m exp(A), so subtracting the mean of log det T_f(x) / 2 from f leaves
    0. Likelihoods of prototypes (``InvVAE.prototype_bound``) can be compared between symmetry
    models after that only: larger pictures have more edges, and less likely ones.

    To be called between the two stages, as p(eta | x_hat) is learned for the prototypes it has.

    Args:
        model: is changed; its group has a zoom or both scales, otherwise nothing happens.
        images: (N, C, H, W), those it was fitted to.

    Returns:
        m, the mean logarithm of how much smaller than images prototypes were.

    """
    net, columns = model.inference, model.group.zoom_columns
    if not columns or not isinstance(net, LieInference):
        return 0.0
    if net.tanh:
        remedy = "with squash='scale' a zoom can be added to f"
        raise invalid("model", "one whose sizes are not squashed", "squash='tanh'", remedy)
    at = list(columns)
    parts = [net.positions(part.to(model.device))[:, at].mean(1) for part in images.split(CHUNK)]
    mean = torch.cat(parts).mean()
    net.head.bias[at] -= mean / net.bounds[at]
    return float(mean)
