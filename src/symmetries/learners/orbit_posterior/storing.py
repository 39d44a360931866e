"""What is stored of an orbit posterior beside its weights, and how it is built again from that."""

from collections.abc import Mapping
from dataclasses import asdict, astuple
from typing import TYPE_CHECKING, Any, TypeVar

from symmetries._validation.checks import check_number, check_whole, invalid
from symmetries.actions.images import ImageAction
from symmetries.groups.names import group_name, parse_group
from symmetries.learners.orbit_posterior.canonical import Poses
from symmetries.learners.orbit_posterior.config import OrbitConfig
from symmetries.learners.orbit_posterior.frames import Frame

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

Kind = TypeVar("Kind", bound="OrbitPosterior")
MOST_FOLDS = 100


def stored_meta(model: "OrbitPosterior") -> dict[str, Any]:
    """Plain data that describes a model, but for its weights."""
    if model.make_backbone is not None:
        remedy = "save its state_dict, and load it into a model with the same backbone"
        raise invalid("backbone", "the library's own", "another one", remedy)
    return {
        "learner": "orbit_posterior",
        "group": group_name(model.action.group),
        "interpolation": model.action.interpolation,
        "padding": model.action.padding,
        "fill": model.action.fill,
        "shape": list(model.shape),
        "reach": model.chart.reach,
        "poses": None if model.poses is None else asdict(model.poses),
        "frame": list(astuple(model.frame)),
        "ground": list(model.ground),
        "levels": list(model.levels),
        "gains": model.gains,
        "rises": model.rises,
        "drifts": model.drifts,
        "outer": model.outer,
        "folds": model.fold_count,
        "seed": model.seed,
        "config": model.config.to_dict(),
    }


def built_from_meta(kind: type[Kind], meta: Mapping[str, Any]) -> Kind:
    """A model with new weights; what is stored may be anything, and is checked.

    Args:
        kind: of the model.
        meta: that :func:`stored_meta` gave.
    """
    options = {name: meta[name] for name in ("interpolation", "padding", "fill")}
    action = ImageAction(parse_group(meta["group"]), **options)
    config = OrbitConfig.from_dict(meta["config"])
    channels, height, width = meta["shape"]
    check_whole(meta["folds"], "folds", least=2, most=MOST_FOLDS)
    for value in meta["reach"].values():
        check_number(value, "reach", least=0)
    drifts = meta.get("drifts", {})
    known = (
        *meta["frame"],
        *meta["ground"],
        *meta["levels"],
        *meta["gains"],
        *meta["rises"],
        *drifts.values(),
    )
    for value in known:
        check_number(value, "model")
    model = kind(action, (channels, height, width), config, meta["seed"], reach=meta["reach"])
    model.frame, model.levels = Frame(*meta["frame"]), tuple(meta["levels"])
    if len(meta["ground"]) != channels:
        got = f"{len(meta['ground'])} values for {channels} channels"
        raise invalid("model", "one background value for each channel", got, "fit it again")
    model.ground = tuple(meta["ground"])
    model.fold_count = meta["folds"]
    if meta.get("poses") is not None:
        poses = meta["poses"]
        spread = (*poses["middle"].values(), *poses["reach"].values())
        for value in (*spread, poses["extent"], poses["blur"], poses["pixel"]):
            check_number(value, "model")
        model.poses = Poses(**poses)
    model.rebuild(model.chart)
    model.gains, model.rises = list(meta["gains"]), list(meta["rises"])
    model.outer, model.drifts = dict(meta["outer"]), dict(drifts)
    model.fitted = True
    return model
