"""Adam for all parameters at once, and on and below the diagonal of triangular ones."""

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW

from symmetries.nn.variational import VariationalLinear
from symmetries.ops.adam import FusedAdam, FusedAdamW
from symmetries.ops.triangular_adam import TriangularAdam, adam_class

from .checking import Case, Errors, relative

HOOKS = ("with a hook", "with a later hook")


def cases() -> Iterator[Case]:
    """All cases of this file."""
    for kind, plain in ((FusedAdam, Adam), (FusedAdamW, AdamW)):
        yield Case("adam", kind.__name__, partial(steps, kind, plain), {"value": 2e-5}, True)
    for size, compiled in ((5, False), (130, True)):
        errors, name = partial(triangles, size), f"{size}x{size}"
        yield Case("triangular_adam", name, errors, {"value": 1e-4}, compiled)
    for size, batch, compiled in ((20, 5, False), (200, 150, True)):
        for uses in ("once", "twice", "and its kl", *HOOKS, "frozen", "looked at"):
            errors, name = partial(products, uses, size, batch), f"product {size}x{batch}, {uses}"
            # A gradient near 0 is moved by its sign.
            operation = "full_moments" if uses == "frozen" else "triangular_adam"
            yield Case(operation, name, errors, {"value": 2e-4}, compiled)


def steps(kind: type[Adam], plain: type[Adam], device: torch.device) -> Errors:
    """Three clipped steps of more tensors than a table holds."""
    sizes = [1_000_003, 5, 2048, 1, *[777] * 90]
    ours = [torch.randn(n, device=device, requires_grad=True) for n in sizes]
    options = {"decoupled": kind is FusedAdamW, "capturable": True, "clips": True}
    if adam_class(ours, **options) is not kind:
        raise ValueError(f"{kind.__name__} is not chosen")
    exact = [p.detach().clone().requires_grad_() for p in ours]
    settings = {"weight_decay": 0.1, "fused": True, "capturable": True}
    lr = torch.tensor(0.01, device=device)
    fast = kind([{"params": ours, "lr": lr, "clip": True}], **settings)
    slow = plain(exact, lr=0.01, **settings)
    fast.largest = 3.0
    for _ in range(3):
        for p, q in zip(ours, exact, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        nn.utils.clip_grad_norm_(exact, fast.largest)
        if fast.step(lambda: ours[0].grad.sum()) is None:
            raise ValueError("a step by a closure has no loss")
        slow.step()
    return {"value": max(map(relative, ours, exact))}


def triangles(size: int, device: torch.device) -> Errors:
    """Against torch's Adam on a matrix whose gradient is zero elsewhere."""
    start = torch.randn(2, 3, size, size).tril(-1).to(device)
    ends: list[list[Tensor]] = []
    for kind in (TriangularAdam, Adam):
        weight = nn.Parameter(start.clone())
        weight.triangular = True
        options = {"decoupled": False, "capturable": False, "clips": False}
        if adam_class([weight], **options) is not TriangularAdam:
            raise ValueError("triangular Adam is not used")
        other = nn.Parameter(torch.ones(3, device=device))
        optimizer = kind([weight, other], lr=0.1)
        for turn in range(4):

            def gradients(turn=turn, optimizer=optimizer, weight=weight, other=other):
                optimizer.zero_grad()
                loss = ((weight - turn).tril(-1) ** 2).sum() + (other - turn).square().sum()
                loss.backward()
                return loss

            if turn % 2 and optimizer.step(gradients) is None:
                raise ValueError("a step by a closure has no loss")
            if turn % 2 == 0:
                gradients()
                optimizer.step()
        state = optimizer.state_dict()["state"]
        ends.append([weight, other, *(state[0][k] for k in ("step", "exp_avg", "exp_avg_sq"))])
    return {"value": max(relative(a.cpu(), b.cpu()) for a, b in zip(*ends, strict=True))}


def _halve(parameter: Tensor) -> None:
    parameter.grad.mul_(0.5)


def products(uses: str, size: int, batch: int, device: torch.device) -> Errors:
    """Adam by gradients that are never written, against torch's; a second use, and a given one."""
    phi = torch.randn(2, 2, batch, size).to(device)
    ends: list[list[Tensor]] = []
    for kind in (TriangularAdam, Adam):
        layer = VariationalLinear(size, 2, runs=2, bias=False, scale=0.3).to(device)
        layer = layer.double() if kind is Adam else layer
        optimizer = kind(layer.parameters(), lr=torch.tensor(0.01, device=device))
        if uses == "with a hook":
            layer.lower.register_hook(lambda slope: 0.5 * slope)
        if uses == "with a later hook":
            layer.lower.register_post_accumulate_grad_hook(_halve)
        layer.lower.requires_grad_(uses != "frozen")
        for turn in phi.to(layer.mean)[: 2 if uses == "once" else 1]:
            optimizer.zero_grad()
            turn = turn.clone().requires_grad_()
            with optimizer.products() if kind is TriangularAdam else nullcontext([]) as made:
                _, variance, kl = layer.moments_and_kl(turn)
                loss = (variance.log().sum() + 0.1 * kl.sum()) / 10
                loss = loss + layer.kl().sum() if uses == "and its kl" else loss
                loss = loss + layer(turn.flip(1))[1].sqrt().sum() if uses == "twice" else loss
                if uses == "looked at":
                    torch.autograd.grad(loss, turn, retain_graph=True)
                for each in made:
                    each.clear()
                loss.backward()
            written = uses in ("and its kl", *HOOKS)
            if kind is TriangularAdam and (layer.lower.grad is not None) != written:
                raise ValueError(f"{uses}: who has the gradient?")
            optimizer.step()
        state = optimizer.state.get(layer.lower, {})
        moments = [state[name] for name in ("exp_avg", "exp_avg_sq") if name in state]
        ends.append([layer.lower, layer.log_diagonal, *moments])
    return {"value": max(relative(a, b) for a, b in zip(*ends, strict=True))}
