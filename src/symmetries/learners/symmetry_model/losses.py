"""The objectives of the two stages (Allingham et al. 2024, algorithm 1).

The order of composition. Let x_i = T_{r_i} x be two random versions of x, and e_i = f(x_i). Both
have one prototype if T_{e_1}^-1 T_{r_1} x = T_{e_2}^-1 T_{r_2} x, that is if

    x = T_{r_2}^-1 T_{e_2} T_{e_1}^-1 T_{r_1} x.

The right-hand side is composed in the group and x is resampled once. The one-sided form has x
itself as its second version, r_2 = 0.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.distributions.flow import ConditionalFlow
from symmetries.groups.base import Group, map_element
from symmetries.learners.symmetry_model.config import SymmetryConfig
from symmetries.learners.symmetry_model.moments import off_centre
from symmetries.learners.symmetry_model.moves import (
    blurred,
    flat,
    from_prototypes,
    jittered,
    moved_units,
    positions_of_versions,
    undone_moves,
)
from symmetries.learners.symmetry_model.networks import FiniteInference, Generative, LieInference
from symmetries.learners.symmetry_model.quarter_turns import (
    distance_to_symmetry,
    has_turns,
    turns_of,
)
from symmetries.training import Step

Terms = dict[str, Tensor]


def lie_inference_loss(
    net: LieInference, images: Tensor, step: Step, act: ImageAction, config: SymmetryConfig
) -> Terms:
    """Return prototypes of random versions of an image must agree (equations 6, 7, 23, 24).

    The comparison of pictures has local minima: a digit turned by 180 degrees fits better than one
    turned by 90. So training may begin with a comparison of transformations, ``alignment``, which
    fades out: r_i^-1 e_i says where x itself is, seen through its i-th version, and must not
    depend on i. The gap r_2^-1 e_2 e_1^-1 r_1 is compared with the identity: it stays the same if
    all prototypes are replaced by others, e_i c, so that this term prefers none. Nobody can tell
    how far a square was turned but for a quarter turn; with ``turns`` the gap may also be a turn
    that leaves the picture as it is, see :func:`distance_to_symmetry`.

    Args:
        net: f.
        images: (B, C, H, W).
        step: gives random numbers and the progress of training.
        act: the transformations; ``net.bounds`` say how far random ones go.
        config: which form of the loss.

    Returns:
        "loss", "agreement" (the self-supervised part), "alignment", "invertibility", "centring",
        "idempotence".
    """
    group, objective, b = act.group, config.objective, len(images)
    k = objective.samples
    images = blurred(jittered(images, step, act, config), step, config)
    with torch.no_grad():
        if objective.loss == "symmetric":
            random = net.bounds * (2 * step.rand(b, 2 * k, net.dim) - 1)
        else:  # the image itself takes the place of its second versions
            random = net.bounds * (2 * step.rand(b, k, net.dim) - 1)
            random = F.pad(random, (0, 0, 0, 1))
        r, r_inverse = group.exp_pair(random)
        versions = act.orbit(r, images)
    seen = versions.flatten(0, 1)
    noise = step.randn(len(seen), net.dim) if config.network.sampled else None
    e, e_inverse = net.pair(net.positions(seen, noise).unflatten(0, random.shape[:2]))
    (e1, e2), (e1_inverse, _) = _pairs(e, k), _pairs(e_inverse, k)
    (r1, _), (_, r2_inverse) = _pairs(r, k), _pairs(r_inverse, k)
    gap = group.compose(r2_inverse, e2, e1_inverse, r1)
    again = act.orbit(gap, images)
    agreement = F.mse_loss(again, images[:, None].expand_as(again))
    terms = {"loss": agreement, "agreement": agreement}
    if objective.alignment:
        spread = _spread(group, gap, images, act.fill, forgiving=objective.turns).mean()
        weight = objective.alignment * (1 - step.progress)
        terms |= {"loss": terms["loss"] + weight * spread, "alignment": spread}
    if objective.invertibility:
        x1 = versions[:, :k].flatten(0, 1)
        there, back = flat(e1_inverse), flat(e1)
        if objective.invertibility_first == "forward":
            there, back = back, there
        lost = F.mse_loss(act(back, act(there, x1)), x1)
        terms |= {"loss": terms["loss"] + objective.invertibility * lost, "invertibility": lost}
    if objective.centring and group.positional:
        to_prototype = group.compose(e1_inverse, r1)
        sized = bool(group.zoom_columns)
        off = off_centre(images, to_prototype, act.fill, sized=sized).mean()
        terms |= {"loss": terms["loss"] + objective.centring * off, "centring": off}
    fixed = objective.fixed_points
    if fixed.idempotence:
        with torch.no_grad():
            to_prototype = map_element(lambda part: part[:, 0], group.compose(e1_inverse, r1))
        left = idempotence_loss(net, images, step, act, to_prototype, config)
        start = fixed.idempotence_start  # prototypes must be there first
        weight = fixed.idempotence * ((step.progress - start) / (1 - start)).clamp_min(0)
        terms |= {"loss": terms["loss"] + weight * left, "idempotence": left}
    return terms


def finite_inference_loss(
    net: FiniteInference, images: Tensor, step: Step, act: ImageAction, config: SymmetryConfig
) -> Terms:
    """Loss of the first stage for a finite group: the expectation over elements is exact.

    With d_h = |T_h x - x|^2 and q_i = q(g | x_i), the loss is sum_h P(h) d_h, where P is the law
    of r_2^-1 g_2 g_1^-1 r_1: P(h) = sum_g q_1(g) q_2(r_2 h r_1^-1 g).
    """
    group = act.group
    images = blurred(jittered(images, step, act, config), step, config)
    b, k = len(images), config.objective.samples
    random = (step.rand(b, 2 * k) * group.order).long()
    if config.objective.loss == "one-sided":
        random = torch.cat((random[:, :k], torch.zeros_like(random[:, k:])), 1)
    with torch.no_grad():
        moved = act.orbit(random, images)
        every = group.elements(images.device)
        distance = (act.orbit(every, images) - images[:, None]).square().mean((2, 3, 4))  # (B, G)
    q = net(moved.flatten(0, 1)).exp().unflatten(0, (b, 2 * k))
    (q1, q2), (r1, r2) = q.chunk(2, 1), random.chunk(2, 1)  # (B, K, G), (B, K)
    h, g = every[:, None], every[None, :]
    r1, r2 = (r[..., None, None] for r in (r1, r2))
    partner = group.compose(r2, h, group.inverse(r1), g)  # (B, K, G, G)
    joint = q1[:, :, None] * q2[:, :, None].expand_as(partner).gather(3, partner)
    agreement = (joint.sum(3) * distance[:, None]).sum(2).mean()
    return {"loss": agreement, "agreement": agreement}


def generative_loss(
    net: Generative,
    images: Tensor,
    step: Step,
    inference: LieInference | FiniteInference,
    act: ImageAction,
    config: SymmetryConfig,
) -> Terms:
    """Return -log p(eta | x_hat') with the prototype x_hat' of an independently moved image.

    As f is not perfect, x_hat' = T_{f(T_r x)}^-1 T_r x is not quite x_hat, and eta = f(x) would not
    quite lead from it to x: p would learn the scatter of f as well. The element that does is known,
    r^-1 f(T_r x), so where the family is closed eta is its logarithm; otherwise f(x).

    x_hat' is resampled twice, to T_r x and from there: composed to one resampling it would be x
    moved by about -eta, and how a pixel grid looks after that tells eta. What is left of the grid
    of x, such as steps along edges, ``prototype_noise`` hides.

    For a finite group the expectation over q(g | x) is summed.
    """
    b, k = len(images), config.objective.samples
    with torch.no_grad():
        if isinstance(inference, FiniteInference):
            target = inference(images).exp().repeat_interleave(k, 0)
            random = (step.rand(b, k) * act.group.order).long()
            versions = act.orbit(random, images).flatten(0, 1)
            found = inference(versions).argmax(-1, keepdim=True)
        else:
            # The image itself, moved by nothing, goes first: one call of the network for all.
            unit = step.rand(b, k, inference.dim)
            undone = undone_moves(act.group, inference.bounds, unit)
            places, versions = positions_of_versions(inference, act, undone, images)
            target, places = inference.parameters_at(places[:, 0]), places[:, 1:]
            leads = from_prototypes(inference, map_element(lambda e: e[:, 1:], undone), places)
            found = inference.element_at(places.flatten(0, 1)[:, None])
            target = target[:, None].expand(b, k, -1)
            if act.group.planar and act.group.closed:
                exact = act.group.log(leads)
                target = torch.where(torch.isfinite(exact), exact, target)
            target = target.flatten(0, 1)
    noise = None
    if config.objective.prototype_noise and net.training:
        noise = config.objective.prototype_noise * step.randn(b, k, *images.shape[1:]).flatten(0, 1)
    context = moved_units(net.features, act, found, versions, noise)
    flow = isinstance(net.distribution, ConditionalFlow)  # whose densities take rounded ones
    if not flow:
        context = context.to(images.dtype)
    if isinstance(inference, FiniteInference):
        log_p = (target * net.distribution.log_probs(context)).sum(-1)  # type: ignore[operator]
    else:
        log_p = net.distribution.log_prob(target, context)
    nll = -log_p.mean()
    return {"loss": nll, "nll": nll}


def _spread(
    group: Group[Any],
    gap: Any,  # noqa: ANN401 - elements differ by group
    images: Tensor,
    fill: float,
    *,
    forgiving: bool,
) -> Tensor:
    """Return the distance of gaps (B, K) from the identity, or of their effect on pictures."""
    if not (forgiving and has_turns(group)):
        return group.distance_to_identity(gap)
    with torch.no_grad():
        turns = turns_of(images, fill, anywhere={"shift_x", "shift_y"} <= set(group.names))
    return distance_to_symmetry(group, gap, turns)


def _pairs(element: Any, k: int) -> tuple[Any, Any]:  # noqa: ANN401 - elements differ by group
    """Split elements (B, 2 K) into two of (B, K); the last one of (B, K + 1) is repeated."""
    second = map_element(lambda e: e[:, k:].expand(-1, k, *e.shape[2:]), element)
    return map_element(lambda e: e[:, :k], element), second


IDEMPOTENCE_UNIT = 0.1  # weight of an error of one bound, in squares; half a turn is an error of 1
LEAST_MISS = 0.01  # share of the bounds below which the norm is smoothed


def idempotence_loss(
    net: LieInference,
    images: Tensor,
    step: Step,
    act: ImageAction,
    to_prototype: Any,  # noqa: ANN401 - elements differ by group
    config: SymmetryConfig,
) -> Tensor:
    """Return how well f finds small transformations s of prototypes: mean d(f(T_s x_hat), s).

    Random versions of an image rarely come near its prototype x_hat, and where a picture almost
    looks the same after half a turn f must jump somewhere: nothing keeps the jump away from x_hat.
    So f is evaluated on T_s x_hat, where the right output is known: s. This moves no prototype,
    which has no gradient here; it only becomes a fixed point of f.

    The distance d of parameters (shifts as f predicts them: where the picture ends) is
    (1 - cos) / 2 for angles and a tenth of the square, in units of the bounds, for others. (A
    distance of matrices would prefer an f that shrinks prototypes as long as their angles are
    uncertain.) As ``idempotence_form="norm"`` it is the norm of all misses in units of the bounds:
    how large the next eta is.

    Args:
        net: f.
        images: x (B, C, H, W).
        step: gives random numbers.
        act: the transformations.
        to_prototype: elements (B,) that turn x into x_hat.
        config: which distance, and how large s may be.
    """
    fixed = config.objective.fixed_points
    group, norm = act.group, fixed.idempotence_form == "norm"
    with torch.no_grad():
        size = fixed.idempotence_range * net.bounds * step.rand(len(images), 1)
        near = size * (2 * step.rand(len(images), net.dim) - 1)
        moved = group.exp(near)
        seen = act(group.compose(moved, to_prototype), images)
        answer = net.positions_of(near, moved)
    miss = net.positions(seen) - answer
    terms = []
    for part, angle, bound in zip(miss.unbind(-1), group.angles, net.bounds, strict=True):
        chord = 2 * torch.sin(part / 2) if angle else part
        unit = 1 / bound if norm else 0.5 if angle else IDEMPOTENCE_UNIT**0.5 / bound
        terms.append((unit * chord).square())
    total = torch.stack(terms).sum(0)
    return ((total + LEAST_MISS**2).sqrt() - LEAST_MISS if norm else total).mean()
