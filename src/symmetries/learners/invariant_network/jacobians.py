"""Derivatives of the outputs of an averaged network with respect to its weights."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from symmetries._validation.checks import invalid
from symmetries.learners.invariant_network.convolutions import convolutions_as_products
from symmetries.nn.orbit_average import weighted_mean

Weights = dict[str, Tensor]
TORCH_ERRORS = (RuntimeError, NotImplementedError)
ONE_BY_ONE = "_symmetries_one_by_one"  # set on a module whose examples are differentiated in turn


def trained(module: nn.Module) -> Weights:
    """The parameters of a module that are trained, by name, detached; a shared one stands once."""
    return {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}


def averaged(
    module: nn.Module, weights: Mapping[str, Tensor], views: Tensor, shares: Tensor | None = None
) -> Tensor:
    """Return the outputs (N, K) for given weights, averaged over views (N, S, C, H, W).

    Shares (S, K) tell how much each view counts in each output; None is the mean.
    """
    n, s = views.shape[:2]
    outputs: Tensor = functional_call(module, dict(weights), (views.flatten(0, 1),))
    return weighted_mean(outputs.unflatten(0, (n, s)), shares)


def jacobian_rows(
    module: nn.Module,
    weights: Weights,
    views: Tensor,
    whiten: Callable[[Tensor, Tensor], Tensor],
    mixed: Tensor | None = None,
    shares: Tensor | None = None,
) -> Tensor:
    r"""Return the rows L_n^T J_n (N K, P) of examples, one after the other.

    J_n is the Jacobian of the *average*, (1/S) sum_s dg(T_s x_n)/dtheta. Its outer product has the
    cross terms of all pairs of transformations; a curvature summed over transformed examples, as
    that of augmented data, has only those of a transformation with itself, and is too small by up
    to a factor of S where the network answers alike.

    Args:
        module: in eval mode.
        weights: with respect to which it is differentiated.
        views: (N, S, C, H, W).
        whiten: maps outputs (K,) and a change (K,) of them to L^T change.
        mixed: mixtures E_n (N, k, K) of the rows, to return E_n L_n^T J_n (N k, P) in their place.
            Fewer rows cost less, and with random signs over sqrt(k) they have the same expected
            outer product.
        shares: how much each view counts in each output (S, K); None is the mean.
    """

    def of_one(parameters: Weights, mine: Tensor, mixture: Tensor | None) -> Tensor:
        outputs = averaged(module, parameters, mine[None], shares)[0]
        rows = whiten(outputs.detach(), outputs)
        return rows if mixture is None else mixture @ rows

    axes = (None, 0, None if mixed is None else 0)
    with plain_attention(), convolutions_as_products(views.device):
        if not getattr(module, ONE_BY_ONE, False):
            try:
                found = vmap(jacrev(of_one), axes, randomness="error")(weights, views, mixed)
                parts = [part.reshape(*part.shape[:2], -1) for part in found.values()]
                return torch.cat(parts, 2).flatten(0, 1)
            except TORCH_ERRORS as error:
                if type(error) not in TORCH_ERRORS:  # such as one of memory, which explains itself
                    raise
                problem = error
                rows = _one_by_one(of_one, weights, views, mixed, problem)
            warnings.warn(_slow(problem), RuntimeWarning, stacklevel=2)
            setattr(module, ONE_BY_ONE, True)
            return rows
        return _one_by_one(of_one, weights, views, mixed)


def _one_by_one(
    of_one: Callable[[Weights, Tensor, Tensor | None], Tensor],
    weights: Weights,
    views: Tensor,
    mixed: Tensor | None,
    problem: Exception | None = None,
) -> Tensor:
    """Return the same rows by one backward pass for each, for networks that vmap cannot follow."""
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    found = []
    for n in range(len(views)):
        try:
            with torch.enable_grad():
                rows = of_one(leaves, views[n], None if mixed is None else mixed[n])
                found += [pulled_back(row, leaves, torch.ones_like(row)).detach() for row in rows]
        except TORCH_ERRORS as error:
            raise not_differentiable(error) from problem or error
    return torch.stack(found)


def _slow(error: Exception) -> str:
    said = str(error).strip().partition("\n")[0]
    return (
        f"module: torch.func cannot vectorise it ({said}); its curvature is computed by one "
        "backward pass for each row, which is slow: avoid changes in place and branches on values"
    )


def pulled_back(outputs: Tensor, weights: Weights, cotangents: Tensor) -> Tensor:
    """Return sum_n J_n^T c_n (P,) for cotangents c (N, K); it can be differentiated again.

    In reverse mode: with attention and a layer norm, differentiating a forward-mode derivative with
    respect to the input gave a wrong slope without a warning (torch 2.13).

    Args:
        outputs: (N, K), computed from the weights.
        weights: tensors that require gradients.
        cotangents: (N, K).
    """
    parts = torch.autograd.grad(
        outputs, list(weights.values()), cotangents, create_graph=True, materialize_grads=True
    )
    return torch.cat([part.flatten() for part in parts])


@contextmanager
def plain_attention() -> Iterator[None]:
    """Compute attention by plain products: the fused forms have no second derivatives."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def not_differentiable(error: Exception) -> Exception:
    """Return the error of a module whose derivatives by example torch.func cannot compute."""
    if type(error) not in TORCH_ERRORS:  # such as one of memory, which explains itself
        return error
    got = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    remedy = "avoid changes in place of weights, detached parts and noise in eval mode"
    return invalid("module", "a network that torch can differentiate", got, remedy)
