"""Training for invariance: penalties on how outputs change along orbits, and their weight.

Reference: Moskalev, Sepliarskaia, Bekkers, Smeulders 2023, "On genuine invariance learning without
weight-tying", sections 3.3 and 4.4. A penalty is a measure of :mod:`symmetries.auditing` with a
gradient.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from symmetries._utils.per_example_random import per_example_random
from symmetries._validation.checks import (
    check_choice,
    check_classes,
    check_floats,
    check_held,
    check_images,
    check_number,
    check_positive,
    check_some,
    check_whole,
    invalid,
    short,
    wrong_type,
)
from symmetries._validation.diagnose import diagnose_labels
from symmetries._validation.placement import call_model, check_together
from symmetries.actions.images import ImageAction
from symmetries.auditing.metrics import distribution_error, logit_error, normalised_logit_error
from symmetries.groups.base import Group, map_element
from symmetries.groups.names import as_group

Penalty = Literal["li", "nli", "di"]
ERRORS = {"li": logit_error, "nli": normalised_logit_error, "di": distribution_error}


def pair_penalty(logits: Tensor, moved: Tensor, kind: Penalty = "li") -> Tensor:
    """Return the mean over the batch of the invariance error of f(x) and f(g x).

    Args:
        logits: f(x), (N, K).
        moved: f(g x), (N, K).
        kind: "li", 1/2 |f(x) - f(g x)|^2; "nli", |f(x) - f(g x)|^2 / |f(x)|^2; or "di",
            KL(softmax f(x) || softmax f(g x)).

    Example:
        >>> pair_penalty(torch.zeros(2, 2), torch.tensor([[3.0, 4.0], [0.0, 0.0]])).item()
        6.25
    """
    check_choice(kind, ERRORS, "kind")
    check_together(logits=logits, moved=moved)
    return ERRORS[kind](logits, moved).mean()


def orbit_penalty(logits: Tensor, kind: Penalty = "li") -> Tensor:
    """Mean of :func:`pair_penalty` over all ordered pairs of different elements of an orbit.

    One network pass over the orbit serves all |G| (|G| - 1) pairs, at the cost of |G|.

    Args:
        logits: f(g x) for S >= 2 elements, (N, S, K).
        kind: as in :func:`pair_penalty`.

    Example:
        >>> orbit_penalty(torch.tensor([[[0.0, 0.0], [3.0, 4.0]]])).item()
        12.5
    """
    check_choice(kind, ERRORS, "kind")
    check_floats(logits, "logits", "...")
    if logits.ndim != 3 or logits.shape[1] < 2:
        got = f"shape {tuple(logits.shape)}"
        raise invalid("logits", "(N, S, K) with S >= 2", got, "give the logits of whole orbits")
    s = logits.shape[1]
    if kind == "li":
        # sum over pairs of |z_g - z_h|^2 is 2 S times the sum of |z_g - mean|^2
        spread = (logits - logits.mean(1, keepdim=True)).square().sum((1, 2))
        return spread.mean() / (s - 1)
    if kind == "di":
        log_p = logits.log_softmax(-1)
        p = log_p.exp()
        same = s * (p * log_p).sum((1, 2))
        crossed = (p.sum(1) * log_p.sum(1)).sum(-1)
        return (same - crossed).mean() / (s * (s - 1))
    total = sum(
        normalised_logit_error(logits, logits.roll(shift, 1)).mean() for shift in range(1, s)
    )
    return torch.as_tensor(total) / (s - 1)


def random_elements(
    group: str | Group[Any],
    n: int,
    *,
    half_width: float | Sequence[float] | None = None,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> Any:  # noqa: ANN401 - elements differ by group
    """N random elements: uniform over a finite group, exp(eta) with eta uniform in a box otherwise.

    Args:
        group: the group.
        n: how many.
        half_width: of the box; the group's bounds by default. Not for finite groups.
        generator: of the random numbers, on the device.
        device: where the elements are wanted.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> random_elements(Cyclic(4), 5).shape
        torch.Size([5])
    """
    group = as_group(group)
    check_whole(n, "n")
    if group.finite:
        below = functools.partial(torch.randint, group.order)
        return per_example_random(below, (n,), 0, generator, device=device)
    width = torch.tensor(group.bounds if half_width is None else half_width, device=device)
    eta = 2 * per_example_random(torch.rand, (n, group.dim), 0, generator, device=device) - 1
    return group.exp(eta * width)


def augment(
    x: Tensor,
    group: str | Group[Any],
    *,
    half_width: float | Sequence[float] | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Each image moved by a random element: data augmentation, the control without a penalty.

    Args:
        x: (N, C, H, W).
        group: acts on images.
        half_width: of the box of a continuous group.
        generator: of the random numbers, on the device of x.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> augment(torch.rand(5, 1, 4, 4), Cyclic(4)).shape
        torch.Size([5, 1, 4, 4])
    """
    check_images(x, "x")
    check_some(x, "x")
    group = as_group(group)
    elements = random_elements(
        group, len(x), half_width=half_width, generator=generator, device=x.device
    )
    return ImageAction(group)(elements, x)


def regularised_loss(
    model: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    group: str | Group[Any],
    *,
    nu: float | Tensor,
    kind: Penalty = "li",
    samples: int | None = None,
    half_width: float | Sequence[float] | None = None,
    generator: torch.Generator | None = None,
) -> dict[str, Tensor]:
    """Return the cross-entropy on moved images plus nu times their invariance error (equation 4).

    Args:
        model: from images to logits.
        x: (N, C, H, W).
        y: (N,) class numbers.
        group: acts on images.
        nu: weight of the penalty.
        kind: of the penalty; see :func:`pair_penalty`.
        samples: elements per image; all of a finite group, 2 of a continuous one by default.
        half_width: of the box of a continuous group.
        generator: of the random numbers, on the device of x.

    Returns:
        "loss", and its parts "task" and "penalty"; what ``symmetries.training.train`` takes.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
        >>> x, y = torch.rand(5, 1, 4, 4), torch.tensor([0, 1, 2, 0, 1])
        >>> sorted(regularised_loss(model, x, y, Cyclic(4), nu=0.1))
        ['loss', 'penalty', 'task']
    """
    if not callable(model):
        raise wrong_type("model", "a function from images to logits", model, "give a network")
    check_images(x, "x")
    check_some(x, "x")
    check_held(x, "x")
    check_classes(y, len(x), "y")
    check_together(x=x, y=y)
    if not isinstance(nu, int | float | Tensor):
        raise wrong_type("nu", "a number", nu, "try 0.1")
    n, s, group = len(x), 2 if samples is None else samples, as_group(group)
    if samples is None and group.finite:
        elements: Any = group.elements(x.device)
    else:
        flat = random_elements(
            group, n * s, half_width=half_width, generator=generator, device=x.device
        )
        elements = map_element(lambda part: part.unflatten(0, (n, s)), flat)
    orbit = ImageAction(group).orbit(elements, x)
    logits = call_model(model, orbit.flatten(0, 1))
    check_floats(logits, "logits", "N", "K")
    with diagnose_labels(y, logits.shape[1], "y"):
        task = F.cross_entropy(logits, y.repeat_interleave(orbit.shape[1]))
    logits = logits.unflatten(0, orbit.shape[:2])
    penalty = orbit_penalty(logits, kind)
    return {"loss": task + nu * penalty, "task": task.detach(), "penalty": penalty.detach()}


class ConstrainedWeight(nn.Module):
    r"""Adapts nu until a measure of invariance reaches its target.

    log nu moves by ``rate`` times log(e), held within [-1, 1], where e is the measured error by the
    error allowed: LI / target, or (1 - SI) / (1 - target). So nu grows while the model is not
    invariant enough, shrinks while it is more invariant than the target, and else stays.

    Args:
        target: largest error ("error", for LI, NLI, DI), or smallest similarity ("similarity").
        measure: which of the two.
        start: nu at first.
        rate: change of log nu per update, at most.
        bounds: within which nu stays.

    Example:
        >>> weight = ConstrainedWeight(target=0.95, measure="similarity", start=1.0, rate=0.5)
        >>> weight.update(torch.tensor(0.5))
        >>> round(weight.nu.item(), 3)  # not similar enough: more weight
        1.649
    """

    log_nu: Tensor

    def __init__(
        self,
        target: float,
        measure: Literal["error", "similarity"] = "error",
        *,
        start: float = 1.0,
        rate: float = 0.1,
        bounds: tuple[float, float] = (1e-4, 1e4),
    ) -> None:
        super().__init__()
        check_choice(measure, ("error", "similarity"), "measure")
        check_positive(target, "target")
        if measure == "similarity" and target >= 1:
            remedy = "no finite weight reaches perfection"
            raise invalid("target", "a similarity below 1", target, remedy)
        if not isinstance(bounds, Sequence) or len(bounds) != 2:
            raise invalid("bounds", "two numbers", short(bounds), "try (1e-4, 1e4)")
        for bound in bounds:
            check_positive(bound, "bounds")
        check_positive(start, "start")
        check_number(rate, "rate", least=0)
        if not bounds[0] <= start <= bounds[1]:
            raise invalid("start", f"a weight within {bounds}", start, "or widen the bounds")
        self.target = target
        self.measure = measure
        self.rate = rate
        self.bounds = bounds
        self.register_buffer("log_nu", torch.tensor(math.log(start)))

    @property
    def nu(self) -> Tensor:
        """The weight, a tensor without axes on the module's device."""
        return self.log_nu.exp()

    def update(self, measured: float | Tensor) -> None:
        """Move nu according to what was measured; does not wait for the device."""
        if isinstance(measured, Tensor):
            check_held(measured, "measured")
            if measured.ndim:
                got = f"shape {tuple(measured.shape)}"
                raise invalid("measured", "a tensor without axes", got, "take its mean")
        elif not isinstance(measured, int | float):
            raise wrong_type("measured", "a number", measured, "give what was measured")
        value = torch.as_tensor(measured, device=self.log_nu.device).detach().to(self.log_nu)
        if self.measure == "similarity":
            excess = (1 - value).clamp_min(1e-12) / (1 - self.target)
        else:
            excess = value.clamp_min(1e-12) / self.target
        low, high = (math.log(bound) for bound in self.bounds)
        moved = self.log_nu + self.rate * excess.log().clamp(-1, 1)
        self.log_nu.copy_(moved.clamp(low, high))
