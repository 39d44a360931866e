"""Actions of groups on data: images, colours, signals and points."""

from symmetries.actions.base import Action
from symmetries.actions.colours import ColourAction
from symmetries.actions.images import ImageAction
from symmetries.actions.points import PointAction
from symmetries.actions.signals import SignalAction

__all__ = ["Action", "ColourAction", "ImageAction", "PointAction", "SignalAction"]
