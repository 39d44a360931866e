"""Relaxation of a model's layers: reading, measuring and penalising it."""

from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_images, check_module, check_some, check_tensors
from symmetries._validation.placement import call_model
from symmetries.nn.gconv import PlaneConv2d
from symmetries.nn.gconv_sampling import SHIFTS, coordinate_names
from symmetries.nn.gpool import act_on_fields


def relaxed_layers(model: nn.Module) -> dict[str, PlaneConv2d]:
    """Return the group convolutions of a model that are not strict, by name.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> from symmetries.nn.gconv import RelaxedGroupConv2d
        >>> list(relaxed_layers(nn.Sequential(RelaxedGroupConv2d(1, 1, 3, group=Cyclic(4)))))
        ['0']
    """
    check_module(model)
    found = {n: m for n, m in model.named_modules() if isinstance(m, PlaneConv2d)}
    return {name: layer for name, layer in found.items() if layer.mode != "strict"}


def relaxation(model: nn.Module, images: Tensor | None = None) -> list[dict[str, Any]]:
    """Return one row per layer and relaxed coordinate, in the order of the layers.

    Args:
        model: any module; strict layers have no row.
        images: inputs of the model (N, C, H, W), or None. If given, each row also has the
            measured "error" of its coordinate, see :func:`equivariance_errors`.

    Returns:
        Plain data: "layer", "mode", "coordinate", "value" (|omega'| in mode "soft", where 0 is
        strict; the fraction of the rotations that is kept in mode "partial", where 1 is strict),
        "learned".

    Example:
        >>> from symmetries.groups import Cyclic
        >>> from symmetries.nn.gconv import RelaxedGroupConv2d
        >>> layer = RelaxedGroupConv2d(1, 1, 3, group=Cyclic(4), relax={"rotation": 0.5})
        >>> relaxation(nn.Sequential(layer))
        [{'layer': '0', 'mode': 'soft', 'coordinate': 'rotation', 'value': 0.5, 'learned': True}]
    """
    errors = {} if images is None else equivariance_errors(model, images)
    rows: list[dict[str, Any]] = []
    for name, layer in relaxed_layers(model).items():
        for coordinate, value in layer.relaxation().items():
            row: dict[str, Any] = {"layer": name, "mode": layer.mode, "coordinate": coordinate}
            row |= {"value": value, "learned": layer.learn}
            if images is not None:
                row["error"] = errors.get(name, {}).get(coordinate)
            rows.append(row)
    return rows


def learned_relaxations(model: nn.Module) -> dict[str, Tensor]:
    """Return the learned values of :func:`relaxation` as scalar tensors, by layer and coordinate.

    It reads no values, so it can be part of a training step and of its history.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> from symmetries.nn.gconv import RelaxedGroupConv2d
        >>> layer = RelaxedGroupConv2d(1, 1, 3, group=Cyclic(4), relax={"rotation": 0.5})
        >>> learned_relaxations(nn.Sequential(layer))
        {'0 rotation': tensor(0.5000)}
    """
    found: dict[str, Tensor] = {}
    for name, layer in relaxed_layers(model).items():
        if not layer.learn:
            continue
        if layer.mode == "soft":
            sizes = layer.relaxed_frequency.detach().abs()
            found.update({f"{name} {c}": sizes[i] for i, c in enumerate(layer.relaxed)})
        else:
            found[f"{name} rotation"] = layer.fraction.detach().abs().clamp(max=1)
    return found


@torch.no_grad()
def equivariance_errors(model: nn.Module, images: Tensor) -> dict[str, dict[str, float | None]]:
    """Return |L(g x) - g L(x)| / |L(x)| of each group convolution L, on its inputs for some images.

    Args:
        model: any module.
        images: inputs of the model, (N, C, H, W).

    Returns:
        For each group convolution by name, and each coordinate: "rotation" by a quarter turn
        (half a turn if the group has no quarter), "flip", "shift_x" and "shift_y" by one pixel,
        away from the border. None if pixels cannot represent it, as for three rotations.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> from symmetries.nn.gconv import LiftingConv2d
        >>> layer = LiftingConv2d(1, 2, 3, group=Cyclic(4))
        >>> errors = equivariance_errors(nn.Sequential(layer), torch.rand(2, 1, 9, 9))["0"]
        >>> all(error < 1e-5 for error in errors.values())
        True
    """
    check_module(model)
    check_tensors(images=images)
    check_images(images)
    check_some(images, "images")
    seen: dict[str, Tensor] = {}
    layers = {n: m for n, m in model.named_modules() if isinstance(m, PlaneConv2d)}
    hooks = [
        layer.register_forward_pre_hook(lambda m, x, name=name: seen.__setitem__(name, x[0]))
        for name, layer in layers.items()
    ]
    training = model.training
    try:
        call_model(model.eval(), images, "images")
        found: dict[str, dict[str, float | None]] = {}
        for name, x in list(seen.items()):
            names = coordinate_names(layers[name].group)
            found[name] = {c: _coordinate_error(layers[name], x, c) for c in names}
        return found
    finally:
        for hook in hooks:
            hook.remove()
        model.train(training)


def _coordinate_error(layer: PlaneConv2d, x: Tensor, coordinate: str) -> float | None:
    group, out = layer.group, layer(x)
    if coordinate in SHIFTS:
        axis, margin = (3 if coordinate == "shift_x" else 2), layer.geometry.kernel_size
        if layer.geometry.stride > 1 or min(out.shape[2:]) <= 2 * margin:
            return None
        inside = (..., slice(margin, -margin), slice(margin, -margin))
        moved, expected = layer(x.roll(1, axis))[inside], out.roll(1, axis)[inside]
    else:
        if coordinate == "rotation" and group.n % 2:
            return None
        element = group.n if coordinate == "flip" else group.n // (4 if group.n % 4 == 0 else 2)
        g = torch.tensor(element)
        if layer.lifting:  # an image is a field that is equal at all elements
            copies = x.repeat_interleave(group.order, 1)
            moved = layer(act_on_fields(group, g, copies)[:, :: group.order])
        else:
            moved = layer(act_on_fields(group, g, x))
        expected = act_on_fields(group, g, out)
    scale = torch.linalg.vector_norm(expected)
    return float(torch.linalg.vector_norm(moved - expected) / scale) if scale > 0 else 0.0


def relaxation_penalty(model: nn.Module) -> Tensor:
    """Return the squared norm of all omega' of the soft layers together, a scalar tensor.

    Multiplied by lambda and added to a loss, it is minus the log-density of a Gaussian prior
    N(omega' | 0, I / (2 lambda)), up to a constant.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> from symmetries.nn.gconv import RelaxedGroupConv2d
        >>> layer = RelaxedGroupConv2d(1, 1, 3, group=Cyclic(1), relax={"translation": 2.0})
        >>> relaxation_penalty(layer).item()
        8.0
    """
    soft = [layer for layer in relaxed_layers(model).values() if layer.mode == "soft"]
    if not soft:
        parameters = list(model.parameters())
        return torch.zeros((), device=parameters[0].device if parameters else None)
    return torch.stack([layer.relaxed_frequency.square().sum() for layer in soft]).sum()
