"""How far a model's layers are relaxed: to read, and to penalise."""

from typing import Any

import torch
from torch import Tensor, nn

from symmetries.checks import invalid
from symmetries.nn.plane_conv import PlaneConv2d


def relaxed_layers(model: nn.Module) -> dict[str, PlaneConv2d]:
    """The group convolutions of a model that are not strict, by name."""
    found = {n: m for n, m in model.named_modules() if isinstance(m, PlaneConv2d)}
    return {name: layer for name, layer in found.items() if layer.mode != "strict"}


def relaxation(model: nn.Module) -> list[dict[str, Any]]:
    """One row per layer and relaxed coordinate, in the order of the layers.

    Args:
        model: any module; strict layers have no row.

    Returns:
        Plain data: "layer", "mode", "coordinate", "value" (the size of omega' in mode "soft", where
        0 is strict; the fraction of the rotations that is kept in mode "partial", where 1 is
        strict), "learned".

    Example:
        >>> from symmetries.groups import Cyclic
        >>> from symmetries.nn.gconv import RelaxedGroupConv2d
        >>> layer = RelaxedGroupConv2d(1, 1, 3, group=Cyclic(4), relax={"rotation": 0.5})
        >>> relaxation(nn.Sequential(layer))
        [{'layer': '0', 'mode': 'soft', 'coordinate': 'rotation', 'value': 0.5, 'learned': True}]
    """
    rows: list[dict[str, Any]] = []
    for name, layer in relaxed_layers(model).items():
        if layer.mode == "soft":
            values = dict(zip(layer.relaxed, layer.relaxed_frequency.tolist(), strict=True))
        else:
            values = {"rotation": min(1.0, layer.fraction.abs().item())}
        for coordinate, value in values.items():
            row = {"layer": name, "mode": layer.mode, "coordinate": coordinate}
            rows.append({**row, "value": abs(value), "learned": layer.learn})
    return rows


def relaxation_penalty(model: nn.Module) -> Tensor:
    """The squared norm of all omega' of the soft layers together, a tensor without axes.

    Times lambda and added to a loss, it is minus the log density of a Gaussian prior
    N(omega' | 0, I / (2 lambda)).

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


def set_relaxation(model: nn.Module, value: float, coordinate: str | None = None) -> None:
    """Set omega' in all soft layers, for all their relaxed coordinates or one of them."""
    soft = [layer for layer in relaxed_layers(model).values() if layer.mode == "soft"]
    if not any(coordinate is None or coordinate in layer.relaxed for layer in soft):
        raise invalid(
            "model", f"layers with relaxed {coordinate or 'coordinates'}", "none", "relax it"
        )
    with torch.no_grad():
        for layer in soft:
            for index, name in enumerate(layer.relaxed):
                if coordinate in (None, name):
                    layer.relaxed_frequency[index] = value
