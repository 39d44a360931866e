"""Evaluation of a network from behind its linear first layer.

Integrated gradients and Jacobians need many passes through a network. If its first layer is
linear, that layer (most of the work for images) can be evaluated once for all passes, because an
affine map takes a straight path to a straight path. This module finds that layer and evaluates
the rest of the network from its output.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.placement import call_model
from symmetries.auditing.models import Model, hooks

LINEAR = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


class FirstLayer:
    """A model split into its linear first layer and the rest.

    Args:
        model: the whole model.
        layer: the first and only layer that reads the input.
        shape: shape of one example as the layer receives it.
    """

    def __init__(self, model: nn.Module, layer: nn.Module, shape: torch.Size) -> None:
        self.model = model
        self.layer = layer
        self.shape = shape

    def linear(self, x: Tensor) -> Tensor:
        """Return the layer's output for inputs x (N, ...)."""
        return self.layer(x.reshape(len(x), *self.shape))

    def rest(self, hidden: Tensor, like: Tensor) -> Tensor:
        """Return the model's output if its first layer returns ``hidden`` (N, ...).

        Args:
            hidden: an output of :meth:`linear`.
            like: inputs, which give only the shape of an example and the dtype.
        """
        # The input is not used: one row, expanded without memory, provides the shapes.
        blank = like.new_zeros(1, *like.shape[1:]).expand(len(hidden), *like.shape[1:])
        with _replaced(self.layer, hidden):
            output: Tensor = self.model(blank)
        return output


def first_layer(
    model: Model, x: Tensor, kinds: tuple[type[nn.Module], ...] = LINEAR
) -> FirstLayer | None:
    """Split a model at its first layer; None if it does not begin with a linear layer.

    The layer is found by running the model on two examples and recording which layers read the
    input. Then the split is verified: the rest must give the same outputs from the layer's outputs,
    and must not use the input in another way (such as a skip connection around the first layer).

    Args:
        model: any callable; only an ``nn.Module`` can be split.
        x: (N, ...).
        kinds: types of first layers that are worth a split; others give None after one pass.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 3))
        >>> first_layer(net, torch.rand(4, 1, 3, 4)).layer
        Linear(in_features=12, out_features=5, bias=True)
        >>> first_layer(torch.tanh, torch.rand(4, 3)) is None
        True
    """
    if not isinstance(model, nn.Module):
        return None
    probe = x[:2].detach().contiguous()
    layer, inputs, calls = _watch(model, probe)
    if not isinstance(layer, kinds) or calls != 1 or inputs is None:
        return None
    if not _is_reshaped(inputs, probe):
        return None
    split = FirstLayer(model, layer, inputs.shape[1:])
    return split if _holds(split, probe) else None


def _watch(model: nn.Module, probe: Tensor) -> tuple[nn.Module | None, Tensor | None, int]:
    """Return the first linear layer that runs, its input, and how often it ran."""
    seen: list[tuple[nn.Module, Tensor]] = []

    def note(module: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], Tensor):
            seen.append((module, args[0]))

    layers = [m for m in model.modules() if type(m).forward in {kind.forward for kind in LINEAR}]
    with hooks(*(layer.register_forward_pre_hook(note) for layer in layers)), torch.no_grad():
        call_model(model, probe)
    if not seen:
        return None, None, 0
    layer, inputs = seen[0]
    return layer, inputs, sum(module is layer for module, _ in seen)


def _is_reshaped(inputs: Tensor, probe: Tensor) -> bool:
    return (
        len(inputs) == len(probe)
        and inputs.dtype == probe.dtype
        and torch.equal(inputs.reshape(len(probe), -1), probe.reshape(len(probe), -1))
    )


def _holds(split: FirstLayer, probe: Tensor) -> bool:
    """Return whether the rest, evaluated from the layer's outputs alone, equals the model."""
    with torch.enable_grad():
        with torch.no_grad():
            whole, hidden = split.model(probe), split.linear(probe)
        leaf, hidden = probe.clone().requires_grad_(), hidden.requires_grad_()
        blank = split.rest(hidden, probe)  # also detects masks that depend on the input
        if blank.shape != whole.shape or not torch.allclose(blank, whole, rtol=1e-3, atol=1e-5):
            return False
        with _replaced(split.layer, hidden):
            output = split.model(leaf)
        if not output.requires_grad:
            return False
        by_hidden, by_input = torch.autograd.grad(output.sum(), (hidden, leaf), allow_unused=True)
    return by_hidden is not None and by_input is None


@contextmanager
def _replaced(layer: nn.Module, output: Tensor) -> Iterator[None]:
    """Make a layer return a given output inside the block."""
    own = layer.__dict__.get("forward")
    object.__setattr__(layer, "forward", lambda _: output)
    try:
        yield
    finally:
        if own is None:
            object.__delattr__(layer, "forward")
        else:
            object.__setattr__(layer, "forward", own)
