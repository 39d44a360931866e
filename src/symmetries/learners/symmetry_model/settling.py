"""A second look at prototypes: f must find what is left to do there, and nothing if nothing is."""

import torch
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.learners.symmetry_model.config import SymmetryConfig
from symmetries.learners.symmetry_model.losses import (
    Terms,
    distance_to_identity,
    lie_inference_loss,
)
from symmetries.learners.symmetry_model.networks import LieInference
from symmetries.training import Step

NEAR = 0.25  # of the bounds: how far from the prototype f is asked again


def settled_inference_loss(
    net: LieInference, images: Tensor, step: Step, act: ImageAction, config: SymmetryConfig
) -> Terms:
    """The paper's objective, and that f undoes small transformations of prototypes.

    Random versions of an image rarely come near its prototype x_hat, and where a picture almost
    looks the same after half a turn f must jump somewhere: nothing keeps the jump away from x_hat.
    So f is asked about T_s x_hat for small random s, where the answer is known, s: the mean of
    |T_f^-1 T_s - 1|^2 is added (:func:`distance_to_identity`). x_hat = T_e^-1 T_r x is that of a
    random version and has no gradient; a prototype is moved to nowhere by this, it only becomes a
    place where f comes to rest.

    Returns:
        The terms of :func:`lie_inference_loss`, and "settling".
    """
    terms = lie_inference_loss(net, images, step, act, config)
    if not config.settling and not config.centring:
        return terms
    group, b = act.group, len(images)
    with torch.no_grad():
        random = net.bounds * (2 * step.rand(b, net.dim) - 1)
        version = act(group.exp(random), images)
    found = net(version)
    means = (found / net.bounds).mean(0)
    middle = sum(
        (means[i].square() for i, angle in enumerate(group.angles) if not angle),
        start=torch.zeros_like(means[0]),
    )
    with torch.no_grad():
        near = NEAR * net.bounds * (2 * step.rand(b, net.dim) - 1) * step.rand(b, 1)
        prototype = group.compose(group.exp(-found), group.exp(random))
        seen = act(group.compose(group.exp(near), prototype), images)
    left = group.compose(group.exp(-net(seen)), group.exp(near))
    spread = distance_to_identity(left).mean()
    loss = terms["loss"] + config.settling * spread + config.centring * middle
    return terms | {"loss": loss, "settling": spread, "centring": middle}
