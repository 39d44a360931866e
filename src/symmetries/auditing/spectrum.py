"""Sensitivity of a model: the largest singular value of its input Jacobian at each example.

Reference: Moskalev et al. 2023, "On genuine invariance learning without weight-tying", section 4.4.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from symmetries._validation.checks import check_choice, check_counts, check_finite, wrong_type
from symmetries._validation.placement import call_model
from symmetries.auditing.first_layer import FirstLayer, first_layer
from symmetries.auditing.inputs import Inputs, inputs_of
from symmetries.auditing.models import (
    Model,
    check_callable,
    check_examples,
    model_device,
    untouched,
)

Method = Literal["auto", "exact", "power"]
METHODS = ("auto", "exact", "power")
FEW = 64  # largest number of outputs for which "auto" is exact


def largest_singular_value(
    model: Model,
    x: Inputs,
    *,
    method: Method = "auto",
    iterations: int = 200,
    tolerance: float = 1e-4,
    batch_size: int = 512,
    seed: int = 0,
) -> Tensor:
    r"""Return sigma_max of J = df/dx at each example: the largest response to a small change.

    - "exact": J has few rows, so sigma_max^2 is the largest eigenvalue of the small matrix J J^T.
      Behind a linear first layer with weight W, J = D W and J J^T = D (W W^T) D^T, so rows are
      propagated back to that layer only.
    - "power": power iteration on J^T J by products only, for many outputs. It converges from
      below, slowly if the two largest singular values are close.

    Args:
        model: any callable from (N, ...) to (N, K).
        x: (N, ...).
        method: "auto" is exact up to 64 outputs.
        iterations: largest number of power iterations.
        tolerance: relative change of all values at which the iteration stops.
        batch_size: number of examples at once.
        seed: random seed of the initial vectors of the power iteration.

    Returns:
        (N,).

    Example:
        >>> model = nn.Linear(5, 3)
        >>> sigma = largest_singular_value(model, torch.rand(4, 5))
        >>> torch.allclose(sigma, torch.linalg.matrix_norm(model.weight, 2).expand(4))
        True
    """
    check_choice(method, METHODS, "method")
    check_callable(model)
    x = inputs_of(x, model)
    check_examples(x)
    check_finite(x, "x")
    check_counts(iterations=iterations, batch_size=batch_size)
    device = model_device(model, x)
    with untouched(model), torch.enable_grad():
        split = None
        if method != "power":
            split = first_layer(model, x[:2].to(device), (nn.Linear,))
        power = method == "power" or (method == "auto" and _outputs(model, x[:1].to(device)) > FEW)
        values = []
        for part in x.detach().split(batch_size):
            batch = part.to(device).requires_grad_()
            if power:
                values.append(_by_power(model, batch, iterations, tolerance, seed))
            else:
                values.append(_exact(model, split, batch))
    result = torch.cat(values).detach()
    check_finite(result, "Jacobian")
    return result


def _outputs(model: Model, x: Tensor) -> int:
    with torch.no_grad():
        found = call_model(model, x)
    if not isinstance(found, Tensor):
        raise wrong_type("model", "one that gives a tensor (N, K)", found, "wrap the model")
    return found.flatten(1).shape[1]


def _exact(model: Model, split: FirstLayer | None, x: Tensor) -> Tensor:
    if split is not None and isinstance(split.layer, nn.Linear) and len(split.shape) == 1:
        hidden = split.linear(x).detach().requires_grad_()
        rows = _rows(split.rest(hidden, x), hidden)
        weight = split.layer.weight.detach()
        inner = rows @ (weight @ weight.T)
        gram = inner @ rows.mT
    else:
        rows = _rows(model(x), x)
        gram = rows @ rows.mT
    check_finite(gram, "Jacobian")
    eigenvalues: Tensor = torch.linalg.eigvalsh(gram)
    return eigenvalues[:, -1].clamp_min(0).sqrt()


def _rows(output: Tensor, x: Tensor) -> Tensor:
    """Return the Jacobian (N, K, D) of outputs (N, K) with respect to inputs with D numbers each.

    It is computed row by row, so that each row stays in the cache.
    """
    output = output.flatten(1)
    rows = []
    for one in output.sum(0).unbind():
        row = torch.autograd.grad(one, x, retain_graph=True, allow_unused=True)[0]
        row = torch.zeros_like(x) if row is None else row
        rows.append(row.flatten(1))
    return torch.stack(rows, 1)


def _by_power(model: Model, x: Tensor, iterations: int, tolerance: float, seed: int) -> Tensor:
    """Run the power iteration; J v takes two reverse passes, because J^T u is linear in u."""
    with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
        output = call_model(model, x)
    u = torch.zeros_like(output, requires_grad=True)
    (back,) = torch.autograd.grad(output, x, u, create_graph=True)
    generator = torch.Generator().manual_seed(seed)
    v = _unit(torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device))
    sigma = torch.zeros(len(x), dtype=x.dtype, device=x.device)
    for _ in range(iterations):
        (forward,) = torch.autograd.grad(back, u, v, retain_graph=True)
        new = torch.linalg.vector_norm(forward.flatten(1), dim=1)
        (v,) = torch.autograd.grad(output, x, _unit(forward), retain_graph=True)
        v = _unit(v)
        change, sigma = (new - sigma).abs(), new
        if bool((change <= tolerance * sigma).all()):
            break
    return sigma


def _unit(v: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(v.flatten(1), dim=1)
    norm = norm.clamp_min(torch.finfo(v.dtype).tiny)
    return v / norm.reshape(-1, *[1] * (v.ndim - 1))
