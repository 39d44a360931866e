"""Training of a symmetry model: two stages, one after the other."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symmetries._validation.checks import invalid, wrong_type
from symmetries.data.base import FAR, ImageSet, check_unit_range, images_to_learn
from symmetries.groups.names import group_name
from symmetries.learners.symmetry_model.health import (
    check_frame,
    warn_if_collapsed,
    warn_if_jagged,
    warn_if_none_held_out,
    warn_if_overfit,
)
from symmetries.learners.symmetry_model.losses import (
    finite_inference_loss,
    generative_loss,
    lie_inference_loss,
)
from symmetries.learners.symmetry_model.networks import FiniteInference
from symmetries.training import History
from symmetries.training.best import BestWeights
from symmetries.training.ensemble import TrainJob, TrainJobs
from symmetries.training.recipe import plain_settings
from symmetries.training.step import mix

if TYPE_CHECKING:
    from symmetries.learners.symmetry_model.model import SymmetryModel

STAGES = ("inference", "generative")
MOST_HELD_OUT = 4096
LOOKS = 3  # at the loss, averaged
Run = Mapping[str, Any]  # fields of TrainConfig that do not belong to a stage


def train_jobs(
    model: "SymmetryModel", images: Tensor | ImageSet, stages: Sequence[str], run: Run
) -> TrainJobs[History]:
    """Yield the training jobs of a model's networks, in the order of ``stages``.

    Args:
        model: is changed.
        images: (N, C, H, W), or a set of images.
        stages: which of "inference" and "generative".
        run: fields of :class:`symmetries.training.TrainConfig` that both stages share; each stage
            has a folder of its own within ``out``.
    """
    if isinstance(stages, str):
        raise wrong_type("stages", "names of stages", stages, f"try ({stages!r},)")
    stages = tuple(stages)
    for stage in stages:
        if stage not in STAGES:
            remedy = "the second needs the first"
            raise invalid("stages", "'inference' and 'generative'", repr(stage), remedy)
    data = _checked_data(model, images)
    check_frame(model.act, data, model.bounds, model.seed)
    warn_if_jagged(model.act, data)
    fits = {"inference": _fit_inference, "generative": _fit_generative}
    kind = next(model.parameters()).dtype  # training may cast them
    known = {"group": group_name(model.group), "bounds": model.bounds, "fill": model.act.fill}
    settings = plain_settings(model.config, **known)
    histories: dict[str, History] = {}
    for stage in stages:
        out = None if run["out"] is None else Path(run["out"]) / stage
        own = {**run, "out": out, "title": stage, "settings": settings}
        own |= {"seed": mix(model.seed, STAGES.index(stage)), "given_seed": model.seed}
        histories[stage] = yield from fits[stage](model, data, own)
    model.to(model.device, kind).eval()
    warn_if_collapsed(model, data)
    model.history = History.joined(histories)
    return model.history


def _fit_inference(model: "SymmetryModel", data: Tensor, run: Run) -> TrainJobs[History]:
    net = model.inference
    net.features.standardise(data)
    finite = isinstance(net, FiniteInference)
    loss_of: Any = finite_inference_loss if finite else lie_inference_loss

    def loss(net: Any, batch: tuple[Tensor, ...], step: Any) -> dict[str, Tensor]:  # noqa: ANN401
        return loss_of(net, batch[0], step, model.act, model.config)

    # The scale of q(eta | x) is one free vector: unclipped and without decay.
    named = dict(net.named_parameters())
    free = [p for n, p in named.items() if n == "free_scale" and p.requires_grad]
    rest = [p for n, p in named.items() if n != "free_scale"]
    groups: list[dict[str, Any]] = [{"params": rest}]
    if free:
        groups.append({"params": free, "clip": False, "weight_decay": 0.0})
    config = model.config.inference.train_config(**run)
    products = model.config.matmul_precision
    return (yield TrainJob(net, loss, (data,), config, param_groups=groups, products=products))


def _fit_generative(model: "SymmetryModel", data: Tensor, run: Run) -> TrainJobs[History]:
    net, inference = model.generative, model.inference
    net.features.standardise(data)
    inference.eval()

    def loss(net: Any, batch: tuple[Tensor, ...], step: Any) -> dict[str, Tensor]:  # noqa: ANN401
        weight = next(inference.parameters())
        if (weight.device, weight.dtype) != (batch[0].device, batch[0].dtype):
            inference.to(batch[0])
        return generative_loss(net, batch[0], step, inference, model.act, model.config)

    config = model.config.generative.train_config(**run)
    kept, watch = data, None
    count = min(round(model.config.holdout * len(data)), MOST_HELD_OUT)
    if count:
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(model.seed))
        held, kept = data[order[:count]], data[order[count:]]
        watch = BestWeights(net, held, loss, config)
    products, reads = model.config.matmul_precision, (inference,)
    history = yield TrainJob(
        net, loss, (kept,), config, on_step=watch, reads=reads, products=products
    )
    if watch is not None:
        watch.restore()
        last = history.metrics.get("loss", [])[-LOOKS:]
        seen_all = config.steps * config.batch_size >= len(kept)  # else nothing can be overfitted
        if last and seen_all:
            warn_if_overfit(fmean(last), watch.best, len(data))
    elif model.config.holdout:
        warn_if_none_held_out(len(data))
    return history


def _checked_data(model: "SymmetryModel", images: Tensor | ImageSet) -> Tensor:
    """Return the images; raise an error if nothing can be learned from them."""
    data = images_to_learn(images, model.shape)
    check_unit_range(data, "images", FAR)
    flat = data.flatten(1)
    constant = int((flat.amax(1) == flat.amin(1)).sum())
    if constant:
        remedy = "every transformation leaves them alone: drop them before fitting"
        got = f"{constant} of {len(data)} constant"
        raise invalid("images", "images with some content", got, remedy)
    return data
