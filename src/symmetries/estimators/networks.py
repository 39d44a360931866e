"""Networks of the user inside estimators: built, described and baked for export."""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import check_module, invalid
from symmetries.auditing.run import spread_mask
from symmetries.groups.base import Group
from symmetries.learners.invariant_network import InvariantNetwork, InvariantNetworkConfig
from symmetries.learners.invariant_weights import width_interval
from symmetries.nn.invariant_model import InvariantModel
from symmetries.nn.named_networks import named_network
from symmetries.nn.orbit_average import weighted_mean
from symmetries.ops.affine_inverse import affine_inverse
from symmetries.ops.warp import sampling_grid
from symmetries.results import Invariance
from symmetries.training import History


class OwnNetwork:
    """Placeholder for a user's network in a file, which holds weights but no code."""


def build_learner(
    network: str | nn.Module | OwnNetwork,
    group: Group[Any],
    shape: tuple[int, int, int],
    outputs: int,
    config: InvariantNetworkConfig,
    half_width: float | None,
    seed: int,
) -> InvariantNetwork:
    """Return an untrained learner with a copy of the network.

    Args:
        network: the network, or its name.
        group: of the transformations.
        shape: (C, H, W).
        outputs: number of classes or of values.
        config: of the learner.
        half_width: that is held, in the group's own units; None for learned ones.
        seed: of training, and of the weights of a named network.
    """
    if isinstance(network, OwnNetwork):
        remedy = "give it: load(folder, network=module), built as it was when it was saved"
        raise invalid("network", "the network of the saved estimator", "none", remedy)
    if isinstance(network, str):
        module = named_network(network, shape, outputs, seed)
    else:
        check_module(network, "network")
        module = copy.deepcopy(network)
    if half_width == 0:
        config = config.replace(samples=1)
    model = InvariantNetwork(module, group, shape, config, seed=seed)
    if model.outputs != outputs:
        got = f"{model.outputs} outputs for {outputs} classes"
        raise invalid("network", "one output for each class", got, "change its last layer")
    if half_width is not None:
        widths = [min(half_width, bound) for bound in group.bounds]
        model.network.box.set_half_width(torch.tensor(widths))
    return model


def network_invariance(model: InvariantNetwork) -> list[Invariance]:
    """Return the half-widths that are used; with what the search told about them, if any."""
    side = max(model.shape[1:])
    profiles = {profile.name: profile for profile in model.profiles}
    found = []
    widths = model.network.box.half_width.detach().tolist()
    for parameter, width in zip(model.group.parameters, widths, strict=True):
        shown, unit = parameter.display(min(width, parameter.bound), side)
        profile = profiles.get(parameter.name)
        known: dict[str, Any] = {}
        if profile is not None:
            low, high = (parameter.display(end, side)[0] for end in profile.interval)
            known = {"interval": (low, high), "told": profile.told}
            if not profile.told:
                known["gain"] = (profile.gain, profile.gain_error)
                known["gain_right"] = profile.gain_right
        found.append(Invariance(name=parameter.name, unit=unit, half_width=shown, **known))
    return found


def network_rows(history: History, names: tuple[str, ...]) -> list[list[float]]:
    """Return half-widths along the way: [step, first, second, ...]."""
    columns = [history[f"half_width.{name}"] for name in names]
    return [list(map(float, row)) for row in zip(history.step, *columns, strict=True)]


class AveragedOutputs(nn.Module):
    """Outputs (N, K) of a fitted network, averaged over transformations that are baked in.

    Where images are moved in the plane, bilinearly, the sampling grids are fixed tensors, and the
    module exports to any format that has ``grid_sample`` (ONNX from opset 16 on).

    Args:
        model: fitted.
        scale: that the images are divided by.
        fill: value of the background, which is taken off first.
    """

    def __init__(self, model: InvariantNetwork, scale: float = 1.0, fill: float = 0.0) -> None:
        super().__init__()
        self.module = model.module
        self.act = model.act
        self.scale = scale
        self.fill = fill
        eta = model.eta(model.config.samples).detach()
        self.samples = len(eta)
        self.register_buffer("eta", eta)
        widths = model.class_widths
        self.register_buffer("shares", None if widths is None else widths.shares(len(eta)))
        self.shares: Tensor | None
        self.eta: Tensor
        act, (_, height, width) = model.act, model.shape
        plain = (act.interpolation, act.padding, act.fill) == ("bilinear", "constant", 0)
        grid = None
        if plain and act.group.planar:
            theta = affine_inverse(act.group.exp(eta))[..., :2, :]
            grid = sampling_grid(theta, height, width).flatten(0, 1)[None]
        self.register_buffer("grid", grid)
        self.grid: Tensor | None

    def forward(self, images: Tensor) -> Tensor:
        """Return the outputs (N, K) for images (N, C, H, W)."""
        scaled = (images - self.fill if self.fill else images) / self.scale
        if self.grid is None:
            views = self.act.orbit(self.act.group.exp(self.eta), scaled)
        else:
            grid = self.grid.expand(images.shape[0], -1, -1, -1)  # len() would be fixed in exports
            moved = F.grid_sample(scaled, grid, align_corners=False)
            views = moved.unflatten(2, (self.samples, -1)).transpose(1, 2)
        outputs: Tensor = self.module(views.flatten(0, 1))
        return weighted_mean(outputs.unflatten(0, (-1, self.samples)), self.shares)


EXAMPLES = 2000


def profile(
    model: InvariantModel, images: Tensor, targets: Tensor, samples: int, learned: bool = True
) -> list[Invariance]:
    """Half-widths with intervals: where the ELBO, with the last layer fitted anew, stays close.

    Widths that were not ``learned`` have no interval.
    """
    found = []
    count, side = len(targets), max(images.shape[-2:])
    some = spread_mask(count, EXAMPLES)  # rows may be sorted by class
    images, targets = images[some], targets[some]
    for i, parameter in enumerate(model.group.parameters):
        here = min(float(model.half_width[0, i].detach()), parameter.bound)
        shown, unit = parameter.display(here, side)
        interval = None
        if learned:
            low, high = width_interval(model, images, targets, i, count=count, samples=samples)
            interval = parameter.display(low, side)[0], parameter.display(high, side)[0]
        found.append(
            Invariance(name=parameter.name, unit=unit, half_width=shown, interval=interval)
        )
    return found
