"""The views and networks of an orbit posterior, built for a chart."""

from typing import TYPE_CHECKING

import torch

from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.config import Views
from symmetries.learners.orbit_posterior.fitting import shrunk
from symmetries.learners.orbit_posterior.networks import PoseNetwork
from symmetries.learners.orbit_posterior.pose_views import PoseView
from symmetries.learners.orbit_posterior.views import View
from symmetries.training.step import mix, seeded

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior


def blurs_of(model: "OrbitPosterior") -> Views:
    """Amounts of blur and grain in what networks see: edges were drawn on pixels of the data.

    Where shapes are asked for, all pictures become as blurred as the thinnest ones: that hides
    their edges as well.
    """
    views, share = model.config.views, model.share
    edges = 0.0 if model.chart.shapes else share * views.edges
    return views.replace(edges=edges, grain=share * views.grain)


def build_view(model: "OrbitPosterior", chart: Chart) -> View | PoseView:
    """Build the random views of pictures that networks learn from.

    Args:
        model: whose pictures they are; where their poses are computed, views begin at these.
        chart: coordinates of the moves.
    """
    channels, height, width = model.shape
    probe = shrunk(torch.zeros(1, channels, height, width), model.config.network.largest)
    shape = (channels, probe.shape[2], probe.shape[3])
    if model.poses is not None:
        how = (model.frame, blurs_of(model), model.levels[1], model.poses)
        return PoseView(model.action, chart, shape, *how)
    return View(model.action, chart, shape, model.frame, blurs_of(model), *model.levels)


def build_networks(model: "OrbitPosterior") -> list[PoseNetwork]:
    """Build a network for each fold, and a last one for the fit that learns from fewer pictures.

    Args:
        model: whose ``view`` and ``chart`` are those that networks are built for.
    """
    view, coordinates, more = model.view, model.chart.coordinates, (0, False)
    if isinstance(view, PoseView):
        coordinates, more = view.coordinates, (view.features, view.two)
    networks = []
    for fold in range(model.fold_count + 1):
        with seeded(mix(model.seed, 13, fold) % 2**31):
            backbone = None if model.make_backbone is None else model.make_backbone()
            how = (view.shape, model.config.network, backbone)
            networks.append(PoseNetwork(coordinates, *how, *more))
    return networks
